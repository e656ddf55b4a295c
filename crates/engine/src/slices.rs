//! Per slice: the last version given, and the barrier at or below which items are dead.
//!
//! And whether this cell keeps only a copy of the slice, whose changes another cell orders.
//!
//! A version is given by one locked addition, and only under the lock of the chain that changes.
//! A barrier only rises, until the slice is emptied. The two tables lie apart, so that writers do
//! not take the barriers from the caches of readers.

use crate::keys::mix;
use crate::raw::prefetch;
use crate::sync::{AtomicU64, MODEL, Ordering, fence};
use base::{SLICES, SliceId, Version};

/// Times that a flush raises the barrier again because writes took versions meanwhile. Writes that
/// it then still misses took their versions after it began.
const CUTS_MAX: usize = 64;

/// Bits of the number at which the version counter of a slice starts.
const START_BITS: u32 = 30;

/// Slices kept apart: all, but for model checkers, under which several share their words.
pub(crate) const KEPT: usize = if MODEL { 4 } else { SLICES };

pub(crate) struct Slices {
    versions: Box<[AtomicU64; KEPT]>,
    barriers: Box<[AtomicU64; KEPT]>,
    /// A bit for each slice: whether it is a copy.
    copies: Box<[AtomicU64]>,
}

/// What this cell is to a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It orders the changes. What its memory has no space for it evicts.
    Primary,
    /// It keeps a copy: it makes the changes of the primary, and evicts nothing.
    Copy,
}

impl Slices {
    pub(crate) fn new(epoch: u32, seed: Option<u64>) -> Self {
        let first = |slice: usize| {
            let counter = seed.map_or(0, |seed| mix(seed ^ slice as u64) >> (64 - START_BITS));
            AtomicU64::new(Version::new(epoch, counter).raw())
        };
        let copies = (0..KEPT.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { versions: kept(first), barriers: kept(|_| AtomicU64::new(0)), copies }
    }

    /// Bytes of the tables.
    pub(crate) fn bytes() -> u64 {
        (KEPT * 16 + KEPT / 8) as u64
    }

    fn copy_bit(&self, slice: SliceId) -> (&AtomicU64, u64) {
        let index = slice.index() % KEPT;
        (&self.copies[index / 64], 1 << (index % 64))
    }

    /// Whether this cell keeps only a copy of the slice.
    pub(crate) fn is_copy(&self, slice: SliceId) -> bool {
        let (word, bit) = self.copy_bit(slice);
        word.load(Ordering::Relaxed) & bit != 0
    }

    pub(crate) fn set_role(&self, slice: SliceId, role: Role) {
        let (word, bit) = self.copy_bit(slice);
        match role {
            Role::Copy => word.fetch_or(bit, Ordering::Relaxed),
            Role::Primary => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// The next version of a slice. Called under the lock of the bucket that changes.
    pub(crate) fn next(&self, slice: SliceId) -> Version {
        Version::from_raw(self.versions[slice.index() % KEPT].fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Makes later versions of the slice exceed `version`.
    pub(crate) fn raise(&self, slice: SliceId, version: Version) {
        self.versions[slice.index() % KEPT].fetch_max(version.raw(), Ordering::Relaxed);
    }

    pub(crate) fn last(&self, slice: SliceId) -> Version {
        Version::from_raw(self.versions[slice.index() % KEPT].load(Ordering::Relaxed))
    }

    /// Lets the processor fetch what a change of `slice` needs.
    #[inline]
    pub(crate) fn prefetch(&self, slice: SliceId) {
        prefetch(&self.versions[slice.index() % KEPT]);
        prefetch(&self.barriers[slice.index() % KEPT]);
    }

    /// Items with this version or an older one are dead.
    #[inline]
    pub(crate) fn barrier(&self, slice: SliceId) -> Version {
        Version::from_raw(self.barriers[slice.index() % KEPT].load(Ordering::Acquire))
    }

    pub(crate) fn set_barrier(&self, slice: SliceId, version: Version) {
        self.barriers[slice.index() % KEPT].fetch_max(version.raw(), Ordering::Release);
    }

    /// Forgets the barrier: no item of the slice is left.
    pub(crate) fn forget_barrier(&self, slice: SliceId) {
        self.barriers[slice.index() % KEPT].store(0, Ordering::Release);
    }

    /// Raises the barrier to the last version, and to those given meanwhile: a write that took its
    /// version before it could see the barrier may hold a value from before the barrier.
    pub(crate) fn cut(&self, slice: SliceId) {
        for _ in 0..CUTS_MAX {
            let last = self.last(slice);
            self.set_barrier(slice, last);
            fence(Ordering::SeqCst);
            if self.last(slice) == last {
                return;
            }
        }
    }

    /// Whether `base` was dead when a version was given to what is made from it. Either this sees
    /// the barrier, or [`Slices::cut`] sees the version: the two fences ensure it.
    pub(crate) fn is_cut(&self, slice: SliceId, base: Version) -> bool {
        if base == Version::ZERO {
            return false;
        }
        fence(Ordering::SeqCst);
        base <= self.barrier(slice)
    }
}

fn kept(word: impl FnMut(usize) -> AtomicU64) -> Box<[AtomicU64; KEPT]> {
    let words: Box<[AtomicU64]> = (0..KEPT).map(word).collect();
    words.try_into().expect("one word for each slice kept")
}
