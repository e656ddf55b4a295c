//! A map: which pages a run of slices has. The map of the highest id counts.
//!
//! ```text
//! "VXMAPS01" run epoch number count { first spot, epoch and number of the page } ... CRC
//! ```

use crate::bytes::{begin, close, open};
use crate::name::Id;
use crate::page::Spot;

const MAGIC: &[u8; 8] = b"VXMAPS01";
/// Bytes of an entry, about.
const ENTRY_BYTES: usize = 32;

/// A page, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// No key of the page comes before it.
    pub(crate) first: Spot,
    pub(crate) page: Id,
}

/// The pages of a run, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Map {
    pub(crate) entries: Vec<Entry>,
}

impl Map {
    /// The number of the entry whose page would have this key. `None`: no page would, as there is
    /// none that begins before it.
    pub(crate) fn find(&self, spot: &Spot) -> Option<usize> {
        self.entries.partition_point(|entry| entry.first <= *spot).checked_sub(1)
    }

    /// The object of this map.
    pub(crate) fn encode(&self, run: usize, id: Id) -> Vec<u8> {
        let mut object = begin(MAGIC, self.entries.len() * ENTRY_BYTES);
        object.extend_from_slice(&(run as u16).to_le_bytes());
        object.extend_from_slice(&id.epoch.to_le_bytes());
        object.extend_from_slice(&id.number.to_le_bytes());
        object.extend_from_slice(&(self.entries.len() as u32).to_le_bytes());
        for Entry { first, page } in &self.entries {
            first.append_to(&mut object);
            object.extend_from_slice(&page.epoch.to_le_bytes());
            object.extend_from_slice(&page.number.to_le_bytes());
        }
        close(object)
    }

    /// The map that an object is; `None` if it is not what was written for this run under this id.
    pub(crate) fn decode(run: usize, id: Id, object: &[u8]) -> Option<Self> {
        let mut from = open(MAGIC, object)?;
        let is_it =
            usize::from(from.u16()?) == run && Id { epoch: from.u64()?, number: from.u64()? } == id;
        let count = is_it.then(|| from.u32())??;
        let mut entries: Vec<Entry> = Vec::with_capacity((count as usize).min(object.len() / 19));
        for _ in 0..count {
            let first = Spot::read(&mut from)?;
            let page = Id { epoch: from.u64()?, number: from.u64()? };
            if entries.last().is_some_and(|last| last.first >= first) {
                return None;
            }
            entries.push(Entry { first, page });
        }
        from.0.is_empty().then_some(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_is_read_as_it_was_written_and_finds_the_page_of_a_key() {
        let id = Id { epoch: 5, number: 6 };
        let spots = [Spot::first_of(0), Spot::first_of(100), Spot::of(b"a key")];
        let mut spots = spots.to_vec();
        spots.sort();
        let entry = |(number, first): (usize, &Spot)| {
            let page = Id { epoch: 1, number: number as u64 };
            Entry { first: first.clone(), page }
        };
        let map = Map { entries: spots.iter().enumerate().map(entry).collect() };
        let object = map.encode(3, id);
        assert_eq!(Map::decode(3, id, &object), Some(map.clone()));
        assert_eq!(Map::decode(2, id, &object), None);
        assert_eq!(Map::decode(3, Id { epoch: 5, number: 7 }, &object), None);
        for at in 0..object.len() {
            let mut other = object.clone();
            other[at] ^= 1;
            assert_eq!(Map::decode(3, id, &other), None, "byte {at}");
        }
        for (number, spot) in spots.iter().enumerate() {
            assert_eq!(map.find(spot), Some(number));
        }
        assert_eq!(Map::default().find(&Spot::of(b"a key")), None);
    }
}
