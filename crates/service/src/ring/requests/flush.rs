//! `flush_all` of one range, as cells ask each other for it: memcached has no such request.

use base::SliceId;

const WORD: &[u8] = b"flush_range ";

/// The request for the range that `slice` is of.
pub(crate) fn text(slice: SliceId) -> Vec<u8> {
    [WORD, format!("{}\r\n", slice.index()).as_bytes()].concat()
}

/// The slice, if `text` is such a request.
pub(crate) fn slice_of(text: &[u8]) -> Option<SliceId> {
    let number = text.strip_prefix(WORD)?.strip_suffix(b"\r\n")?;
    SliceId::new(std::str::from_utf8(number).ok()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_request_of_a_client_is_taken_for_it() {
        let slice = SliceId::new(16_383).expect("a slice");
        assert_eq!(slice_of(&text(slice)), Some(slice));
        for other in [&b"flush_all\r\n"[..], b"flush_range 16384\r\n", b"flush_range x\r\n"] {
            assert_eq!(slice_of(other), None);
        }
    }
}
