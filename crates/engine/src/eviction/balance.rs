//! How much of memory the small pool has: it depends on which pool's victims are requested again.
//!
//! Every victim of the small pool leaves a ghost. Of the victims of the main pool, one in eight
//! leaves one that only this file looks at. Ghosts of one span of eviction are a cohort: they have
//! had the same time to be requested again. So victims of main are *expected* back as often as
//! victims of small of the same cohort. The difference says where memory is missing:
//!
//! ```text
//! fewer come back than expected   main is stale, popularity has moved on     small gets more
//! more come back                  main is too small, for a loop for example  small gets less
//! ```
//!
//! Returns are counted twice: those that come soon, and all. A loop that a large small pool has
//! pushed out of main comes back late from small and soon from main; one that nearly fits comes
//! back soon from neither. So the small pool grows only if both counts say that main is stale, and
//! shrinks if either says that it is missed.
//!
//! The part moves one step at a time, within bounds, and waits for the pools to follow. Where
//! hardly a victim comes back, a large small pool gains nothing, and the part returns to its first
//! value. Where about as many come back as expected, the part stays.
//!
//! When a new working set arrives, what was counted before says nothing about it. Then the part
//! goes to its upper bound at once, so that main gives all the space that new keys take, and the
//! comparison begins again. Until as many ghosts as before could be counted, few returns say
//! nothing.
//!
//! Everything is a count: no time and no random number. One thread at a time moves the part; any
//! walk adds what it has evicted, and any writer calls [`Balance::came_back`]. Reads never look
//! here.

use crate::index::{Ghost, TAG_BITS};
use crate::segments::{POOLS, Pool, SMALL_PERCENT_FIRST};
use crate::sync::{AtomicU64, Ordering};

/// Bits of the tag that are zero where a victim of the main pool is watched: its highest ones, so
/// that no bucket has more of their ghosts than another.
const SAMPLE_BITS: u32 = 3;

/// Bounds of the small pool's part, in percent of the segments that hold memory.
const PERCENT_MIN: u64 = 5;
const PERCENT_MAX: u64 = 60;
const _: () = assert!(PERCENT_MIN <= SMALL_PERCENT_FIRST && SMALL_PERCENT_FIRST <= PERCENT_MAX);

/// How far the part moves at once, and may be ahead of the pools, in percent.
const STEP_PERCENT: u64 = 2;

/// Ticks of the ghosts' clock that make a cohort.
const COHORT_TICKS: u64 = 8;

/// Cohorts watched: together as long as it takes to evict half the pool, at least.
const COHORTS: usize = 8;

/// Ticks in which every cohort is replaced by a younger one.
const SPAN_TICKS: u64 = COHORTS as u64 * COHORT_TICKS;

/// The age in ticks up to which a ghost comes back soon.
const SOON_TICKS: u64 = 16;

/// Ghosts of main's victims that must be back, or be expected back, before a count is used.
const EVIDENCE_MIN: u64 = 16;

/// Main is stale if fewer than this of those expected are back, in eighths.
const STALE_EIGHTHS: u64 = 7;

/// Main is too small if more than this of those expected are back, in eighths.
const MISSED_EIGHTHS: u64 = 9;

/// Expected ghosts are counted in parts of this, so that small cohorts count too.
const SCALE: u64 = 16;

#[derive(Default)]
struct Cohort {
    /// Ghosts left by victims of each pool.
    left: [AtomicU64; POOLS],
    /// Of these, how many came back soon, and later.
    back: [[AtomicU64; 2]; POOLS],
}

