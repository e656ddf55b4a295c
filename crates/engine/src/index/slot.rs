//! One slot of a bucket: where an item is, or which keys were evicted recently.
//!
//! ```text
//! item:    63......44  43......42  41  40...........2                    1..0
//!          tag (20)    check (2)    1   addr (39)                        freq(2)
//! ghosts:  tag (20)    second 1     0   0 mark(10) tag(20) mark(10)
//!          mark = main(1) stamp(9)
//! empty:   all zero
//!
//! One exclusive or and one comparison decide whether a slot may be the wanted item.
//! ```
//!
//! The tag is the top of the key's hash; its low bits also choose the bucket inside the group, so
//! a bucket can be split without looking at its items. In a very large pool few of its bits tell
//! the items of a bucket apart; the two bits of the hash below it, `check`, do so too. Addresses
//! are words from the start of the pool.
//!
//! A ghost is the tag of an evicted key, the pool it lay in and the tick at which it was evicted.
//! Two of them share a slot, so that the slots without an item hold about as many ghosts as there
//! are items. The bit `second` says whether the second exists.

use crate::segments::{ADDR_BITS, Addr, Pool};

const FREQ_BITS: u32 = 2;
const ITEM_SHIFT: u32 = FREQ_BITS + ADDR_BITS;
const ITEM: u64 = 1 << ITEM_SHIFT;
/// Where the part of the hash begins that an item's slot keeps: the check, then the tag.
const CHECK_SHIFT: u32 = ITEM_SHIFT + 1;
const CHECK_BITS: u32 = 2;
const TAG_SHIFT: u32 = CHECK_SHIFT + CHECK_BITS;
const STAMP_BITS: u32 = 9;
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;
/// Says that a ghost's key lay in the main pool.
const OF_MAIN: u64 = 1 << STAMP_BITS;
const MARK_BITS: u32 = STAMP_BITS + 1;
const MARK_MASK: u64 = (1 << MARK_BITS) - 1;
const SECOND_MARK_SHIFT: u32 = 0;
const SECOND_TAG_SHIFT: u32 = SECOND_MARK_SHIFT + MARK_BITS;
const FIRST_MARK_SHIFT: u32 = SECOND_TAG_SHIFT + TAG_BITS;
const _: () = assert!(FIRST_MARK_SHIFT + MARK_BITS <= ITEM_SHIFT);
/// Makes a ghost whose other bits are all zero differ from an empty slot.
const GHOST: u64 = 1 << CHECK_SHIFT;
/// Says that a slot of ghosts holds two.
const SECOND: u64 = GHOST << 1;

/// Bits of the hash kept in a slot and used to number buckets.
pub(crate) const TAG_BITS: u32 = u64::BITS - TAG_SHIFT;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;
const _: () = assert!(TAG_BITS == 20);

/// The most hits a slot counts.
pub(crate) const FREQ_MAX: u64 = (1 << FREQ_BITS) - 1;

/// The tag of a hash.
#[inline]
pub(crate) fn tag(hash: u64) -> u64 {
    hash >> TAG_SHIFT
}

/// What is kept of an evicted key: its tag, the pool it lay in, and when it was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ghost {
    tag: u64,
    mark: u64,
}

impl Ghost {
    /// The key with this hash, evicted from `pool` at `tick`.
    pub(crate) fn new(hash: u64, pool: Pool, tick: u64) -> Self {
        let of = if pool == Pool::Main { OF_MAIN } else { 0 };
        Self { tag: tag(hash), mark: of | tick & STAMP_MASK }
    }

    /// The pool it was evicted from.
    pub(crate) fn pool(self) -> Pool {
        if self.mark & OF_MAIN == 0 { Pool::Small } else { Pool::Main }
    }

    pub(crate) fn tag(self) -> u64 {
        self.tag
    }

    /// Ticks since it was evicted, modulo 512: a ghost that stays longer counts as young again.
    pub(crate) fn age(self, tick: u64) -> u64 {
        tick.wrapping_sub(self.mark) & STAMP_MASK
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) const EMPTY: Self = Self(0);

    pub(crate) fn item(hash: u64, addr: Addr, freq: u64) -> Self {
        debug_assert!(addr.0 < 1 << ADDR_BITS && freq <= FREQ_MAX);
        Self(hash >> CHECK_SHIFT << CHECK_SHIFT | ITEM | addr.0 << FREQ_BITS | freq)
    }

    /// A slot that holds these ghosts.
    pub(crate) fn of_ghosts(ghosts: [Option<Ghost>; 2]) -> Self {
        let (first, second) = match ghosts {
            [None, None] => return Self::EMPTY,
            [Some(first), second] => (first, second),
            [None, Some(second)] => (second, None),
        };
        let word = first.tag << TAG_SHIFT | GHOST | first.mark << FIRST_MARK_SHIFT;
        Self(second.map_or(word, |second| {
            let second = second.tag << SECOND_TAG_SHIFT | second.mark << SECOND_MARK_SHIFT;
            word | SECOND | second
        }))
    }

