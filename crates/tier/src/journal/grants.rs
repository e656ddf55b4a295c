//! How much room the journal grants to a log, and how much of it may be promised.
//!
//! ```text
//! segments that may be taken   [ promised | kept | granted, the same to each log ]
//! ```
//!
//! A cell of a ring promises room to the primaries of what it copies, who emit no more. What is
//! promised is set aside: no other log gets it, however much the others write.

use super::lane::CHECKPOINT_BYTES_MAX;
use super::segments::{Segments, SegmentsConfig};

/// Bytes that an entry is charged in a log at least: what is granted to a log in bytes is at most
/// as many entries.
const CHARGE_MIN: u64 = 30;

/// Most bytes of a record for each byte that its entry is charged in its log, where a batch has one
/// short record.
const BYTES_PER_CHARGE: u64 = 4;

/// So much is set aside for each byte that is promised: a log here may charge an entry more than
/// that of its primary, and one entry may come beyond what was promised.
const ASIDE_PER_PROMISED: u64 = 2;

/// Segments that are granted to no log of a cell in a ring, for each: what is promised begins
/// another segment, and barriers and ceilings take no room.
pub(super) const KEPT_PER_LANE: usize = 2;

/// The segments that are set aside where so much is promised, each with `usable` bytes.
fn segments_for(promised: u64, usable: u64) -> u64 {
    (promised * ASIDE_PER_PROMISED * BYTES_PER_CHARGE).div_ceil(usable)
}

/// How much more may be promised of a log that has `left` so much room, of which so much is
/// promised, to one that has `held` some of that: a `part`-th of all at most.
pub(super) fn may_promise(left: u64, promised: u64, (held, part): (u64, u64)) -> u64 {
    let all = left / ASIDE_PER_PROMISED;
    all.saturating_sub(promised).min((all / part.max(1)).saturating_sub(held))
}

/// What is left to be granted to all logs besides what is promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// Segments that may be taken.
    pub(super) segments: u64,
    /// Bytes that each holds at least.
    pub(super) usable: u64,
    /// Entries that the index has place for.
    pub(super) entries: u64,
    /// How many logs there are.
    pub(super) lanes: u64,
}

impl Left {
    /// Where these are the `segments`, the index has place for `entries`, and this much is
    /// `promised` of each log.
    pub(super) fn of(segments: &Segments, entries: u64, promised: &[u64]) -> Self {
        let SegmentsConfig { bytes, kept, .. } = *segments.config();
        let usable = u64::from(bytes) - CHECKPOINT_BYTES_MAX as u64;
        let set_aside: u64 = promised.iter().map(|it| segments_for(*it, usable)).sum();
        let segments = (segments.available() as u64).saturating_sub(kept as u64 + set_aside);
        Self { segments, usable, entries, lanes: promised.len() as u64 }
    }

    /// The room of a log of which so much is promised.
    pub(super) fn room(&self, promised: u64) -> u64 {
        let free = self.segments * self.usable / BYTES_PER_CHARGE;
        promised * ASIDE_PER_PROMISED + free.min(self.entries * CHARGE_MIN) / self.lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USABLE: u64 = 640 << 10;

    #[test]
    fn what_is_promised_is_set_aside_whatever_the_other_logs_take() {
        let left = |segments| Left { segments, usable: USABLE, entries: u64::MAX / 64, lanes: 2 };
        let room = left(8).room(0);
        assert_eq!(room, USABLE);
        let promised = may_promise(room, 0, (0, 1));
        assert_eq!(promised, room / 2);
        assert_eq!(may_promise(room, promised, (0, 1)), 0, "all of it is");
        // The other log has taken all that was left.
        assert_eq!(left(0).room(promised), room);
        // What is set aside is as much as may come of it.
        assert!(segments_for(promised, USABLE) * USABLE >= room * BYTES_PER_CHARGE);
        assert_eq!(segments_for(0, USABLE), 0);
        assert_eq!(Left { entries: 10, ..left(8) }.room(0), 150, "the index is nearly full");
    }

    #[test]
    fn each_of_several_gets_its_part_and_no_more() {
        assert_eq!(may_promise(8_000, 0, (0, 4)), 1_000);
        assert_eq!(may_promise(8_000, 1_000, (600, 4)), 400);
        assert_eq!(may_promise(8_000, 3_900, (0, 4)), 100, "the others hold more than their parts");
        assert_eq!(may_promise(8_000, 5_000, (1_200, 4)), 0);
    }
}
