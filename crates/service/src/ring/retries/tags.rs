//! The changes that this cell has, made here or copied, for which other cells may ask again.
//!
//! ```text
//! by asker:   1 ....... floor ................................. id
//!               finished,      what each has made, by its id
//!               or forgotten
//! ```
//!
//! Invariants: a change that this cell has is known by its id until it is forgotten, and an id
//! below the floor is never executed. The floor only rises. Where a request was asked again and has
//! made nothing, that is known too: what was sent earlier, and comes later, is not executed. While
//! an asker is locked, nobody else looks up or adds what it has asked for: so a request that comes
//! twice is executed once.
//!
//! Lock order: an asker before the locks of engine and log.

use super::outcome::Outcome;
use super::tag::{Asker, RequestTag};
use super::tag_state::TagState;
use base::{Grant, MemoryBudget, Owner, SliceId, SliceRange};
use effects::Made;
use ring::Map;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The part of the limit on memory that is held for what changes have made.
const PART: u64 = 256;
/// Bytes that one of them takes, with its place in a row that is half full.
const ENTRY_BYTES: u64 = 128;
/// The least number of them, whatever the limit.
const ENTRIES_MIN: u64 = 1024;

/// What is known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It has made nothing here.
    New,
    /// It has made this.
    Made(Made),
    /// It is finished, or too old to be known, or was asked again since.
    Forgotten,
}

/// What one asker has asked for.
#[derive(Default)]
pub(crate) struct Changes {
    floor: u64,
    /// In the order of their ids. Most come in that order.
    outcomes: VecDeque<(u64, SliceId, Outcome)>,
    /// While requests are asked again, since many are then.
    newest: Option<Newest>,
}

/// The last changes of each slice.
struct Newest {
    /// What was asked for when this was made is finished once all to this id is.
    until: u64,
    /// By slice, the last request that has made something.
    ids: HashMap<SliceId, u64>,
}

impl Newest {
    fn of(outcomes: &VecDeque<(u64, SliceId, Outcome)>) -> Self {
        let until = outcomes.back().map_or(0, |(id, ..)| *id);
        let mut newest = Self { until, ids: HashMap::new() };
        outcomes.iter().for_each(|(id, slice, outcome)| newest.add(*id, (*slice, *outcome)));
        newest
    }

    fn add(&mut self, id: u64, (slice, outcome): (SliceId, Outcome)) {
        if let Outcome::Made(_) = outcome {
            let newest = self.ids.entry(slice).or_insert(id);
            *newest = (*newest).max(id);
        }
    }
}

impl Changes {
    /// What is known of request `id`, which was asked so often before.
    pub(crate) fn known(&self, id: u64, again: u16) -> Known {
        if id < self.floor {
            return Known::Forgotten;
        }
        match self.place(id).map(|at| self.outcomes[at].2) {
            Ok(Outcome::Made(made)) => Known::Made(made),
            Ok(Outcome::Nothing(last)) if again <= last => Known::Forgotten,
            Ok(Outcome::Nothing(_)) | Err(_) => Known::New,
        }
    }

    /// Whether something was made for `slice` that was asked for after `id`.
    pub(crate) fn is_overtaken(&mut self, id: u64, slice: SliceId) -> bool {
        let newest = self.newest.get_or_insert_with(|| Newest::of(&self.outcomes));
        newest.ids.get(&slice).is_some_and(|newest| *newest > id)
    }

    /// The place of `id`, or where it would be.
    #[inline]
    fn place(&self, id: u64) -> Result<usize, usize> {
        match self.outcomes.back() {
            Some((last, ..)) if *last >= id => self.outcomes.binary_search_by_key(&id, |it| it.0),
            _ => Err(self.outcomes.len()),
        }
    }

