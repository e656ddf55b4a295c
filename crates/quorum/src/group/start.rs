//! How a cell begins to take part: what must be on disk before it says anything to others.

use super::election::{HEARTBEAT_MS, TIMEOUT_MAX_MS, TIMEOUT_MIN_MS};
use super::log::{Kept, Log};
use super::machine::Machine;
use super::shown::Shown;
use super::types::{Change, LogId, Proposal};
use crate::disk::{Directory, DirectoryError, DiskError, Health};
use openraft::{Config, EmptyNode, Entry, EntryPayload, Membership, SnapshotPolicy};
use ring::{Agreement, CellId, Map};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// A snapshot is made after this many entries, and the log is purged.
const SNAPSHOT_ENTRIES: u64 = 128;
/// Entries that stay in the log beside the snapshot, for members that are a little behind.
const KEPT_ENTRIES: u64 = 64;
/// Most entries of one body.
const BODY_ENTRIES: u64 = 32;

/// Why a cell cannot take part.
#[derive(Debug)]
pub enum StartError {
    /// Its directory is in use, or of another cell.
    Directory(DirectoryError),
    /// A file of it cannot be used.
    Disk(DiskError),
    /// The directory is bound to a cell already, so no ring can be founded with it.
    Bound {
        /// The ring.
        ring: u64,
        /// The cell.
        cell: CellId,
    },
    /// The Raft group did not start.
    Group(String),
}

/// What a cell has on disk.
pub struct Stored {
    pub directory: Arc<Directory>,
    pub log: Log,
    pub machine: Machine,
    pub health: Health,
    pub shown: Shown,
}

/// The log with which a group begins: `me` is its only voter, and `map` the map.
fn first_entries(me: CellId, map: Map) -> Kept {
    let nodes = BTreeMap::from([(me, EmptyNode {})]);
    let voters = Membership::new(vec![BTreeSet::from([me])], nodes);
    let found = Proposal::new(Change::Found(Box::new(map)));
    let payloads = [EntryPayload::Membership(voters), EntryPayload::Normal(found)];
    let entries = (0..)
        .zip(payloads)
        .map(|(index, payload)| Entry { log_id: LogId { index, ..LogId::default() }, payload });
    Kept::new(entries.collect())
}

impl Stored {
    /// Writes the log of the first cell of a ring, then binds the directory. A log without an
    /// identity is one of a founding that was cut short: nobody has seen it, so it is replaced.
    pub fn found(mut directory: Directory, me: CellId, map: Map) -> Result<Self, StartError> {
        if let Some((ring, cell)) = directory.identity() {
            return Err(StartError::Bound { ring, cell });
        }
        let ring = map.ring;
        Log::create(&Log::path(&directory), first_entries(me, map))?;
        directory.set_identity(ring, me)?;
        Ok(Self::read(Arc::new(directory), Shown::new(Map::new(ring, 1, 1)))?)
    }

    /// Begins `agreement` with `me` as its only voter and `map`, in place of the one of before.
    pub fn recover(
        directory: Arc<Directory>,
        agreement: Agreement,
        (me, map): (CellId, Map),
        shown: Shown,
    ) -> Result<Self, DiskError> {
        Self::switch(directory, agreement, first_entries(me, map), shown)
    }

    /// Takes part in `agreement` from now on, with nothing of it yet.
    pub fn adopt(
        directory: Arc<Directory>,
        agreement: Agreement,
        shown: Shown,
    ) -> Result<Self, DiskError> {
        Self::switch(directory, agreement, Kept::default(), shown)
    }

    fn switch(
        directory: Arc<Directory>,
        agreement: Agreement,
        kept: Kept,
        shown: Shown,
    ) -> Result<Self, DiskError> {
        let before = directory.agreement();
        Log::create(&Log::path_of(&directory, agreement), kept)?;
        directory.set_agreement(agreement)?;
        for old in [Log::path_of(&directory, before), Machine::path_of(&directory, before)] {
            // Nothing reads it any more.
            let _ = std::fs::remove_file(old);
        }
        Self::read(directory, shown)
    }

