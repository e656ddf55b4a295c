//! The search for the end of a word, sixteen bytes at a time.
//!
//! Keys are short: twenty to forty bytes. For these an inlined search costs less than the call of a
//! vector routine. Long searches, as for the end of a multiget line, use `memchr` instead.
//!
//! A block of sixteen bytes is compared at once, and one bit per byte says where a delimiter is.
//! The last block may overlap the one before it, which is known to hold none.

use wide::u8x16;

/// Bytes that one comparison covers.
const BLOCK_BYTES: usize = 16;

/// The index of the first byte at or after `from` that is a space or a control character, or the
/// length of `input`.
#[inline(always)]
pub(crate) fn word_end(input: &[u8], from: usize) -> usize {
    find(input, from, |byte| byte <= b' ', |block| block.min(u8x16::splat(b' ')).simd_eq(block))
}

/// The index of the first space at or after `from`, or the length of `text`.
#[inline]
pub(crate) fn space(text: &[u8], from: usize) -> usize {
    find(text, from, |byte| byte == b' ', |block| block.simd_eq(u8x16::splat(b' ')))
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

/// The index of the first byte at or after `from` for which `is` holds, or the length of `input`.
/// `mark` sets the bytes of a block for which it holds.
#[inline(always)]
fn find(
    input: &[u8],
    from: usize,
    is: impl Fn(u8) -> bool,
    mark: impl Fn(u8x16) -> u8x16,
) -> usize {
    let text = &input[from..];
    let Some(last) = text.last_chunk::<BLOCK_BYTES>() else {
        return text.iter().position(|byte| is(*byte)).map_or(input.len(), |at| from + at);
    };
    let first_in = |block: &[u8; BLOCK_BYTES]| {
        let marks = mark(u8x16::from(*block)).to_bitmask();
        (marks != 0).then_some(marks.trailing_zeros() as usize)
    };
    let mut rest = text;
    while let Some((block, after)) = rest.split_first_chunk() {
        if let Some(at) = first_in(block) {
            return input.len() - rest.len() + at;
        }
        rest = after;
    }
    first_in(last).map_or(input.len(), |at| input.len() - BLOCK_BYTES + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length, start and place of a delimiter, compared with a loop over bytes. The bytes
    /// before the start are delimiters: they must not be found by the block that overlaps them.
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
