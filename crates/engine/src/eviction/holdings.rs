//! Who holds the memory of items.

use crate::items::Items;
use crate::segments::SegmentCounts;

/// What items hold, in bytes of whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Free now, beyond what moves need; memory that may still be taken is included.
    pub free: u64,
    /// Of items that this cell orders the changes of. Their segments may hold copies for a while,
    /// after the role of slices has changed.
    pub primaries: u64,
    /// Of copies.
    pub copies: u64,
    /// Dead in segments of both kinds.
    pub dead: u64,
}

impl Holdings {
    /// Where one in this many bytes is dead, compaction makes space for copies: for each segment
    /// that it frees, it moves as many less one.
    const DEAD_PART: u64 = 8;

    /// Whether enough is dead to make space out of it.
    #[must_use]
    pub fn can_compact(&self) -> bool {
        self.dead * Self::DEAD_PART > self.primaries + self.copies
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
        let free = bytes(free.saturating_sub(segments.free_for_moves()));
        Self {
            free: free + room / segment_bytes * segment_bytes,
            primaries: bytes(primaries),
            copies: bytes(copies),
            dead: used.saturating_sub(items.counters().item_words * 8),
        }
    }
}
