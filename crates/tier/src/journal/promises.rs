//! What is promised of the room of a journal to the primaries of what its cell copies.

use super::Journal;
use super::grants::may_promise;
use super::logged::Lane;
use crate::sync::lock;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Promises `wanted` bytes of the logs `copied` of what this cell copies, or what they have: no
/// more than a `part`-th of that where `held` are promised already. Returns how many more.
pub(crate) fn promise(
    journal: &Journal,
    copied: Range<usize>,
    (held, wanted): (u64, u64),
    part: u64,
) -> u64 {
    // One at a time, so that nothing is promised twice.
    let _one = lock(&journal.promises);
    let lanes = lanes_of(journal, copied);
    let of = |lane: &Lane| may_promise(lane.log.left(), lane.promised(), (held, part));
    let more = lanes.iter().map(of).min().unwrap_or(0).min(wanted);
    lanes.iter().for_each(|lane| lane.promise(more));
    if journal.grants().lacks_segments() {
        journal.wants_segments.store(true, Ordering::Release);
    }
    more
}

/// This much of what was promised of these logs is spent, or not promised any more.
pub(crate) fn redeem(journal: &Journal, copied: Range<usize>, bytes: u64) {
    lanes_of(journal, copied).iter().for_each(|lane| lane.redeem(bytes));
}

fn lanes_of(journal: &Journal, copied: Range<usize>) -> &[Lane] {
    journal.of_lanes[..journal.first_led].get(copied).unwrap_or_default()
}
