//! How the counters of slices rise where another cell may have given numbers that this one has not
//! seen.
//!
//! They rise when this cell begins to lead, as often as it has noted while it copied.

use super::cell::RingCell;
use base::{SliceId, SliceRange, Version};

/// By how much the counters of a range rise when it gets a new primary: more changes than a log
/// holds, so that none of the earlier primary has a number that is given again.
pub(super) const COUNTER_JUMP: u64 = 1 << 20;
const _: () = assert!(COUNTER_JUMP >= effects::ENTRIES_MAX, "a log may hold more changes");
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
