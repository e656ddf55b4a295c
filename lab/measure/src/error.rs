//! Why a client or a generator could not be started or could not finish.
//!
//! Programs that are run report their errors with circumstances, by `anyhow`: see `process`.

use std::{fmt, io};

/// A setting that is impossible or a system call that failed. What a server answers is never an
/// error: wrong answers are counted.
#[derive(Debug)]
pub enum Error {
    /// A setting is impossible; the text names value, limit and remedy.
    Setting(String),
    /// A system call failed.
    Io {
        /// What was being done, with its object.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl Error {
    /// A failure of `what`.
    pub fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(text) => f.write_str(text),
            Self::Io { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Setting(_) => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Self::Setting(text)
    }
}
