//! `flush_all` of one range, as cells ask each other for it: memcached has no such request. It
//! names the slices that the range had for who asks: it may have been divided since.

use base::{SliceId, SliceRange};

const WORD: &[u8] = b"flush_range ";

/// The request for the range that has `slices`. `None` if that has none.
pub(crate) fn text(slices: SliceRange) -> Option<Vec<u8>> {
    let numbers = slices.numbers();
    let last = numbers.end.checked_sub(1).filter(|last| *last >= numbers.start)?;
    Some([WORD, format!("{} {last}\r\n", numbers.start).as_bytes()].concat())
}

/// The first and the last slice, if `text` is such a request.
pub(crate) fn slices_of(text: &[u8]) -> Option<(SliceId, SliceId)> {
    let numbers = std::str::from_utf8(text.strip_prefix(WORD)?.strip_suffix(b"\r\n")?).ok()?;
    let (first, last) = numbers.split_once(' ')?;
    let slice = |number: &str| SliceId::new(number.parse().ok()?);
    Some((slice(first)?, slice(last)?)).filter(|(first, last)| first <= last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_of_a_client_is_taken_for_it() {
        let slice = |number| SliceId::new(number).expect("a slice");
        let text = text(SliceRange::new(7..16_384)).expect("it has slices");
        assert_eq!(slices_of(&text), Some((slice(7), slice(16_383))));
        assert_eq!(super::text(SliceRange::new(7..7)), None);
        for other in [
            &b"flush_all\r\n"[..],
            b"flush_range 7 16384\r\n",
            b"flush_range x 7\r\n",
            b"flush_range 7\r\n",
            b"flush_range 7 6\r\n",
        ] {
            assert_eq!(slices_of(other), None);
        }
    }
}
