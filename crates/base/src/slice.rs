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
use std::ops::Range;

/// Bits of the CRC32 that name a slice.
pub const SLICE_BITS: u32 = crc32::BITS;

/// The number of slices that the key space is divided into.
pub const SLICES: usize = 1 << SLICE_BITS;

/// Slices of a run: what keeps keys in pages of a bucket writes the slices of a run together. Runs
/// begin at multiples of this.
pub const RUN_SLICES: usize = 256;
const _: () = assert!(SLICES.is_multiple_of(RUN_SLICES));

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
        SliceRange::ALL.iter()
    }
}

/// Slices whose numbers follow each other.
///
/// ```
/// use base::{SLICES, SliceId, SliceRange};
///
/// let some = SliceRange::new(10..12);
/// assert!(some.iter().map(SliceId::index).eq([10, 11]));
/// assert!(SliceRange::ALL.contains(SliceId::of(b"any key")));
/// assert_eq!(SliceRange::new(SLICES - 1..SLICES + 5).len(), 1);
/// let more = SliceRange::new(11..20);
/// assert!(some.overlaps(more) && !some.is_within(more));
/// assert!(SliceRange::new(12..20).is_within(more));
/// assert!(!some.overlaps(SliceRange::new(12..20)) && !SliceRange::NONE.overlaps(some));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRange {
    start: u16,
    end: u16,
}

impl SliceRange {
    /// No slice.
    pub const NONE: Self = Self { start: 0, end: 0 };

    /// Every slice.
    pub const ALL: Self = Self { start: 0, end: SLICES as u16 };

    /// The slices with these numbers, as far as there are any.
    #[must_use]
    pub fn new(numbers: Range<usize>) -> Self {
        let end = numbers.end.min(SLICES);
        Self { start: numbers.start.min(end) as u16, end: end as u16 }
    }

    /// One slice.
    #[must_use]
    pub fn of(slice: SliceId) -> Self {
        Self { start: slice.0, end: slice.0 + 1 }
    }

    /// The numbers of its slices.
    #[must_use]
    pub fn numbers(self) -> Range<usize> {
        usize::from(self.start)..usize::from(self.end)
    }

    /// How many slices it has.
    #[must_use]
    pub fn len(self) -> usize {
        self.numbers().len()
    }

    /// Whether it has no slice.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `slice` is one of its slices.
    #[inline]
    #[must_use]
    pub fn contains(self, slice: SliceId) -> bool {
        (self.start..self.end).contains(&slice.0)
    }

    /// Whether a slice is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.start.max(other.start) < self.end.min(other.end)
    }

    /// Whether `other` has all of its slices.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.is_empty() || self.start >= other.start && self.end <= other.end
    }

    /// Its slices, by rising number.
    pub fn iter(self) -> impl Iterator<Item = SliceId> {
        (self.start..self.end).map(SliceId)
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
