//! Room for those who cannot go on without: what evicts at once, and waits for others.
//!
//! A drained segment is free when every batch that may read it has ended, and a full one is walked
//! when every batch that may write it has. So whoever lacks room may have to wait for the batches
//! of others. It gives way at first and sleeps later, with its own batch ended meanwhile: nobody
//! waits for one who waits.

use crate::effect::EffectSink;
use crate::engine::Engine;
use crate::evict::Bounds;
use crate::local::Local;
use crate::segment::Census;
use crate::sync::{Ordering, nap, yield_now};
use crate::writer::NeedSpace;
use base::Now;

/// Items looked at between two looks at whether there is room again.
const ITEMS_PER_ROUND: usize = 64;

/// Rounds of making room before a write fails for lack of it.
const ROUNDS_MAX: usize = 1 << 16;

/// Times a write starts over after room was made.
const ATTEMPTS_MAX: usize = 64;

/// Rounds without gain, of those that make room, that only give way to others.
const YIELDS_MAX: usize = 1 << 10;

/// Rounds without gain that sleep, a millisecond each: a batch that does not end in two seconds is
/// not waited for.
const NAPS_MAX: usize = 2_000;

/// The patience of one who makes room.
#[derive(Default)]
struct Patience {
    rounds: usize,
    /// Those of them that gained nothing.
    idle_rounds: usize,
}

impl Patience {
    /// Ends the batch of `local` after a round that looked at so many items, waits for others if
    /// there were none, and begins another batch; false at the end of its patience, and sooner
    /// where nothing is in sight.
    fn goes_on(&mut self, engine: &Engine, local: &Local, items: usize) -> bool {
        self.rounds += 1;
        self.idle_rounds += usize::from(items == 0);
        let is_over = self.rounds >= ROUNDS_MAX || self.idle_rounds > YIELDS_MAX + NAPS_MAX;
        let has_looked = self.idle_rounds > engine.segments.geometry().scans() + 1;
        if is_over || has_looked && !engine.is_room_in_sight() {
            return false;
        }
        engine.unpin(local);
        if items == 0 {
            engine.count(local).waits.add(1);
            if self.idle_rounds > YIELDS_MAX { nap() } else { yield_now() }
        }
        engine.pin(local);
        true
    }
}

impl Engine {
    /// Whether there will be room when others have ended their batches, or even sooner.
    fn is_room_in_sight(&self) -> bool {
        let Census { small, main, limbo, .. } = self.segments.census();
        let is_evicted = self.config.evict && small + main > 0;
        is_evicted || limbo > 0 || self.try_evictor().is_none()
    }

    /// Runs `attempt` until it no longer lacks space, making room in between; `None` when no more
    /// room can be made.
    pub(crate) fn with_room<T, S: EffectSink>(
        &self,
        local: &mut Local,
        now: Now,
        sink: &mut S,
        mut attempt: impl FnMut(&Self, &mut Local, &mut S) -> Result<T, NeedSpace>,
    ) -> Option<T> {
        for _ in 0..ATTEMPTS_MAX {
            match attempt(self, local, sink) {
                Ok(done) => return Some(done),
                Err(need) => {
                    if !self.make_room(local, need.segments, now, sink) {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Frees memory until `segments` of it are at hand, moving the pin of the caller on.
    fn make_room<S: EffectSink>(
        &self,
        local: &mut Local,
        segments: usize,
        now: Now,
        sink: &mut S,
    ) -> bool {
        if segments * 2 > self.segments.geometry().segments_max {
            return false;
        }
        let mut patience = Patience::default();
        let wanted = self.segments.free_aim().max(segments + 1);
        self.count(local).rooms_made.add(1);
        let mut items = 0;
        self.pin(local);
        loop {
            let mut walked = 0;
            if let Some(mut evictor) = self.try_evictor() {
                self.reclaim();
                if self.segments.free() >= wanted && !self.index.hungry() {
                    return true;
                }
                let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX };
                walked = self.walk_for(&mut evictor, local, now, bounds, wanted, sink).items;
                items += walked as u64;
                self.room_items_max.fetch_max(items, Ordering::Relaxed);
            }
            if !patience.goes_on(self, local, walked) {
                return false;
            }
        }
    }

    /// Evicts until the budget has room for `bytes`, for an owner whose share is not used up. The
    /// pin of the caller moves on. False when that much could not be evicted.
    pub fn give_back<S: EffectSink>(
        &self,
        local: &mut Local,
        bytes: u64,
        now: Now,
        sink: &mut S,
    ) -> bool {
        let segment_bytes = self.segments.geometry().segment_bytes();
        // Moving items takes room too, so what counts is what there is, not what was returned.
        let lacking = || bytes.saturating_sub(self.budget.room());
        let mut patience = Patience::default();
        self.pin(local);
        loop {
            let mut walked = 0;
            if let Some(mut evictor) = self.try_evictor() {
                let segments = lacking().div_ceil(segment_bytes) as usize;
                self.segments.reclaim(&self.epochs, segments);
                if lacking() == 0 {
                    return true;
                }
                let bounds = Bounds { items: ITEMS_PER_ROUND, words: usize::MAX };
                let walks = self.walk_for(&mut evictor, local, now, bounds, usize::MAX, sink);
                walked = walks.items;
            }
            if !patience.goes_on(self, local, walked) {
                return false;
            }
        }
    }
}
