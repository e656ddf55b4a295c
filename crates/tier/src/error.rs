//! Why there is no tier.

use crate::backend::BackendError;
use crate::journal::RecoverError;
use std::fmt;
use std::io;

/// Why there is no tier. A message names the value, the limit and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum TierError {
    /// The journal cannot be used.
    Journal(RecoverError),
    /// What lies below cannot be used.
    Backend(BackendError),
    /// What lies below belongs to another journal.
    OtherJournal {
        /// What lies below.
        backend: String,
        /// Whether this journal has nothing, so that it may adopt what lies below.
        may_adopt: bool,
    },
    /// The journal was written, and what lies below is new.
    OtherDatabase {
        /// What lies below.
        backend: String,
    },
    /// What lies below is to be adopted, and does not say which versions were given out.
    NothingGiven {
        /// What lies below.
        backend: String,
    },
    /// The journal is too short.
    JournalTooShort {
        /// Its bytes.
        bytes: u64,
        /// The least that is enough.
        least: u64,
    },
    /// There is no memory for the logs of what a cell of a ring copies.
    NoMemory,
    /// The disk refuses.
    Disk(io::Error),
}

impl fmt::Display for TierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) => error.fmt(f),
            Self::Backend(error) => error.fmt(f),
            Self::OtherJournal { backend, may_adopt } => {
                write!(
                    f,
                    "{backend} was written through another journal, which is not here: restore \
                     that journal, give the tier a directory, or a root of a bucket, of its own"
                )?;
                f.write_str(match may_adopt {
                    true => {
                        ", or, where that journal is lost, adopt what was written back with \
                         --tier-adopt"
                    }
                    false => "; --tier-adopt needs a directory without a journal",
                })
            }
            Self::OtherDatabase { backend } => write!(
                f,
                "the journal of this directory was written above another database, and {backend} \
                 is new: set tier.database back, restore that database, or, where it is lost, \
                 bring what the journal has into this one with --tier-salvage"
            ),
            Self::NothingGiven { backend } => write!(
                f,
                "{backend} cannot be adopted: it does not say which versions its journal has given \
                 out; restore that journal, or give the tier a directory, or a root of a bucket, \
                 of its own"
            ),
            Self::JournalTooShort { bytes, least } => write!(
                f,
                "tier.journal = {bytes} bytes is too short for its segments: give it {least} bytes \
                 or more, or lower memory.item_bytes_max or server.workers"
            ),
            Self::NoMemory => f.write_str(
                "the memory limit leaves no space for the logs of what the cell copies; raise it",
            ),
            Self::Disk(error) => write!(f, "the journal cannot be written: {error}"),
        }
    }
}

impl std::error::Error for TierError {}

impl From<RecoverError> for TierError {
    fn from(error: RecoverError) -> Self {
        Self::Journal(error)
    }
}

impl From<BackendError> for TierError {
    fn from(error: BackendError) -> Self {
        Self::Backend(error)
    }
}
