//! What can be wrong with a file: the system refuses, or what was read is not what was written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file could not be read or written, or is broken.
#[derive(Debug)]
pub enum DiskError {
    /// The system refused.
    Io {
        /// What was done: "read", "write", ...
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// What was read is not what was written.
    Broken {
        /// The file.
        path: PathBuf,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
}

impl DiskError {
    /// For `map_err`: the system refused `doing` with `path`.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { doing, path: path.to_owned(), error }
    }

    pub(crate) fn broken(path: &Path, offset: u64, what: impl fmt::Display) -> Self {
        Self::Broken { path: path.to_owned(), offset, what: what.to_string() }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, path, error } => {
                write!(f, "cannot {doing} {}: {error}", path.display())
            }
            Self::Broken { path, offset, what } => write!(
                f,
                "{} is broken at byte {offset}: {what}; move the directory away and start again: \
                 the cell joins as a new one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DiskError {}

/// The first [`DiskError`] of a cell that runs: what it reports from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFailure {
    /// The file.
    pub path: PathBuf,
    /// What failed, with what the system said.
    pub message: String,
}

impl From<&DiskError> for DiskFailure {
    fn from(error: &DiskError) -> Self {
        let (DiskError::Io { path, .. } | DiskError::Broken { path, .. }) = error;
        Self { path: path.clone(), message: error.to_string() }
    }
}

impl fmt::Display for DiskFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; the cell does not vote until it starts again", self.message)
    }
}
