//! Changes whose replies wait until they are below: which of them are not yet.
//!
//! The writer of a lane adds them in the order of its log, before it says that they are written.
//! So everything before the first that waits, and not after what is written, has landed.

use crate::index::Place;
use crate::key::KeyHash;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Changes that may wait, besides those that the logs hold when that many do.
const WAITING_MAX: usize = 16_384;

/// A change that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Its position in the log of its lane.
    pub(crate) position: u64,
    pub(crate) hash: KeyHash,
    /// Its record, as it was written first.
    pub(crate) place: Place,
}

/// All that wait, by lane, in the order of their positions.
pub(crate) struct Through {
    lanes: Box<[Mutex<VecDeque<Waiting>>]>,
    count: AtomicUsize,
}

impl Through {
    /// For this number of lanes.
    pub(crate) fn new(lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| Mutex::default()).collect();
        Self { lanes, count: AtomicUsize::new(0) }
    }

    /// Whether no other change may wait now.
    pub(crate) fn is_full(&self) -> bool {
        self.count() >= WAITING_MAX
    }

    /// How many wait.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Adds what the writer of a lane has written.
    pub(crate) fn add(&self, lane: usize, waiting: impl Iterator<Item = Waiting>) {
        let mut of_lane = lock(&self.lanes[lane]);
        let before = of_lane.len();
        of_lane.extend(waiting);
        self.count.fetch_add(of_lane.len() - before, Ordering::Relaxed);
    }

    /// Those of a lane up to a position: all, so that the last of a key is the last that it has.
    pub(crate) fn up_to(&self, lane: usize, position: u64) -> Vec<Waiting> {
        let of_lane = lock(&self.lanes[lane]);
        of_lane.iter().take_while(|it| it.position <= position).copied().collect()
    }

    /// Those of a lane of which that is so lie below, or what came later.
    pub(crate) fn landed(&self, lane: usize, has_landed: impl Fn(&Waiting) -> bool) {
        let mut of_lane = lock(&self.lanes[lane]);
        let before = of_lane.len();
        of_lane.retain(|it| !has_landed(it));
        self.count.fetch_sub(before - of_lane.len(), Ordering::Relaxed);
    }

    /// The last position of a lane up to which all lies below that must, of which `written` is
    /// written.
    pub(crate) fn landed_to(&self, lane: usize, written: u64) -> u64 {
        let first = lock(&self.lanes[lane]).front().map(|first| first.position - 1);
        first.map_or(written, |before| before.min(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(of: u8) -> KeyHash {
        KeyHash::from_raw(of.into())
    }

    #[test]
    fn what_comes_after_a_change_that_waits_has_not_landed() {
        let through = Through::new(1);
        assert_eq!(through.landed_to(0, 9), 9, "nothing waits");
        let [one, other] = [1, 2].map(hash);
        let waiting = [(3, one), (5, other), (6, one)];
        let place = Place { segment: 1, offset: 512, bytes: 40 };
        let waiting = waiting.map(|(position, hash)| Waiting { position, hash, place });
        through.add(0, waiting.into_iter());
        assert_eq!((through.landed_to(0, 9), through.landed_to(0, 1)), (2, 1));
        assert_eq!(through.up_to(0, 5), waiting[..2]);
        through.landed(0, |it| it.hash == one && it.position <= 5);
        assert_eq!((through.landed_to(0, 9), through.count()), (4, 2), "a later change waits");
        through.landed(0, |it| it.position <= 6);
        assert_eq!((through.landed_to(0, 9), through.count()), (9, 0));
    }
}
