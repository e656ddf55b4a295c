//! What is left of a journal that is corrupt, brought below: then a new one begins.
//!
//! Of each key the newest record that can be read goes to the backend, unless that has a newer one.
//! What is lost may have been a newer change, also a removal: an older value may be back, which is
//! why an operator must ask for this.

use crate::backend::{Backend, BackendError, Change};
use crate::index::{Entry, Index, Kind, Place};
use crate::journal::{Found, SliceState};
use crate::key::KeyHash;
use crate::stored::Stored;
use base::{Effect, Version};
use std::sync::Arc;

/// Changes that go to the backend at once, and bytes of their records.
const AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 4 << 20;

/// Brings what the index names below, which keeps `given` of each slice. Nothing is dirty then, and
/// the segments are free once the new journal counts. Returns how many keys were written or
/// removed.
pub(crate) fn salvage(
    found: &mut Found,
    index: &Arc<Index>,
    backend: &dyn Backend,
    given: &[SliceState],
) -> Result<u64, BackendError> {
    let mut named = Vec::new();
    index.for_each(|hash, entry| named.push((hash, *entry)));
    // What is written together, and then in the order of the files.
    named.sort_by_key(|(hash, entry)| {
        let group = backend.group(hash.slice()).numbers().start;
        (group, entry.place.segment, entry.place.offset)
    });
    let mut count = 0;
    let mut rest = &named[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |(_, entry): &&(KeyHash, Entry)| {
            bytes += entry.place.bytes as usize;
            bytes <= BYTES_AT_ONCE
        };
        let fitting = rest.iter().take(AT_ONCE).take_while(fits).count();
        let (some, others) = rest.split_at(fitting.max(1));
        count += bring_below(found, backend, some)?;
        some.iter().for_each(|(hash, entry)| _ = index.remove_if(*hash, entry.version));
        rest = others;
    }
    found.begin_empty(given);
    Ok(count)
}

fn bring_below(
    found: &mut Found,
    backend: &dyn Backend,
    named: &[(KeyHash, Entry)],
) -> Result<u64, BackendError> {
    let mut changes = Vec::new();
    for (_, entry) in named {
        let Entry { place, version, .. } = *entry;
        let Some(bytes) = read(found, place) else { continue };
        let Ok((effects::Entry::Change { slice, version: own, effect, .. }, _)) =
            effects::Entry::decode(&bytes)
        else {
            continue;
        };
        if version <= found.states[slice.index()].barrier {
            continue;
        }
        let mut record = Vec::new();
        let below = match backend.get(effect.key, &mut record)? {
            true => Stored::decode(effect.key, record),
            false => None,
        };
        if below.as_ref().is_some_and(|below| below.version >= version) {
            continue;
        }
        if let Some(record) = record_of(entry, (&effect, own), below) {
            changes.push((effect.key.to_vec(), record));
        }
    }
    let all = changes.iter().map(|(key, record)| match record {
        Some(record) => Change::Put { key, record },
        None => Change::Delete { key },
    });
    let all: Vec<_> = all.collect();
    if !all.is_empty() {
        backend.apply(&all)?;
    }
    Ok(all.len() as u64)
}

/// What a key is to have below: a record, or none. `None`: what is there stays.
fn record_of(
    entry: &Entry,
    (effect, version): (&Effect<'_>, Version),
    below: Option<Stored>,
) -> Option<Option<Vec<u8>>> {
    if entry.kind == Kind::Tombstone {
        return Some(None);
    }
    // A touch of what is not there changes nothing.
    let stored = Stored::of(effect, version).or(below)?;
    Some(Some(stored.touched(entry.version, entry.expiry_s).encode(effect.key)))
}

/// The entry of the record at `place`; `None` if it cannot be read, which is in the list of what is
/// lost.
fn read(found: &mut Found, place: Place) -> Option<Vec<u8>> {
    let read = found.read(place);
    if read.is_none() {
        let Place { segment, offset, .. } = place;
        found.lost.push(format!("the record at byte {offset} of segment number {segment}"));
    }
    read
}
