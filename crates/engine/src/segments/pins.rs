//! How much memory cannot be evicted for a while. `holds` says what that is.

use crate::sync::{AtomicU64, Ordering};

/// What is pinned. Plain counters: they guard no memory.
#[derive(Default)]
pub(super) struct Pins {
    segments: AtomicU64,
    /// Bytes of the values that are being received.
    arriving_bytes: AtomicU64,
    /// Whether a reader has released a segment since that was last asked.
    released: AtomicU64,
}

impl Pins {
    /// Pins `count` segments, unless more than `max` would be pinned.
    pub(super) fn pin(&self, count: u64, max: u64) -> bool {
        let within = |now: u64| (now + count <= max).then_some(now + count);
        self.segments.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    /// Counts `raised` segments in place of the `wanted` ones that were pinned.
    pub(super) fn correct(&self, wanted: u64, raised: u64) {
        self.segments.fetch_add(raised, Ordering::Relaxed);
        self.segments.fetch_sub(wanted, Ordering::Relaxed);
    }

    pub(super) fn unpin(&self, count: u64) {
        self.segments.fetch_sub(count, Ordering::Relaxed);
    }

    /// Segments that are pinned.
    pub(super) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Begins to receive a value of `bytes`, unless all such values would exceed `max` together.
    /// One alone may.
    pub(super) fn receive(&self, bytes: u64, max: u64) -> bool {
        let within = |now: u64| (now == 0 || now + bytes <= max).then_some(now + bytes);
        self.arriving_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    pub(super) fn end_receive(&self, bytes: u64) {
        self.arriving_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// A segment was released.
    pub(super) fn note_released(&self) {
        self.released.store(1, Ordering::Release);
    }

    /// Whether a segment was released since [`Pins::take_released`].
    pub(super) fn has_released(&self) -> bool {
        self.released.load(Ordering::Relaxed) != 0
    }

    /// Whether a segment was released since the last call.
    pub(super) fn take_released(&self) -> bool {
        self.has_released() && self.released.swap(0, Ordering::Acquire) != 0
    }
}
