//! How what is dirty is written back: the oldest records first, those that the index still names.
//!
//! ```text
//! courses:  earlier starts | lane 0 | lane 1 ...        each in the order of its segments
//!           gather --> at most one change for each key --> backend, durable --> index, courses
//! ```
//!
//! Only durable records are written back: else a start after a power cut would put an older value
//! over a newer one below. A change leaves the index only if nothing newer has come meanwhile.
//!
//! One thread flushes at a time, so at most one change of a key is on its way below.

use crate::backend::{BackendError, Change, Failure};
use crate::index::{Entry, Kind, Place};
use crate::journal::{BATCH_HEAD_BYTES, BatchHead, BatchKind, Course, Segment, Spot, records};
use crate::key::KeyHash;
use crate::layers::{Layers, unreadable};
use crate::stored::Stored;
use base::{Effect, Now, Version};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;

/// Bytes of keys and records that are written back at once, unless one is longer.
const BYTES_MAX: usize = 4 << 20;

/// Changes that are written back at once, at most.
const CHANGES_MAX: usize = 8192;

/// Bytes of segments that are read in one round, unless a batch is longer: most may be superseded.
const READ_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read of a segment at once, unless a batch is longer.
const READ_BYTES: usize = 1 << 20;

/// A change to write back.
struct Back {
    hash: KeyHash,
    key: Vec<u8>,
    /// `None`: the key is to be removed.
    record: Option<Vec<u8>>,
    /// What the index named, and as of which version.
    place: Place,
    version: Version,
}

/// What is gathered.
#[derive(Default)]
struct Gathered {
    changes: Vec<Back>,
    places: HashMap<KeyHash, usize>,
    bytes: usize,
    /// Bytes of segments that were read.
    read: usize,
}

impl Gathered {
    fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || self.changes.len() >= CHANGES_MAX || self.read >= READ_BYTES_MAX
    }

    /// Takes a change; a later one of the same key takes the place of an earlier one.
    fn push(&mut self, back: Back) {
        self.bytes += back.key.len() + back.record.as_ref().map_or(0, Vec::len);
        match self.places.entry(back.hash) {
            std::collections::hash_map::Entry::Occupied(at) => self.changes[*at.get()] = back,
            std::collections::hash_map::Entry::Vacant(at) => {
                at.insert(self.changes.len());
                self.changes.push(back);
            }
        }
    }
}

/// What one round has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Keys that were written back or removed below.
    pub keys: u64,
    /// Bytes of their keys and records.
    pub bytes: u64,
    /// Whether there may be more to write back now.
    pub has_more: bool,
}

/// Writes back what has been durable since `before_ns`: as much as one call of the backend should
/// take.
pub(crate) fn flush(layers: &Layers, now: Now, before_ns: u64) -> Result<Flushed, BackendError> {
    let mut gathered = Gathered::default();
    let mut reached = Vec::new();
    // Before anything is gathered: a touch that comes later stands after the end of its course.
    let ends = layers.journal.courses().map(|course| (course, layers.journal.end_of(course)));
    for (course, end) in ends.collect::<Vec<_>>() {
        let spot = gather(layers, course, end, (before_ns, now), &mut gathered)?;
        if spot > layers.journal.reached(course) {
            reached.push((course, spot));
        }
        if gathered.is_full() {
            break;
        }
    }
    if !gathered.changes.is_empty() {
        let changes = gathered.changes.iter().map(|back| match &back.record {
            Some(record) => Change::Put { key: &back.key, record },
            None => Change::Delete { key: &back.key },
        });
        layers.backend.apply(&changes.collect::<Vec<_>>())?;
        for back in &gathered.changes {
            layers.index.written_back(back.hash, back.place, back.version);
        }
    }
    let has_more = gathered.is_full();
    layers.journal.set_reached(&reached);
    let (keys, bytes) = (gathered.changes.len() as u64, gathered.bytes as u64);
    Ok(Flushed { keys, bytes, has_more })
}

/// Gathers from one course, at most to its `end`. Returns up to where it is gathered.
fn gather(
    layers: &Layers,
    course: Course,
    end: Spot,
    (before_ns, now): (u64, Now),
    gathered: &mut Gathered,
) -> Result<Spot, BackendError> {
    let mut spot = layers.journal.reached(course);
    while !gathered.is_full() {
        let Some(segment) = layers.journal.segment_from(course, spot.segment) else { break };
        spot = spot.max(segment.begin());
        if spot.segment > end.segment {
            break;
        }
        let mut limit = segment.durable_since(before_ns);
        if spot.segment == end.segment {
            limit = limit.min(end.offset);
        }
        if spot.offset < limit {
            spot.offset = gather_segment(layers, &segment, (spot.offset, limit), now, gathered)?;
        } else if segment.ends_before(spot) {
            let next = layers.journal.segment_from(course, segment.number() + 1);
            let Some(next) = next else { break };
            spot = next.begin();
        } else {
            break;
        }
    }
    Ok(spot)
}