    /// Forgets all below `first`.
    #[inline]
    pub(crate) fn forget_before(&mut self, first: u64) {
        if first > self.floor {
            self.floor = first;
            while self.outcomes.pop_front_if(|(id, ..)| *id < first).is_some() {}
            self.newest.take_if(|newest| newest.until < first);
        }
    }

    /// This has come of request `id`; a learner may hear of what came earlier later. Of more than
    /// `share` the oldest is forgotten.
    fn add(&mut self, id: u64, (slice, outcome): (SliceId, Outcome), share: usize) {
        if let Some(newest) = &mut self.newest {
            newest.add(id, (slice, outcome));
        }
        match self.place(id) {
            _ if id < self.floor => {}
            Err(at) => self.outcomes.insert(at, (id, slice, outcome)),
            Ok(at) => match (self.outcomes[at].2, outcome) {
                (Outcome::Made(_), _) => {}
                (Outcome::Nothing(last), Outcome::Nothing(again)) if again <= last => {}
                _ => self.outcomes[at] = (id, slice, outcome),
            },
        }
        self.keep(share);
    }

    /// Forgets the oldest of more than `share`. An id that another cell has said is less than
    /// `u64::MAX`: a frame or an entry with that is malformed.
    #[inline]
    fn keep(&mut self, share: usize) {
        while self.outcomes.len() > share {
            if let Some((id, ..)) = self.outcomes.pop_front() {
                self.floor = self.floor.max(id + 1);
            }
        }
    }
}

/// What one asker has asked for, to be locked.
#[derive(Default)]
pub(crate) struct AskedBy(Mutex<Changes>);

impl AskedBy {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The changes of all askers.
pub(crate) struct Tags {
    /// As many as the cells of the map have workers.
    by: RwLock<BTreeMap<Asker, Arc<AskedBy>>>,
    entries_max: usize,
    /// How many each asker may have.
    share: AtomicUsize,
    /// The memory of all.
    _grant: Option<Grant>,
}

impl Tags {
    /// No changes, in memory of `budget`.
    pub(crate) fn new(budget: &MemoryBudget) -> Self {
        let entries_max = (budget.total() / PART / ENTRY_BYTES).max(ENTRIES_MIN);
        let grant = budget.take(Owner::Links, entries_max * ENTRY_BYTES);
        let entries_max = entries_max as usize;
        let share = AtomicUsize::new(entries_max);
        Self { by: RwLock::default(), entries_max, share, _grant: grant }
    }

    /// What `asker` has asked for.
    pub(crate) fn asked_by(&self, asker: Asker) -> Arc<AskedBy> {
        let known = self.by.read().unwrap_or_else(PoisonError::into_inner).get(&asker).cloned();
        known.unwrap_or_else(|| {
            let mut by = self.by.write().unwrap_or_else(PoisonError::into_inner);
            let asked_by = by.entry(asker).or_default().clone();
            self.share_out(&by);
            asked_by
        })
    }

    /// Lets each asker have the same number.
    fn share_out(&self, by: &BTreeMap<Asker, Arc<AskedBy>>) {
        let share = (self.entries_max / by.len().max(1)).max(1);
        if self.share.swap(share, Ordering::Relaxed) > share {
            by.values().for_each(|asked_by| asked_by.lock().keep(share));
        }
    }

    /// This has come of a request of the asker of `changes`.
    pub(crate) fn add(&self, changes: &mut Changes, id: u64, of: (SliceId, Outcome)) {
        changes.add(id, of, self.share.load(Ordering::Relaxed));
    }

    /// This cell, as a copy, has what has come of the request with `tag`.
    pub(crate) fn copies(&self, tag: &RequestTag, of: (SliceId, Outcome)) {
        self.copies_by(&self.asked_by(tag.asker), tag, of);
    }

    /// The same, where what the asker has asked for is at hand.
    pub(crate) fn copies_by(&self, asked_by: &AskedBy, tag: &RequestTag, of: (SliceId, Outcome)) {
        let mut changes = asked_by.lock();
        changes.forget_before(tag.first);
        self.add(&mut changes, tag.id, of);
    }

