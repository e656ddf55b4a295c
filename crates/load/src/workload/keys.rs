//! From the number of a key to its bytes: a prefix, then the number in decimal, padded with
//! zeros to the length asked for.
//!
//! Rendering costs four divisions for a hundred million keys, less than the cache miss of
//! looking a rendered key up in a table, and needs no memory.

use super::KEY_BYTES_MAX;

/// The shape that all keys of a workload share.
#[derive(Clone, Debug)]
pub struct KeyForm {
    /// A key with the number zero: prefix and padding are copied from here.
    zero: Vec<u8>,
    digits: usize,
}

impl KeyForm {
    /// Keys of `key_bytes` bytes that begin with `prefix` and hold any number below `keys`.
    ///
    /// # Errors
    /// When prefix and number do not fit, or the prefix holds a byte that no key may hold.
    pub fn new(prefix: &str, key_bytes: usize, keys: u64) -> Result<Self, String> {
        let digits = keys.saturating_sub(1).max(1).ilog10() as usize + 1;
        if let Some(byte) = prefix.bytes().find(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(format!(
                "key prefix {prefix:?} holds byte {byte:#04x}; use printable bytes"
            ));
        }
        if key_bytes > KEY_BYTES_MAX {
            return Err(format!("keys of {key_bytes} bytes: the protocol ends at {KEY_BYTES_MAX}"));
        }
        let needed = prefix.len() + digits;
        if key_bytes < needed {
            return Err(format!(
                "keys of {key_bytes} bytes cannot hold prefix {prefix:?} and {digits} digits for \
                 {keys} keys; --key-bytes must be at least {needed}"
            ));
        }
        let mut zero = prefix.as_bytes().to_vec();
        zero.resize(key_bytes, b'0');
        Ok(Self { zero, digits })
    }

    /// The length of every key.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.zero.len()
    }

    /// Appends the key numbered `key`.
    #[inline]
    pub fn write(&self, key: u64, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.zero);
        let first_digit = out.len() - self.digits;
        debug_assert!(start <= first_digit);
        write_digits(key, &mut out[first_digit..]);
    }

    /// Whether `bytes` are the key numbered `key`.
    #[inline]
    #[must_use]
    pub fn is(&self, key: u64, bytes: &[u8]) -> bool {
        if bytes.len() != self.zero.len() {
            return false;
        }
        let (fixed, digits) = bytes.split_at(bytes.len() - self.digits);
        // Ten digits hold every number below KEYS_MAX.
        let mut rendered = [b'0'; 10];
        let rendered = &mut rendered[..self.digits];
        write_digits(key, rendered);
        fixed == &self.zero[..fixed.len()] && digits == rendered
    }
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
        let form = KeyForm::new("k-", 8, 1_000).unwrap();
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
    fn impossible_forms_name_the_limit() {
        for (prefix, bytes, keys, word) in [
            ("k", 3, 1_000, "at least 4"),
            ("k", 251, 10, "250"),
            ("a b", 20, 10, "0x20"),
            ("", 0, 1, "at least 1"),
        ] {
            let error = KeyForm::new(prefix, bytes, keys).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        assert!(KeyForm::new("k", 4, 1_000).is_ok());
        assert!(KeyForm::new("", 10, super::super::KEYS_MAX).is_ok());
    }
}
