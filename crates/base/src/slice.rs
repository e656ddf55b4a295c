//! The slice: the unit of everything that is ordered or moved.
//!
//! ```text
//! crc32(key)  31........18 17.........0
//!             slice (14)   ignored
//! ```
//!
//! The CRC32 (IEEE) of a key is the same on all cells, in all releases and on all architectures.
//! Its top 14 bits name one of 16,384 slices. Inside a slice the engine uses a keyed hash of its
//! own, which never leaves the cell. Keys that are chosen to have equal CRCs therefore fill one
//! slice, but do not collide inside it.
//!
//! Invariants: a [`SliceId`] is below [`SLICES`]; the slice of a key never changes.
//!
//! ```
//! use base::{SLICES, SliceId};
//!
//! let slice = SliceId::of(b"user:42");
//! assert!(slice.index() < SLICES);
//! assert_eq!(SliceId::new(slice.index()), Some(slice));
//! assert_eq!(SliceId::new(SLICES), None);
//! ```

use crate::crc32;

/// Bits of the CRC32 that name a slice.
pub const SLICE_BITS: u32 = crc32::BITS;

/// The number of slices that the key space is divided into.
pub const SLICES: usize = 1 << SLICE_BITS;

/// One of the [`SLICES`] parts of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId(u16);

impl SliceId {
    /// The slice that `key` belongs to, on every cell.
    #[inline(always)]
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(crc32::top_bits(key))
    }

    /// The slice with the number `index`. `None` if there is none: [`SLICES`] and above.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        (index < SLICES).then_some(Self(index as u16))
    }

    /// The number of the slice, below [`SLICES`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Every slice, by rising number.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLICES as u16).map(Self)
    }
}

/// What the engine finds a key by: its slice, and its keyed hash inside that slice.
///
/// It is computed once per request. The hash belongs to one engine: never store it or send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId {
    /// The slice of the key.
    pub slice: SliceId,
    /// The engine's keyed hash of the whole key.
    pub hash: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_follow_the_published_crc32() {
        // CRC32("123456789") is 0xCBF43926 in every table of check values.
        assert_eq!(SliceId::of(b"123456789").index(), 0xCBF4_3926_usize >> 18);
        assert_eq!(SliceId::of(b"").index(), 0);
        assert_eq!(SliceId::new(SLICES), None);
        assert_eq!(SliceId::all().count(), SLICES);
    }
}