impl Cohort {
    fn clear(&self) {
        for count in self.left.iter().chain(self.back.iter().flatten()) {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// Ghosts of main's victims, times [`SCALE`].
#[derive(Clone, Copy, Default)]
struct Tally {
    expected: u64,
    found: u64,
}

impl Tally {
    fn is_silent(self) -> bool {
        self.found.max(self.expected) < EVIDENCE_MIN * SCALE
    }

    fn is_missed(self) -> bool {
        self.found * 8 > self.expected * MISSED_EIGHTHS && !self.is_silent()
    }

    fn is_stale(self) -> bool {
        self.found * 8 < self.expected * STALE_EIGHTHS && !self.is_silent()
    }
}

pub(crate) struct Balance {
    percent: AtomicU64,
    /// The tick of the last step.
    stepped: AtomicU64,
    /// The tick at which the comparison began; older ghosts do not count.
    began: AtomicU64,
    /// Number of the youngest cohort; it and those before it lie in `cohorts`, modulo their count.
    youngest: AtomicU64,
    cohorts: [Cohort; COHORTS],
}

impl Balance {
    pub(crate) fn new() -> Self {
        Self {
            percent: AtomicU64::new(SMALL_PERCENT_FIRST),
            stepped: AtomicU64::new(0),
            began: AtomicU64::new(0),
            youngest: AtomicU64::new(0),
            cohorts: Default::default(),
        }
    }

    /// Whether this ghost counts here.
    #[inline]
    pub(crate) fn watches(ghost: Ghost) -> bool {
        ghost.pool() == Pool::Small || ghost.tag() >> (TAG_BITS - SAMPLE_BITS) == 0
    }

    /// Notes the `ghosts` that victims of each pool have left at `tick`.
    pub(crate) fn left(&self, ghosts: [u64; POOLS], tick: u64) {
        self.enter(tick);
        for (left, ghosts) in self.cohort(tick / COHORT_TICKS).left.iter().zip(ghosts) {
            if ghosts > 0 {
                left.fetch_add(ghosts, Ordering::Relaxed);
            }
        }
    }

    /// Notes that a key came back at `tick` to the ghost it left `age` ticks ago.
    pub(crate) fn came_back(&self, pool: Pool, tick: u64, age: u64) {
        let Some(born) = tick.checked_sub(age) else { return };
        if born < self.began.load(Ordering::Relaxed) {
            return;
        }
        if tick / COHORT_TICKS - born / COHORT_TICKS < COHORTS as u64 {
            let back = &self.cohort(born / COHORT_TICKS).back[pool as usize];
            back[usize::from(age > SOON_TICKS)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the small pool, with `small` of `segments`, has more than its part.
    pub(crate) fn is_over(&self, small: usize, segments: usize) -> bool {
        small as u64 * 100 > segments as u64 * self.percent.load(Ordering::Relaxed)
    }

    /// Moves the part by a step, at most one a tick, if the ghosts say so. The small pool has
    /// `small` of `segments` now.
    pub(crate) fn step(&self, tick: u64, small: usize, segments: usize) {
        if self.stepped.swap(tick, Ordering::Relaxed) == tick {
            return;
        }
        self.enter(tick);
        let percent = self.percent.load(Ordering::Relaxed);
        let (small, segments) = (small as u64 * 100, segments as u64);
        // A step counts when the pools have followed, to a segment.
        let (has, slack) = (segments * percent, segments * STEP_PERCENT + 100);
        let (soon, all) = self.tallies();
        let less = if small > has + slack { percent } else { percent.saturating_sub(STEP_PERCENT) };
        let more = if small + slack < has { percent } else { percent + STEP_PERCENT };
        let is_settled = tick >= self.began.load(Ordering::Relaxed) + SPAN_TICKS;
        let percent = if soon.is_missed() || all.is_missed() {
            less
        } else if soon.is_stale() && all.is_stale() {
            more
        } else if all.is_silent() && is_settled && percent > SMALL_PERCENT_FIRST {
            less.max(SMALL_PERCENT_FIRST)
        } else {
            percent
        };
        self.percent.store(percent.clamp(PERCENT_MIN, PERCENT_MAX), Ordering::Relaxed);
    }

    /// A new working set has arrived at `tick`: gives the small pool the largest part, and forgets
    /// what was counted.
    pub(crate) fn begin_again(&self, tick: u64) {
        self.percent.store(PERCENT_MAX, Ordering::Relaxed);
        self.began.store(tick, Ordering::Relaxed);
        self.cohorts.iter().for_each(Cohort::clear);
    }

    /// Main's victims that came back soon, and all that came back.
    fn tallies(&self) -> (Tally, Tally) {
        let (mut soon, mut all) = (Tally::default(), Tally::default());
        for cohort in &self.cohorts {
            let [small_left, main_left] =
                cohort.left.each_ref().map(|left| left.load(Ordering::Relaxed));
            let [small, main] = cohort
                .back
                .each_ref()
                .map(|back| back.each_ref().map(|back| back.load(Ordering::Relaxed)));
            let expected = |back: u64| SCALE * back * main_left / small_left.max(1);
            soon.expected += expected(small[0]);
            soon.found += SCALE * main[0];
            all.expected += expected(small[0] + small[1]);
            all.found += SCALE * (main[0] + main[1]);
        }
        (soon, all)
    }

    /// Forgets the oldest cohorts for those that begin up to `tick`.
    fn enter(&self, tick: u64) {
        let cohort = tick / COHORT_TICKS;
        let youngest = self.youngest.fetch_max(cohort, Ordering::Relaxed);
        for number in (youngest + 1..=cohort).rev().take(COHORTS) {
            self.cohort(number).clear();
        }
    }

    fn cohort(&self, number: u64) -> &Cohort {
        &self.cohorts[number as usize % COHORTS]
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const SEGMENTS: usize = 500;

    /// Ghosts of one pool.
    fn of(pool: Pool, ghosts: u64) -> [u64; POOLS] {
        let mut of = [0; POOLS];
        of[pool as usize] = ghosts;
        of
    }

    /// Victims of a tick, and how many of a hundred come back soon and later.
    struct Stream {
        small: [u64; 2],
        main: [u64; 2],
    }

    const DRIFT: Stream = Stream { small: [10, 10], main: [5, 8] };
    const PLAIN: Stream = Stream { small: [10, 10], main: [10, 9] };
    /// A loop that a large small pool has pushed out of main: soon from main, late from small.
    const LOOP_OUT: Stream = Stream { small: [2, 80], main: [8, 12] };
    /// A loop that nearly fits: late from main.
    const LOOP_NEAR: Stream = Stream { small: [4, 16], main: [4, 90] };

    fn percent(balance: &Balance) -> u64 {
        balance.percent.load(Ordering::Relaxed)
    }

    /// Runs `ticks` of a stream whose pools follow at once; what comes back late does so after
    /// twice [`SOON_TICKS`].
    fn run(balance: &Balance, ticks: std::ops::Range<u64>, stream: &Stream) {
        for tick in ticks {
            for (pool, [soon, late]) in [(Pool::Small, stream.small), (Pool::Main, stream.main)] {
                balance.left(of(pool, 100), tick);
                (0..soon).for_each(|_| balance.came_back(pool, tick, 1));
                (0..late).for_each(|_| balance.came_back(pool, tick, 2 * SOON_TICKS));
            }
            balance.step(tick, SEGMENTS * percent(balance) as usize / 100, SEGMENTS);
        }
    }

    #[test]
    fn the_part_follows_the_stream_within_its_bounds() {
        let balance = Balance::new();
        let mut from = 0;
        for (stream, expected) in [
            (PLAIN, SMALL_PERCENT_FIRST),
            (DRIFT, PERCENT_MAX),
            (LOOP_OUT, PERCENT_MIN),
            (DRIFT, PERCENT_MAX),
            (LOOP_NEAR, PERCENT_MIN),
            (PLAIN, PERCENT_MIN),
        ] {
            let ticks = from..from + 4 * SPAN_TICKS;
            from = ticks.end;
            run(&balance, ticks.clone(), &stream);
            assert_eq!(percent(&balance), expected, "{ticks:?}");
        }
    }

    #[test]
    fn a_large_small_pool_that_nobody_misses_goes_back_to_where_it_began() {
        let silent = Stream { small: [0, 0], main: [0, 0] };
        let span = SPAN_TICKS;
        for (before, percent_before, percent_after) in
            [(DRIFT, PERCENT_MAX, SMALL_PERCENT_FIRST), (LOOP_NEAR, PERCENT_MIN, PERCENT_MIN)]
        {
            let balance = Balance::new();
            run(&balance, 0..4 * span, &before);
            assert_eq!(percent(&balance), percent_before);
            run(&balance, 4 * span..8 * span, &silent);
            assert_eq!(percent(&balance), percent_after);
        }
    }

    #[test]
    fn a_step_a_tick_at_most_and_none_before_the_pools_have_followed() {
        for (small_percent, expected) in [(10, 12), (8, 12), (7, 10), (100, 12)] {
            let balance = Balance::new();
            run(&balance, 0..4, &Stream { main: [0, 0], ..DRIFT });
            balance.percent.store(SMALL_PERCENT_FIRST, Ordering::Relaxed);
            for _ in 0..3 {
                balance.step(4, SEGMENTS * small_percent / 100, SEGMENTS);
            }
            assert_eq!(percent(&balance), expected, "{small_percent} percent");
        }
    }

    #[test]
    fn a_new_working_set_gets_the_largest_part_and_ghosts_from_before_do_not_count() {
        let balance = Balance::new();
        let begun = 4 * SPAN_TICKS;
        run(&balance, 0..begun, &LOOP_NEAR);
        balance.begin_again(begun);
        assert_eq!(percent(&balance), PERCENT_MAX);
        (0..1_000).for_each(|_| balance.came_back(Pool::Main, begun + 1, 2));
        balance.step(begun + 1, SEGMENTS * PERCENT_MAX as usize / 100, SEGMENTS);
        assert_eq!(percent(&balance), PERCENT_MAX);
        run(&balance, begun + 2..2 * begun, &LOOP_NEAR);
        assert_eq!(percent(&balance), PERCENT_MIN, "it adapts as before");
    }

    #[test]
    fn few_returns_after_a_new_beginning_say_nothing_until_more_could_be_counted() {
        let balance = Balance::new();
        let silent = Stream { small: [0, 0], main: [0, 0] };
        balance.begin_again(0);
        run(&balance, 1..SPAN_TICKS, &silent);
        assert_eq!(percent(&balance), PERCENT_MAX);
        run(&balance, SPAN_TICKS..2 * SPAN_TICKS, &silent);
        assert_eq!(percent(&balance), SMALL_PERCENT_FIRST);
    }

    #[test]
    fn too_few_ghosts_say_nothing() {
        let balance = Balance::new();
        for tick in 1..4 {
            balance.left([10, 10], tick);
            (0..5).for_each(|_| balance.came_back(Pool::Small, tick, 0));
            balance.step(tick, 50, SEGMENTS);
            assert_eq!(percent(&balance), SMALL_PERCENT_FIRST, "tick {tick}");
        }
    }

    #[test]
    fn cohorts_are_forgotten_in_turn_and_by_leaps() {
        let span = SPAN_TICKS;
        for (later, left) in [(1, 1), (span - 1, 1), (span, 0), (10 * span, 0)] {
            let balance = Balance::new();
            balance.left(of(Pool::Small, 1), 0);
            balance.came_back(Pool::Small, later, later);
            balance.enter(later);
            let cohort = balance.cohort(0);
            assert_eq!(cohort.left[0].load(Ordering::Relaxed), left, "after {later}");
            let back: u64 = cohort.back[0].iter().map(|back| back.load(Ordering::Relaxed)).sum();
            assert_eq!(back, left, "a return is counted as long as its cohort");
        }
    }
}
