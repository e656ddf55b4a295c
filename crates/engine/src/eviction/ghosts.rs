//! The clock that the ghosts of evicted keys age by: words evicted from the small pool, in ticks.
//!
//! A ghost counts for as long as it takes to evict nine tenths of the memory that items have. This
//! makes the queue of ghosts as long as that of S3-FIFO. Time by words, not by items, needs no
//! guess of how many items a full pool holds. A tick is a power of two of words, so that a stamp of
//! nine bits spans between four and nine such windows.
//!
//! The clock never runs backwards. Any thread may read it; it is advanced by the holder of the
//! evictor.

use super::balance::Balance;
use crate::index::Ghost;
use crate::segments::Pool;
use crate::sync::{AtomicU64, Ordering};

/// Ticks in which a pool of the planned size is evicted once, at least.
const TICKS: u64 = 64;

/// How long ghosts count, in tenths of the memory that items may have.
const WINDOW_TENTHS: u64 = 9;

pub(crate) struct GhostClock {
    evicted_words: AtomicU64,
    /// The oldest age that counts, in ticks.
    window: AtomicU64,
    tick_shift: u32,
    balance: Balance,
}

impl GhostClock {
    pub(crate) fn new(pool_words: u64) -> Self {
        Self {
            evicted_words: AtomicU64::new(0),
            window: AtomicU64::new(0),
            tick_shift: (pool_words / TICKS).max(1).ilog2(),
            balance: Balance::new(),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> u64 {
        self.evicted_words.load(Ordering::Relaxed) >> self.tick_shift
    }

    /// Notes the eviction of `words` from the small pool, and returns its tick.
    fn evicted(&self, words: usize) -> u64 {
        self.evicted_words.fetch_add(words as u64, Ordering::Relaxed) >> self.tick_shift
    }

    /// Notes the eviction of a key of this hash with its `words`; the ghost it leaves, if any.
    pub(crate) fn ghost(&self, hash: u64, pool: Pool, words: usize) -> Option<Ghost> {
        let tick = if pool == Pool::Small { self.evicted(words) } else { self.tick() };
        Balance::watches(pool, hash).then(|| {
            self.balance.left(pool, tick);
            Ghost::new(hash, pool, tick)
        })
    }

    /// Notes that a key came back to its ghost.
    pub(crate) fn came_back(&self, ghost: Ghost) {
        let tick = self.tick();
        self.balance.came_back(ghost.pool(), tick, ghost.age(tick));
    }

    /// Moves the small pool's part by a step, and says whether the pool, with `small` of
    /// `segments`, has more than that.
    pub(super) fn is_small_over(&self, small: usize, segments: usize) -> bool {
        self.balance.step(self.tick(), small, segments);
        self.balance.is_over(small, segments)
    }

    /// Fits the window to a pool that now has `pool_words`.
    pub(crate) fn fit(&self, pool_words: usize) {
        let window = (pool_words as u64 * WINDOW_TENTHS / 10) >> self.tick_shift;
        self.window.store(window, Ordering::Relaxed);
    }

    /// Whether a key that comes back to this ghost starts in the main pool. Victims of the main
    /// pool have been there already: their ghosts only count in the balance.
    #[inline]
    pub(crate) fn is_fresh(&self, ghost: Ghost) -> bool {
        ghost.pool() == Pool::Small && ghost.age(self.tick()) <= self.window.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::config::{EngineConfig, Geometry};

    #[test]
    fn a_ghost_counts_until_nine_tenths_of_the_pool_are_evicted() {
        let geometry = Geometry::of(&EngineConfig::new(64 << 20));
        let pool_words = geometry.segments_max * geometry.segment_words;
        let clock = GhostClock::new(pool_words as u64);
        let ghost = Ghost::new(7, Pool::Small, clock.evicted(0));
        clock.fit(pool_words);
        for (evicted_tenths, fresh) in [(0, true), (8, true), (9, true), (10, false)] {
            let before = clock.evicted(0) as usize;
            let wanted = pool_words * evicted_tenths / 10;
            clock.evicted(wanted - (before << clock.tick_shift));
            assert_eq!(clock.is_fresh(ghost), fresh, "{evicted_tenths} tenths");
            assert!(!clock.is_fresh(Ghost::new(7, Pool::Main, clock.tick())));
        }
    }
}
