//! The clock that the ghosts of evicted keys age by: words evicted from the small pool, in ticks.
//!
//! A tick is one part in [`TICKS`] of the memory that items have now. A ghost counts for as long as
//! it takes to evict nine tenths of that memory, which is a fixed number of ticks. This makes the
//! queue of ghosts as long as that of S3-FIFO. Time by words, not by items, needs no guess of how
//! many items a full pool holds. When the limit is changed, the ticks to come are longer or
//! shorter, and the ages of ghosts stay what they were. How much address space is reserved changes
//! nothing. A stamp of nine bits spans eight windows.
//!
//! The clock never runs backwards. Any thread may read it. A walk counts what it evicts in an
//! [`Evicted`] of its own, and adds that here before it could be seen by the clock: so walks side
//! by side hardly write the same words.

use super::arrivals::Arrivals;
use super::balance::Balance;
use crate::index::{FREQ_MAX, Ghost};
use crate::segments::{POOLS, Pool, SMALL_PERCENT_FIRST};
use crate::sync::{AtomicU64, Ordering};

/// Ticks in which as many words are evicted as the pool has.
const TICKS: u64 = 64;

/// Ticks in which the small pool that was filled first is evicted.
const TICKS_FIRST: u64 = TICKS * SMALL_PERCENT_FIRST / 100 + 1;

/// The oldest age in ticks at which a ghost counts.
const WINDOW_TICKS: u64 = TICKS * 9 / 10;

/// Parts of a tick that a walk may have evicted without having added them.
const PARTS_OF_TICK: u64 = 8;

/// What a walk has evicted and not yet added to the clock.
#[derive(Default)]
pub(super) struct Evicted {
    /// The tick of the ghosts that are counted.
    tick: u64,
    /// Words evicted from the small pool.
    words: u64,
    /// Items that left the small pool, evicted or not, and those of them that were hit often.
    small: u64,
    small_often: u64,
    /// Ghosts that the balance watches, by pool.
    ghosts: [u64; POOLS],
}

pub(crate) struct GhostClock {
    ticks: AtomicU64,
    /// Words evicted since the last tick.
    words: AtomicU64,
    /// Words of a tick.
    tick_words: AtomicU64,
    arrivals: Arrivals,
    balance: Balance,
}

