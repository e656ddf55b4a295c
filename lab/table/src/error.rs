//! Why the lab could not be carried through.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The errors of this crate. What a server answers, however bad, is a finding, not an error.
#[derive(Debug)]
pub enum Error {
    /// A setting is impossible; the text names value, limit and remedy.
    Setting(String),
    /// The generator could not carry a measurement through.
    Load(measure::Error),
    /// A server could not be used; the text says which and why.
    Server(String),
    /// No answer was wrong, and yet there is no figure: the machine stood still, or others had all
    /// of it. The text says what was seen.
    Disturbed(String),
    /// A file could not be read or written.
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not what the lab writes.
    Foreign {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// A failure with the file at `path`.
    pub(crate) fn file(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::File { path: path.into(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting(text) | Self::Server(text) => f.write_str(text),
            Self::Load(error) => error.fmt(f),
            Self::Disturbed(seen) => write!(
                f,
                "{seen}: the machine stood still, or others had all of it; measure again when it \
                 is quiet"
            ),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Foreign { path, what } => write!(
                f,
                "{}: not a file of this lab ({what}); remove it or choose another --out",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Load(error) => Some(error),
            Self::File { source, .. } => Some(source),
            Self::Setting(_) | Self::Server(_) | Self::Disturbed(_) | Self::Foreign { .. } => None,
        }
    }
}

impl From<measure::Error> for Error {
    fn from(error: measure::Error) -> Self {
        Self::Load(error)
    }
}
