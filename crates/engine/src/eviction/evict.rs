//! Making space: S3-FIFO (Yang et al., SOSP 2023) over whole segments.
//!
//! A victim segment is walked item by item. In the small pool an item that was requested again
//! moves to the main pool; any other leaves a ghost. In the main pool an item that was requested
//! moves to the end, with its count lowered. A key that comes back while its ghost is fresh starts
//! in the main pool; so does one that main had to drop although it was requested. Segments whose
//! items have all expired, or that are mostly dead, go first. [`super::balance`] decides from which
//! pool any other victim comes.
//!
//! The work is a debt: each write pays for the words it took, a few items at a time, so no request
//! waits for a whole segment. At most three quarters of a victim's words are kept, so paying four
//! words for one always gains space. A lowered limit is a debt too: each write and each idle moment
//! pays a part of it, and writers get the segments that they need before any is returned.
//! [`super::victim`] decides about each item, and [`super::space`] evicts for a request that cannot
//! continue without space.
//!
//! Threads are divided among arenas. Each arena has an evictor that walks a victim of its own, so
//! threads evict side by side; the queues are common. Where the evictor of its arena is busy or
//! finds nothing, a thread takes that of another.
//!
//! Invariants: one thread at a time works with an evictor, chooses a victim, or returns memory, and
//! others do not wait for it; a victim is drained to its end before the evictor gets another.
//! Bounds are in items and in words of eight bytes.

use super::ghosts::GhostClock;
use super::holdings::{COMPACTED_PART, Holdings};
use super::victim::{Walk, is_unrequested, process};
use super::work::Work;
use crate::grace::GracePeriods;
use crate::index::Compaction;
use crate::items::Items;
use crate::segments::{
    Pool, Reclaim, SegmentCounts, Victim, aged, dead_victim, drained, expired_victim,
    flushed_victim, follow, oldest_victim, reclaim, removed_victim,
};
use crate::sync::{Apart, AtomicU64, Mutex, Ordering, try_lock};
use base::{EffectSink, MemoryBudget, Owner, Refused};
use std::sync::Arc;

/// Words of victims walked for each word written.
const PACE: usize = 4;

/// Items looked at for one request, at most, while there still is space.
const ITEMS_PER_PAYMENT_MAX: usize = 32;

/// Words walked by one write while a lowered limit is owed, at least: a few small items. Most of
/// such a debt is paid by [`Eviction::tend`].
const DEBT_WORDS: usize = 32;

/// Items that housekeeping looks at for one chunk of a sparse index that it looks at.
const ITEMS_PER_CHUNK: usize = 8;

/// Steps of the rotating scan that look for one dead segment, at most.
const DEAD_STEPS_MAX: usize = 16;

/// Steps of that scan that look for an expired segment.
const EXPIRED_STEPS: usize = 8;

/// How many times the memory was filled since a segment of the main pool was sealed, before it goes
/// if no client asks for it. Where no client asks for what main holds, new keys pass through small
/// only, and no ghost shows that main is stale.
const TURNOVERS: u64 = 4;

/// Victims from one look at the oldest segment of main to the next, while it is asked for.
const LOOK_EVERY: u32 = 16;

/// What housekeeping has left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing, until something changes or expires.
    Nothing,
    /// A segment that is being walked, or memory that cannot be returned yet.
    Some,
    /// Memory that a lowered limit owes, or that a sparse index can return.
    Debt,
}

/// What decides which segments go, and what was done about it.
pub(crate) struct Eviction {
    budget: Arc<MemoryBudget>,
    /// One for each arena.
    evictors: Box<[Apart<Mutex<Evictor>>]>,
    /// Held to choose a victim: victims until the oldest of main is looked at.
    choosing: Apart<Mutex<u32>>,
    /// Held to free segments and to return memory.
    reclaiming: Apart<Mutex<()>>,
    compaction: Apart<Mutex<Compaction>>,
    /// Words of items that are to be evicted although there is space.
    more_words: Apart<AtomicU64>,
    ghosts: GhostClock,
    maxima: Apart<Maxima>,
}

/// The largest work that any one request has done.
#[derive(Default)]
pub(crate) struct Maxima {
    /// Items that its housekeeping looked at.
    pub(crate) paid_items: AtomicU64,
    /// Words that this housekeeping walked.
    pub(crate) paid_words: AtomicU64,
    /// Items that it looked at to make the space that it needed.
    pub(crate) space_items: AtomicU64,
}

