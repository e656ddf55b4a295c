//! Per slice: the last version given, and the barrier below which items are dead.

use crate::sync::{AtomicU64, Ordering};
use base::{SLICES, SliceId, Version};

pub(crate) struct Slices {
    versions: Box<[AtomicU64]>,
    /// Apart from the versions, so that writers do not take this from readers.
    barriers: Box<[AtomicU64]>,
}

impl Slices {
    pub(crate) fn new(epoch: u32) -> Self {
        let first = Version::new(epoch, 0).raw();
        Self {
            versions: (0..SLICES).map(|_| AtomicU64::new(first)).collect(),
            barriers: (0..SLICES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Bytes of both tables.
    pub(crate) fn bytes() -> u64 {
        (SLICES * 16) as u64
    }

    /// The next version of a slice. Called under the lock of the bucket that changes.
    pub(crate) fn next(&self, slice: SliceId) -> Version {
        Version::from_raw(self.versions[slice.index()].fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Makes later versions of the slice exceed `version`.
    pub(crate) fn raise(&self, slice: SliceId, version: Version) {
        self.versions[slice.index()].fetch_max(version.raw(), Ordering::Relaxed);
    }

    pub(crate) fn last(&self, slice: SliceId) -> Version {
        Version::from_raw(self.versions[slice.index()].load(Ordering::Relaxed))
    }

    /// Items with this version or an older one are dead.
    #[inline]
    pub(crate) fn barrier(&self, slice: SliceId) -> Version {
        Version::from_raw(self.barriers[slice.index()].load(Ordering::Acquire))
    }

    pub(crate) fn set_barrier(&self, slice: SliceId, version: Version) {
        self.barriers[slice.index()].fetch_max(version.raw(), Ordering::Release);
    }
}
