//! The journal, the dirty index and what lies below, one under the other.

use crate::backend::{Backend, BackendError, Failure};
use crate::held::Held;
use crate::in_ring::InRing;
use crate::index::{Entry, Index, Kind};
use crate::journal::Journal;
use crate::key::{KeyHash, KeyHasher};
use crate::stored::Stored;
use crate::sync::{Mutex, lock};
use base::{Now, SliceId, Version};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Times that one lookup follows a key that is changed, or written back, meanwhile.
const TRIES_MAX: usize = 16;

/// What was found below.
#[derive(Debug)]
pub enum Loaded {
    /// An item.
    Item(Stored),
    /// Nothing.
    Missing,
    /// The key is being changed: ask again.
    Again,
}

/// All that lies below the memory.
pub(crate) struct Layers {
    pub(crate) journal: Journal,
    pub(crate) index: Arc<Index>,
    pub(crate) hasher: KeyHasher,
    pub(crate) backend: Arc<dyn Backend>,
    /// In a ring: what the cell is to each slice.
    pub(crate) ring: Option<InRing>,
    /// Values that were read from the journal, and from below.
    pub(crate) from_journal: AtomicU64,
    pub(crate) from_below: AtomicU64,
    /// Keys that were written back, and bytes of those: counted before a reply leaves that waits.
    pub(crate) flushed_keys: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    /// What cannot be written back for a while.
    pub(crate) held: Mutex<Held>,
    /// Is called with each key that was written back, and its version there.
    pub(crate) written_back: OnceLock<WrittenBack>,
}

/// Takes a key that was written back, and its version there.
pub(crate) type WrittenBack = Box<dyn Fn(&[u8], Version) + Send + Sync>;

impl Layers {
    pub(crate) fn new(
        journal: Journal,
        index: Arc<Index>,
        hasher: KeyHasher,
        backend: Arc<dyn Backend>,
        ring: Option<InRing>,
    ) -> Self {
        let [from_journal, from_below] = [0, 0].map(AtomicU64::new);
        let [flushed_keys, flushed_bytes] = [0, 0].map(AtomicU64::new);
        let written_back = OnceLock::new();
        Self {
            journal,
            index,
            hasher,
            backend,
            ring,
            from_journal,
            from_below,
            flushed_keys,
            flushed_bytes,
            held: Mutex::default(),
            written_back,
        }
    }

    /// Whether a change of a key finds a place: the index is not full, or names the key already.
    #[inline]
    pub(crate) fn has_place_for(&self, slice: SliceId, key: &[u8]) -> bool {
        let is_named = || self.index.get(self.hasher.hash(slice, key)).is_some();
        self.journal.failure().is_none() && (!self.index.is_full(0) || is_named())
    }

    /// This cell leads other slices than before: what waits until another cell writes it back is
    /// looked at again.
    pub(crate) fn leads_others(&self) {
        lock(&self.held).leads_others();
    }

    /// Whether this cell leads a slice.
    pub(crate) fn leads(&self, slice: SliceId) -> bool {
        self.ring.as_ref().is_none_or(|ring| ring.leads(slice))
    }

    /// Whether the version of a slice may be written back now: this cell leads the slice, and what
    /// could still be lost is not below.
    pub(crate) fn may_write_back(&self, slice: SliceId, version: Version) -> bool {
        self.ring.as_ref().is_none_or(|ring| ring.may_write_back(slice, version))
    }

    /// What a key has that is not in memory. A lookup of it has begun.
    pub(crate) fn look(
        &self,
        slice: SliceId,
        key: &[u8],
        hash: KeyHash,
        now: Now,
    ) -> Result<Loaded, BackendError> {
        for _ in 0..TRIES_MAX {
            // After the lookup has begun: a change before that is in the log by now.
            if !self.journal.has_indexed(slice) {
                return Ok(Loaded::Again);
            }
            let barrier = self.journal.barrier(slice);
            let stored = match self.index.get(hash) {
                Some(entry) if entry.version <= barrier || entry.kind == Kind::Tombstone => None,
                Some(entry) if entry.kind == Kind::TouchOf => {
                    let below = self.below(key)?.filter(|stored| stored.version > barrier);
                    below.map(|stored| stored.touched(entry.version, entry.expiry_s))
                }
                Some(entry) => match self.read_journal(key, &entry)? {
                    Some(stored) => Some(stored),
                    // No segment is used again while a record in it is named.
                    None if self.index.names(hash, entry.place) => {
                        let segment = entry.place.segment;
                        let what = format!("a record in segment {segment} is not what was written");
                        return Err(BackendError { failure: Failure::Corrupt, what });
                    }
                    // It was written back, or changed.
                    None => continue,
                },
                None => self.below(key)?,
            };
            let has_expired = |stored: &Stored| {
                stored.facts.expiry_s != 0 && stored.facts.expiry_s <= now.expiry_s
            };
            let stored = stored.filter(|it| it.version > barrier && !has_expired(it));
            return Ok(stored.map_or(Loaded::Missing, Loaded::Item));
        }
        Ok(Loaded::Again)
    }

    /// The item of a key below.
    pub(crate) fn below(&self, key: &[u8]) -> Result<Option<Stored>, BackendError> {
        let mut record = Vec::new();
        if !self.backend.get(key, &mut record)? {
            return Ok(None);
        }
        self.from_below.fetch_add(1, Ordering::Relaxed);
        let corrupt = || BackendError {
            failure: Failure::Corrupt,
            what: format!("{} has a record that was not written by it", self.backend.name()),
        };
        Stored::decode(key, record).map(Some).ok_or_else(corrupt)
    }

    /// The item whose record the journal has at the place that `entry` names; `None` if it is not
    /// there any more.
    fn read_journal(&self, key: &[u8], entry: &Entry) -> Result<Option<Stored>, BackendError> {
        let segment = entry.place.segment;
        let read = self.journal.read(entry.place);
        let Some(bytes) = read.map_err(|error| unreadable(segment, &error))? else {
            return Ok(None);
        };
        let Ok((effects::Entry::Change { effect, version, .. }, _)) =
            effects::Entry::decode(&bytes)
        else {
            return Ok(None);
        };
        if effect.key != key {
            return Ok(None);
        }
        self.from_journal.fetch_add(1, Ordering::Relaxed);
        let stored = Stored::of(&effect, version);
        Ok(stored.map(|stored| stored.touched(entry.version, entry.expiry_s)))
    }
}

/// An error of the disk at a segment.
pub(crate) fn unreadable(segment: u32, error: &io::Error) -> BackendError {
    let what = format!("segment {segment} of the journal cannot be read: {error}");
    BackendError { failure: Failure::Transient, what }
}
