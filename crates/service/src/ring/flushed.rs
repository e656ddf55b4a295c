//! Which delayed flush was carried out last in each slice, by the log of its changes: at the
//! primary when it has appended the barrier, at a copy when it has applied it. So a copy that is
//! promoted neither skips a flush nor repeats one, which would end what was stored after it.

use base::{SLICES, SliceId, SliceRange};
use std::sync::atomic::{AtomicU32, Ordering};

/// By slice, the number of the flush.
pub(crate) struct Flushed(Box<[AtomicU32]>);

impl Flushed {
    pub(crate) fn new() -> Self {
        Self((0..SLICES).map(|_| AtomicU32::new(0)).collect())
    }

    /// The number of the flush that was carried out last in `slice`; 0: none.
    pub(crate) fn of(&self, slice: SliceId) -> u32 {
        self.0[slice.index()].load(Ordering::Acquire)
    }

    pub(crate) fn set(&self, slice: SliceId, number: u32) {
        self.0[slice.index()].store(number, Ordering::Release);
    }

    /// The number of the last flush that was carried out in all `slices`.
    pub(crate) fn of_all(&self, slices: SliceRange) -> u32 {
        slices.iter().map(|slice| self.of(slice)).min().unwrap_or(0)
    }
}
