//! Segments that an earlier start has made ready and not used.
//!
//! ```text
//! of one start:  | used | used | ready | ready | ready |
//!                                <-- 3rd  <-- 2nd  <-- 1st to be used again
//! ```
//!
//! They hold nothing, so a start uses their files again at once, and its disk needs no space for
//! what it begins with. The last one of a start first: those that are left have no gap in their
//! numbers, wherever the machine stops. The first segment of all stays: it is the oldest, which
//! must be there.

use super::segments::Segment;
use std::collections::BTreeSet;

/// Takes out of `live`, which rises by number, the segments of `unused` numbers at the end of each
/// start. Returns what is left, and these in the order in which they may be used again.
pub(super) fn take_unused(
    live: Vec<Segment>,
    unused: &BTreeSet<u32>,
) -> (Vec<Segment>, Vec<Segment>) {
    let first = live.first().map(Segment::number);
    let (mut left, mut taken) = (Vec::new(), Vec::new());
    // The start that is looked at, and whether all its later segments are unused.
    let mut of = (0, true);
    for segment in live.into_iter().rev() {
        let (start, number) = (segment.head.start, segment.number());
        let is_at_end = (of.0 != start || of.1) && unused.contains(&number);
        of = (start, is_at_end);
        match is_at_end && first != Some(number) {
            true => taken.push(segment),
            false => left.push(segment),
        }
    }
    left.reverse();
    (left, taken)
}
