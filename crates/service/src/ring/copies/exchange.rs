//! The exchange of tails: what the copies of a range do before a new primary serves.
//!
//! ```text
//!           old primary's log   1 2 3 4 5 6 7
//! new primary has               1 2 3 4 5          --> asks nothing, waits
//! copy has                      1 2 3 4 5 6 7      --> sends 6 and 7, and how far it reaches
//! new primary applies 6 and 7, sends what the copy may lack, and serves when that is acknowledged
//! ```
//!
//! What one copy has and the other lacks was not acknowledged to any client. But the two must be
//! the same before the log of the new primary begins, and with several lanes each of them may be
//! ahead in another one.
//! Tails travel in the logs of the cells, as entries that concern no item.
//!
//! Where a tail does not join on, because something in between was not kept, the copy is dropped
//! and learns again.

use super::tail::{self, Head, Tail};
use crate::ring::reason::Reason;
use base::SliceRange;
use effects::Entry;
use ring::{CellId, RangeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The exchanges that this cell takes part in.
#[derive(Default)]
pub(crate) struct Exchanges {
    of: Mutex<BTreeMap<RangeId, Exchange>>,
    /// How many of them await the tail of a cell.
    open: AtomicUsize,
}

/// One of them, as the workers see it, who apply what comes from others.
pub(crate) struct Exchange {
    /// The new epoch of the range.
    epoch: u32,
    slices: SliceRange,
    /// What this cell had when it began.
    own: Tail,
    /// By lane, the last position that it has.
    last: Vec<u64>,
    /// The cells whose tails are to come, and how many entries each has left; `None` before the
    /// first word of it.
    awaits: BTreeMap<CellId, Option<u32>>,
    /// Those whose tails do not join on.
    apart: BTreeSet<CellId>,
    /// Whether this cell is a copy, and awaits the tail of its new primary.
    follows: bool,
}

/// An entry of a log that is over, and where it stands there.
pub(crate) struct OldEntry<'a> {
    pub(crate) entry: Entry<'a>,
    pub(crate) lane: u8,
    /// How many lanes the log has.
    pub(crate) lanes: u8,
    /// The slices of the range that is exchanged.
    pub(crate) slices: SliceRange,
}

impl Exchange {
    /// That of a range with these `slices` in its new `epoch`, with the cells `others`: all copies,
    /// or the new primary, where this cell `follows` it.
    pub(crate) fn new(
        (epoch, slices): (u32, SliceRange),
        own: &Tail,
        others: &[CellId],
        follows: bool,
    ) -> Self {
        let own = Tail { entries: Vec::new(), ..own.clone() };
        let last = own.reaches.iter().map(|reach| reach.last).collect();
        let awaits = others.iter().map(|cell| (*cell, None)).collect();
        Self { epoch, slices, own, last, awaits, apart: BTreeSet::new(), follows }
    }

    fn take_reach(&mut self, from: CellId, tail: &Tail, count: u32) {
        let Some(left) = self.awaits.get_mut(&from) else { return };
        *left = Some(count);
        if !self.own.fits(tail) {
            self.apart.insert(from);
        }
        if count == 0 {
            self.awaits.remove(&from);
        }
    }

