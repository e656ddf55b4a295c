//! From the number of a key to its bytes: a prefix, then the number in decimal, padded with zeros
//! to the required length.
//!
//! Rendering costs a division per digit, less than the cache miss of a lookup in a table of
//! rendered keys, and needs no memory. Where keys have different lengths, the padding of each is a
//! function of its number and the seed. Invariant: a number has one key, and a key one number.
//!
//! A list may choose some of the keys: then the key numbered N is the one with the N-th number of
//! the list.

use std::sync::Arc;

use super::limits::KEY_BYTES_MAX;
use super::spread::Spread;
use measure::rng::mix;

/// Keeps the lengths of keys independent of those of their values.
const LENGTH_SALT: u64 = 0x6B65_7973 << 32;

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// The shape that all keys of a workload share.
#[derive(Clone, Debug)]
pub struct KeyForm {
    /// A key with the number zero and the greatest length: prefix and padding are copied from
    /// here.
    zero: Vec<u8>,
    prefix_bytes: usize,
    digits: usize,
    /// The numbers of the only keys, rising, where a list chooses some.
    chosen: Option<Arc<[u64]>>,
    /// The lengths, where they differ from key to key.
    lengths: Option<Lengths>,
}

#[derive(Clone, Debug)]
struct Lengths {
    spread: Spread,
    seed: u64,
    /// Prefix and digits: no key is shorter.
    bytes_min: usize,
}

impl KeyForm {
    /// Keys of `key_bytes` bytes that begin with `prefix` and hold any number below `keys`; `seed`
    /// names their lengths where they differ. A length too short for prefix and number is raised,
    /// unless it is the only length: then it is an error.
    ///
    /// # Errors
    /// When prefix and number do not fit, or the prefix holds a byte that no key may hold.
    pub fn new(prefix: &str, key_bytes: &Spread, keys: u64, seed: u64) -> Result<Self, String> {
        let bytes_max = key_bytes.max() as usize;
        let digits = digits_of(keys.saturating_sub(1));
        if let Some(byte) = prefix.bytes().find(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(format!(
                "key prefix {prefix:?} holds byte {byte:#04x}; use printable bytes"
            ));
        }
        if bytes_max > KEY_BYTES_MAX {
            return Err(format!(
                "keys of {bytes_max} bytes: choose at most {KEY_BYTES_MAX}, the protocol's limit"
            ));
        }
        let needed = prefix.len() + digits;
        if bytes_max < needed {
            return Err(format!(
                "keys of {bytes_max} bytes cannot hold prefix {prefix:?} and {digits} digits for \
                 {keys} keys; --key-bytes must be at least {needed}"
            ));
        }
        let mut zero = prefix.as_bytes().to_vec();
        zero.resize(bytes_max, b'0');
        let lengths = match key_bytes {
            Spread::Fixed(_) => None,
            spread => Some(Lengths { spread: spread.clone(), seed, bytes_min: needed }),
        };
        Ok(Self { zero, prefix_bytes: prefix.len(), digits, chosen: None, lengths })
    }

    /// The same keys, but only those with these numbers.
    ///
    /// # Errors
    /// When the numbers do not rise, or have more digits than a key has room for.
    pub(super) fn only(self, numbers: Vec<u64>) -> Result<Self, String> {
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("{} stands before {}: sort the numbers", pair[0], pair[1]));
        }
        let digits = digits_of(numbers.last().copied().unwrap_or(0));
        let bytes_min = self.lengths.as_ref().map_or(self.zero.len(), |it| it.bytes_min);
        if self.prefix_bytes + digits > bytes_min {
            return Err(format!("numbers of {digits} digits: raise --key-bytes to hold them"));
        }
        Ok(Self { digits, chosen: Some(numbers.into()), ..self })
    }

    /// The length of the longest key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.zero.len()
    }

    /// The length of the key numbered `key`.
    #[inline(always)]
    #[must_use]
    pub fn bytes_of(&self, key: u64) -> usize {
        match &self.lengths {
            None => self.zero.len(),
            Some(lengths) => lengths.of(key),
        }
    }

    /// Appends the key numbered `key`.
    #[inline(always)]
    pub fn write(&self, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.zero[..self.bytes_of(key)]);
        let first_digit = out.len() - self.digits;
        debug_assert!(start <= first_digit);
        write_digits(self.digits_in(key), &mut out[first_digit..]);
    }

    /// The number in the key numbered `key`.
    #[inline(always)]
    fn digits_in(&self, key: u64) -> u64 {
        match &self.chosen {
            None => key,
            Some(numbers) => numbers[key as usize],
        }
    }

    /// Whether `bytes` are the key numbered `key`.
    #[inline(always)]
    #[must_use]
    pub fn is(&self, key: u64, bytes: &[u8]) -> bool {
        if bytes.len() != self.bytes_of(key) {
            return false;
        }
        let (fixed, digits) = bytes.split_at(bytes.len() - self.digits);
        let mut rendered = [b'0'; DIGITS_MAX];
        let rendered = &mut rendered[..self.digits];
        write_digits(self.digits_in(key), rendered);
        fixed == &self.zero[..fixed.len()] && digits == rendered
    }
}

