//! How logs are built, and the sizes that follow.
//!
//! ```text
//! bytes of a log:  capacity * 7/6   spares   2 blocks: the one that is filled,
//!                  (full blocks)             and the oldest, of which a part is free
//! ```
//!
//! An entry is charged its bytes and a share of the bookkeeping. An entry that does not fit in the
//! rest of a block begins the next one. Values above an eighth of a block lie apart, so less than a
//! seventh of a block stays empty.

use crate::entry::{Draft, HEAD_BYTES_MAX, whole_bytes};
use crate::sync::MODEL;
use base::Value;

/// Most lanes of a cell.
pub const LANES_MAX: usize = 64;
/// Entries of one log are fewer.
pub const ENTRIES_MAX: u64 = 1 << 20;
/// Smallest memory of one log.
pub const LOG_BYTES_MIN: u64 = if MODEL { 8 << 10 } else { 64 << 10 };
/// Longest block.
const BLOCK_BYTES_MAX: u64 = 64 << 10;
/// Blocks of a small log.
const BLOCKS_MIN: u64 = 16;
/// Charged for each value that lies apart.
pub(crate) const APART_OVERHEAD: u64 = 96;
/// Most room that a worker takes at once for what is to come.
const ROOM_BYTES_MAX: u64 = 16 << 10;
/// The longest entry takes at most this part of a log.
const LONGEST_PART: u64 = 2;

/// How the logs of a cell are built.
#[derive(Clone, Copy, Debug)]
pub struct LanesConfig {
    /// The number of lanes to have, if each can hold two of the longest values.
    pub lanes: usize,
    /// The number of sinks that may hold room at a time.
    pub sinks: usize,
    /// Bytes of all logs together; at most [`Lanes::bytes_max`](crate::Lanes::bytes_max) of the
    /// budget's total are used.
    pub bytes: u64,
    /// Longest value that clients may store.
    pub value_bytes_max: u64,
    /// Whether the logs begin as followers of another cell's.
    pub follows: bool,
}

/// The sizes of one log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Charges of all entries together.
    pub(crate) capacity: u64,
    /// Bytes of one block.
    pub(crate) block: usize,
    /// Empty blocks that are kept.
    pub(crate) spares: usize,
    /// Longest value that lies in a block.
    pub(crate) inline_max: usize,
    /// Most that an entry is charged.
    pub(crate) longest: u64,
    /// Charged for each entry besides its bytes.
    overhead: u64,
    /// Charged at most for a change and a removal besides the value.
    beside: u64,
    /// Room that a worker takes at once, if more is not needed.
    pub(crate) room: u64,
}

impl Sizes {
    /// The sizes of a log of `bytes` bytes, from which `sinks` sinks take room.
    pub(crate) fn new(bytes: u64, sinks: usize) -> Self {
        let block = (bytes / BLOCKS_MIN).min(BLOCK_BYTES_MAX);
        let spares = (bytes / block / 16).max(2);
        let capacity = (bytes - (spares + 2) * block) / 7 * 6;
        let inline_max = (block as usize / 8).saturating_sub(HEAD_BYTES_MAX);
        let overhead = capacity / ENTRIES_MAX + 1;
        Self {
            capacity,
            block: block as usize,
            spares: spares as usize,
            inline_max: inline_max.max(block as usize / 16),
            longest: (capacity / LONGEST_PART).min(u32::MAX.into()),
            overhead,
            beside: 2 * (HEAD_BYTES_MAX as u64 + overhead) + APART_OVERHEAD,
            room: ROOM_BYTES_MAX.min(capacity / 16).min(capacity / 4 / sinks.max(1) as u64),
        }
    }

    /// What an entry is charged that has `bytes` bytes, where its value lies in a block.
    #[inline(always)]
    pub(crate) fn charge(&self, bytes: usize) -> u64 {
        bytes as u64 + self.overhead
    }

    /// What `draft` is charged. `None` if its key or its value has a length that no entry may
    /// have.
    #[inline(always)]
    pub(crate) fn charge_of(&self, draft: &Draft<'_>) -> Option<u64> {
        let charge = self.charge_of_value(draft.head_bytes(), draft.value.bytes())?;
        draft.has_right_key().then_some(charge)
    }

    /// What is reserved for a change with a value of this length and any key, and for the removal
    /// of what it replaces. `None` if it is too long.
    #[inline(always)]
    pub(crate) fn charge_of_change(&self, value: usize) -> Option<u64> {
        let charge = self.charge_of_inline(value);
        (value <= self.inline_max || charge <= self.longest).then_some(charge)
    }

    /// The same, for a value that lies in a block.
    #[inline(always)]
    pub(crate) fn charge_of_inline(&self, value: usize) -> u64 {
        value as u64 + self.beside
    }

    /// What an entry was charged that lies in a log.
    pub(crate) fn charge_of_entry(&self, entry: &[u8]) -> u64 {
        let (head, value) = whole_bytes(entry);
        self.charge(head + value) + if value > self.inline_max { APART_OVERHEAD } else { 0 }
    }

    #[inline(always)]
    fn charge_of_value(&self, head: usize, value: usize) -> Option<u64> {
        let charge = self.charge(head + value);
        if value <= self.inline_max {
            return Some(charge);
        }
        Some(charge + APART_OVERHEAD).filter(|charge| *charge <= self.longest)
    }

    /// Whether `value` is too large for a block.
    #[inline(always)]
    pub(crate) fn is_apart(&self, value: &Value<'_>) -> bool {
        value.bytes() > self.inline_max
    }

    /// The longest value that is always taken.
    pub(crate) fn value_max(&self) -> u64 {
        self.longest - self.beside
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_spares_and_what_stays_empty_fit_in_the_bytes() {
        for bytes in [LOG_BYTES_MIN, 100_000, 1 << 20, 3 << 20, 64 << 20, 1 << 36] {
            let sizes = Sizes::new(bytes, 2);
            let waste = sizes.inline_max + HEAD_BYTES_MAX;
            assert!(waste * 7 <= sizes.block, "{bytes}: {sizes:?}");
            let filled = (sizes.block - waste) as u64;
            let blocks = sizes.capacity.div_ceil(filled) + sizes.spares as u64 + 2;
            assert!(
                blocks * sizes.block as u64 <= bytes + sizes.block as u64,
                "{bytes}: {sizes:?}"
            );
            assert!(sizes.capacity >= bytes / 2, "{bytes}: {sizes:?}");
            assert!(sizes.capacity / sizes.charge(0) < ENTRIES_MAX, "{bytes}: {sizes:?}");
        }
    }

    #[test]
    fn the_room_of_all_workers_is_a_quarter_at_most() {
        for sinks in [0, 1, 2, 64, 5_000] {
            let sizes = Sizes::new(4 << 20, sinks);
            assert!(sizes.room * sinks as u64 <= sizes.capacity / 4);
        }
    }
}