    /// Reads what an earlier life left. A directory that is not bound gets an empty log first. One
    /// that is bound and has none lost it: with an empty one, this cell could vote twice.
    pub fn open(mut directory: Directory, ring: u64, me: CellId) -> Result<Self, StartError> {
        if directory.identity().is_none() {
            Log::create(&Log::path(&directory), Kept::default())?;
        }
        directory.set_identity(ring, me)?;
        Ok(Self::read(Arc::new(directory), Shown::new(Map::new(ring, 1, 1)))?)
    }

    fn read(directory: Arc<Directory>, shown: Shown) -> Result<Self, DiskError> {
        let health = Health::default();
        let log = Log::open(directory.clone(), health.clone())?;
        let empty = Map::new(shown.map().ring, 1, 1);
        let machine = Machine::open(directory.clone(), empty, health.clone(), shown.clone())?;
        if log.kept().purged() > machine.applied() {
            let what = "it is older than what was removed from the log";
            let snapshot = Machine::path_of(&directory, directory.agreement());
            return Err(DiskError::broken(&snapshot, 0, what));
        }
        Ok(Self { directory, log, machine, health, shown })
    }
}

/// The settings of openraft.
pub fn config(ring: u64) -> Result<Arc<Config>, StartError> {
    let config = Config {
        cluster_name: format!("{ring:x}"),
        heartbeat_interval: HEARTBEAT_MS,
        election_timeout_min: TIMEOUT_MIN_MS,
        election_timeout_max: TIMEOUT_MAX_MS,
        enable_elect: false,
        install_snapshot_timeout: crate::DEADLINE.as_millis() as u64,
        max_payload_entries: BODY_ENTRIES,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
        max_in_snapshot_log_to_keep: KEPT_ENTRIES,
        replication_lag_threshold: SNAPSHOT_ENTRIES + KEPT_ENTRIES,
        ..Config::default()
    };
    let config = config.validate().map_err(|error| StartError::Group(error.to_string()))?;
    Ok(Arc::new(config))
}

impl From<DiskError> for StartError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl From<DirectoryError> for StartError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(error) => error.fmt(f),
            Self::Disk(error) => error.fmt(f),
            Self::Bound { ring, cell } => write!(
                f,
                "the directory is of cell {cell} of ring {ring:x}: choose another for a new ring"
            ),
            Self::Group(message) => write!(f, "the group of voters did not start: {message}"),
        }
    }
}

impl std::error::Error for StartError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Scratch;

    fn directory(scratch: &Scratch) -> Directory {
        Directory::open(scratch.path(), 1).unwrap()
    }

    #[test]
    fn a_founding_that_was_cut_short_begins_again() {
        let scratch = Scratch::new();
        let map = Map::new(7, 3, 2);
        let log = Log::path(&directory(&scratch));
        // The log was written, the identity was not.
        Log::create(&log, Kept::default()).unwrap();
        let stored = Stored::found(directory(&scratch), CellId(1), map.clone()).unwrap();
        assert_eq!(stored.log.kept().last().map(|last| last.index), Some(1));
        drop(stored);
        let again = Stored::found(directory(&scratch), CellId(1), map);
        assert!(matches!(again.map(drop), Err(StartError::Bound { ring: 7, cell: CellId(1) })));
        assert!(Stored::open(directory(&scratch), 7, CellId(1)).is_ok());
    }

    #[test]
    fn a_bound_directory_without_its_log_is_refused() {
        let scratch = Scratch::new();
        drop(Stored::open(directory(&scratch), 7, CellId(2)).unwrap());
        let log = Log::path(&directory(&scratch));
        std::fs::remove_file(&log).unwrap();
        let error = Stored::open(directory(&scratch), 7, CellId(2)).map(drop).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(log.to_str().unwrap()), "{message}");
        assert!(message.contains("joins as a new one"), "{message}");
    }
}
