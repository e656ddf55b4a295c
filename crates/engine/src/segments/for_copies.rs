//! Segments that are kept free for copies.

use crate::sync::{AtomicU64, Ordering};

/// Memory that is kept free for copies of items that another cell orders the changes of, in bytes.
/// It is counted in whole segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptForCopies {
    /// What was promised: nothing but copies takes it.
    pub promised: u64,
    /// What eviction works towards, where that is more.
    pub evict_aim: u64,
    /// What compaction works towards, as far as there are dead words.
    pub compact_aim: u64,
}

/// The same in segments.
#[derive(Default)]
pub(super) struct ForCopies {
    promised: AtomicU64,
    evict_aim: AtomicU64,
    compact_aim: AtomicU64,
}

impl ForCopies {
    pub(super) fn set(&self, kept: KeptForCopies, segment_bytes: u64) {
        let KeptForCopies { promised, evict_aim, compact_aim } = kept;
        let segments = |bytes: u64| bytes.div_ceil(segment_bytes);
        self.promised.store(segments(promised), Ordering::Relaxed);
        self.evict_aim.store(segments(evict_aim.max(promised)), Ordering::Relaxed);
        self.compact_aim.store(segments(compact_aim), Ordering::Relaxed);
    }

    pub(super) fn promised(&self) -> usize {
        self.promised.load(Ordering::Relaxed) as usize
    }

    pub(super) fn evict_aim(&self) -> usize {
        self.evict_aim.load(Ordering::Relaxed) as usize
    }

    pub(super) fn compact_aim(&self) -> usize {
        self.compact_aim.load(Ordering::Relaxed) as usize
    }
}
