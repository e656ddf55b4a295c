//! What a copy needs to know of a slice besides its items: how far its versions have come, and its
//! barrier, and the number of its last delayed flush. A slice whose last change was a delete must
//! not give out its numbers again.
//!
//! ```text
//! slice (2)  last version (8)  barrier (8)  flush (4)      little endian, one after the other
//! ```

use base::{SliceId, Version};

/// The number of these entries in a log.
pub(crate) const KIND: u8 = 1;
/// Slices in one entry.
pub(crate) const SLICES_MAX: usize = 256;

const BYTES: usize = 22;

/// The state of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SliceState {
    pub(crate) slice: SliceId,
    pub(crate) last: Version,
    pub(crate) barrier: Version,
    pub(crate) flushed: u32,
}

/// Appends `state` to `to`.
pub(crate) fn encode(state: &SliceState, to: &mut Vec<u8>) {
    to.extend_from_slice(&(state.slice.index() as u16).to_le_bytes());
    to.extend_from_slice(&state.last.raw().to_le_bytes());
    to.extend_from_slice(&state.barrier.raw().to_le_bytes());
    to.extend_from_slice(&state.flushed.to_le_bytes());
}

/// The states in `bytes`. `None` if they are not whole.
pub(crate) fn decode(bytes: &[u8]) -> Option<impl Iterator<Item = SliceState>> {
    let state = |bytes: &[u8; BYTES]| {
        let [s0, s1, rest @ ..] = bytes;
        let (last, rest) = rest.split_at(8);
        let (barrier, flushed) = rest.split_at(8);
        let flushed = flushed.try_into().map(u32::from_le_bytes).unwrap_or(0);
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(0);
        let slice = SliceId::new(usize::from(u16::from_le_bytes([*s0, *s1])))?;
        let (last, barrier) = (Version::from_raw(word(last)), Version::from_raw(word(barrier)));
        Some(SliceState { slice, last, barrier, flushed })
    };
    let (states, rest) = bytes.as_chunks::<BYTES>();
    let is_whole = rest.is_empty() && states.iter().all(|it| state(it).is_some());
    is_whole.then(|| states.iter().filter_map(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_broken_ones_are_refused() {
        let slice = |at| SliceId::new(at).expect("a slice");
        let states = [(3, 1 << 50, 7), (16_383, u64::MAX, 0)].map(|(at, last, barrier)| {
            let (last, barrier) = (Version::from_raw(last), Version::from_raw(barrier));
            SliceState { slice: slice(at), last, barrier, flushed: at as u32 + 1 }
        });
        let mut bytes = Vec::new();
        states.iter().for_each(|state| encode(state, &mut bytes));
        assert!(decode(&bytes).expect("whole").eq(states));
        assert!(decode(&bytes[..20]).is_none(), "cut");
        bytes[..2].fill(0xFF);
        assert!(decode(&bytes).is_none(), "no such slice");
    }
}
