//! How the counters of slices rise where another cell may have given numbers that this one has not
//! seen.
//!
//! They rise when this cell begins to lead. While it copies, only what it applies raises them: a
//! barrier that it is sent ends all up to the last version here, and what the primary changes after
//! that would be dead if the counters stood above those of the primary. So a copy counts how often
//! they are to rise.

use super::cell::RingCell;
use base::{SLICES, SliceId, SliceRange, Version};
use std::sync::atomic::{AtomicU32, Ordering};

/// By how much the counters of a range rise when it gets a new primary: more changes than a log
/// holds, so that none of the earlier primary has a number that is given again.
pub(super) const COUNTER_JUMP: u64 = 1 << 20;
const _: () = assert!(COUNTER_JUMP >= effects::ENTRIES_MAX, "a log may hold more changes");
/// Most times that are counted: as many leave most of the numbers of a counter.
const TIMES_MAX: u32 = 1 << 20;

/// By slice, how often its counter is to rise once this cell leads it.
pub(crate) struct Jumps(Box<[AtomicU32]>);

impl Jumps {
    pub(crate) fn new() -> Self {
        Self((0..SLICES).map(|_| AtomicU32::new(0)).collect())
    }

    /// The counters of `slices` are to rise once more: they got another primary, of which this cell
    /// may not have all.
    pub(crate) fn note(&self, slices: SliceRange) {
        let more = |times: u32| Some(times.saturating_add(1).min(TIMES_MAX));
        for slice in slices.iter() {
            let _ = self.0[slice.index()].fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    fn take(&self, slice: SliceId) -> u64 {
        u64::from(self.0[slice.index()].swap(0, Ordering::Relaxed))
    }
}

/// Lets the counters of `slices` rise, in `epoch`: as often as this cell has noted as a copy, and
/// once more if another cell `has_led` them.
pub(super) fn jump(ring: &RingCell, slices: SliceRange, epoch: u32, has_led: bool) {
    for slice in slices.iter() {
        let times = ring.jumps.take(slice) + u64::from(has_led);
        raise(ring, slice, epoch, times * COUNTER_JUMP);
    }
}

/// The same by a number that nobody can guess.
pub(super) fn jump_by(ring: &RingCell, slices: SliceRange, epoch: u32, by: u64) {
    slices.iter().for_each(|slice| raise(ring, slice, epoch, by));
}

fn raise(ring: &RingCell, slice: SliceId, epoch: u32, by: u64) {
    let (lanes, engine) = (&ring.log.lanes, ring.cell.engine());
    let counter = engine.last_version(slice).counter() + by;
    let version = Version::new(epoch, counter);
    engine.advance(slice, version);
    lanes.log(lanes.lane_of(slice)).advance(slice, version);
}
