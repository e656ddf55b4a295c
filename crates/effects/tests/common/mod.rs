//! What tests of the logs share: a small cell whose versions are counted as an engine counts them.
#![allow(dead_code)]

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;
use source::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(any(loom, shuttle)))]
use std as source;

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Refused, Removal, SliceId, SliceRange,
    Space, Value, Version,
};
use effects::{
    Joining, LOG_BYTES_MIN, Lanes, LanesConfig, Level, Log, Mark, Place, ReaderId, Who, WorkerSink,
};
use std::sync::Arc;

/// Bytes of the tables of slices, which logs pay for.
pub const TABLES: u64 = 16_384 * 17;
/// Slices that tests use.
pub const SLICES: usize = 4;

pub const LEVEL: Level = Level::new(3).expect("a level");

pub fn slice(index: usize) -> SliceId {
    SliceId::new(index).expect("a slice")
}

/// Logs, and an engine's counters and barriers.
pub struct Cell {
    pub lanes: Arc<Lanes>,
    versions: [AtomicU64; SLICES],
    barriers: [AtomicU64; SLICES],
}

impl Cell {
    /// A cell with logs of `scale` times the smallest size.
    pub fn new(lanes: usize, sinks: usize, scale: u64) -> Arc<Self> {
        let bytes = TABLES + lanes as u64 * LOG_BYTES_MIN * scale;
        let config = LanesConfig { lanes, sinks, bytes, value_bytes_max: 0, follows: false };
        Self::of(Lanes::new(&config, &MemoryBudget::new(32 * bytes)).expect("enough memory"))
    }

    pub fn of(lanes: Arc<Lanes>) -> Arc<Self> {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { lanes, versions: zeros(), barriers: zeros() })
    }

    /// The log of the first lane.
    pub fn log(&self) -> &Log {
        self.lanes.logs().next().expect("a lane").1
    }

    pub fn sink(&self) -> WorkerSink {
        WorkerSink::new(self.lanes.clone())
    }

    /// The last version of a slice. It is read and written apart, so that only the lock of the log
    /// makes the counter right.
    pub fn version(&self, index: usize) -> u64 {
        self.versions[index].load(Ordering::Relaxed)
    }

    /// Lets the versions of a slice jump.
    pub fn advance(&self, index: usize, by: u64) {
        self.versions[index].store(self.version(index) + by, Ordering::Relaxed);
    }

    /// The version up to which items of a slice are dead.
    pub fn barrier(&self, index: usize) -> u64 {
        self.barriers[index].load(Ordering::Relaxed)
    }

    fn stamp(&self, index: usize, made_from: Option<Version>) -> Result<Version, Refused> {
        let barrier = self.barriers[index].load(Ordering::Relaxed);
        if made_from.is_some_and(|version| version.raw() <= barrier) {
            return Err(Refused::Flushed);
        }
        self.advance(index, 1);
        Ok(Version::from_raw(self.version(index)))
    }

    /// Appends a change of an item, perhaps made from an older version of it.
    pub fn change(
        &self,
        sink: &mut WorkerSink,
        index: usize,
        change: Change<'_>,
        made_from: Option<Version>,
    ) -> Result<Version, Refused> {
        let (slice, key) = (slice(index), b"key");
        let value = if let Change::Put(value, _) = change { Some(value) } else { None };
        let space = match change {
            Change::Remove(_) => Space::Removal,
            _ => Space::Change { key_bytes: key.len(), value_bytes: change.value_bytes(), value },
        };
        sink.reserve(slice, space)?;
        let id = KeyId { slice, hash: 0 };
        let effect = Effect { key, change };
        sink.commit(id, &effect, || self.stamp(index, made_from))
    }

    pub fn put(
        &self,
        sink: &mut WorkerSink,
        index: usize,
        value: &[u8],
    ) -> Result<Version, Refused> {
        let value = Value::Parts([value, &[]]);
        self.change(sink, index, Change::Put(value, Facts::default()), None)
    }

    pub fn remove(&self, sink: &mut WorkerSink, index: usize) -> Result<Version, Refused> {
        self.change(sink, index, Change::Remove(Removal::Deleted), None)
    }

    /// Flushes all slices: no change that is made from what was there is taken any more.
    pub fn flush(&self, sink: &mut WorkerSink) -> Result<Vec<Place>, Refused> {
        let mut places = Vec::new();
        let set = |slice: SliceId| {
            let version = self.version(slice.index());
            self.barriers[slice.index()].store(version, Ordering::Relaxed);
        };
        sink.barrier(SliceRange::new(0..SLICES), set, &mut places)?;
        Ok(places)
    }
}

/// A reader that holds entries back until it has passed `Durable`.
pub fn holder() -> Joining {
    Joining { who: Who::Journal, from: None, holds: Some(Mark::Durable), grants: None }
}

/// A reader that may fall out.
pub fn watch() -> Joining {
    Joining { who: Who::Watch, from: None, holds: None, grants: None }
}

/// A holder whose mark `Durable` is all of [`LEVEL`].
pub fn join_level(log: &Log) -> ReaderId {
    let reader = log.join(&holder()).expect("there is a place");
    assert!(log.set_level(LEVEL, &[(reader, Mark::Durable)]));
    reader
}