impl Lengths {
    /// Kept out of line: most workloads have keys of one length.
    #[inline(never)]
    fn of(&self, key: u64) -> usize {
        let bytes = self.spread.of(mix(self.seed ^ key ^ LENGTH_SALT)) as usize;
        bytes.max(self.bytes_min)
    }
}

/// How many digits a number has.
fn digits_of(number: u64) -> usize {
    number.max(1).ilog10() as usize + 1
}

/// Overwrites the zeros in `digits` with `number`, from the right.
#[inline]
fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        if number == 0 {
            break;
        }
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_padded_and_recognised() {
        let form = KeyForm::new("k-", &Spread::Fixed(8), 1_000, 1).unwrap();
        for (key, bytes) in [(0, "k-000000"), (7, "k-000007"), (999, "k-000999")] {
            let mut out = b"get ".to_vec();
            form.write(key, &mut out);
            assert_eq!(&out[4..], bytes.as_bytes());
            assert!(form.is(key, bytes.as_bytes()));
            assert!(!form.is(key + 1, bytes.as_bytes()));
        }
        assert!(!form.is(7, b"x-000007"));
        assert!(!form.is(7, b"k-0000007"));
    }

    #[test]
    fn a_list_chooses_keys() {
        let form = || KeyForm::new("k", &Spread::Fixed(4), 3, 1).unwrap();
        let chosen = form().only(vec![5, 70, 999]).unwrap();
        for (key, bytes) in [(0, "k005"), (1, "k070"), (2, "k999")] {
            let mut out = Vec::new();
            chosen.write(key, &mut out);
            assert_eq!(out, bytes.as_bytes());
            assert!(
                chosen.is(key, bytes.as_bytes()) && !chosen.is((key + 1) % 3, bytes.as_bytes())
            );
        }
        assert!(form().only(vec![5, 5]).unwrap_err().contains("sort"));
        assert!(form().only(vec![1_000]).unwrap_err().contains("--key-bytes"));
    }

    #[test]
    fn impossible_forms_name_the_limit() {
        for (prefix, bytes, keys, word) in [
            ("k", 3, 1_000, "at least 4"),
            ("k", 251, 10, "250"),
            ("a b", 20, 10, "0x20"),
            ("", 0, 1, "at least 1"),
        ] {
            let error = KeyForm::new(prefix, &Spread::Fixed(bytes), keys, 1).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(KeyForm::new("k", &Spread::Fixed(4), 1_000, 1).is_ok());
        assert!(KeyForm::new("", &Spread::Fixed(20), u64::MAX, 1).is_ok());
    }

    #[test]
    fn keys_of_many_lengths_stay_apart() {
        let spread: Spread = "uniform:1-12".parse().unwrap();
        let form = KeyForm::new("k", &spread, 1_000, 7).unwrap();
        let mut seen = std::collections::HashSet::new();
        let mut lengths = std::collections::HashSet::new();
        for key in 0..1_000 {
            let mut out = Vec::new();
            form.write(key, &mut out);
            assert!(form.is(key, &out) && out.starts_with(b"k"));
            assert!((4..=12).contains(&out.len()), "{out:?}");
            lengths.insert(out.len());
            assert!(seen.insert(out));
        }
        assert_eq!(lengths.len(), 9);
    }
}
