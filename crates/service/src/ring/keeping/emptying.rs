//! Slices that are to be empty before they are anything else to this cell: in memory, and above a
//! tier in its journal, too. And slices of which nothing older is to stay in memory: what a cell
//! above a tier has led, and copies now, has items there that were read from below. The new primary
//! does not know of these, and would never evict them.

use crate::ring::cell::RingCell;
use crate::worker::Worker;
use base::SliceRange;
use engine::{Cursor, More};
use std::collections::VecDeque;
use tier::{Member, Voiding};

/// Slices whose items are dropped, step by step.
#[derive(Default)]
pub(crate) struct Emptying {
    all: VecDeque<Slices>,
    /// Slices, and the epoch before which their items are dropped: a few, of ranges that were
    /// handed over.
    older: VecDeque<(SliceRange, u32, Cursor)>,
}

/// How far some are.
struct Slices {
    slices: SliceRange,
    at: Cursor,
    /// Whether nothing of it is left in memory.
    is_dropped: bool,
    voiding: Voiding,
}

impl Emptying {
    /// Drops the items of `slices`, from their beginning. What was begun of more slices, of a range
    /// that was divided since, goes on.
    pub(crate) fn begin(&mut self, slices: SliceRange) {
        self.all.retain(|it| !it.slices.is_within(slices));
        self.older.retain(|(of, ..)| !of.is_within(slices));
        let (at, is_dropped, voiding) = (Cursor::default(), false, Voiding::default());
        self.all.push_back(Slices { slices, at, is_dropped, voiding });
    }

    /// Drops the items of `slices` that are of epochs before `epoch` from memory. The cell copies
    /// the slices meanwhile.
    pub(crate) fn begin_older(&mut self, slices: SliceRange, epoch: u32) {
        self.older.retain(|(of, ..)| !of.is_within(slices));
        self.older.push_back((slices, epoch, Cursor::default()));
    }

    /// Whether nothing is left that is to be empty.
    pub(crate) fn is_over(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether nothing is left to drop.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_over() && self.older.is_empty()
    }

    /// Whether some of `slices` are not empty yet.
    pub(crate) fn has(&self, slices: SliceRange) -> bool {
        self.all.iter().any(|it| it.slices.overlaps(slices))
    }

    /// Drops a bounded number of older items. Returns whether the next step may follow at once.
    pub(crate) fn step_older(&mut self, worker: &mut Worker) -> bool {
        let Some((slices, epoch, at)) = self.older.front_mut() else { return false };
        let (engine, pin) = worker.engine();
        if engine.forget_before(pin, (*slices, *epoch), at) == More::No {
            self.older.pop_front();
        }
        true
    }

    /// Drops a bounded number of items; with the last of a range, what other cells have asked for
    /// in it. Returns whether the next step may follow at once: it may wait for the journal.
    pub(crate) fn step(&mut self, worker: &mut Worker, ring: &RingCell) -> bool {
        let Some(it) = self.all.front_mut() else { return false };
        if !it.is_dropped {
            let (engine, pin) = worker.engine();
            it.is_dropped = engine.forget(pin, it.slices, &mut it.at) == More::No;
            return true;
        }
        if let Some(tiered) = ring.cell.tiered() {
            let is_void = |below: Member<'_>| below.void(it.slices, &mut it.voiding);
            if !tiered.member().is_none_or(is_void) {
                tiered.press_for_floors();
                let goes_on = !it.voiding.waits();
                if it.voiding.lacks_segments() {
                    tiered.press();
                    // What others have in the journal may hold all of them.
                    self.all.rotate_left(1);
                }
                return goes_on;
            }
        }
        ring.tags.drop_slices(it.slices);
        self.all.pop_front();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::first_cell_above_a_tier;
    use crate::testing::NOW;
    use base::{Change, Effect, Facts, Now, SliceId, Value, Version};
    use engine::Applied;

    /// Steps that it may take, with a second after each.
    const STEPS_MAX: u64 = 10_000;

    #[test]
    fn what_is_begun_of_a_whole_range_goes_on_after_a_part_of_it_has_begun_again() {
        let part = |slices| SliceRange::new(slices);
        let mut emptying = Emptying::default();
        emptying.begin(part(0..100));
        emptying.begin(part(0..50));
        assert!(emptying.has(part(50..100)), "it has items of before");
        assert!(!emptying.has(part(100..101)));
        emptying.begin(part(0..100));
        assert_eq!(emptying.all.len(), 1, "it begins again with all");
    }

    #[test]
    fn a_range_that_waits_for_segments_does_not_keep_others_from_freeing_them() {
        let ring = first_cell_above_a_tier();
        let tiered = ring.cell.tiered().expect("it is above a tier");
        let below = ring.below().expect("it is in a ring");
        let at = |second: u64| Now { mono_ns: NOW.mono_ns + second * 1_000_000_000, ..NOW };
        let slice = SliceId::of(b"key");
        let [start, end] = [slice.index() / 256 * 256, (slice.index() / 256 + 1) * 256];
        let (with_key, flushed) = (SliceRange::new(start..end), SliceRange::new(0..start));
        let mut worker = Worker::new(ring.cell.clone());
        worker.begin(NOW);
        let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
        let effect = Effect { key: b"key", change };
        assert_eq!(worker.copy((slice, Version::new(3, 1)), &effect, NOW), Applied::Done);
        let copied = worker.copied.as_mut().expect("it is above a tier");
        let barrier = copied.barrier_where((flushed, 1), |_| true, |_| {}, &mut Vec::new());
        barrier.expect("there is room");
        worker.end();
        // The key holds the first segment, and so all after it.
        let mut second = 0;
        let mut syncs = |times| {
            for _ in 0..times {
                second += 1;
                tiered.sync(at(second));
                let _ = tiered.tier().flush(at(second), true);
            }
        };
        syncs(2);
        while below.cut().is_some() {
            syncs(2);
        }
        let mut emptying = Emptying::default();
        emptying.begin(flushed);
        emptying.begin(with_key);
        for _ in 0..STEPS_MAX {
            worker.begin(NOW);
            let goes_on = emptying.step(&mut worker, &ring);
            worker.end();
            if emptying.is_over() {
                return;
            }
            if !goes_on {
                syncs(1);
            }
        }
        panic!("it is not over after {STEPS_MAX} steps");
    }
}