    /// The ghosts it holds.
    pub(crate) fn ghosts(self) -> [Option<Ghost>; 2] {
        if !self.is_ghost() {
            return [None, None];
        }
        let mark = self.0 >> FIRST_MARK_SHIFT & MARK_MASK;
        let first = Ghost { tag: self.tag(), mark };
        let second = (self.0 & SECOND != 0).then_some(Ghost {
            tag: self.0 >> SECOND_TAG_SHIFT & TAG_MASK,
            mark: self.0 >> SECOND_MARK_SHIFT & MARK_MASK,
        });
        [Some(first), second]
    }

    /// Whether one more ghost fits beside the one it holds.
    pub(crate) fn is_lone_ghost(self) -> bool {
        self.is_ghost() && self.0 & SECOND == 0
    }

    /// The ghost of this hash, if it is here.
    #[inline]
    pub(crate) fn ghost_of(self, hash: u64) -> Option<Ghost> {
        if !self.is_ghost() {
            return None;
        }
        self.ghosts().into_iter().flatten().find(|ghost| ghost.tag == tag(hash))
    }

    /// Ticks since the younger of its ghosts was evicted, if it holds any.
    pub(crate) fn ghosts_age(self, tick: u64) -> Option<u64> {
        self.ghosts().into_iter().flatten().map(|ghost| ghost.age(tick)).min()
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

    /// Whether it may be the item with this hash: it is an item, and the tag and the check fit.
    #[inline]
    pub(crate) fn may_be(self, hash: u64) -> bool {
        self.0 ^ (hash >> CHECK_SHIFT << CHECK_SHIFT | ITEM) < ITEM
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
    use crate::keys::mix;

    const HASH: u64 = 0xABCD_EF01_2345_6789;

    #[test]
    fn items_keep_address_and_frequency() {
        let addr = Addr((1 << ADDR_BITS) - 1);
        let slot = Slot::item(HASH, addr, FREQ_MAX);
        assert!(slot.is_item() && slot.may_be(HASH) && slot.ghosts() == [None, None]);
        assert!(!slot.may_be(!HASH));
        assert_eq!((slot.addr(), slot.freq()), (addr, FREQ_MAX));
        assert_eq!(slot.with_freq(1).freq(), 1);
        assert_eq!(slot.tag(), tag(HASH));
        assert!(Slot::item(0, Addr(8), 0).may_be(0) && !Slot::EMPTY.may_be(0));
    }

    /// At 1 TiB a group of the 16,384 has some 40,000 buckets for items of 300 bytes, so a bucket
    /// is chosen by fifteen or sixteen bits of the tag. Five others share it.
    #[test]
    fn in_a_tebibyte_a_lookup_rarely_meets_the_slot_of_another_key() {
        const NUMBER_BITS: u32 = 15;
        const LOOKUPS: u64 = 100_000;
        let hash = |at: u64| {
            let other = mix(at) >> (TAG_SHIFT + NUMBER_BITS) << (TAG_SHIFT + NUMBER_BITS);
            other | mix(!at) >> (u64::BITS - TAG_SHIFT)
        };
        let addr = Addr((1 << 40) / 8);
        let met = (0..LOOKUPS).filter(|lookup| {
            let mut others = (1..=5).map(|other| Slot::item(hash(lookup * 8 + other), addr, 0));
            others.any(|slot| slot.may_be(hash(lookup * 8)))
        });
        let percent = met.count() as f64 * 100.0 / LOOKUPS as f64;
        assert!(percent < 5.0, "{percent} % of the lookups compare a wrong key");
    }

    #[test]
    fn ghosts_share_a_slot_and_age() {
        let first = Ghost::new(HASH, Pool::Main, 1_000);
        let second = Ghost::new(!HASH, Pool::Small, 1_020);
        assert_eq!((first.pool(), second.pool()), (Pool::Main, Pool::Small));
        let lone = Slot::of_ghosts([None, Some(first)]);
        assert!(lone.is_ghost() && lone.is_lone_ghost() && !lone.is_item() && !lone.may_be(HASH));
        assert_eq!(lone.ghosts(), [Some(first), None]);
        assert_eq!((lone.ghost_of(HASH), lone.ghost_of(!HASH)), (Some(first), None));
        let both = Slot::of_ghosts([Some(first), Some(second)]);
        assert!(both.is_ghost() && !both.is_lone_ghost() && !both.may_be(HASH));
        assert_eq!(both.ghosts(), [Some(first), Some(second)]);
        assert_eq!(both.ghost_of(!HASH), Some(second));
        assert_eq!((first.age(1_025), second.age(1_025)), (25, 5));
        assert_eq!((lone.ghosts_age(1_025), both.ghosts_age(1_025)), (Some(25), Some(5)));
        assert_eq!(Slot::of_ghosts([None, None]), Slot::EMPTY);
        assert_eq!(Slot::EMPTY.ghosts_age(0), None);
    }
}
