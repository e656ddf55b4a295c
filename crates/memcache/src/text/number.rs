//! Decimal numbers: parsing and printing.
//!
//! Parsing accepts digits only, refuses a number that does not fit its type, and never skips
//! spaces. Only the signed types accept a minus sign; none accepts a plus sign. Printing fills a
//! buffer from its end, so it needs no count of digits in advance.

/// Digits of the largest 64-bit number.
pub(crate) const DIGITS_MAX: usize = 20;

/// The number that `token` is, all of it.
#[inline]
pub(crate) fn parse_u64(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    let mut sum = 0_u64;
    for byte in token {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(sum)
}

/// As [`parse_u64`], for 32 bits.
#[inline]
pub(crate) fn parse_u32(token: &[u8]) -> Option<u32> {
    parse_u64(token).and_then(|number| u32::try_from(number).ok())
}

/// As [`parse_u64`], with an optional minus sign.
#[inline]
pub(crate) fn parse_i64(token: &[u8]) -> Option<i64> {
    match token.strip_prefix(b"-") {
        None => parse_u64(token).and_then(|number| i64::try_from(number).ok()),
        Some(digits) => parse_u64(digits).and_then(|number| 0_i64.checked_sub_unsigned(number)),
    }
}

/// As [`parse_i64`], for the range of 32 bits, which most times on the wire have.
#[inline]
pub(crate) fn parse_i32(token: &[u8]) -> Option<i64> {
    parse_i64(token).filter(|number| i32::try_from(*number).is_ok())
}

/// Writes `number` so that its last digit is before `end`, and returns the index of its first. The
/// caller leaves [`DIGITS_MAX`] bytes before `end`.
#[inline]
pub(crate) fn write_back(buffer: &mut [u8], end: usize, number: u64) -> usize {
    let mut rest = number;
    let mut at = end;
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return at;
        }
    }
}

/// Appends the digits of `number`.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, number: u64) {
    // Most numbers of a request are zero, or the length of a value.
    let digit = |unit: u64| b'0' + (number / unit % 10) as u8;
    match number {
        0..10 => return out.push(digit(1)),
        10..100 => return out.extend_from_slice(&[digit(10), digit(1)]),
        100..1000 => return out.extend_from_slice(&[digit(100), digit(10), digit(1)]),
        _ => {}
    }
    let mut buffer = [0; DIGITS_MAX];
    let at = write_back(&mut buffer, DIGITS_MAX, number);
    out.extend_from_slice(&buffer[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_numbers_that_fit_are_read() {
        let cases: [(&[u8], Option<u64>, Option<i64>); 14] = [
            (b"0", Some(0), Some(0)),
            (b"007", Some(7), Some(7)),
            (b"-1", None, Some(-1)),
            (b"-", None, None),
            (b"", None, None),
            (b"+1", None, None),
            (b" 1", None, None),
            (b"1 ", None, None),
            (b"1a", None, None),
            (b"18446744073709551615", Some(u64::MAX), None),
            (b"18446744073709551616", None, None),
            (b"9223372036854775807", Some(i64::MAX as u64), Some(i64::MAX)),
            (b"-9223372036854775808", None, Some(i64::MIN)),
            (b"-9223372036854775809", None, None),
        ];
        for (token, unsigned, signed) in cases {
            let name = String::from_utf8_lossy(token);
            assert_eq!((parse_u64(token), parse_i64(token)), (unsigned, signed), "{name}");
        }
        assert_eq!((parse_u32(b"4294967295"), parse_u32(b"4294967296")), (Some(u32::MAX), None));
        assert_eq!((parse_i32(b"2147483647"), parse_i32(b"2147483648")), (Some(2147483647), None));
        assert_eq!(
            (parse_i32(b"-2147483648"), parse_i32(b"-2147483649")),
            (Some(-2147483648), None)
        );
    }

    #[test]
    fn printed_numbers_parse_to_themselves() {
        for number in [0, 9, 10, 99, 100, 1023, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            push(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
            assert_eq!(parse_u64(&out), Some(number));
        }
    }
}
