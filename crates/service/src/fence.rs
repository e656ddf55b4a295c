//! The question to all copies whether they follow this cell still, as an entry of a log.
//!
//! ```text
//! slice (2)  epoch (4)      little endian
//! ```

use base::SliceId;

/// The number of these entries in a log.
pub(crate) const KIND: u8 = 2;

const BYTES: usize = 6;

/// The question about `slice`, led in `epoch`.
pub(crate) fn encode(slice: SliceId, epoch: u32) -> [u8; BYTES] {
    let [s0, s1] = (slice.index() as u16).to_le_bytes();
    let [e0, e1, e2, e3] = epoch.to_le_bytes();
    [s0, s1, e0, e1, e2, e3]
}

/// The slice and the epoch in `bytes`. `None` if they are no question.
pub(crate) fn decode(bytes: &[u8]) -> Option<(SliceId, u32)> {
    let [s0, s1, e0, e1, e2, e3] = *bytes.first_chunk::<BYTES>()?;
    let slice = SliceId::new(usize::from(u16::from_le_bytes([s0, s1])))?;
    (bytes.len() == BYTES).then_some((slice, u32::from_le_bytes([e0, e1, e2, e3])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_comes_back_and_a_broken_one_is_none() {
        let slice = SliceId::new(16_383).expect("a slice");
        let bytes = encode(slice, 1 << 19);
        assert_eq!(decode(&bytes), Some((slice, 1 << 19)));
        for broken in [&bytes[..5], &[bytes.as_slice(), &[0]].concat(), &[0xFF; 6]] {
            assert_eq!(decode(broken), None, "{broken:?}");
        }
    }
}
