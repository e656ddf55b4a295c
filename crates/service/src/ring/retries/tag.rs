//! The tag of a change that another cell has asked for: which request it was made for.
//!
//! ```text
//! cell (4)  life (8)  worker (2)  id (8)  ids since the first that is not finished (4)
//! ```
//!
//! Numbers are little-endian.

use effects::TAG_BYTES;
use ring::CellId;

const _: () = assert!(4 + 8 + 2 + 8 + 4 == TAG_BYTES);

/// A worker that asks, in one life of its cell. It gives each change another id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asker {
    pub(crate) cell: CellId,
    pub(crate) life: u64,
    pub(crate) worker: u16,
}

/// A request that may be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTag {
    pub(crate) asker: Asker,
    pub(crate) id: u64,
    /// The first id of this asker that is not finished: no earlier one is asked again.
    pub(crate) first: u64,
    /// How often it was asked before. In an entry of a change it does not stand.
    pub(crate) again: u16,
}

impl RequestTag {
    /// The tag in bytes. A first id that is too far back to be said counts as 0: nothing is known
    /// to be finished.
    pub(crate) fn encode(&self) -> effects::Tag {
        let Self { asker: Asker { cell, life, worker }, id, first, .. } = *self;
        let open = u32::try_from(id.saturating_sub(first)).unwrap_or(u32::MAX);
        let mut bytes = [0; TAG_BYTES];
        bytes[..4].copy_from_slice(&cell.0.to_le_bytes());
        bytes[4..12].copy_from_slice(&life.to_le_bytes());
        bytes[12..14].copy_from_slice(&worker.to_le_bytes());
        bytes[14..22].copy_from_slice(&id.to_le_bytes());
        bytes[22..].copy_from_slice(&open.to_le_bytes());
        bytes
    }

    /// The tag of these bytes. `None` if no id can follow its id.
    pub(crate) fn decode(bytes: &effects::Tag) -> Option<Self> {
        let cell = CellId(u32::from_le_bytes(part(bytes, 0)));
        let life = u64::from_le_bytes(part(bytes, 4));
        let worker = u16::from_le_bytes(part(bytes, 12));
        let id = u64::from_le_bytes(part(bytes, 14));
        let first = match u32::from_le_bytes(part(bytes, 22)) {
            u32::MAX => 0,
            open => id.saturating_sub(open.into()),
        };
        let tag = Self { asker: Asker { cell, life, worker }, id, first, again: 0 };
        (id < u64::MAX).then_some(tag)
    }
}

fn part<const N: usize>(bytes: &effects::Tag, at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back_and_never_says_that_more_is_finished() {
        let asker = Asker { cell: CellId(7), life: 1 << 60, worker: 300 };
        let far = u64::from(u32::MAX);
        for (id, first, said) in [(9, 9, 9), (9, 1, 1), (far + 5, 6, 6), (far + 5, 5, 0)] {
            let tag = RequestTag { asker, id, first, again: 7 };
            let expected = RequestTag { asker, id, first: said, again: 0 };
            assert_eq!(RequestTag::decode(&tag.encode()), Some(expected));
        }
        let last = RequestTag { asker, id: u64::MAX, first: 1, again: 0 };
        assert_eq!(RequestTag::decode(&last.encode()), None);
    }
}
