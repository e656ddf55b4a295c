//! Why a run could not be started or carried through.

use std::{fmt, io};

/// The errors of this crate. What the server answers, however bad, is counted, not an error.
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
