//! What a new primary says once everything is below that it had copied: so a copy that has missed
//! some of what the earlier primary has said to be written back keeps no journal of it.
//!
//! ```text
//! first slice (2)  the one after the last (2)  epoch (4)      little endian
//! ```

use base::{SLICES, SliceRange};
use std::ops::Range;

/// The number of these entries in a log.
pub(crate) const KIND: u8 = 8;

const BYTES: usize = 8;

/// Everything of `slices` of epochs before `epoch` is below, or was changed since.
pub(crate) fn encode(slices: SliceRange, epoch: u32) -> [u8; BYTES] {
    let Range { start, end } = slices.numbers();
    let [[f0, f1], [l0, l1]] = [start, end].map(|number| (number as u16).to_le_bytes());
    let [e0, e1, e2, e3] = epoch.to_le_bytes();
    [f0, f1, l0, l1, e0, e1, e2, e3]
}

/// The slices and the epoch in `bytes`. `None` if they are no such entry.
pub(crate) fn decode(bytes: &[u8]) -> Option<(SliceRange, u32)> {
    let [f0, f1, l0, l1, epoch @ ..]: [u8; BYTES] = bytes.try_into().ok()?;
    let [start, end] = [[f0, f1], [l0, l1]].map(|it| usize::from(u16::from_le_bytes(it)));
    let is_range = start < end && end <= SLICES;
    is_range.then(|| (SliceRange::new(start..end), u32::from_le_bytes(epoch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back_and_what_is_broken_is_none() {
        let slices = SliceRange::new(256..SLICES);
        let bytes = encode(slices, 1 << 19);
        assert_eq!(decode(&bytes), Some((slices, 1 << 19)));
        for broken in [&bytes[..7], &[0; 8], &[0, 0, 1, 64, 0, 0, 0, 0]] {
            assert_eq!(decode(broken), None, "{broken:?}");
        }
    }
}