    /// The state of each asker, with what it has asked for in `slices`.
    pub(crate) fn states(&self, slices: SliceRange) -> Vec<TagState> {
        let by = self.by.read().unwrap_or_else(PoisonError::into_inner).clone();
        let slices = slices.numbers();
        let state = |(asker, asked_by): (Asker, Arc<AskedBy>)| {
            let changes = asked_by.lock();
            let is_of = |slice: SliceId| slices.contains(&slice.index());
            let of_slices = changes.outcomes.iter().filter(|(_, slice, _)| is_of(*slice));
            let outcomes = of_slices.copied().collect();
            TagState { asker, floor: changes.floor, outcomes }
        };
        by.into_iter().map(state).collect()
    }

    /// Takes what another cell knows of an asker. `accepts`: whether a slice is copied from there.
    pub(crate) fn learn(&self, state: TagState, accepts: impl Fn(&SliceId) -> bool) {
        let asked_by = self.asked_by(state.asker);
        let mut changes = asked_by.lock();
        changes.forget_before(state.floor);
        for (id, slice, outcome) in state.outcomes {
            if accepts(&slice) {
                self.add(&mut changes, id, (slice, outcome));
            }
        }
    }

    /// Drops what was asked for in `slices`, of which this cell has no change any more.
    pub(crate) fn drop_slices(&self, slices: SliceRange) {
        let slices = slices.numbers();
        let by = self.by.read().unwrap_or_else(PoisonError::into_inner);
        for asked_by in by.values() {
            let mut changes = asked_by.lock();
            changes.outcomes.retain(|(_, slice, _)| !slices.contains(&slice.index()));
            changes.newest = None;
        }
    }

