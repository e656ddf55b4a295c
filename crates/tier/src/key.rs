//! The hash of a key, which stands for the key in all tables of the tier.
//!
//! ```text
//! high 63............14 13.....0    low 63................0
//!      keyed hash (50)  slice (14)      keyed hash (64)
//! ```
//!
//! The hash is SipHash-1-3 of the key with 128 bits, under a seed that is drawn for each process
//! and never leaves it. 14 of its bits are replaced by the slice of the key. So the slice of an
//! entry is known without its key, and keys of different slices never collide.
//!
//! **Two keys with equal hashes are taken for one.** No table compares keys. The top bits may name
//! the shard of a table, which then need not store them; all 128 bits decide all the same. Among
//! 10^9 keys that are spread over the slices, the probability that any two collide is
//! 10^18 / 2 * 2^-128, about 1.5 * 10^-21; if all of them lie in one slice, it is
//! 10^18 / 2 * 2^-114, about 2.4 * 10^-17. As long as the seed is secret, no client can choose keys
//! that collide more often. A reader of a record compares the key in it with its own: that costs
//! nothing there, and a collision becomes an error instead of the value of another key.
//!
//! A [`KeyHash`] belongs to one process: never store it or send it.

use base::{SLICE_BITS, SliceId};
use siphasher::sip128::SipHasher13;

const SLICE_MASK: u64 = (1 << SLICE_BITS) - 1;

/// Hashes keys under one seed.
#[derive(Clone, Copy)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// A hasher. `seed` is random, drawn once for each process, and secret.
    #[must_use]
    pub fn new(seed: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&seed))
    }

    /// The hash of `key`, which belongs to `slice`.
    #[must_use]
    pub fn hash(&self, slice: SliceId, key: &[u8]) -> KeyHash {
        debug_assert_eq!(slice, SliceId::of(key), "the slice of another key");
        let hash = self.0.hash(key);
        KeyHash { high: hash.h1 & !SLICE_MASK | slice.index() as u64, low: hash.h2 }
    }
}

/// The keyed hash of a key, and its slice. Keys with equal hashes are taken for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash {
    high: u64,
    low: u64,
}

const _: () = assert!(size_of::<KeyHash>() == 16);

impl KeyHash {
    /// The hash with these 128 bits.
    #[must_use]
    pub fn from_raw(raw: u128) -> Self {
        Self { high: (raw >> 64) as u64, low: raw as u64 }
    }

    /// All 128 bits.
    #[must_use]
    pub fn raw(self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// The slice of the key.
    #[must_use]
    pub fn slice(self) -> SliceId {
        let index = (self.high & SLICE_MASK) as usize;
        SliceId::new(index).expect("as many bits as a slice has")
    }

    /// The first 64 bits, the top ones of which name shards.
    pub(crate) fn high(self) -> u64 {
        self.high
    }

    /// The last 64 bits, which choose a place inside a shard.
    pub(crate) fn low(self) -> u64 {
        self.low
    }

    /// The top `bits` of the hash: the number of a shard. At least one bit.
    #[inline]
    pub(crate) fn top(self, bits: u32) -> usize {
        (self.high >> (u64::BITS - bits)) as usize
    }
}

/// A place below `places` for the last 64 bits of a hash. It rises with them.
#[inline]
pub(crate) fn place_of(low: u64, places: usize) -> usize {
    ((u128::from(low) * places as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(seed: u8, key: &[u8]) -> KeyHash {
        KeyHasher::new([seed; 16]).hash(SliceId::of(key), key)
    }

    #[test]
    fn equal_keys_have_equal_hashes_under_one_seed_only() {
        assert_eq!(hash(1, b"key"), hash(1, b"key"));
        assert_ne!(hash(1, b"key"), hash(1, b"kez"));
        assert_ne!(hash(1, b"key"), hash(2, b"key"));
    }

    #[test]
    fn a_hash_knows_the_slice_of_its_key() {
        for key in [&b""[..], b"user:42", &[0xFF; 250]] {
            assert_eq!(hash(3, key).slice(), SliceId::of(key));
            assert_eq!(KeyHash::from_raw(hash(3, key).raw()), hash(3, key));
        }
    }

    #[test]
    fn the_top_bits_and_the_places_are_spread_evenly() {
        let (mut shards, mut places) = ([0_u32; 16], [0_u32; 10]);
        for number in 0..16_000_u32 {
            let hash = hash(4, format!("key:{number}").as_bytes());
            shards[hash.top(4)] += 1;
            places[place_of(hash.low(), 10)] += 1;
        }
        assert!(shards.iter().all(|count| (800..1_200).contains(count)), "{shards:?}");
        assert!(places.iter().all(|count| (1_400..1_800).contains(count)), "{places:?}");
    }

    #[test]
    fn places_are_below_their_number_and_rise() {
        assert_eq!([0, u64::MAX / 2, u64::MAX].map(|low| place_of(low, 7)), [0, 3, 6]);
    }
}
