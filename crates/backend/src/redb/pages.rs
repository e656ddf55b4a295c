//! A file, as redb wants it, which knows what of it is not durable.
//!
//! After a failed sync the system may hold what was written, answer reads with it, and never write
//! it: the next sync succeeds and it is lost. A database that is opened then would build on it. So
//! what was written since the last sync that succeeded is kept as ranges, and [`Pages::settle`]
//! writes it again, as reads answer it, and syncs it. What redb then finds is what lies on disk.
//!
//! The ranges are those of one transaction at most. They end with the process: a database that is
//! opened by the next process after a failed sync has no such protection.

use redb::StorageBackend;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::File;

/// Most bytes that are read and written again at once.
const PIECE: u64 = 1 << 20;

/// A file. Clones are of the same file.
#[derive(Clone)]
pub struct Pages {
    file: Arc<dyn File>,
    unsynced: Arc<Mutex<Unsynced>>,
}

/// What was written since the last sync that succeeded.
#[derive(Default)]
struct Unsynced {
    /// The ends of ranges by their beginnings. No two touch.
    ranges: BTreeMap<u64, u64>,
    /// Whether a sync of them has failed.
    has_failed: bool,
}

impl Unsynced {
    fn add(&mut self, mut from: u64, mut to: u64) {
        while let Some((&begin, &end)) = self.ranges.range(..=to).next_back() {
            if end < from {
                break;
            }
            self.ranges.remove(&begin);
            (from, to) = (from.min(begin), to.max(end));
        }
        self.ranges.insert(from, to);
    }
}

impl Pages {
    pub fn new(file: Arc<dyn File>) -> Self {
        Self { file, unsynced: Arc::default() }
    }

    /// Makes durable what reads answer, if a sync has failed. No database has the file open.
    pub fn settle(&self) -> io::Result<()> {
        let mut unsynced = self.unsynced();
        if !unsynced.has_failed {
            return Ok(());
        }
        let bytes = self.file.bytes()?;
        for (&from, &to) in &unsynced.ranges {
            let (mut at, end) = (from, to.min(bytes));
            while at < end {
                let mut piece = vec![0; usize::try_from(PIECE.min(end - at)).unwrap_or(0)];
                self.file.read_at(at, &mut piece)?;
                self.file.write_at(at, &piece)?;
                at += piece.len() as u64;
            }
        }
        self.file.set_bytes(bytes)?;
        self.file.sync()?;
        *unsynced = Unsynced::default();
        Ok(())
    }

    fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").finish_non_exhaustive()
    }
}

impl StorageBackend for Pages {
    fn len(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_bytes(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        let ranges = mem::take(&mut self.unsynced().ranges);
        let synced = self.file.sync();
        if synced.is_err() {
            let mut unsynced = self.unsynced();
            ranges.into_iter().for_each(|(from, to)| unsynced.add(from, to));
            unsynced.has_failed = true;
        }
        synced
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.unsynced().add(offset, offset + data.len() as u64);
        self.file.write_at(offset, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        type Ranges = &'static [(u64, u64)];
        let cases: [(Ranges, Ranges); 5] = [
            (&[(0, 4), (8, 12)], &[(0, 4), (8, 12)]),
            (&[(0, 4), (8, 12), (4, 8)], &[(0, 12)]),
            (&[(8, 12), (0, 8)], &[(0, 12)]),
            (&[(0, 4), (6, 8), (10, 12), (2, 11)], &[(0, 12)]),
            (&[(0, 12), (4, 8)], &[(0, 12)]),
        ];
        for (added, expected) in cases {
            let mut unsynced = Unsynced::default();
            added.iter().for_each(|&(from, to)| unsynced.add(from, to));
            assert_eq!(unsynced.ranges, BTreeMap::from_iter(expected.iter().copied()));
        }
    }
}
