//! How often the counters of slices are to rise that this cell copies, once it leads them.
//!
//! While it copies, only what it applies raises them: a barrier that it is sent ends all up to the
//! last version here, and what the primary changes after that would be dead if the counters stood
//! above those of the primary.

use base::{SLICES, SliceId, SliceRange};
use std::sync::atomic::{AtomicU32, Ordering};

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

    /// How often that of `slice` is to rise. It has not to any more.
    pub(crate) fn take(&self, slice: SliceId) -> u64 {
        u64::from(self.0[slice.index()].swap(0, Ordering::Relaxed))
    }
}
