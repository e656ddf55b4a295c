//! Sizes and modes as people write them.
//!
//! A size is digits with an optional suffix: `k`, `m`, `g`, `t` (also `K`, `KB`, `KiB`, ...), all
//! powers of 1,024 as memcached means them. What a bare number counts is the caller's choice.

/// Suffixes and the power of two they stand for.
const SUFFIXES: [(&str, u32); 5] = [("b", 0), ("k", 10), ("m", 20), ("g", 30), ("t", 40)];

/// The bytes that `text` means, a bare number counting `bare_bytes` each; `None` if it is no size
/// or does not fit in 64 bits.
#[must_use]
pub fn parse_size(text: &str, bare_bytes: u64) -> Option<u64> {
    let text = text.trim();
    let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(digits_end);
    let number: u64 = digits.parse().ok()?;
    let unit = match suffix.trim().to_ascii_lowercase().as_str() {
        "" => bare_bytes,
        suffix => 1 << shift_of(suffix)?,
    };
    number.checked_mul(unit)
}

fn shift_of(suffix: &str) -> Option<u32> {
    let matches = |name: &str| {
        suffix == name || (name != "b" && [("b"), ("ib")].iter().any(|end| is(suffix, name, end)))
    };
    SUFFIXES.iter().find(|(name, _)| matches(name)).map(|(_, shift)| *shift)
}

fn is(suffix: &str, name: &str, end: &str) -> bool {
    suffix.strip_prefix(name) == Some(end)
}

/// `bytes` in the largest unit that divides it: `64MiB`, `1536KiB`, `1000`.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    for (name, shift) in SUFFIXES.iter().skip(1).rev() {
        if bytes != 0 && bytes.trailing_zeros() >= *shift {
            return format!("{}{}iB", bytes >> shift, name.to_ascii_uppercase());
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("64", 1 << 20, Some(64 << 20)),
            ("64", 1, Some(64)),
            ("64MiB", 1, Some(64 << 20)),
            ("64m", 1, Some(64 << 20)),
            ("1G", 1, Some(1 << 30)),
            ("512 KB", 1, Some(512 << 10)),
            ("7b", 1 << 20, Some(7)),
            ("2TiB", 1, Some(2 << 40)),
            ("", 1, None),
            ("m", 1, None),
            ("-1", 1, None),
            ("1.5g", 1, None),
            ("1x", 1, None),
            ("1bib", 1, None),
            ("99999999999t", 1, None),
        ];
        for (text, bare, bytes) in cases {
            assert_eq!(parse_size(text, bare), bytes, "{text}");
        }
    }

    #[test]
    fn shown_sizes_parse_back() {
        for bytes in [0, 1, 1000, 1024, 1536, 64 << 20, (1 << 30) + 1, 3 << 40] {
            assert_eq!(parse_size(&show_size(bytes), 1), Some(bytes));
        }
        assert_eq!(show_size(64 << 20), "64MiB");
        assert_eq!(show_size(1536 << 10), "1536KiB");
    }
}
