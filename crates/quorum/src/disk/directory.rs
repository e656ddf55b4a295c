//! The directory of a cell: which cell of which ring it is, and which of its lives this is.
//!
//! ```text
//! lock       held while a process uses the directory
//! life       the token, drawn once, and the number of starts
//! identity   the ring and the cell, written once when the cell has joined
//! agreement  which agreement it takes part in; absent for the first one of its ring
//! ```
//!
//! Files that belong to an agreement have its number and cell in their names, but for the first. So
//! one step, a new `agreement`, leaves the files of an earlier one and takes those of the later.
//!
//! Invariants: a directory is of one cell of one ring for ever, because an id that comes back with
//! an empty log can divide a group. Each open has a higher incarnation than all before, on disk
//! before anything else is done with it. One process at a time has it open.

use super::error::DiskError;
use super::whole::{read_whole, sync_parent, write_whole};
use ring::{Agreement, CellId, Incarnation};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The directory of a cell, open and locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    life: Life,
    identity: Option<Identity>,
    agreement: Mutex<Agreement>,
    /// Holds the lock until it is dropped.
    _lock: File,
}

/// How often the directory was opened.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Life {
    token: u64,
    incarnation: Incarnation,
}

/// Whose directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    ring: u64,
    cell: CellId,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    /// Another process uses it.
    InUse(PathBuf),
    /// It is of another cell.
    Other {
        /// The directory.
        path: PathBuf,
        /// The ring and the cell that it is of.
        kept: (u64, CellId),
        /// The ring and the cell that it was to be of.
        wanted: (u64, CellId),
    },
    /// One of its files cannot be used.
    Disk(DiskError),
}

impl Directory {
    /// Opens the directory, or creates it, and begins a new life of the cell. A new directory keeps
    /// `token`, which the caller draws at random; one that exists has its own.
    pub fn open(path: &Path, token: u64) -> Result<Self, DirectoryError> {
        let is_new = !path.exists();
        fs::create_dir_all(path).map_err(DiskError::io("create", path))?;
        if is_new {
            sync_parent(path)?;
        }
        let lock = Self::lock(path)?;
        let life_path = path.join("life");
        let before: Option<Life> = read_whole(&life_path)?;
        let identity: Option<Identity> = read_whole(&path.join("identity"))?;
        if before.is_none() && identity.is_some() {
            return Err(DiskError::broken(&life_path, 0, "it is absent").into());
        }
        let agreement: Option<Agreement> = read_whole(&path.join("agreement"))?;
        let agreement = Mutex::new(agreement.unwrap_or_default());
        let before = before.unwrap_or(Life { token, incarnation: Incarnation(0) });
        let life = Life { incarnation: Incarnation(before.incarnation.0 + 1), ..before };
        write_whole(&life_path, &life)?;
        Ok(Self { path: path.to_owned(), life, identity, agreement, _lock: lock })
    }

