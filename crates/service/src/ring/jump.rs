//! How the counters of slices rise where another cell may have given numbers that this one has not
//! seen.

use super::cell::RingCell;
use base::{SliceRange, Version};

/// By how much the counters of a range rise when it gets a new primary: more changes than a log
/// holds, so that none of the earlier primary has a number that is given again.
pub(super) const COUNTER_JUMP: u64 = 1 << 20;
const _: () = assert!(COUNTER_JUMP >= effects::ENTRIES_MAX, "a log may hold more changes");

/// Lets the counters of `slices` rise `by` so much, in `epoch`.
pub(super) fn jump(ring: &RingCell, slices: SliceRange, epoch: u32, by: u64) {
    let (lanes, engine) = (&ring.log.lanes, ring.cell.engine());
    for slice in slices.iter() {
        let counter = engine.last_version(slice).counter() + by;
        let version = Version::new(epoch, counter);
        engine.advance(slice, version);
        lanes.log(lanes.lane_of(slice)).advance(slice, version);
    }
}
