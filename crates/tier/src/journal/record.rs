//! Records: the changes that are journaled, as the payload of a batch holds them.

use super::format::{RECORD_BYTES, Spot};
use crate::index::{Kind, Place};
use base::{Change, Effect, Removal, SliceId, Version};
use effects::Entry;
use std::io;

/// Records of a batch that may not be durable.
pub(crate) struct TailBatch {
    /// Where the batch begins.
    pub(crate) at: Spot,
    /// Where it lay before anything was written once more.
    pub(crate) origin: Spot,
    pub(crate) payload: Vec<u8>,
}

/// Changes of a key that are given up.
pub(crate) struct GivingUp<'k> {
    /// The key.
    pub(crate) key: &'k [u8],
    /// Where the record lies that the index names.
    pub(crate) place: Place,
    /// The version of the last change that the index knows.
    pub(crate) version: &'k mut Version,
}

/// Bytes that are no records.
pub(crate) fn corrupt(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// What the index keeps of a change, and the expiry. The kind is that of its record, or none for a
/// touch, which leaves the record of the value in place. `None` for a change that is not journaled:
/// what memory alone is concerned with.
pub(crate) fn journaled(change: &Change<'_>) -> Option<(Option<Kind>, u32)> {
    match change {
        Change::Put(_, facts) | Change::Touch(_, Some((_, facts))) if facts.vivified => None,
        Change::Put(_, facts) => Some((Some(Kind::Value), facts.expiry_s)),
        Change::Touch(expiry_s, Some(_)) => Some((Some(Kind::Value), *expiry_s)),
        Change::Touch(expiry_s, None) => Some((None, *expiry_s)),
        Change::Remove(Removal::Deleted) => Some((Some(Kind::Tombstone), 0)),
        Change::Remove(Removal::Evicted | Removal::Expired) => None,
    }
}

/// Whether a record says that the changes of its key up to its version are given up. What a log
/// has of evictions is not journaled, so this means nothing else in a journal.
pub(crate) fn gives_up(change: &Change<'_>) -> bool {
    matches!(change, Change::Remove(Removal::Evicted))
}

/// The entry of such a record.
pub(crate) fn giving_up<'a>(key: &'a [u8], version: Version) -> Entry<'a> {
    let effect = Effect { key, change: Change::Remove(Removal::Evicted) };
    Entry::Change { slice: SliceId::of(key), version, effect, tag: None }
}

/// The records in the payload of a batch: the offset, the length and the entry of each. After an
/// error it ends.
pub(crate) fn records(
    payload: &[u8],
) -> impl Iterator<Item = Result<(u32, u32, Entry<'_>), String>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = payload.get(at..).filter(|rest| !rest.is_empty())?;
        let entry = rest.get(RECORD_BYTES..).unwrap_or(&[]);
        let decoded = Entry::decode(entry).map_err(|broken| broken.to_string());
        Some(match decoded {
            Ok((entry, length)) => {
                let (offset, bytes) = (at as u32, (RECORD_BYTES + length) as u32);
                at += RECORD_BYTES + length;
                Ok((offset, bytes, entry))
            }
            Err(broken) => {
                at = payload.len();
                Err(broken)
            }
        })
    })
}