/// The victim being walked, if any. One thread at a time works on it.
#[derive(Default)]
pub(crate) struct Evictor {
    walk: Option<Walk>,
    /// The second in which the open segments of its arena were last looked at.
    looked_s: u32,
}

/// How far to walk.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) items: usize,
    pub(super) words: usize,
    /// Whether segments go of which little is dead, where copies need space.
    pub(super) compacts: bool,
}

/// How far was walked.
#[derive(Clone, Copy, Default)]
pub(super) struct Walked {
    pub(super) items: usize,
    words: usize,
    /// Victims that were walked to their end.
    drained: usize,
    /// Whether it stopped at an item that waits for space to move to.
    waits: bool,
    /// Why the sink takes no removal, if it stopped for that.
    pub(super) refused: Option<Refused>,
}

impl Bounds {
    /// What is left of them.
    fn after(self, walked: Walked) -> Self {
        let items = self.items.saturating_sub(walked.items);
        Self { items, words: self.words.saturating_sub(walked.words), ..self }
    }
}

impl Walked {
    /// Whether anything was done.
    fn is_some(self) -> bool {
        self.items + self.drained > 0
    }

    /// Both, one after the other.
    fn and(self, next: Self) -> Self {
        Self {
            items: self.items + next.items,
            words: self.words + next.words,
            drained: self.drained + next.drained,
            ..next
        }
    }
}

impl Maxima {
    /// Notes what a request has paid. A maximum is written only where it rises.
    fn paid(&self, walked: Walked) {
        for (most, more) in [(&self.paid_items, walked.items), (&self.paid_words, walked.words)] {
            if most.load(Ordering::Relaxed) < more as u64 {
                most.fetch_max(more as u64, Ordering::Relaxed);
            }
        }
    }
}

impl Eviction {
    /// With an evictor for each arena.
    pub(crate) fn new(budget: Arc<MemoryBudget>, arenas: usize) -> Self {
        Self {
            budget,
            evictors: (0..arenas).map(|_| Apart(Mutex::new(Evictor::default()))).collect(),
            choosing: Apart(Mutex::new(0)),
            reclaiming: Apart(Mutex::new(())),
            compaction: Apart(Mutex::new(Compaction::default())),
            more_words: Apart(AtomicU64::new(0)),
            ghosts: GhostClock::new(),
            maxima: Apart(Maxima::default()),
        }
    }

