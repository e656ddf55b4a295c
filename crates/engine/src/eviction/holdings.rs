//! Who holds the memory of items.

use crate::items::Items;
use crate::segments::SegmentCounts;

/// What items hold, in bytes of whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Free now, beyond what moves need, and what is begun by each of several threads; memory that
    /// may still be taken is included.
    pub free: u64,
    /// Of items that this cell orders the changes of. Their segments may hold copies for a while,
    /// after the role of slices has changed.
    pub primaries: u64,
    /// Of copies.
    pub copies: u64,
    /// Of items that were removed, in segments of both kinds.
    pub dead: u64,
}

/// The part of a segment that is dead, at least, where compaction makes space for copies out of it.
/// For each segment that it frees, it moves as many less one.
pub(super) const COMPACTED_PART: usize = 16;

impl Holdings {
    /// Where this part is dead of everything, some segments have [`COMPACTED_PART`] at least, also
    /// when a part of it is in segments that are being filled.
    const DEAD_PART: u64 = 12;

    /// What compaction can make out of what is dead.
    #[must_use]
    pub fn compactable(&self) -> u64 {
        self.dead.saturating_sub((self.primaries + self.copies) / Self::DEAD_PART)
    }

    /// Whether something may be dead enough.
    pub(super) fn may_compact(&self) -> bool {
        self.dead * COMPACTED_PART as u64 > self.primaries + self.copies
    }

    /// What items and copies hold now, where `room` bytes may still be taken.
    pub(super) fn of(items: &Items, room: u64) -> Self {
        let segments = items.segments();
        let segment_bytes = segments.geometry().segment_bytes();
        let SegmentCounts { committed, copies, limbo, held, .. } = segments.counts();
        let free = segments.free();
        let primaries = committed.saturating_sub(free + limbo + held + copies);
        let bytes = |count: usize| count as u64 * segment_bytes;
        let used = bytes(primaries + copies);
        Self {
            free: bytes(segments.free_beyond()) + room / segment_bytes * segment_bytes,
            primaries: bytes(primaries),
            copies: bytes(copies),
            dead: used.saturating_sub((items.counters().item_words + segments.end_words()) * 8),
        }
    }
}
