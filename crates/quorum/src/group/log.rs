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
use ring::Agreement;
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

    /// Says why a change does not fit what was before.
    fn check(&self, record: &Record) -> Result<(), String> {
        let Record::Append(entries) = record else { return Ok(()) };
        let indices = entries.iter().map(|entry| entry.log_id.index);
        match indices.zip(self.end()..).find(|(index, end)| index != end) {
            Some((index, end)) => Err(format!("entry {index} stands where entry {end} should")),
            None => Ok(()),
        }
    }

    /// Applies a change that fits.
    fn apply(&mut self, record: Record) {
        match record {
            Record::All(all) => *self = all,
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Append(entries) => self.entries.extend(entries),
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
        for (at, payload) in &payloads {
            let record = serde_json::from_slice(payload).map_err(|error| error.to_string());
            let record = record.and_then(|record| kept.check(&record).map(|()| record));
            kept.apply(record.map_err(|what| DiskError::broken(path, *at, what))?);
        }
        let file = Arc::new(Mutex::new(File { bytes_at_first: frames.bytes(), frames }));
        let kept = Arc::new(Mutex::new(kept));
        Ok(Self { kept, file, health, _directory: directory })
    }

    /// Where the log of a cell is, of the agreement that it takes part in.
    pub fn path(directory: &Directory) -> PathBuf {
        Self::path_of(directory, directory.agreement())
    }

    /// Where that of an agreement is.
    pub fn path_of(directory: &Directory, agreement: Agreement) -> PathBuf {
        directory.file_of("log", agreement)
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
        let checked = self.kept().check(&record);
        checked.map_err(|what| DiskError::broken(&path, file.frames.bytes(), what))?;
        file.frames.append(&encode(&record, &path)?)?;
        self.kept().apply(record);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Scratch;
    use openraft::EntryPayload;

    fn open(scratch: &Scratch) -> Log {
        let directory = Arc::new(Directory::open(scratch.path(), 1).unwrap());
        let path = Log::path(&directory);
        if !path.exists() {
            Log::create(&path, Kept::default()).unwrap();
        }
        Log::open(directory, Health::default()).unwrap()
    }

    fn entry(index: u64) -> Entry<Types> {
        Entry { log_id: LogId { index, ..LogId::default() }, payload: EntryPayload::Blank }
    }

    /// Vote, last purged entry, indices.
    type Seen = (Option<Vote>, Option<u64>, Vec<u64>);

    fn seen(log: &Log) -> Seen {
        let kept = log.kept();
        let indices = kept.entries.iter().map(|entry| entry.log_id.index).collect();
        (kept.vote, kept.purged.map(|purged| purged.index), indices)
    }

    #[tokio::test]
    async fn each_change_is_there_after_a_restart() {
        let scratch = Scratch::new();
        let vote = Vote::new_committed(3, ring::CellId(2));
        let mut log = open(&scratch);
        log.save_vote(&vote).await.unwrap();
        drop(log);
        let changes: [(Record, Seen); 5] = [
            (Record::Append((0..5).map(entry).collect()), (Some(vote), None, vec![0, 1, 2, 3, 4])),
            (Record::Truncate(3), (Some(vote), None, vec![0, 1, 2])),
            (Record::Append(vec![entry(3)]), (Some(vote), None, vec![0, 1, 2, 3])),
            (Record::Purge(entry(1).log_id), (Some(vote), Some(1), vec![2, 3])),
            (Record::Purge(entry(9).log_id), (Some(vote), Some(9), vec![])),
        ];
        for (change, expected) in changes {
            open(&scratch).write(change).await.unwrap();
            assert_eq!(seen(&open(&scratch)), expected);
        }
        let mut log = open(&scratch);
        log.write_now(Record::Append(vec![entry(10), entry(11)])).unwrap();
        log.truncate(entry(11).log_id).await.unwrap();
        log.purge(entry(10).log_id).await.unwrap();
        drop(log);
        let mut log = open(&scratch);
        assert_eq!(log.get_log_state().await.unwrap().last_log_id, Some(entry(10).log_id));
        let read = log.read_vote().await.unwrap().unwrap();
        assert_eq!(read, Vote::new(3, ring::CellId(2)), "a leader that restarts is elected again");
    }

    #[tokio::test]
    async fn the_file_is_rewritten_when_it_has_grown_and_loses_nothing() {
        let scratch = Scratch::new();
        let mut log = open(&scratch);
        let vote = Vote::new(1, ring::CellId(1));
        log.save_vote(&vote).await.unwrap();
        let mut longest = 0;
        for first in (0..20_000).step_by(100) {
            log.write_now(Record::Append((first..first + 100).map(entry).collect())).unwrap();
            log.write_now(Record::Purge(entry(first + 90).log_id)).unwrap();
            longest = longest.max(log.file.lock().unwrap().frames.bytes());
        }
        assert!(longest < REWRITE_BYTES + 32_768, "{longest} bytes");
        let before = seen(&log);
        drop(log);
        assert_eq!(seen(&open(&scratch)), before);
        assert_eq!(before, (Some(vote), Some(19_990), (19_991..20_000).collect()));
    }

    #[tokio::test]
    async fn entries_that_do_not_follow_are_an_error_and_nothing_is_written_after_it() {
        let scratch = Scratch::new();
        let log = open(&scratch);
        assert!(log.write(Record::Append(vec![entry(4)])).await.is_err());
        let message = &log.health.failure().unwrap().message;
        assert!(message.contains("entry 4 stands where entry 0 should"), "{message}");
        assert!(log.write(Record::Append(vec![entry(0)])).await.is_err());
        assert_eq!(seen(&log), (None, None, vec![]));
        drop(log);
        assert_eq!(seen(&open(&scratch)), (None, None, vec![]));
    }

    #[tokio::test]
    async fn readers_get_what_they_ask_for() {
        let scratch = Scratch::new();
        let mut log = open(&scratch);
        log.write_now(Record::Append((0..10).map(entry).collect())).unwrap();
        log.write_now(Record::Purge(entry(3).log_id)).unwrap();
        let cases = [(0..20, 4..10), (4..6, 4..6), (5..5, 5..5), (9..12, 9..10), (0..3, 0..0)];
        for (asked, expected) in cases {
            let read = log.try_get_log_entries(asked).await.unwrap();
            let read: Vec<_> = read.iter().map(|entry| entry.log_id.index).collect();
            assert_eq!(read, expected.collect::<Vec<_>>());
        }
    }
}
