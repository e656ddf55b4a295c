//! The keyed hash of a key inside its slice.
//!
//! Blocks of two words are added one after the other by a 64 by 64 bit multiplication whose halves
//! are combined, as in wyhash (Wang Yi 2019). Each factor hides a secret that is computed from the
//! seed, so that keys cannot be chosen to meet in one bucket. The last block overlaps the one
//! before it; two keys that differ only in this overlap differ in length, and the length starts the
//! hash. The hash depends on the seed, so it never leaves the engine.

use crate::raw::short_word;

/// Bytes that one multiplication adds.
const BLOCK_BYTES: usize = 16;

/// The secrets of one engine.
pub(crate) struct HashKey {
    start: u64,
    block: u64,
    last: u64,
    end: u64,
}

impl HashKey {
    pub(crate) fn new(seed: u64) -> Self {
        let secret = |number: u64| mix(seed.wrapping_add(number.wrapping_mul(STEP))) | 1;
        Self { start: secret(1), block: secret(2), last: secret(3), end: secret(4) }
    }

    /// The hash of `bytes`.
    #[inline(always)]
    pub(crate) fn hash(&self, bytes: &[u8]) -> u64 {
        let start = self.start.wrapping_add(bytes.len() as u64);
        let (hash, last) = match bytes.last_chunk() {
            Some(last) if bytes.len() <= 2 * BLOCK_BYTES => {
                (self.block(start, bytes.first_chunk().unwrap_or(last)), words(last))
            }
            Some(last) => (self.blocks(start, bytes), words(last)),
            None => (start, short_words(bytes)),
        };
        fold(fold(last.0 ^ self.last, last.1 ^ hash), self.end)
    }

    /// The hash of all whole blocks of a long key.
    #[inline(never)]
    fn blocks(&self, start: u64, bytes: &[u8]) -> u64 {
        let (blocks, _) = bytes.as_chunks();
        blocks.iter().fold(start, |hash, block| self.block(hash, block))
    }

    #[inline(always)]
    fn block(&self, hash: u64, block: &[u8; BLOCK_BYTES]) -> u64 {
        let (first, second) = words(block);
        fold(first ^ self.block, second ^ hash)
    }
}

#[inline(always)]
fn words(block: &[u8; BLOCK_BYTES]) -> (u64, u64) {
    let ([first, second], []) = block.as_chunks::<8>() else { unreachable!("two words of eight") };
    (u64::from_le_bytes(*first), u64::from_le_bytes(*second))
}

/// Fewer bytes than a block as two words, which overlap.
#[inline(always)]
fn short_words(bytes: &[u8]) -> (u64, u64) {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        _ => (short_word(bytes), 0),
    }
}

/// The step of splitmix64: the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser of splitmix64 (Steele, Lea and Flood 2014).
pub(crate) fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// The bits that the index uses, as [`crate::index`] takes them.
    const TAG_SHIFT: u32 = 44;

    #[test]
    fn keys_that_are_alike_spread_over_tags_and_never_meet() {
        let key = HashKey::new(7);
        let alike = |name: String| -> Vec<String> {
            (0..100_000).map(|number| format!("{name}{number}")).collect()
        };
        for keys in [alike(String::new()), alike("user:".into()), alike("k".repeat(40))] {
            let hashes: HashSet<u64> = keys.iter().map(|name| key.hash(name.as_bytes())).collect();
            assert_eq!(hashes.len(), keys.len());
            let mut loads = vec![0_u32; 1024];
            for hash in &hashes {
                loads[(hash >> TAG_SHIFT) as usize % 1024] += 1;
            }
            // Of 100 expected, six standard deviations.
            let (least, most) = (loads.iter().min(), loads.iter().max());
            assert!(least > Some(&38) && most < Some(&165), "{least:?} to {most:?}");
        }
    }

    #[test]
    fn every_bit_of_a_key_reaches_every_bit_of_its_hash() {
        let key = HashKey::new(11);
        for len in [1_usize, 4, 7, 8, 9, 16, 20, 31] {
            let mut flips = [0_u32; 64];
            let mut tries = 0;
            for case in 0..400_u64 {
                let mut bytes: Vec<u8> =
                    (0..len as u64).map(|at| mix(case * 251 + at) as u8).collect();
                let hash = key.hash(&bytes);
                for bit in 0..len * 8 {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    let changed = hash ^ key.hash(&bytes);
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    tries += 1;
                    for (at, count) in flips.iter_mut().enumerate() {
                        *count += (changed >> at & 1) as u32;
                    }
                }
            }
            for (at, count) in flips.iter().enumerate() {
                let share = f64::from(*count) / f64::from(tries);
                assert!((0.45..0.55).contains(&share), "{len} bytes, bit {at}: {share}");
            }
        }
    }

    #[test]
    fn lengths_and_seeds_tell_hashes_apart() {
        let zeroes = [0; 40];
        let hashes: HashSet<u64> = (0..4)
            .flat_map(|seed| (1..=40).map(move |len| (seed, len)))
            .map(|(seed, len)| HashKey::new(seed).hash(&zeroes[..len]))
            .collect();
        assert_eq!(hashes.len(), 160);
    }
}
