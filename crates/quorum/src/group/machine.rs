//! The map as this cell has applied it, and its snapshot on disk.
//!
//! Invariants: the version of the map that watchers see never falls. The snapshot on disk is at
//! least as new as what was purged from the log, because it is on disk before openraft purges.

use super::shown::Shown;
use super::types::{Change, LogId, Membership, SnapshotMeta, StorageError, Types};
use crate::disk::{Directory, DiskError, Health, read_whole, write_whole};
use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, Entry, EntryPayload, OptionalSend, RaftSnapshotBuilder, Snapshot, StorageIOError,
};
use ring::{Agreement, Map, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The state machine.
pub struct Machine {
    applied: Option<LogId>,
    membership: Membership,
    map: Map,
    shown: Shown,
    file: SnapshotFile,
}

/// Builds a snapshot of the state at one moment.
pub struct Builder {
    kept: Kept,
    file: SnapshotFile,
}

/// A snapshot as it lies on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    meta: SnapshotMeta,
    map: Map,
}

/// The file of the newest snapshot. A clone is the same one.
#[derive(Clone)]
struct SnapshotFile {
    path: Arc<PathBuf>,
    newest: Arc<Mutex<Option<Kept>>>,
    health: Health,
    /// Stays locked while anything may write.
    _directory: Arc<Directory>,
}

impl Machine {
    /// The state of the snapshot; without one, the map `empty`. `shown` is what watchers and
    /// reports see, whatever the agreement.
    pub fn open(
        directory: Arc<Directory>,
        empty: Map,
        health: Health,
        shown: Shown,
    ) -> Result<Self, DiskError> {
        let path = Arc::new(Self::path_of(&directory, directory.agreement()));
        let newest: Option<Kept> = read_whole(&path)?;
        let (applied, membership, map) = match &newest {
            Some(kept) => {
                let meta = &kept.meta;
                (meta.last_log_id, meta.last_membership.clone(), kept.map.clone())
            }
            None => (None, Membership::default(), empty),
        };
        let newest = Arc::new(Mutex::new(newest));
        let file = SnapshotFile { path, newest, health, _directory: directory };
        let machine = Self { applied, membership, map, shown, file };
        machine.publish();
        Ok(machine)
    }

    /// Where the snapshot of an agreement is.
    pub fn path_of(directory: &Directory, agreement: Agreement) -> PathBuf {
        directory.file_of("snapshot", agreement)
    }

    /// The last entry that was applied.
    pub fn applied(&self) -> Option<LogId> {
        self.applied
    }

    fn apply_entry(&mut self, entry: Entry<Types>) -> Option<Verdict> {
        self.applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                self.membership = Membership::new(Some(entry.log_id), membership);
                None
            }
            EntryPayload::Normal(proposal) => match proposal.change {
                Change::Found(map) => {
                    self.map = *map;
                    self.publish();
                    None
                }
                Change::Command(command) => {
                    let before = self.map.clone();
                    let verdict = self.map.apply(&command);
                    if self.map.version > before.version {
                        self.shown.changes.push(ring::Change::of(
                            &before,
                            &self.map,
                            Some(&command),
                        ));
                    }
                    self.publish();
                    Some(verdict)
                }
            },
        }
    }

    fn publish(&self) {
        self.shown.publish(&self.map);
    }
}

impl SnapshotFile {
    /// Writes a snapshot, unless a newer one is on disk.
    async fn write(&self, kept: Kept) -> Result<(), StorageError> {
        let file = self.clone();
        let written = tokio::task::spawn_blocking(move || file.write_now(kept)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(StorageIOError::write(AnyError::new(&error)).into()),
            Err(ended) => Err(StorageIOError::write(AnyError::new(&ended)).into()),
        }
    }

    fn write_now(&self, kept: Kept) -> Result<(), DiskError> {
        let mut newest = self.newest.lock().expect("no holder of this lock panics");
        let last = newest.as_ref().and_then(|newest| newest.meta.last_log_id);
        if kept.meta.last_log_id < last {
            return Ok(());
        }
        let written = write_whole(&self.path, &kept);
        written.inspect_err(|error| self.health.fails(error))?;
        *newest = Some(kept);
        Ok(())
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        self.file.write(self.kept.clone()).await?;
        let Kept { meta, map } = self.kept.clone();
        Ok(Snapshot { meta, snapshot: Box::new(map) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Option<Verdict>>, StorageError>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        Ok(entries.into_iter().map(|entry| self.apply_entry(entry)).collect())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let meta = SnapshotMeta {
            last_log_id: self.applied,
            last_membership: self.membership.clone(),
            snapshot_id: self.applied.map(|last| last.to_string()).unwrap_or_default(),
        };
        Builder { kept: Kept { meta, map: self.map.clone() }, file: self.file.clone() }
    }

    /// Not used: a snapshot arrives as a whole.
    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Map>, StorageError> {
        Ok(Box::new(self.map.clone()))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        map: Box<Map>,
    ) -> Result<(), StorageError> {
        self.file.write(Kept { meta: meta.clone(), map: (*map).clone() }).await?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.map = *map;
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        let newest = self.file.newest.lock().expect("no holder of this lock panics").clone();
        Ok(newest.map(|Kept { meta, map }| Snapshot { meta, snapshot: Box::new(map) }))
    }
}