/// Gathers from a part of a segment. Returns up to where.
fn gather_segment(
    layers: &Layers,
    segment: &Arc<Segment>,
    (from, limit): (u32, u32),
    now: Now,
    gathered: &mut Gathered,
) -> Result<u32, BackendError> {
    let refused = |error: io::Error| unreadable(segment.number(), &error);
    let mut wanted = READ_BYTES;
    let mut at = from;
    while at < limit && !gathered.is_full() {
        let mut bytes = vec![0; wanted.min((limit - at) as usize)];
        segment.file.read_at(at.into(), &mut bytes).map_err(refused)?;
        let mut taken = 0;
        while let Some((head, payload)) = BatchHead::open(segment.seed, &bytes[taken..]) {
            let begin = at + taken as u32;
            if head.kind == BatchKind::Records {
                gather_batch(layers, (segment.number(), begin), payload, now, gathered)?;
            }
            taken += BATCH_HEAD_BYTES + payload.len();
            if gathered.is_full() {
                break;
            }
        }
        let rest = bytes.len() - taken;
        gathered.read += taken;
        at += taken as u32;
        wanted = READ_BYTES;
        if taken == 0 {
            let head = bytes.first_chunk().and_then(|head| BatchHead::length(segment.seed, head));
            match head.filter(|length| *length > rest && *length <= (limit - at) as usize) {
                Some(length) => wanted = length,
                None => {
                    let what = io::Error::new(io::ErrorKind::InvalidData, "no batch where one was");
                    return Err(refused(what));
                }
            }
        }
    }
    Ok(at)
}

fn gather_batch(
    layers: &Layers,
    (segment, begin): (u32, u32),
    payload: &[u8],
    now: Now,
    gathered: &mut Gathered,
) -> Result<(), BackendError> {
    for record in records(payload) {
        let record = record
            .map_err(|what| unreadable(segment, &io::Error::new(io::ErrorKind::InvalidData, what)));
        let (at, _, entry) = record?;
        let effects::Entry::Change { slice, version, effect, .. } = entry else { continue };
        let hash = layers.hasher.hash(slice, effect.key);
        let offset = begin + BATCH_HEAD_BYTES as u32 + at;
        // Before the index is asked: a touch that it does not know yet may have raised the expiry.
        let is_indexed = layers.journal.has_indexed(slice);
        let Some(named) = layers.index.get(hash) else { continue };
        // A touch of what lies below is found by each of its records: it has no place of its own.
        let is_touch = named.kind == Kind::TouchOf && Stored::of(&effect, version).is_none();
        if (named.place.segment, named.place.offset) != (segment, offset) && !is_touch {
            continue;
        }
        if named.version <= layers.journal.barrier(slice) {
            layers.index.remove_if(hash, named.version);
            continue;
        }
        let key = effect.key.to_vec();
        let is_removed = named.kind == Kind::Tombstone || (is_indexed && has_expired(&named, now));
        let record = match is_removed {
            true => Ok(None),
            false => record_of(layers, (&effect, version), &named),
        };
        let record = match record {
            // A touch of what cannot be read any more changes nothing.
            Err(error) if error.failure == Failure::Corrupt => {
                layers.index.remove_if(hash, named.version);
                continue;
            }
            record => record?,
        };
        let Entry { place, version, .. } = named;
        gathered.push(Back { hash, key, record, place, version });
    }
    Ok(())
}

/// Whether a key is to be removed below because its item has expired: an older value there would
/// come back. An item that has just expired is written back instead, with its expiry: a request
/// that began before that may touch it.
fn has_expired(named: &Entry, now: Now) -> bool {
    named.expiry_s != 0 && named.expiry_s < now.expiry_s
}

/// What a key that was not removed is to have below; `None` if it has nothing there that a touch
/// could change.
fn record_of(
    layers: &Layers,
    (effect, version): (&Effect<'_>, Version),
    named: &Entry,
) -> Result<Option<Vec<u8>>, BackendError> {
    let stored = match Stored::of(effect, version) {
        Some(stored) => Some(stored),
        None => layers.below(effect.key)?,
    };
    Ok(stored.map(|stored| stored.touched(named.version, named.expiry_s).encode(effect.key)))
}
