//! Whether a new working set arrives: many keys that leave the small pool were requested again and
//! again while they were there.
//!
//! A key that is requested so often belongs in the main pool, and while popularity stays as it is,
//! it lies there: of the items that leave the small pool, less than one in a hundred has the
//! highest count of hits. When other keys become popular, all of them pass through the small pool,
//! and the share of such items rises to many times what it was. That is a *burst*. It is seen
//! within one or two passes of the small pool, before a ghost could tell. A share that is always
//! high is no burst: then popularity changes all the time, and [`super::balance`] follows it.
//!
//! Everything is a count. Any walk adds the items that have left, and one thread at a time looks
//! whether they are a burst. Reads never look here.

use crate::sync::{AtomicU64, Ordering};

/// Items that are looked at together, at least; and those of one tick, if these are more.
const ITEMS_MIN: u64 = 512;

/// A share of one.
const WHOLE: u64 = 1 << 16;

/// The share of often requested items in a burst, at least.
const BURST_SHARE_MIN: u64 = WHOLE / 50;

/// How many times the usual share it is in a burst, at least.
const BURST_FACTOR: u64 = 4;

/// The usual share before any was seen: a stream may have a high one from the start.
const USUAL_SHARE_FIRST: u64 = BURST_SHARE_MIN;

/// The usual share moves by one part in this many towards each share that is seen.
const USUAL_PARTS: u64 = 4;

pub(super) struct Arrivals {
    items: AtomicU64,
    /// Those of them with the highest count of hits.
    often: AtomicU64,
    /// The tick of the last look.
    looked: AtomicU64,
    usual_share: AtomicU64,
    /// Up to this tick the items leave that came first of all, when memory was empty. Many of them
    /// were requested often.
    first_until: u64,
}

impl Arrivals {
    pub(super) fn after(first_until: u64) -> Self {
        Self {
            items: AtomicU64::new(0),
            often: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            usual_share: AtomicU64::new(USUAL_SHARE_FIRST),
            first_until,
        }
    }

    /// Notes that `items` have left the small pool, of which `often` had the highest count of hits.
    pub(super) fn left_small(&self, items: u64, often: u64) {
        self.items.fetch_add(items, Ordering::Relaxed);
        self.often.fetch_add(often, Ordering::Relaxed);
    }

    /// Whether the items that left since the last look, up to `tick`, are a burst.
    pub(super) fn is_burst(&self, tick: u64) -> bool {
        let items = self.items.load(Ordering::Relaxed);
        if tick == self.looked.load(Ordering::Relaxed) || items < ITEMS_MIN {
            return false;
        }
        let share = self.often.swap(0, Ordering::Relaxed) * WHOLE / items;
        self.looked.store(tick, Ordering::Relaxed);
        self.items.fetch_sub(items, Ordering::Relaxed);
        if tick <= self.first_until {
            return false;
        }
        let usual = self.usual_share.load(Ordering::Relaxed);
        let moved = usual - usual / USUAL_PARTS + share / USUAL_PARTS;
        self.usual_share.store(moved, Ordering::Relaxed);
        share >= BURST_SHARE_MIN && share >= usual * BURST_FACTOR
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    const FIRST: u64 = 7;

    /// Ticks at which a burst is seen, counted from `from`, where this number of a
    /// thousand items were requested often: each share for eight ticks.
    fn bursts(from: u64, thousandths: &[u64]) -> Vec<u64> {
        let arrivals = Arrivals::after(FIRST);
        let shares = thousandths.iter().flat_map(|share| [*share; 8]);
        let sees = |(tick, often): (u64, u64)| {
            arrivals.left_small(1_000, often);
            arrivals.is_burst(from + tick).then_some(tick)
        };
        (0..).zip(shares).filter_map(sees).collect()
    }

    #[test]
    fn a_burst_is_a_share_far_above_the_usual() {
        for (thousandths, expected) in [
            (&[0, 6, 0, 6][..], &[][..]),
            (&[2, 60, 60], &[8]),
            (&[2, 15, 30], &[]),
            (&[60, 60, 70], &[]),
            (&[100, 100], &[0]),
            (&[2, 100, 2, 100], &[8, 24]),
        ] {
            assert_eq!(bursts(FIRST + 1, thousandths), expected, "{thousandths:?}");
        }
    }

    #[test]
    fn what_came_when_memory_was_empty_is_no_burst() {
        assert_eq!(bursts(FIRST - 7, &[500]), []);
        assert_eq!(bursts(FIRST - 6, &[500]), [7]);
    }

    #[test]
    fn few_items_say_nothing_until_there_are_more() {
        let (arrivals, at) = (Arrivals::after(FIRST), FIRST + 1);
        arrivals.left_small(ITEMS_MIN - 1, ITEMS_MIN - 1);
        assert!(!arrivals.is_burst(at));
        arrivals.left_small(1, 0);
        assert!(arrivals.is_burst(at) && !arrivals.is_burst(at));
    }
}