    #[inline]
    pub(crate) fn ghosts(&self) -> &GhostClock {
        &self.ghosts
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    pub(crate) fn maxima(&self) -> &Maxima {
        &self.maxima
    }

    /// Housekeeping for an idle moment or the end of a batch: looks at up to `items_max` items of
    /// segments that must go, and at a part of an index that is sparse.
    pub(crate) fn tend<S: EffectSink>(&self, work: &mut Work<'_, S>, items_max: u32) -> Left {
        let items = work.items;
        self.seal_expired(work);
        follow(items.segments());
        let mut worked = self.reclaim(work) > 0;
        let bounds = Bounds { items: items_max as usize, words: usize::MAX, compacts: true };
        let walked = self.walk_any(work, bounds, items.segments().free_aim());
        worked |= walked.is_some();
        worked |= self.reclaim(work) > 0;
        items.index().buckets().give_back(work.pin.grace());
        let is_owed = self.is_owed(items);
        let Some(mut compaction) = try_lock(&self.compaction) else { return Left::Some };
        for _ in 0..(items_max as usize).div_ceil(ITEMS_PER_CHUNK) {
            if !compaction.step(items.index(), work.pin.grace(), is_owed) {
                break;
            }
            worked = true;
        }
        let is_more = self.evicts_more() > 0 || self.compacts_for_copies(items);
        match is_owed || is_more || compaction.has_work(items.index()) {
            true if worked => Left::Debt,
            false if !self.is_walking(work.arena()) => Left::Nothing,
            _ => Left::Some,
        }
    }

    /// Once a second, seals what is open and has expired. What a walk moves to stays open until it
    /// ends.
    fn seal_expired<S>(&self, work: &Work<'_, S>) {
        let now_s = work.now.expiry_s;
        for (arena, evictor) in self.evictors.iter().enumerate() {
            let Some(mut evictor) = try_lock(evictor) else { continue };
            if evictor.looked_s != now_s && evictor.walk.is_none() {
                evictor.looked_s = now_s;
                let segments = work.items.segments();
                segments.seal_open_in(arena, work.pin.grace(), |of| of.all_expired(now_s));
            }
        }
    }

    /// Pays for what was written since the last payment. The pin of the caller may move on.
    pub(crate) fn pay<S: EffectSink>(&self, work: &mut Work<'_, S>) {
        if *work.pin.debt_words() == 0 {
            return;
        }
        let segments = work.items.segments();
        let compacts = segments.compact_aim() > 0 && self.compacts_for_copies(work.items);
        let is_owed = self.budget.is_exceeded();
        let is_more = self.more_words.load(Ordering::Relaxed) > 0;
        let is_short = work.items.index().buckets().is_short();
        let is_lacking = is_short || is_owed || is_more || compacts;
        if segments.short_by() == 0 && !is_lacking {
            *work.pin.debt_words() = 0;
            return;
        }
        let Some(mut evictor) = self.evictors_from(work.arena()).find_map(try_lock) else {
            return;
        };
        let words = std::mem::take(work.pin.debt_words()) * PACE;
        self.reclaim_for(work);
        let will_do = segments.free() + segments.limbo() >= segments.free_aim();
        if evictor.walk.is_none() && will_do && !is_lacking {
            return;
        }
        let words = if is_owed { words.max(DEBT_WORDS) } else { words };
        let bounds = Bounds { items: ITEMS_PER_PAYMENT_MAX, words, compacts };
        let free_aim = segments.free_aim();
        let mut walked = self.walk_for(&mut evictor, work, bounds, free_aim);
        if segments.is_spent() {
            self.reclaim_for(work);
            if walked.waits {
                let rest = self.walk_for(&mut evictor, work, bounds.after(walked), free_aim);
                walked = walked.and(rest);
            }
        }
        self.maxima.paid(walked);
    }

    /// The evictors of all arenas, beginning with that of `arena`. A walk that a panic ended half
    /// way goes on where it was: no item is passed before it is done.
    fn evictors_from(&self, arena: usize) -> impl Iterator<Item = &Mutex<Evictor>> {
        let (before, from) = self.evictors.split_at(arena);
        from.iter().chain(before).map(|evictor| &**evictor)
    }

    /// Whether another thread evicts or frees segments, so that there may be space soon.
    pub(super) fn is_busy(&self) -> bool {
        self.evictors.iter().any(|evictor| try_lock(evictor).is_none())
            || try_lock(&self.reclaiming).is_none()
    }

    /// Whether the evictor of an arena has a walk to end, or another thread has it.
    fn is_walking(&self, arena: usize) -> bool {
        try_lock(&self.evictors[arena]).is_none_or(|evictor| evictor.walk.is_some())
    }

    /// [`Eviction::walk_for`] with the first evictor that no other thread has. If that finds
    /// nothing to do, the walks of other arenas go on.
    pub(super) fn walk_any<S: EffectSink>(
        &self,
        work: &mut Work<'_, S>,
        bounds: Bounds,
        free_wanted: usize,
    ) -> Walked {
        let mut walked = None;
        for evictor in self.evictors_from(work.arena()) {
            let Some(mut evictor) = try_lock(evictor) else { continue };
            if walked.is_none() || evictor.walk.is_some() {
                let one = self.walk_for(&mut evictor, work, bounds, free_wanted);
                walked = Some(one);
                if one.is_some() || one.refused.is_some() {
                    break;
                }
            }
        }
        walked.unwrap_or_default()
    }

    /// Frees drained segments. Where no other segment is free, the batch of this caller ends, so
    /// that those in limbo do not wait for it.
    fn reclaim_for<S: EffectSink>(&self, work: &mut Work<'_, S>) {
        if work.items.segments().is_spent() {
            work.pin.renew();
        }
        self.reclaim(work);
    }

    /// Frees drained segments. Returns memory to the budget where it is owed, and gives some to the
    /// index where that is short. Returns how many segments it returned.
    pub(super) fn reclaim<S>(&self, work: &Work<'_, S>) -> usize {
        let items = work.items;
        let segments = items.segments();
        let is_short = items.index().buckets().is_short();
        let returned = self.reclaim_by(work, || Reclaim {
            keep_free: if is_short { segments.free_for_moves() } else { segments.free_aim() },
            give_back: self.owed_segments(items) + usize::from(is_short),
        });
        if is_short && returned > 0 {
            items.index().buckets().take_freed(segments.geometry().segment_bytes());
        }
        returned
    }

    /// Frees drained segments and returns memory, unless another thread does. Returns how many
    /// segments it returned.
    pub(super) fn reclaim_by<S>(&self, work: &Work<'_, S>, how: impl FnOnce() -> Reclaim) -> usize {
        let Some(_alone) = try_lock(&self.reclaiming) else { return 0 };
        reclaim(work.items.segments(), work.pin.grace(), how())
    }

    /// Evicts some `bytes` more than space is needed for, unless as much is to be evicted already.
    pub(crate) fn evict_more(&self, bytes: u64) {
        self.more_words.fetch_max(bytes.div_ceil(8), Ordering::Relaxed);
    }

    /// What is to be evicted of that, in bytes.
    pub(crate) fn evicts_more(&self) -> u64 {
        self.more_words.load(Ordering::Relaxed) * 8
    }

    pub(crate) fn holdings(&self, items: &Items) -> Holdings {
        Holdings::of(items, self.budget.room())
    }

    /// Whether less is free than should be kept for copies.
    pub(crate) fn lacks_room_for_copies(&self, items: &Items) -> bool {
        let segments = items.segments();
        segments.free() < segments.compact_aim()
            && self.budget.room() < segments.geometry().segment_bytes()
    }

    /// Whether copies need space that may be made out of dead words, and not by eviction.
    fn compacts_for_copies(&self, items: &Items) -> bool {
        let segments = items.segments();
        segments.free_aim() < segments.compact_aim()
            && segments.free() + segments.limbo() < segments.compact_aim()
            && self.lacks_room_for_copies(items)
            && self.holdings(items).may_compact()
    }

    /// Whether items must go because memory is owed.
    fn is_owed(&self, items: &Items) -> bool {
        items.config().evict && self.owed_segments(items) > 0
    }

    /// The segments whose memory is owed. The index returns its part by itself.
    fn owed_segments(&self, items: &Items) -> usize {
        let owed = self.budget.owed(Owner::Primary);
        let owed = owed.saturating_sub(items.index().buckets().returnable_bytes());
        owed.div_ceil(items.segments().geometry().segment_bytes()) as usize
    }

    /// Walks victims until `free_wanted` segments are free or the bounds are reached. The last item
    /// may exceed the bound of words.
    fn walk_for<S: EffectSink>(
        &self,
        evictor: &mut Evictor,
        work: &mut Work<'_, S>,
        bounds: Bounds,
        free_wanted: usize,
    ) -> Walked {
        let mut walked = Walked::default();
        while walked.items < bounds.items && walked.words < bounds.words {
            if evictor.walk.is_none() {
                let victim = self.choose(work, free_wanted, bounds.compacts);
                evictor.walk = victim.map(Walk::of);
            }
            let Some(walk) = &mut evictor.walk else { break };
            // For one that may evict nothing, what is alive of the rest moves.
            walk.victim.compact |= !work.may_evict;
            let Some(subject) = walk.next(work) else {
                if let Some((victim, kept_words)) = evictor.walk.take().map(|walk| walk.end(work)) {
                    self.went(work.items, &victim, kept_words);
                    drained(work.items.segments(), work.pin.grace(), victim.id);
                }
                work.pin.counters().drained.add(1);
                walked.drained += 1;
                continue;
            };
            match process(work, walk, &subject) {
                Ok(true) => {}
                Ok(false) => {
                    walked.waits = true;
                    break;
                }
                Err(refused) => {
                    walked.refused = Some(refused);
                    break;
                }
            }
            walk.pass();
            walked.words += subject.span_words;
            walked.items += 1;
        }
        walked
    }

    /// A victim of which `kept_words` were moved has gone.
    fn went(&self, items: &Items, victim: &Victim, kept_words: usize) {
        if !victim.compact && self.more_words.load(Ordering::Relaxed) > 0 {
            let words = items.segments().geometry().segment_words.saturating_sub(kept_words) as u64;
            let less = |more: u64| Some(more.saturating_sub(words));
            let _ = self.more_words.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// The next segment to drain, if one must go and no other thread chooses one. `compacts`: also
    /// one of which little is dead, where copies need space.
    fn choose<S>(
        &self,
        work: &mut Work<'_, S>,
        free_wanted: usize,
        compacts: bool,
    ) -> Option<Victim> {
        let mut until_look = try_lock(&self.choosing)?;
        let (items, grace) = (work.items, work.pin.grace());
        let segments = items.segments();
        if let Some(victim) = expired_victim(segments, grace, work.now, EXPIRED_STEPS) {
            return Some(victim);
        }
        let SegmentCounts { committed, small, main, limbo, .. } = segments.counts();
        let for_index = usize::from(items.index().buckets().is_short());
        let wanted = free_wanted.saturating_add(self.owed_segments(items) + for_index);
        // Nearly all of it has to move first: two such walks could take each other's space.
        if compacts
            && segments.free() >= segments.free_for_moves()
            && self.compacts_for_copies(items)
            && let Some(victim) = choose_partly_removed(items, grace)
        {
            return Some(victim);
        }
        let is_more = work.may_evict && self.more_words.load(Ordering::Relaxed) > 0;
        if segments.free() + limbo >= wanted && !is_more {
            return None;
        }
        if let Some(victim) = flushed_victim(segments, grace) {
            return Some(victim);
        }
        // What is left of a mostly dead segment fits in one free segment: nothing need be evicted.
        if (work.may_evict || segments.free() > 0)
            && let Some(victim) = choose_dead(items, grace, committed)
        {
            return Some(victim);
        }
        if !work.may_evict {
            return None;
        }
        if let Some(victim) = choose_unrequested(work, &mut until_look) {
            return Some(victim);
        }
        let grace = work.pin.grace();
        follow(segments);
        self.ghosts.fit(committed * segments.geometry().segment_words);
        let (first, second) = if self.ghosts.is_small_over(small, committed) || main == 0 {
            (Pool::Small, Pool::Main)
        } else {
            (Pool::Main, Pool::Small)
        };
        let oldest = || {
            oldest_victim(segments, grace, first).or_else(|| oldest_victim(segments, grace, second))
        };
        let victim = oldest();
        let is_stuck = victim.is_none() && segments.free() == 0;
        if limbo == 0 && (small + main == 0 || is_stuck) {
            // The limit is so low that writers and readers hold all there is.
            segments.seal_open(grace, |_| true);
            return oldest();
        }
        victim
    }
}

/// The oldest segment of the main pool, if nobody asks for it: looked for every [`LOOK_EVERY`]
/// victims, and for each victim once there is one.
fn choose_unrequested<S>(work: &mut Work<'_, S>, until_look: &mut u32) -> Option<Victim> {
    *until_look = until_look.saturating_sub(1);
    if *until_look > 0 {
        return None;
    }
    let segments = work.items.segments();
    let oldest = aged(segments, work.pin.grace(), TURNOVERS);
    if oldest.is_some_and(|oldest| is_unrequested(work, oldest)) {
        return oldest_victim(segments, work.pin.grace(), Pool::Main);
    }
    *until_look = LOOK_EVERY;
    None
}

/// A segment of which a part was removed, the largest part that is found.
fn choose_partly_removed(items: &Items, grace: &GracePeriods) -> Option<Victim> {
    let words = items.segments().geometry().segment_words;
    [2, 4, 8, COMPACTED_PART]
        .iter()
        .find_map(|part| removed_victim(items.segments(), grace, words / part, DEAD_STEPS_MAX))
}

/// A mostly dead segment of the `committed` ones. One step of the rotating scan looks for it;
/// where more than half of all words are dead, [`DEAD_STEPS_MAX`] steps do.
fn choose_dead(items: &Items, grace: &GracePeriods, committed: usize) -> Option<Victim> {
    let geometry = items.segments().geometry();
    let words = geometry.segment_words;
    let find = |dead, steps| dead_victim(items.segments(), grace, dead, steps);
    find(words / 2, 1).or_else(|| {
        let is_mostly_dead = items.counters().item_words * 2 < (committed * words) as u64;
        // What is left of three of these fits in one, so there is always gain.
        is_mostly_dead.then(|| find(words / 4 * 3, DEAD_STEPS_MAX)).flatten()
    })
}