    fn lock(path: &Path) -> Result<File, DirectoryError> {
        let name = path.join("lock");
        let lock = File::create(&name).map_err(DiskError::io("create", &name))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => DirectoryError::InUse(path.to_owned()),
            TryLockError::Error(error) => DiskError::io("lock", &name)(error).into(),
        })?;
        Ok(lock)
    }

    /// The ring and the cell that it is of. `None` before the cell has joined.
    #[must_use]
    pub fn identity(&self) -> Option<(u64, CellId)> {
        self.identity.map(|identity| (identity.ring, identity.cell))
    }

    /// Binds it to a cell, for ever. Does nothing if it is bound to this cell already.
    pub fn set_identity(&mut self, ring: u64, cell: CellId) -> Result<(), DirectoryError> {
        match self.identity() {
            Some(kept) if kept == (ring, cell) => Ok(()),
            Some(kept) => {
                let path = self.path.clone();
                Err(DirectoryError::Other { path, kept, wanted: (ring, cell) })
            }
            None => {
                let identity = Identity { ring, cell };
                write_whole(&self.path.join("identity"), &identity)?;
                self.identity = Some(identity);
                Ok(())
            }
        }
    }

    /// The agreement that the cell takes part in.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        *self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the agreement of before, for ever.
    pub(crate) fn set_agreement(&self, later: Agreement) -> Result<(), DiskError> {
        let mut agreement = self.agreement.lock().unwrap_or_else(PoisonError::into_inner);
        write_whole(&self.path.join("agreement"), &later)?;
        *agreement = later;
        Ok(())
    }

    /// Where the file `name` of an agreement is.
    pub(crate) fn file_of(&self, name: &str, agreement: Agreement) -> PathBuf {
        if agreement.is_first() {
            return self.path.join(name);
        }
        self.path.join(format!("{name}-{}-{}", agreement.number, agreement.cell))
    }

    /// The life of the cell that began with this open.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.life.incarnation
    }

    /// The number that was drawn when the directory was created: joining twice with it makes one
    /// cell.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.life.token
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl From<DiskError> for DirectoryError {
    fn from(error: DiskError) -> Self {
        Self::Disk(error)
    }
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(path) => write!(
                f,
                "{} is in use by another process: stop that, or choose another directory",
                path.display()
            ),
            Self::Other { path, kept, wanted } => write!(
                f,
                "{} is of cell {} of ring {:x}, not of cell {} of ring {:x}: choose another",
                path.display(),
                kept.1,
                kept.0,
                wanted.1,
                wanted.0
            ),
            Self::Disk(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DirectoryError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::scratch::Scratch;

    #[test]
    fn each_open_is_a_later_life_of_the_same_cell() {
        let scratch = Scratch::new();
        let path = scratch.path().join("a/b");
        for life in 1..5 {
            let mut directory = Directory::open(&path, 40 + life).unwrap();
            assert_eq!((directory.incarnation(), directory.token()), (Incarnation(life), 41));
            let before = (life > 1).then_some((7, CellId(3)));
            assert_eq!(directory.identity(), before);
            directory.set_identity(7, CellId(3)).unwrap();
        }
    }

    #[test]
    fn an_agreement_that_was_left_is_left_after_a_restart() {
        let scratch = Scratch::new();
        let directory = Directory::open(scratch.path(), 1).unwrap();
        let first = directory.agreement();
        assert!(first.is_first());
        assert_eq!(directory.file_of("log", first), scratch.path().join("log"));
        let later = first.after(CellId(3), 5).unwrap();
        directory.set_agreement(later).unwrap();
        drop(directory);
        let directory = Directory::open(scratch.path(), 1).unwrap();
        assert_eq!(directory.agreement(), later);
        assert_eq!(directory.file_of("log", later), scratch.path().join("log-1-3"));
    }

    #[test]
    fn a_second_process_is_refused_and_raises_nothing() {
        let scratch = Scratch::new();
        let first = Directory::open(scratch.path(), 1).unwrap();
        let second = Directory::open(scratch.path(), 1).map(drop).unwrap_err();
        assert!(second.to_string().contains("in use by another process"), "{second}");
        drop(first);
        assert_eq!(Directory::open(scratch.path(), 1).unwrap().incarnation(), Incarnation(2));
    }

    #[test]
    fn another_ring_or_cell_is_refused_and_both_are_named() {
        let scratch = Scratch::new();
        let mut directory = Directory::open(scratch.path(), 1).unwrap();
        directory.set_identity(0xAB, CellId(1)).unwrap();
        for (ring, cell) in [(0xCD, CellId(1)), (0xAB, CellId(2))] {
            let error = directory.set_identity(ring, cell).unwrap_err().to_string();
            assert!(error.contains("is of cell 1 of ring ab"), "{error}");
            assert!(error.contains(&format!("cell {cell} of ring {ring:x}")), "{error}");
            assert_eq!(directory.identity(), Some((0xAB, CellId(1))));
        }
    }

    #[test]
    fn a_broken_or_lost_file_is_an_error_and_never_an_earlier_life() {
        let scratch = Scratch::new();
        let mut directory = Directory::open(scratch.path(), 1).unwrap();
        directory.set_identity(7, CellId(3)).unwrap();
        drop(directory);
        directory = Directory::open(scratch.path(), 1).unwrap();
        let later = Agreement::default().after(CellId(3), 5).unwrap();
        directory.set_agreement(later).unwrap();
        drop(directory);
        for name in ["life", "identity", "agreement"] {
            let file = scratch.path().join(name);
            let whole = fs::read(&file).unwrap();
            for bytes in [&whole[..whole.len() - 1], b"", b"00000000 {}"] {
                fs::write(&file, bytes).unwrap();
                let error = Directory::open(scratch.path(), 1).map(drop).unwrap_err().to_string();
                assert!(error.contains(file.to_str().unwrap()), "{error}");
            }
            fs::write(&file, whole).unwrap();
        }
        fs::remove_file(scratch.path().join("life")).unwrap();
        assert!(Directory::open(scratch.path(), 1).is_err());
    }
}
