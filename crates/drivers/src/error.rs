//! Why a server does not start.
//!
//! Each message names the value, then the limit or the cause, then the remedy.

use std::fmt;
use std::io;

/// What prevented a server from starting. No thread, socket or file of it remains.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// No address to listen on.
    NoAddress,
    /// A number of workers out of range.
    Workers {
        /// What was requested.
        asked: u16,
        /// The most that is possible.
        max: u16,
    },
    /// A number of connections out of range.
    Connections {
        /// What was requested.
        asked: u32,
        /// The most that the chosen driver can serve.
        max: u32,
    },
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        cause: io::Error,
    },
    /// The path of a socket file is that of another file.
    NotASocket {
        /// The path.
        path: String,
    },
    /// The system refuses a thread or a descriptor.
    System {
        /// What was requested.
        what: &'static str,
        /// The error of the system.
        cause: io::Error,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => write!(f, "no address to listen on: name a port or a socket file"),
            Self::Workers { asked, max } => {
                write!(f, "{asked} workers: choose from 1 to {max}, usually one per core")
            }
            Self::Connections { asked, max } => {
                write!(f, "{asked} connections: choose from 1 to {max} for this driver")
            }
            Self::Listen { address, cause } if cause.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "cannot listen on {address}: another process listens there; ")?;
                write!(f, "stop it or choose another")
            }
            Self::Listen { address, cause } => write!(f, "cannot listen on {address}: {cause}"),
            Self::NotASocket { path } => {
                write!(f, "cannot listen on unix:{path}: a file that is no socket is there; ")?;
                write!(f, "remove it or choose another path")
            }
            Self::System { what, cause } => {
                write!(f, "cannot get {what}: {cause}; raise the limit of the process")
            }
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen { cause, .. } | Self::System { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
