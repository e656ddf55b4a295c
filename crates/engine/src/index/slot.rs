//! One slot of a bucket: where an item is, or that its key was evicted not long ago.
//!
//! ```text
//! item:   63......44  43  42...........2  1..0
//!         tag (20)     1   addr (41)      freq(2)    words from the start of the pool
//! ghost:  tag (20)     0   stamp(24) print(17)  1..0 = 1
//! empty:  all zero
//!
//! One exclusive or and one comparison tell whether a slot may be the item looked for.
//! ```
//!
//! The tag is the top of the key's hash; its low bits also choose the bucket inside the group, so
//! a bucket can be split without looking at its items. The print of a ghost is further bits of
//! the hash, the stamp is when it was evicted, in units of [`STAMP_UNIT`] evictions.

use crate::segment::Addr;

const FREQ_BITS: u32 = 2;
const ADDR_BITS: u32 = 41;
const ITEM_SHIFT: u32 = FREQ_BITS + ADDR_BITS;
const TAG_SHIFT: u32 = ITEM_SHIFT + 1;
const ITEM: u64 = 1 << ITEM_SHIFT;
const PRINT_BITS: u32 = 17;
const PRINT_SHIFT: u32 = FREQ_BITS;
const STAMP_SHIFT: u32 = PRINT_SHIFT + PRINT_BITS;
const STAMP_BITS: u32 = ITEM_SHIFT - STAMP_SHIFT;
/// Tells a ghost whose other bits are all zero from an empty slot.
const GHOST: u64 = 1;

/// Bits of the hash kept in a slot and used to number buckets.
pub(crate) const TAG_BITS: u32 = u64::BITS - TAG_SHIFT;
const _: () = assert!(TAG_BITS == 20);

/// The most hits a slot counts.
pub(crate) const FREQ_MAX: u64 = (1 << FREQ_BITS) - 1;

const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;

/// Evictions per tick of the ghosts' clock.
pub(crate) const STAMP_UNIT: u64 = 16;

/// The tag of a hash.
#[inline]
pub(crate) fn tag(hash: u64) -> u64 {
    hash >> TAG_SHIFT
}

fn print(hash: u64) -> u64 {
    hash >> (TAG_SHIFT - PRINT_BITS) & ((1 << PRINT_BITS) - 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn item(hash: u64, addr: Addr, freq: u64) -> Self {
        debug_assert!(addr.0 < 1 << ADDR_BITS && freq <= FREQ_MAX);
        Self(tag(hash) << TAG_SHIFT | ITEM | addr.0 << FREQ_BITS | freq)
    }

    pub(crate) fn ghost(hash: u64, clock: u64) -> Self {
        let stamp = (clock / STAMP_UNIT) & STAMP_MASK;
        let print = print(hash) << PRINT_SHIFT;
        Self(tag(hash) << TAG_SHIFT | stamp << STAMP_SHIFT | print | GHOST)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn is_ghost(self) -> bool {
        !self.is_empty() && !self.is_item()
    }

    #[inline]
    pub(crate) fn is_item(self) -> bool {
        self.0 & ITEM != 0
    }

    /// Whether it may be the item with this hash: it is an item and the tag fits.
    #[inline]
    pub(crate) fn may_be(self, hash: u64) -> bool {
        self.0 ^ (hash >> TAG_SHIFT << TAG_SHIFT | ITEM) < ITEM
    }

    pub(crate) fn is_ghost_of(self, hash: u64) -> bool {
        let print = print(hash) << PRINT_SHIFT;
        self.0 & !(STAMP_MASK << STAMP_SHIFT) == tag(hash) << TAG_SHIFT | print | GHOST
    }

    /// How many evictions ago a ghost was made, at `clock`, to a unit.
    pub(crate) fn ghost_age(self, clock: u64) -> u64 {
        let stamp = self.0 >> STAMP_SHIFT & STAMP_MASK;
        ((clock / STAMP_UNIT).wrapping_sub(stamp) & STAMP_MASK) * STAMP_UNIT
    }

    #[inline]
    pub(crate) fn addr(self) -> Addr {
        Addr((self.0 & (ITEM - 1)) >> FREQ_BITS)
    }

    #[inline]
    pub(crate) fn freq(self) -> u64 {
        self.0 & FREQ_MAX
    }

    #[inline]
    pub(crate) fn with_freq(self, freq: u64) -> Self {
        debug_assert!(freq <= FREQ_MAX);
        Self(self.0 & !FREQ_MAX | freq)
    }

    pub(crate) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u64 = 0xABCD_EF01_2345_6789;

    #[test]
    fn items_keep_address_and_frequency() {
        let addr = Addr((1 << ADDR_BITS) - 1);
        let slot = Slot::item(HASH, addr, FREQ_MAX);
        assert!(slot.is_item() && slot.may_be(HASH) && !slot.is_ghost_of(HASH));
        assert!(!slot.may_be(!HASH));
        assert_eq!((slot.addr(), slot.freq()), (addr, FREQ_MAX));
        assert_eq!(slot.with_freq(1).freq(), 1);
        assert_eq!(slot.tag(), tag(HASH));
        assert!(Slot::item(0, Addr(8), 0).may_be(0) && !Slot::EMPTY.may_be(0));
    }

    #[test]
    fn ghosts_are_told_from_items_and_age() {
        let ghost = Slot::ghost(HASH, 1_000 * STAMP_UNIT);
        assert!(ghost.is_ghost() && ghost.is_ghost_of(HASH) && !ghost.may_be(HASH));
        assert!(!ghost.is_ghost_of(HASH ^ 1 << 30));
        assert_eq!(ghost.ghost_age(1_005 * STAMP_UNIT), 5 * STAMP_UNIT);
    }
}