    /// Drops the askers of lives that are over by `map`. No worker may go by an older map.
    pub(crate) fn drop_lives(&self, map: &Map) {
        let mut by = self.by.write().unwrap_or_else(PoisonError::into_inner);
        by.retain(|asker, _| {
            let cell = map.cells.get(&asker.cell);
            match cell {
                Some(cell) => cell.started.incarnation.0 <= asker.life,
                None => !map.has_removed(asker.cell),
            }
        });
        let share = (self.entries_max / by.len().max(1)).max(1);
        self.share.store(share, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use effects::MadeKind;
    use ring::CellId;

    const MADE: Made = Made { kind: MadeKind::Put, token: 5, value_bytes: 1, number: 0 };

    fn asker(worker: u16) -> Asker {
        Asker { cell: CellId(1), life: 1, worker }
    }

    fn slice(at: usize) -> SliceId {
        SliceId::new(at).expect("a slice")
    }

    fn known(tags: &Tags, worker: u16, id: u64) -> Known {
        tags.asked_by(asker(worker)).lock().known(id, 0)
    }

    /// A copy that has changes `ids` of a worker, each in the slice of its number.
    fn copy(tags: &Tags, worker: u16, ids: std::ops::Range<u64>, first: u64) {
        for id in ids {
            let tag = RequestTag { asker: asker(worker), id, first, again: 0 };
            tags.copies(&tag, (slice(id as usize), Outcome::Made(MADE)));
        }
    }

    #[test]
    fn what_is_known_is_kept_until_it_is_finished() {
        let tags = Tags::new(&MemoryBudget::new(1 << 20));
        copy(&tags, 1, 5..8, 1);
        assert_eq!((known(&tags, 1, 5), known(&tags, 1, 8)), (Known::Made(MADE), Known::New));
        assert_eq!(known(&tags, 2, 5), Known::New, "of another worker");
        copy(&tags, 1, 9..10, 7);
        assert_eq!((known(&tags, 1, 6), known(&tags, 1, 7)), (Known::Forgotten, Known::Made(MADE)));
        copy(&tags, 1, 6..7, 1);
        assert_eq!(known(&tags, 1, 6), Known::Forgotten, "the floor never falls");
    }

    #[test]
    fn what_was_sent_earlier_and_comes_later_is_not_new() {
        let tags = Tags::new(&MemoryBudget::new(1 << 20));
        let tag = RequestTag { asker: asker(1), id: 5, first: 1, again: 2 };
        tags.copies(&tag, (slice(5), Outcome::Nothing(2)));
        let known = |again| tags.asked_by(asker(1)).lock().known(5, again);
        let expected = [Known::Forgotten, Known::Forgotten, Known::Forgotten, Known::New];
        assert_eq!([0, 1, 2, 3].map(known), expected);
        tags.copies(&tag, (slice(5), Outcome::Nothing(1)));
        assert_eq!(known(2), Known::Forgotten, "an earlier one that is heard of later");
        for outcome in [Outcome::Made(MADE), Outcome::Nothing(3)] {
            tags.copies(&tag, (slice(5), outcome));
            assert_eq!(known(0), Known::Made(MADE));
        }
    }

    #[test]
    fn what_comes_after_a_later_change_of_its_slice_is_known_to_be_late() {
        let tags = Tags::new(&MemoryBudget::new(1 << 20));
        let made = |id: u64, at: usize, outcome| {
            let tag = RequestTag { asker: asker(1), id, first: 1, again: 0 };
            tags.copies(&tag, (slice(at), outcome));
        };
        made(5, 1, Outcome::Made(MADE));
        made(6, 2, Outcome::Made(MADE));
        made(7, 3, Outcome::Nothing(1));
        let late = |id, at| tags.asked_by(asker(1)).lock().is_overtaken(id, slice(at));
        assert_eq!(
            [(4, 1), (5, 1), (5, 2), (6, 2)].map(|(id, at)| late(id, at)),
            [true, false, true, false]
        );
        assert!(!late(4, 3), "nothing was made");
        // Also after it was looked for, until what was asked for then is finished.
        made(8, 4, Outcome::Made(MADE));
        assert!(late(5, 4) && !late(8, 4));
        let changes = tags.asked_by(asker(1));
        changes.lock().forget_before(7);
        assert!(changes.lock().newest.is_some());
        changes.lock().forget_before(8);
        assert!(changes.lock().newest.is_none());
        assert!(late(7, 4) && !late(7, 1), "what is finished comes no more");
        tags.drop_slices(SliceRange::new(4..5));
        assert!(!late(7, 4), "another cell has it");
    }

    #[test]
    fn too_many_are_forgotten_and_never_new_again() {
        let tags = Tags::new(&MemoryBudget::new(1 << 20));
        let most = ENTRIES_MIN;
        copy(&tags, 1, 1..most + 2, 1);
        assert_eq!((known(&tags, 1, 1), known(&tags, 1, 2)), (Known::Forgotten, Known::Made(MADE)));
        copy(&tags, 2, 1..2, 1);
        assert_eq!(known(&tags, 1, most / 2), Known::Forgotten, "two share the place");
        assert_eq!(known(&tags, 1, most), Known::Made(MADE));
    }

    #[test]
    fn a_learner_knows_what_its_primary_knows_and_an_emptied_cell_nothing() {
        let (primary, learner) = ([(); 2]).map(|()| Tags::new(&MemoryBudget::new(1 << 20))).into();
        copy(&primary, 1, 10..20, 4);
        for state in primary.states(SliceRange::new(12..20)) {
            learner.learn(state, |slice| slice.index() != 15);
        }
        let has = [3, 11, 12, 15, 19].map(|id| known(&learner, 1, id));
        let made = Known::Made(MADE);
        assert_eq!(has, [Known::Forgotten, Known::New, made, Known::New, made]);
        learner.drop_slices(SliceRange::new(12..13));
        assert_eq!((known(&learner, 1, 12), known(&learner, 1, 19)), (Known::New, made));
    }
}
