//! The bytes of a value as a function of key, length and seed: nothing is stored to verify it.
//!
//! ```text
//! value = noise[at(key) .. at(key) + length], its first 8 bytes replaced by a hash of
//!         (seed, key, length)
//! ```
//!
//! To make a value is one copy, to check it one comparison, both at memory speed. The value of
//! another key differs in the hash, a shifted or damaged value in the noise. The bytes are random,
//! so they contain `\r\n` and zeros as real values do. Bound: the noise is as long as the longest
//! value and 64 KiB. Lengths and positions are bytes.

use std::sync::Arc;

use measure::rng::{Rng, mix};

/// How many places in the noise a value can begin at.
const OFFSETS: usize = 1 << 16;

/// Bytes at the front of a value that are its hash.
const HEAD_BYTES: usize = 8;

/// The noise that values are cut from.
#[derive(Clone, Debug)]
pub struct Values {
    noise: Arc<[u8]>,
    seed: u64,
}

impl Values {
    /// Values of up to `value_bytes_max` bytes under `seed`.
    #[must_use]
    pub fn new(seed: u64, value_bytes_max: u32) -> Self {
        let mut rng = Rng::new(seed, 0x7661_6C75_6573);
        let words = (value_bytes_max as usize + OFFSETS).div_ceil(8);
        let noise = (0..words).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        Self { noise, seed: mix(seed) }
    }

    /// The hash in front of the value, and the noise that follows from its first byte on.
    #[inline]
    fn parts(&self, key: u64, value_bytes: u32) -> ([u8; HEAD_BYTES], &[u8]) {
        let hash = mix(self.seed ^ mix(key << 32 | u64::from(value_bytes)));
        let at = (hash % OFFSETS as u64) as usize;
        (mix(hash).to_le_bytes(), &self.noise[at..at + value_bytes as usize])
    }

    /// Appends the value of `key` with `value_bytes` bytes.
    #[inline]
    pub fn write(&self, key: u64, value_bytes: u32, out: &mut Vec<u8>) {
        let (head, body) = self.parts(key, value_bytes);
        let split = body.len().min(HEAD_BYTES);
        out.extend_from_slice(&head[..split]);
        out.extend_from_slice(&body[split..]);
    }

    /// Whether `chunk` is what stands from byte `at` on in the value of `key`.
    #[inline]
    #[must_use]
    pub fn matches(&self, key: u64, value_bytes: u32, at: usize, chunk: &[u8]) -> bool {
        let (head, body) = self.parts(key, value_bytes);
        let Some(end) = at.checked_add(chunk.len()).filter(|end| *end <= body.len()) else {
            return false;
        };
        let split = HEAD_BYTES.min(body.len()).clamp(at, end);
        let (front, back) = chunk.split_at(split - at);
        front == &head[at.min(HEAD_BYTES)..at.min(HEAD_BYTES) + front.len()]
            && back == &body[split..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts_at_every_cut() {
        let values = Values::new(3, 64);
        for value_bytes in [0, 1, 7, 8, 9, 64] {
            let mut value = Vec::new();
            values.write(42, value_bytes, &mut value);
            assert_eq!(value.len(), value_bytes as usize);
            for cut in 0..=value.len() {
                assert!(values.matches(42, value_bytes, 0, &value[..cut]));
                assert!(values.matches(42, value_bytes, cut, &value[cut..]));
            }
            for at in 0..value.len() {
                value[at] ^= 1;
                assert!(!values.matches(42, value_bytes, 0, &value), "byte {at} of {value_bytes}");
                assert!(!values.matches(42, value_bytes, at, &value[at..]));
                value[at] ^= 1;
            }
            value.push(0);
            assert!(!values.matches(42, value_bytes, 0, &value), "one byte too many");
        }
    }

    #[test]
    fn values_differ_by_key_length_and_seed() {
        let write = |values: &Values, key, value_bytes| {
            let mut out = Vec::new();
            values.write(key, value_bytes, &mut out);
            out
        };
        let (one, two) = (Values::new(1, 64), Values::new(2, 64));
        let first = write(&one, 1, 64);
        assert_ne!(first, write(&one, 2, 64));
        assert_ne!(first[..60], write(&one, 1, 60)[..]);
        assert_ne!(first, write(&two, 1, 64));
        assert_eq!(first, write(&Values::new(1, 64), 1, 64));
    }
}
