//! What can be wrong with settings, and where it was written.
//!
//! A message begins with the origin: the file and line, the variable or the flag. Then come the
//! setting and its value, the limit, and the remedy. All errors of one start are reported together.

use std::fmt::{Display, Formatter};
use std::io;
use std::path::PathBuf;

use super::field::Value;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program.
    Default,
    /// memcached's own default, where it differs from ours.
    Memcached,
    /// A line of a file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// A variable of the environment.
    Environment(String),
    /// A flag of the command line.
    Flag(String),
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Memcached => f.write_str("memcached's default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// One thing that is wrong with the settings.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file is not TOML.
    Syntax {
        /// File and line.
        origin: Origin,
        /// The error of the parser.
        message: String,
    },
    /// No setting has this name.
    UnknownKey {
        /// Where it was written.
        origin: Origin,
        /// What was written.
        key: String,
        /// The nearest setting.
        nearest: String,
    },
    /// A value that its setting cannot take.
    Refused {
        /// Where it was written.
        origin: Origin,
        /// The setting.
        key: String,
        /// What was written.
        value: Value,
        /// Limit and remedy.
        reason: String,
    },
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable { path, source } => write!(
                f,
                "{}: {source}; name a readable file, or write one: volvox config default",
                path.display()
            ),
            Self::Syntax { origin, message } => write!(f, "{origin}: not TOML: {message}"),
            Self::UnknownKey { origin, key, nearest } => {
                write!(f, "{origin}: unknown setting {key}; did you mean {nearest}?")
            }
            Self::Refused { origin, key, value, reason } => {
                write!(f, "{origin}: {key} = {value}: {reason}")
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } => Some(source),
            _ => None,
        }
    }
}
