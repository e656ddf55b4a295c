//! Making room: S3-FIFO (Yang et al., SOSP 2023) over whole segments.
//!
//! A victim segment is walked item by item. In the small pool an item that was asked for again
//! moves to the main pool, any other leaves a ghost; in the main pool an item that was asked for
//! moves to the end with its count lowered. A key that comes back while its ghost is fresh starts
//! in the main pool. Segments whose items have all expired, or that are mostly dead, go first;
//! which pool gives the next victim else is decided in [`crate::balance`].
//!
//! The work is a debt: each write pays for the ground it took, a few items at a time, so no
//! request waits for a whole segment. At most three quarters of a victim's ground is kept, so
//! paying four words for one always gets ahead. [`crate::victim`] decides about each item, and
//! [`crate::room`] evicts for those who cannot go on without room.

use crate::effect::EffectSink;
use crate::engine::Engine;
use crate::local::Local;
use crate::segment::{Census, Pool, Victim};
use crate::sync::{MutexGuard, Ordering};
use crate::victim::Walk;
use base::{Now, Owner};

/// Words of victims walked for each word written.
const PACE: usize = 4;

/// Items looked at for one request, at most, while there still is room.
const ITEMS_PER_PAYMENT_MAX: usize = 32;

/// The victim being walked, if any. One thread at a time works on it.
#[derive(Default)]
pub(crate) struct Evictor {
    walk: Option<Walk>,
    /// The second in which expired segments were last looked for.
    looked_s: u32,
}

/// How far to walk.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) items: usize,
    pub(crate) words: usize,
}

/// How far was walked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Walked {
    pub(crate) items: usize,
    words: usize,
    /// Whether it stopped at an item that waits for ground to move to.
    waits: bool,
}

impl Bounds {
    /// What is left of them.
    fn after(self, walked: Walked) -> Self {
        let items = self.items.saturating_sub(walked.items);
        Self { items, words: self.words.saturating_sub(walked.words) }
    }
}

impl Engine {
    /// Housekeeping for an idle moment or the end of a batch: looks at up to `items` items of
    /// segments that must go, and evicts what the budget asks back.
    pub fn tend<S: EffectSink>(&self, local: &mut Local, now: Now, items: u32, sink: &mut S) {
        if let Some(mut evictor) = self.try_evictor() {
            // What a walk moves to stays open until it ends.
            if evictor.looked_s != now.expiry_s && evictor.walk.is_none() {
                evictor.looked_s = now.expiry_s;
                self.segments.seal_expired(&self.epochs, now);
            }
            self.reclaim();
            let bounds = Bounds { items: items as usize, words: usize::MAX };
            self.walk(&mut evictor, local, now, bounds, sink);
            self.reclaim();
        }
    }