impl GhostClock {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            words: AtomicU64::new(0),
            tick_words: AtomicU64::new(1),
            arrivals: Arrivals::after(TICKS_FIRST),
            balance: Balance::new(),
        }
    }

    #[inline]
    pub(crate) fn tick(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Advances the clock by `more` words.
    fn advance(&self, more: u64) {
        let tick_words = self.tick_words.load(Ordering::Relaxed);
        let mut words = self.words.fetch_add(more, Ordering::Relaxed) + more;
        while let Some(rest) = words.checked_sub(tick_words) {
            let (ticks, rest) = (1 + rest / tick_words, rest % tick_words);
            let relaxed = Ordering::Relaxed;
            match self.words.compare_exchange(words, rest, relaxed, relaxed) {
                Ok(_) => {
                    self.ticks.fetch_add(ticks, Ordering::Relaxed);
                    return;
                }
                Err(now) => words = now,
            }
        }
    }

    /// Notes that an item which was hit `freq` times leaves the small pool, evicted or not.
    pub(super) fn leaves_small(&self, evicted: &mut Evicted, freq: u64) {
        evicted.small += 1;
        evicted.small_often += u64::from(freq == FREQ_MAX);
    }

    /// Notes the eviction of a key of this hash with its `words`, which was hit `freq` times; the
    /// ghost it leaves, if any. Each key of the small pool leaves one. Of those of the main pool
    /// that were hit no more, only those leave one that the balance watches.
    pub(super) fn ghost(
        &self,
        evicted: &mut Evicted,
        (hash, pool): (u64, Pool),
        words: usize,
        freq: u64,
    ) -> Option<Ghost> {
        let small_words = if pool == Pool::Small { words as u64 } else { 0 };
        let is_due =
            (evicted.words + small_words) * PARTS_OF_TICK > self.tick_words.load(Ordering::Relaxed);
        if is_due || evicted.tick != self.tick() {
            self.add(evicted);
        }
        evicted.words += small_words;
        let ghost = Ghost::new(hash, pool, evicted.tick);
        if Balance::watches(ghost) {
            evicted.ghosts[pool as usize] += 1;
            return Some(ghost);
        }
        (freq > 0).then_some(ghost)
    }

    /// Adds what a walk has evicted.
    pub(super) fn add(&self, evicted: &mut Evicted) {
        let Evicted { tick, words, small, small_often, ghosts } = std::mem::take(evicted);
        if ghosts != [0; POOLS] {
            self.balance.left(ghosts, tick);
        }
        if small > 0 {
            self.arrivals.left_small(small, small_often);
        }
        if words > 0 {
            self.advance(words);
        }
        evicted.tick = self.tick();
    }

    /// Notes that a key came back to its ghost.
    pub(crate) fn came_back(&self, ghost: Ghost) {
        if Balance::watches(ghost) {
            let tick = self.tick();
            self.balance.came_back(ghost.pool(), tick, ghost.age(tick));
        }
    }

    /// Moves the small pool's part, and says whether the pool, with `small` of `segments`, has more
    /// than that. One thread at a time may call this.
    pub(super) fn is_small_over(&self, small: usize, segments: usize) -> bool {
        let tick = self.tick();
        self.balance.step(tick, small, segments);
        if self.arrivals.is_burst(tick) {
            self.balance.begin_again(tick);
        }
        self.balance.is_over(small, segments)
    }

    /// Fits the length of a tick to a pool that now has `pool_words`.
    pub(super) fn fit(&self, pool_words: usize) {
        self.tick_words.store((pool_words as u64 / TICKS).max(1), Ordering::Relaxed);
    }

    /// Whether a key that comes back to this ghost starts in the main pool. Victims of the main
    /// pool that the balance watches have been there already and were hit no more: their ghosts
    /// only count there.
    #[inline]
    pub(crate) fn is_fresh(&self, ghost: Ghost) -> bool {
        let proven = ghost.pool() == Pool::Small || !Balance::watches(ghost);
        proven && ghost.age(self.tick()) <= WINDOW_TICKS
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const POOL_WORDS: usize = 1 << 20;
    /// A hash whose key the balance watches, and one that it does not.
    const WATCHED: u64 = 7;
    const OTHER: u64 = u64::MAX;

    /// Evicts this many tenths of a pool of `pool_words`, an item at a time.
    fn evict(clock: &GhostClock, pool_words: usize, tenths: usize) {
        clock.fit(pool_words);
        for _ in 0..tenths * 100 {
            clock.advance(pool_words as u64 / 1_000);
        }
    }

    #[test]
    fn a_ghost_counts_until_nine_tenths_of_the_pool_are_evicted_however_large_it_is_now() {
        for (before, after) in
            [(1, 1), (4, 1), (1, 4)].map(|(a, b)| (a * POOL_WORDS, b * POOL_WORDS))
        {
            for (tenths, fresh) in [(0, true), (8, true), (10, false), (70, false)] {
                let clock = GhostClock::new();
                evict(&clock, before, 13);
                let ghost = clock.ghost(&mut Evicted::default(), (OTHER, Pool::Small), 1, 0);
                let ghost = ghost.expect("small leaves a ghost");
                evict(&clock, after, tenths);
                assert_eq!(clock.is_fresh(ghost), fresh, "{tenths} tenths of {after}");
            }
        }
    }

    #[test]
    fn a_tick_holds_whatever_one_item_may_have() {
        let clock = GhostClock::new();
        clock.fit(0);
        for (tick_words, words, tick) in [(0, 5, 5), (4, 3, 5), (4, 9, 8)] {
            clock.fit(TICKS as usize * tick_words);
            clock.advance(words);
            assert_eq!(clock.tick(), tick, "{words} in ticks of {tick_words}");
        }
    }

    #[test]
    fn a_walk_adds_what_it_evicts_before_an_eighth_of_a_tick_and_whenever_the_tick_is_another() {
        let clock = GhostClock::new();
        clock.fit(TICKS as usize * 80);
        let mut walk = Evicted::default();
        let mut evict = |words, added| {
            let ghost = clock.ghost(&mut walk, (OTHER, Pool::Small), words, 0);
            assert_eq!(clock.words.load(Ordering::Relaxed), added);
            ghost.expect("small leaves a ghost").age(clock.tick())
        };
        for (words, added) in [(4, 0), (6, 0), (1, 10), (9, 10), (1, 20)] {
            assert_eq!(evict(words, added), 0);
        }
        clock.advance(60);
        assert_eq!(evict(1, 1), 0, "of the new tick, and the rest is added to it");
    }

    #[test]
    fn main_leaves_ghosts_of_what_is_watched_and_of_what_was_hit() {
        let clock = GhostClock::new();
        clock.fit(POOL_WORDS);
        for (hash, freq, leaves, fresh) in [
            (WATCHED, 0, true, false),
            (WATCHED, 2, true, false),
            (OTHER, 0, false, false),
            (OTHER, 2, true, true),
        ] {
            let ghost = clock.ghost(&mut Evicted::default(), (hash, Pool::Main), 1, freq);
            assert_eq!(ghost.is_some(), leaves, "{hash} {freq}");
            assert_eq!(ghost.is_some_and(|ghost| clock.is_fresh(ghost)), fresh, "{hash} {freq}");
        }
    }
}
