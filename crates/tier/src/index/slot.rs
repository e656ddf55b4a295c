//! An entry as it is stored: 40 bytes.
//!
//! ```text
//! high 63.....62 61..................0
//!      kind (2)  the hash, bits 125 to 64       kind 0: the slot is empty
//! ```
//!
//! The kind takes the place of two bits of the hash that the shard's number has too. So all 128
//! bits of the hash are kept, between the shard and the slot.

use super::entry::{Entry, Kind, Place};
use crate::key::KeyHash;
use base::Version;

/// Bits of the hash that a slot does not store.
const KIND_BITS: u32 = 2;
const KIND_SHIFT: u32 = u64::BITS - KIND_BITS;
const REST: u64 = (1 << KIND_SHIFT) - 1;

/// The top bits of a hash that its shard must know.
pub(super) const SHARD_BITS_MIN: u32 = KIND_BITS;

/// Bytes of a slot.
pub(super) const SLOT_BYTES: usize = 40;
const _: () = assert!(size_of::<Slot>() == SLOT_BYTES);
const _: () = assert!((Kind::TouchOf as u64) < 1 << KIND_BITS);

/// One slot of a table: an entry with what its shard does not know of the hash, or nothing.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    high: u64,
    low: u64,
    version: u64,
    segment: u32,
    offset: u32,
    bytes: u32,
    expiry_s: u32,
}

impl Slot {
    /// A slot without an entry.
    pub(super) const EMPTY: Self =
        Self { high: 0, low: 0, version: 0, segment: 0, offset: 0, bytes: 0, expiry_s: 0 };

    pub(super) fn new(hash: KeyHash, entry: &Entry) -> Self {
        let Place { segment, offset, bytes } = entry.place;
        Self {
            high: hash.high() & REST | (entry.kind as u64) << KIND_SHIFT,
            low: hash.low(),
            version: entry.version.raw(),
            segment,
            offset,
            bytes,
            expiry_s: entry.expiry_s,
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.high >> KIND_SHIFT == 0
    }

    /// Whether it has the entry of `hash`, which belongs to the shard of this slot.
    #[inline]
    pub(super) fn is_of(&self, hash: KeyHash) -> bool {
        self.low == hash.low() && self.high & REST == hash.high() & REST && !self.is_empty()
    }

    /// The last 64 bits of the hash.
    #[inline]
    pub(super) fn low(&self) -> u64 {
        self.low
    }

    /// The hash, in the shard of which the top bits of all hashes are those of `top`.
    pub(super) fn hash(&self, top: u64) -> KeyHash {
        let high = self.high & REST | top & !REST;
        KeyHash::from_raw(u128::from(high) << 64 | u128::from(self.low))
    }

    /// The entry. `None` if the slot is empty.
    pub(super) fn entry(&self) -> Option<Entry> {
        let kind = match self.high >> KIND_SHIFT {
            0 => return None,
            1 => Kind::Value,
            2 => Kind::Tombstone,
            _ => Kind::TouchOf,
        };
        let place = Place { segment: self.segment, offset: self.offset, bytes: self.bytes };
        Some(Entry { place, version: self.version(), expiry_s: self.expiry_s, kind })
    }

    #[inline]
    pub(super) fn version(&self) -> Version {
        Version::from_raw(self.version)
    }

    /// Says that the value lies below, and that only version and expiry are newer.
    pub(super) fn becomes_touch(&mut self) {
        self.high = self.high & REST | (Kind::TouchOf as u64) << KIND_SHIFT;
    }

    /// Changes the place, and nothing else.
    pub(super) fn relocate(&mut self, place: Place) {
        (self.segment, self.offset, self.bytes) = (place.segment, place.offset, place.bytes);
    }

    /// Changes version and expiry, and nothing else.
    pub(super) fn touch(&mut self, version: Version, expiry_s: u32) {
        self.version = version.raw();
        self.expiry_s = expiry_s;
    }
}
