//! Delimiters, found sixteen bytes at first, then eight at a time.
//!
//! Keys are short: twenty to forty bytes. For these a scan that is inlined costs less than the call
//! of a vector routine; long searches (the end of a multiget line) go to `memchr` instead. Whether
//! a block has any delimiter, the compiler finds out with one comparison; where it is, a word
//! tells.
//!
//! In a word read little-endian the lowest marked byte is always a true match; a borrow can only
//! mark bytes above it, and those are never looked at.

const WORD_BYTES: usize = size_of::<u64>();

/// Bytes that the compiler looks at in one step.
const BLOCK_BYTES: usize = 16;

const HIGHS: u64 = repeat(0x80);

/// The index of the first byte at or after `from` that is a space or a control character, or the
/// length of `input`.
#[inline(always)]
pub(crate) fn word_end(input: &[u8], from: usize) -> usize {
    let ends = |byte| byte <= b' ';
    find(input, from, ends, |word| word.wrapping_sub(repeat(b' ' + 1)) & !word)
}

/// The index of the first space at or after `from`, or the length of `text`.
#[inline]
pub(crate) fn space(text: &[u8], from: usize) -> usize {
    find(
        text,
        from,
        |byte| byte == b' ',
        |word| {
            let zero_at_space = word ^ repeat(b' ');
            zero_at_space.wrapping_sub(repeat(1)) & !zero_at_space
        },
    )
}

/// The index of the first byte at or after `from` that is not a space, or the length of `text`.
#[inline]
pub(crate) fn past_spaces(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while text.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// The index of the first byte at or after `from` that `is` looked for, whose highest bit `mark`
/// sets in a word, or the length of `input`: at first a block without any, then whole words, then
/// what is left of the last one.
#[inline(always)]
fn find(input: &[u8], from: usize, is: impl Fn(u8) -> bool, mark: impl Fn(u64) -> u64) -> usize {
    let mut at = from;
    if let Some(block) = input[at..].first_chunk::<BLOCK_BYTES>()
        && !block.iter().fold(false, |found, byte| found | is(*byte))
    {
        at += BLOCK_BYTES;
    }
    let (words, rest) = input[at..].as_chunks();
    for word in words {
        let marks = mark(u64::from_le_bytes(*word)) & HIGHS;
        if marks != 0 {
            return at + first(marks);
        }
        at += WORD_BYTES;
    }
    if rest.is_empty() {
        return at;
    }
    // A byte that is not there is taken for one above all delimiters.
    let word = match input.last_chunk() {
        Some(last) => {
            let passed = (8 * (WORD_BYTES - rest.len())) as u32;
            u64::from_le_bytes(*last) >> passed | !(u64::MAX >> passed)
        }
        None => rest.iter().rev().fold(u64::MAX, |word, byte| word << 8 | u64::from(*byte)),
    };
    match mark(word) & HIGHS {
        0 => input.len(),
        marks => at + first(marks),
    }
}

/// The lowest byte that is marked.
#[inline]
fn first(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

const fn repeat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; WORD_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length, start and place of a delimiter, against a loop over bytes; bytes before the
    /// start are delimiters, which must not leak into the overlapping word.
    #[test]
    fn scans_agree_with_a_loop() {
        for len in 0..50_usize {
            for from in 0..=len {
                for hit in from..=len {
                    for delimiter in [b' ', b'\r', b'\n', 0, b'\t', b'!', 0x80, 0xff, b'~'] {
                        let mut text = vec![b'k'; len];
                        text[..from].fill(b' ');
                        if let Some(byte) = text.get_mut(hit) {
                            *byte = delimiter;
                        }
                        if let Some(byte) = text.get_mut(hit + 2) {
                            *byte = b' ';
                        }
                        let naive = |matches: &dyn Fn(u8) -> bool| {
                            (from..len).find(|at| matches(text[*at])).unwrap_or(len)
                        };
                        assert_eq!(word_end(&text, from), naive(&|byte| byte <= b' '));
                        assert_eq!(space(&text, from), naive(&|byte| byte == b' '));
                    }
                }
            }
        }
    }

    #[test]
    fn spaces_are_skipped_to_the_end() {
        for (text, from, want) in [(&b"a  b"[..], 1, 3), (b"a  ", 1, 3), (b"", 0, 0), (b"ab", 1, 1)]
        {
            assert_eq!(past_spaces(text, from), want);
        }
    }
}
