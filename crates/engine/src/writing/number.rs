//! Decimal numbers as clients store them, for `incr` and `decr`.

/// Digits of the largest number.
pub(super) const NUMBER_BYTES_MAX: usize = 20;

/// The number that `digits` spell. Spaces may follow it.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii_end();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Writes `number` in decimal to the front of `digits`.
pub(super) fn decimal(mut number: u64, digits: &mut [u8; NUMBER_BYTES_MAX]) -> &[u8] {
    let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..len].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_as_memcached_does() {
        for (text, expected) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"7  ", Some(7)),
            (b"", None),
            (b"-1", None),
            (b"1a", None),
        ] {
            assert_eq!(number(text), expected, "{}", String::from_utf8_lossy(text));
        }
        for value in [0, 9, 10, 12_345, u64::MAX] {
            let mut digits = [0; NUMBER_BYTES_MAX];
            assert_eq!(decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
