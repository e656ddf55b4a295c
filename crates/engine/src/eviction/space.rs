//! Space for a request that cannot continue without it: evicts at once, and waits for others.
//!
//! A drained segment is free when every batch that may read it has ended. A full one is walked
//! when every batch that may write it has ended. So a request that lacks space may have to wait for
//! the batches of other threads. It yields the processor at first and sleeps later. Its own batch
//! is ended meanwhile, so no thread waits for one that waits.
//!
//! The sleep blocks the thread of the caller, and with it all its clients: at most [`SLEEPS_MAX`]
//! milliseconds in one request. This contradicts the rule that a core owns no clock.

use super::evict::{Bounds, Eviction};
use super::work::Work;
use crate::effects::EffectSink;
use crate::items::Items;
use crate::segments::{FREE_FOR_MOVES, Reclaim, SegmentCounts, reclaim};
use crate::sync::{Ordering, sleep_1_ms, yield_now};

/// Space is short: this many segments must be freed before the write can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeedSpace {
    pub(crate) segments: usize,
}

impl NeedSpace {
    pub(crate) const ONE: Self = Self { segments: 1 };
}

/// Items looked at between two looks at whether there is space again.
const ITEMS_PER_ROUND: usize = 64;

/// Rounds of making space before a write fails for lack of it.
const ROUNDS_MAX: usize = 1 << 16;

/// Times a write starts over after space was made.
const ATTEMPTS_MAX: usize = 64;

/// Rounds without gain that yield the processor.
const YIELDS_MAX: usize = 1 << 10;

/// Rounds without gain, after those, that sleep for a millisecond each. A batch that does not end
/// within them is not waited for.
const SLEEPS_MAX: usize = 2_000;

/// The rounds of one request that makes space.
#[derive(Default)]
struct Rounds {
    all: usize,
    /// Those of them that gained nothing.
    idle: usize,
}

impl Rounds {
    /// Ends the batch after a round that looked at `walked` items, waits for others if
    /// there were none, and begins another batch. False after the last round, and sooner where no
    /// space is to come.
    fn next<S>(&mut self, eviction: &Eviction, work: &mut Work<'_, S>, walked: usize) -> bool {
        self.all += 1;
        self.idle += usize::from(walked == 0);
        let is_over = self.all >= ROUNDS_MAX || self.idle > YIELDS_MAX + SLEEPS_MAX;
        let has_looked = self.idle > work.items.segments().geometry().scans() + 1;
        if is_over || has_looked && !is_space_to_come(eviction, work.items) {
            return false;
        }
        work.pin.pause(|| match (walked, self.idle > YIELDS_MAX) {
            (0, true) => sleep_1_ms(),
            (0, false) => yield_now(),
            _ => {}
        });
        work.pin.counters().waits.add(u64::from(walked == 0));
        true
    }
}

/// Whether there will be space when others have ended their batches, or even sooner.
fn is_space_to_come(eviction: &Eviction, items: &Items) -> bool {
    let SegmentCounts { small, main, limbo, .. } = items.segments().counts();
    let is_evicted = items.config().evict && small + main > 0;
    is_evicted || limbo > 0 || eviction.try_evictor().is_none()
}

/// Runs `attempt` until it no longer lacks space, making space in between. `None` when no more
/// space can be made.
pub(crate) fn with_space<T, S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    mut attempt: impl FnMut(&mut Work<'_, S>) -> Result<T, NeedSpace>,
) -> Option<T> {
    for _ in 0..ATTEMPTS_MAX {
        match attempt(work) {
            Ok(done) => return Some(done),
            Err(need) if make_space(eviction, work, need.segments) => {}
            Err(_) => break,
        }
    }
    None
}

/// Frees memory until `segments` of it are free. The pin of the caller moves on.
fn make_space<S: EffectSink>(eviction: &Eviction, work: &mut Work<'_, S>, segments: usize) -> bool {
    let items = work.items;
    if segments * 2 > items.segments().geometry().segments_max {
        return false;
    }
    let mut rounds = Rounds::default();
    let wanted = segments + FREE_FOR_MOVES;
    work.pin.counters().rooms_made.add(1);
    let mut looked_at = 0;
    work.pin.renew();
    loop {
        let mut walked = 0;
        if let Some(mut evictor) = eviction.try_evictor() {
            eviction.reclaim(work);
            if items.segments().free() >= wanted && !items.index().buckets().is_short() {
                return true;
            }
            let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX };
            let wanted = wanted.max(items.segments().free_aim());
            walked = eviction.walk_for(&mut evictor, work, bounds, wanted).items;
            looked_at += walked as u64;
            eviction.maxima().space_items.fetch_max(looked_at, Ordering::Relaxed);
        }
        if !rounds.next(eviction, work, walked) {
            return false;
        }
    }
}

/// Evicts until the budget has `bytes` left, for an owner whose share is not used up. The pin of
/// the caller moves on. False when that much could not be evicted.
pub(crate) fn give_back<S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    bytes: u64,
) -> bool {
    let items = work.items;
    let segment_bytes = items.segments().geometry().segment_bytes();
    // Moving items takes space too, so what counts is what there is, not what was returned.
    let lacking = || bytes.saturating_sub(eviction.budget().room());
    let mut rounds = Rounds::default();
    work.pin.renew();
    loop {
        let mut walked = 0;
        if let Some(mut evictor) = eviction.try_evictor() {
            let give_back = lacking().div_ceil(segment_bytes) as usize;
            let how = Reclaim { keep_free: FREE_FOR_MOVES, give_back };
            reclaim(items.segments(), work.pin.grace(), how);
            if lacking() == 0 {
                return true;
            }
            let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX };
            walked = eviction.walk_for(&mut evictor, work, bounds, usize::MAX).items;
        }
        if !rounds.next(eviction, work, walked) {
            return false;
        }
    }
}