    /// Pays for what was written since the last payment. The pin of the caller may move on.
    pub(crate) fn pay<S: EffectSink>(&self, local: &mut Local, now: Now, sink: &mut S) {
        if local.debt_words == 0 {
            return;
        }
        if !self.under_pressure() {
            local.debt_words = 0;
            return;
        }
        if let Some(mut evictor) = self.try_evictor() {
            let words = std::mem::take(&mut local.debt_words) * PACE;
            self.reclaim_for(local);
            let bounds = Bounds { items: ITEMS_PER_PAYMENT_MAX, words };
            let mut walked = self.walk(&mut evictor, local, now, bounds, sink);
            if self.segments.is_spent() {
                self.reclaim_for(local);
                if walked.waits {
                    let rest = self.walk(&mut evictor, local, now, bounds.after(walked), sink);
                    walked.items += rest.items;
                    walked.words += rest.words;
                }
            }
            self.paid_items_max.fetch_max(walked.items as u64, Ordering::Relaxed);
            self.paid_words_max.fetch_max(walked.words as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn try_evictor(&self) -> Option<MutexGuard<'_, Evictor>> {
        self.evictor.try_lock().ok()
    }

    /// Whether segments must be freed: for writers, for the index, or because the limit fell.
    #[inline]
    fn under_pressure(&self) -> bool {
        self.segments.short_by() > 0 || self.index.hungry()
    }

    /// Frees drained segments; where nothing else is at hand also what waits in limbo for this very
    /// batch to end.
    fn reclaim_for(&self, local: &Local) {
        if self.segments.is_spent() {
            self.epochs.pin(local.slot);
        }
        self.reclaim();
    }

    /// Frees drained segments, giving memory back where it is owed or the index is hungry.
    pub(crate) fn reclaim(&self) {
        let segment_bytes = self.segments.geometry().segment_bytes();
        let owed = self.budget.owed(Owner::Primary).div_ceil(segment_bytes) as usize;
        let hungry = self.index.hungry();
        let returned = self.segments.reclaim(&self.epochs, owed + usize::from(hungry));
        if hungry && returned > 0 {
            self.index.feed(segment_bytes);
        }
    }

    fn walk<S: EffectSink>(
        &self,
        evictor: &mut Evictor,
        local: &mut Local,
        now: Now,
        bounds: Bounds,
        sink: &mut S,
    ) -> Walked {
        self.walk_for(evictor, local, now, bounds, self.segments.free_aim(), sink)
    }

    /// Walks victims within the bounds, but for the last item's words.
    pub(crate) fn walk_for<S: EffectSink>(
        &self,
        evictor: &mut Evictor,
        local: &mut Local,
        now: Now,
        bounds: Bounds,
        free_wanted: usize,
        sink: &mut S,
    ) -> Walked {
        let mut walked = Walked::default();
        while walked.items < bounds.items && walked.words < bounds.words {
            if evictor.walk.is_none() {
                let victim = self.choose(now, free_wanted);
                evictor.walk = victim.map(Walk::of);
            }
            let Some(walk) = &mut evictor.walk else { break };
            let used = self.segments.header(walk.victim.id).used_words();
            if walk.at_words >= used.min(self.segments.geometry().segment_words) {
                self.segments.drained(&self.epochs, walk.victim.id);
                self.count(local).drained.add(1);
                evictor.walk = None;
                continue;
            }
            let (addr, item) = self.segments.item_in(walk.victim.id, walk.at_words);
            let head = item.head();
            let span = head.span_words();
            assert!(span > 0, "a segment is covered by items and fillers without a gap");
            walked.waits = !self.judge(local, walk, addr, (item, head), now, sink);
            if walked.waits {
                break;
            }
            walk.at_words += span;
            walked.words += span;
            walked.items += 1;
        }
        walked
    }

    /// The next segment to drain, if one must go.
    fn choose(&self, now: Now, free_wanted: usize) -> Option<Victim> {
        if let Some(victim) = self.segments.expired_victim(&self.epochs, now) {
            return Some(victim);
        }
        let Census { committed, small, main, limbo } = self.segments.census();
        let coming = self.segments.free() + limbo;
        let owed = self.budget.owed(Owner::Primary) > 0;
        if coming >= free_wanted && !owed && !self.index.hungry() {
            return None;
        }
        // What is left of a mostly dead segment fits in one free segment: nothing need be evicted.
        if (self.config.evict || self.segments.free() > 0)
            && let Some(victim) = self.choose_dead(committed)
        {
            return Some(victim);
        }
        if !self.config.evict {
            return None;
        }
        self.ghosts.fit(committed * self.segments.geometry().segment_words);
        let balance = &self.ghosts.balance;
        balance.step(self.ghosts.tick(), small, committed);
        let (first, second) = if balance.is_over(small, committed) || main == 0 {
            (Pool::Small, Pool::Main)
        } else {
            (Pool::Main, Pool::Small)
        };
        self.segments
            .oldest_victim(&self.epochs, first)
            .or_else(|| self.segments.oldest_victim(&self.epochs, second))
    }

    /// A mostly dead segment of so many, looked for everywhere where most of all ground is dead.
    fn choose_dead(&self, committed: usize) -> Option<Victim> {
        let geometry = self.segments.geometry();
        let words = geometry.segment_words;
        let find = |dead_words, steps| self.segments.dead_victim(&self.epochs, dead_words, steps);
        find(words / 2, 1).or_else(|| {
            let is_mostly_dead = self.counters().item_words * 2 < (committed * words) as u64;
            // What is left of three of these fits in one, so there is always gain.
            is_mostly_dead.then(|| find(words / 4 * 3, geometry.scans())).flatten()
        })
    }
}
