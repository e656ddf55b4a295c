//! The vote and the log of a cell, on disk.
//!
//! Invariants: what is in memory is on disk. A change is written as one frame and fsynced before
//! memory changes, and so before anything is acknowledged. After the first failure nothing is
//! written any more. The file is rewritten when it has grown, so that its length follows what the
//! log holds.

use super::types::{LogId, StorageError, Types, Vote};
use crate::disk::{Directory, DiskError, Frames, Health};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{AnyError, Entry, LogState, OptionalSend, RaftLogReader, StorageIOError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// The file is rewritten when it has this many bytes and has doubled since it was rewritten last.
const REWRITE_BYTES: u64 = 256 << 10;

/// One change of what is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Record {
    /// All of it: the first frame of a file.
    All(Kept),
    Vote(Vote),
    Append(Vec<Entry<Types>>),
    /// Entries from this index on are removed.
    Truncate(u64),
    /// Entries up to this one are removed.
    Purge(LogId),
}

/// What is kept: vote, the last entry that was purged, and the entries after it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kept {
    vote: Option<Vote>,
    purged: Option<LogId>,
    entries: VecDeque<Entry<Types>>,
}

/// The store. A clone is the same one.
#[derive(Clone)]
pub struct Log {
    kept: Arc<Mutex<Kept>>,
    file: Arc<Mutex<File>>,
    health: Health,
    /// Stays locked while anything may write.
    _directory: Arc<Directory>,
}

struct File {
    frames: Frames,
    /// Its length when it was rewritten.
    bytes_at_first: u64,
}

impl Kept {
    /// A log that begins with these entries.
    pub fn new(entries: Vec<Entry<Types>>) -> Self {
        Self { vote: None, purged: None, entries: entries.into() }
    }

    /// The last entry that was purged.
    pub fn purged(&self) -> Option<LogId> {
        self.purged
    }

    /// The last entry.
    pub fn last(&self) -> Option<LogId> {
        self.entries.back().map(|entry| entry.log_id).or(self.purged)
    }

    /// The index after that of the last entry.
    fn end(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }

    /// Applies a change; `Err` if it does not fit what was before.
    fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::All(all) => *self = all,
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Append(entries) => {
                for entry in entries {
                    let (index, end) = (entry.log_id.index, self.end());
                    if index != end {
                        return Err(format!("entry {index} stands where entry {end} should"));
                    }
                    self.entries.push_back(entry);
                }
            }
            Record::Truncate(since) => {
                while self.entries.back().is_some_and(|entry| entry.log_id.index >= since) {
                    self.entries.pop_back();
                }
            }
            Record::Purge(upto) => {
                while self.entries.front().is_some_and(|entry| entry.log_id.index <= upto.index) {
                    self.entries.pop_front();
                }
                self.purged = self.purged.max(Some(upto));
            }
        }
        Ok(())
    }
}

impl Log {
    /// Creates the log of a cell that begins with `kept`, in place of one that there may be.
    pub fn create(path: &Path, kept: Kept) -> Result<(), DiskError> {
        Frames::create(path, &encode(&Record::All(kept), path)?).map(drop)
    }

    /// Opens the log.
    pub fn open(directory: Arc<Directory>, health: Health) -> Result<Self, DiskError> {
        let path = &Self::path(&directory);
        let (frames, payloads) = Frames::open(path)?;
        if payloads.is_empty() {
            return Err(DiskError::broken(path, 0, "it has no first frame"));
        }
        let mut kept = Kept::default();
        let mut at = 0;
        for payload in &payloads {
            let record = serde_json::from_slice(payload).map_err(|error| error.to_string());
            let applied = record.and_then(|record| kept.apply(record));
            applied.map_err(|what| DiskError::broken(path, at, what))?;
            at += payload.len() as u64;
        }
        let file = Arc::new(Mutex::new(File { bytes_at_first: frames.bytes(), frames }));
        let kept = Arc::new(Mutex::new(kept));
        Ok(Self { kept, file, health, _directory: directory })
    }

    /// Where the log of a cell is.
    pub fn path(directory: &Directory) -> PathBuf {
        directory.path().join("log")
    }

    /// What is kept.
    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("no holder of this lock panics")
    }

    /// Writes a change, outside the threads of the runtime.
    async fn write(&self, record: Record) -> Result<(), StorageError> {
        let log = self.clone();
        let written = tokio::task::spawn_blocking(move || log.write_now(record)).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(StorageIOError::write(AnyError::new(&error)).into()),
            Err(ended) => Err(StorageIOError::write(AnyError::new(&ended)).into()),
        }
    }

    fn write_now(&self, record: Record) -> Result<(), DiskError> {
        let mut file = self.file.lock().expect("no holder of this lock panics");
        let written = self.write_to(&mut file, record);
        written.inspect_err(|error| self.health.fails(error))
    }

    fn write_to(&self, file: &mut File, record: Record) -> Result<(), DiskError> {
        let path = file.frames.path().to_owned();
        if let Some(failure) = self.health.failure() {
            let error = std::io::Error::other(failure.message.clone());
            return Err(DiskError::io("write after a failure to", &path)(error));
        }
        file.frames.append(&encode(&record, &path)?)?;
        let applied = self.kept().apply(record);
        applied.map_err(|what| DiskError::broken(&path, file.frames.bytes(), what))?;
        if file.frames.bytes() > REWRITE_BYTES.max(2 * file.bytes_at_first) {
            let all = Record::All(self.kept().clone());
            file.frames = Frames::create(&path, &encode(&all, &path)?)?;
            file.bytes_at_first = file.frames.bytes();
        }
        Ok(())
    }
}

fn encode(record: &Record, path: &Path) -> Result<Vec<u8>, DiskError> {
    serde_json::to_vec(record).map_err(|error| DiskError::io("encode", path)(error.into()))
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry<Types>>, StorageError> {
        let kept = self.kept();
        let first = kept.end() - kept.entries.len() as u64;
        let from = match range.start_bound() {
            Bound::Included(from) => *from,
            Bound::Excluded(before) => before + 1,
            Bound::Unbounded => first,
        };
        let skipped = from.saturating_sub(first) as usize;
        let after = kept.entries.iter().skip(skipped);
        Ok(after.take_while(|entry| range.contains(&entry.log_id.index)).cloned().collect())
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let kept = self.kept();
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: kept.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        self.write(Record::Vote(*vote)).await
    }

    /// A leader that starts again is elected again. openraft would let it lead on in its old term,
    /// where it does not know which of its entries were committed, and so could read too little.
    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.kept().vote.map(|vote| Vote { committed: false, ..vote }))
    }

    async fn append<I>(
        &mut self,
        entries: I,
        flushed: LogFlushed<Types>,
    ) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        for entry in &entries {
            if let openraft::EntryPayload::Normal(proposal) = &entry.payload {
                proposal.set_logged();
            }
        }
        self.write(Record::Append(entries)).await?;
        flushed.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, since: LogId) -> Result<(), StorageError> {
        self.write(Record::Truncate(since.index)).await
    }

    async fn purge(&mut self, upto: LogId) -> Result<(), StorageError> {
        self.write(Record::Purge(upto)).await
    }
}
