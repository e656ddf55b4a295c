//! Where an item lies in the pool: the number of its segment, and its address in words.

use crate::config::{Geometry, RESERVE_BYTES_MAX};

const _: () = assert!(RESERVE_BYTES_MAX == 8 << ADDR_BITS);

/// Number of a segment, counted from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentId(pub(crate) u32);

/// Bits of an address: 4 TiB.
pub(crate) const ADDR_BITS: u32 = 39;

/// Place of an item: words from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addr(pub(crate) u64);

impl Addr {
    /// The segment it lies in.
    #[inline]
    pub(crate) fn segment(self, geometry: &Geometry) -> SegmentId {
        SegmentId((self.0 >> geometry.segment_shift) as u32)
    }
}