    fn take_entry(
        &mut self,
        from: CellId,
        (lane, position, entry): (u8, u64, Entry<'_>),
        apply: impl FnOnce(&OldEntry<'_>) -> Result<(), Option<Reason>>,
    ) -> Result<(), Option<Reason>> {
        let malformed = Some(Reason::Malformed);
        let Some(Some(left)) = self.awaits.get_mut(&from) else { return Ok(()) };
        let (lanes, slices) = (self.last.len() as u8, self.slices);
        if !self.apart.contains(&from) {
            let last = self.last.get_mut(usize::from(lane)).ok_or(malformed)?;
            if position > *last {
                apply(&OldEntry { entry, lane, lanes, slices })?;
                *last = position;
            }
        }
        *left -= 1;
        if *left == 0 {
            self.awaits.remove(&from);
        }
        Ok(())
    }
}

impl Exchanges {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RangeId, Exchange>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts those that are open, after one of them has changed.
    fn count(&self, exchanges: &BTreeMap<RangeId, Exchange>) {
        let open = exchanges.values().filter(|it| !it.awaits.is_empty()).count();
        self.open.store(open, Ordering::Release);
    }

    /// Whether this cell awaits no tail of any cell.
    pub(crate) fn are_over(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// From now on what comes for `range` is applied.
    pub(crate) fn begin(&self, range: RangeId, exchange: Exchange) {
        let mut exchanges = self.lock();
        exchanges.insert(range, exchange);
        self.count(&exchanges);
    }

    /// What comes for `range` is not applied any more. Returns whether this cell has followed a new
    /// primary of which it has not the whole tail.
    pub(crate) fn end(&self, range: RangeId) -> bool {
        let mut exchanges = self.lock();
        let ended = exchanges.remove(&range);
        self.count(&exchanges);
        ended.is_some_and(|it| it.follows && !it.awaits.is_empty())
    }

    /// The cells whose tails are still to come for `range`, and those whose tails do not join on.
    pub(crate) fn open(&self, range: RangeId) -> (BTreeSet<CellId>, BTreeSet<CellId>) {
        let exchanges = self.lock();
        let open = |it: &Exchange| (it.awaits.keys().copied().collect(), it.apart.clone());
        exchanges.get(&range).map(open).unwrap_or_default()
    }

    /// Takes for the cell `me` what `from` says of its tail in an entry of this `kind`, and applies
    /// what this cell lacks. What is for another cell, or for an exchange that is over, is passed
    /// over. Returns the slices if this cell follows a new primary, and has its whole tail with
    /// that.
    pub(crate) fn take(
        &self,
        (me, from): (CellId, CellId),
        (kind, bytes): (u8, &[u8]),
        apply: impl FnOnce(&OldEntry<'_>) -> Result<(), Option<Reason>>,
    ) -> Result<Option<SliceRange>, Option<Reason>> {
        let malformed = Some(Reason::Malformed);
        let (head, rest) = Head::take(bytes).ok_or(malformed)?;
        let mut exchanges = self.lock();
        let is_it = |it: &&mut Exchange| {
            let own = (it.epoch, it.own.of, it.own.life);
            head.to == me && own == (head.epoch, head.of, head.life)
        };
        let Some(exchange) = exchanges.get_mut(&head.range).filter(is_it) else {
            return Ok(None);
        };
        let is_awaited = exchange.awaits.contains_key(&from);
        if kind == tail::REACH_KIND {
            let (tail, count) = tail::reach_of(&head, rest).ok_or(malformed)?;
            exchange.take_reach(from, &tail, count);
        } else {
            exchange.take_entry(from, tail::entry_of(rest).ok_or(malformed)?, apply)?;
        }
        let is_whole = is_awaited && !exchange.awaits.contains_key(&from);
        let followed = (is_whole && exchange.follows).then_some(exchange.slices);
        self.count(&exchanges);
        Ok(followed)
    }
}

#[cfg(test)]
mod tests {
    use super::tail::Reach;
    use super::*;
    use base::{Change, Effect, Removal, SliceId, Version};
    use effects::Record;

    const RANGE: RangeId = RangeId(4);
    const OLD: CellId = CellId(1);
    const ME: CellId = CellId(2);
    const OTHER: CellId = CellId(3);

    /// A tail of one lane that has everything between these positions.
    fn tail(from: u64, last: u64) -> Tail {
        let mut tail = Tail { life: 7, ..Tail::nothing(OLD) };
        tail.reaches.push(Reach { from, last });
        let slice = SliceId::new(0).expect("a slice");
        let effect = Effect { key: b"key", change: Change::Remove(Removal::Deleted) };
        let record = |position| {
            let version = Version::new(1, position);
            Record { position, entry: Entry::Change { slice, version, effect, tag: None } }
        };
        tail.add(0, (from + 1..=last).map(record), SliceRange::ALL);
        tail
    }

    /// Takes what `said` says, and returns which changes were applied.
    fn take(exchanges: &Exchanges, from: CellId, said: &[(u8, Vec<u8>)]) -> Vec<u64> {
        let mut applied = Vec::new();
        for (kind, bytes) in said {
            let apply = |old: &OldEntry<'_>| {
                let Entry::Change { version, .. } = old.entry else { return Err(None) };
                assert_eq!((old.lane, old.lanes), (0, 1));
                applied.push(version.counter());
                Ok(())
            };
            exchanges.take((ME, from), (*kind, bytes), apply).expect("it is whole");
        }
        applied
    }

    fn begun(own: &Tail) -> Exchanges {
        let exchanges = Exchanges::default();
        exchanges.begin(RANGE, Exchange::new((2, SliceRange::ALL), own, &[OTHER], false));
        exchanges
    }

    #[test]
    fn what_is_lacking_is_applied_and_nothing_twice() {
        for (own, other, applied) in [
            ((4, 7), (5, 9), vec![8, 9]),
            ((4, 7), (2, 7), vec![]),
            ((4, 7), (2, 5), vec![]),
            ((4, 4), (4, 6), vec![5, 6]),
        ] {
            let exchanges = begun(&tail(own.0, own.1));
            let said = tail(other.0, other.1).encode(ME, RANGE, 2);
            let (last, rest) = said.split_last().expect("its reach at least");
            let mut taken = take(&exchanges, OTHER, rest);
            assert_eq!(exchanges.open(RANGE).0.len(), 1, "it is not all");
            taken.extend(take(&exchanges, OTHER, std::slice::from_ref(last)));
            assert_eq!((taken, exchanges.open(RANGE)), (applied, Default::default()));
        }
    }

    #[test]
    fn a_tail_that_does_not_join_on_is_not_applied() {
        let exchanges = begun(&tail(4, 7));
        assert!(take(&exchanges, OTHER, &tail(8, 10).encode(ME, RANGE, 2)).is_empty());
        assert_eq!(exchanges.open(RANGE), ([].into(), [OTHER].into()));
    }

    #[test]
    fn what_is_for_another_cell_or_epoch_or_from_a_stranger_is_passed_over() {
        let exchanges = begun(&tail(4, 7));
        for said in [
            tail(5, 9).encode(OLD, RANGE, 2),
            tail(5, 9).encode(ME, RangeId(5), 2),
            tail(5, 9).encode(ME, RANGE, 3),
            Tail { life: 8, ..tail(5, 9) }.encode(ME, RANGE, 2),
        ] {
            assert!(take(&exchanges, OTHER, &said).is_empty());
        }
        assert!(take(&exchanges, OLD, &tail(5, 9).encode(ME, RANGE, 2)).is_empty());
        assert_eq!(exchanges.open(RANGE), ([OTHER].into(), [].into()));
        exchanges.end(RANGE);
        assert!(take(&exchanges, OTHER, &tail(5, 9).encode(ME, RANGE, 2)).is_empty());
    }

    #[test]
    fn what_cannot_be_applied_now_comes_again() {
        let exchanges = begun(&tail(4, 7));
        let said = tail(7, 8).encode(ME, RANGE, 2);
        take(&exchanges, OTHER, &said[..1]);
        let (kind, bytes) = &said[1];
        let busy = exchanges.take((ME, OTHER), (*kind, bytes), |_| Err(None));
        assert_eq!((busy, exchanges.open(RANGE).0.len()), (Err(None), 1));
        assert_eq!(take(&exchanges, OTHER, &said[1..]), [8]);
        assert!(exchanges.open(RANGE).0.is_empty());
    }
}
