//! The slice: the unit of everything that is ordered or moved.
//!
//! ```text
//! crc32(key)  31........18 17.........0
//!             slice (14)   ignored
//! ```
//!
//! The CRC32 (IEEE) of a key is stable across cells, releases and architectures; its top 14 bits
//! name one of 16,384 slices. The engine's own hash inside a slice is keyed and never leaves the
//! cell, so keys chosen to collide in CRC32 crowd one slice but build no chains.

use crate::crc32;

/// Bits of the CRC32 that name a slice.
pub const SLICE_BITS: u32 = crc32::BITS;

/// How many slices the key space is cut into.
pub const SLICES: usize = 1 << SLICE_BITS;

/// One of the [`SLICES`] parts of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SliceId(u16);

impl SliceId {
    /// The slice that `key` belongs to, on every cell and for ever.
    #[inline(always)]
    #[must_use]
    pub fn of(key: &[u8]) -> Self {
        Self(crc32::top_bits(key))
    }

    /// The slice numbered `index`, or `None` from [`SLICES`] on.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        (index < SLICES).then_some(Self(index as u16))
    }

    /// Its number, below [`SLICES`].
    #[inline]
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Every slice, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SLICES as u16).map(Self)
    }
}

/// A key as the engine finds it: its slice, and the keyed hash of it inside that slice.
///
/// Computed once per request. The hash is private to one engine: it must not be stored or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId {
    /// The slice of the key.
    pub slice: SliceId,
    /// The engine's keyed hash of the key.
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
