//! Why a server does not start.

use std::fmt;
use std::io;

/// What kept a server from starting. Nothing is left behind.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// No address to listen on.
    NoAddress,
    /// A number of workers that cannot be.
    Workers {
        /// What was asked for.
        asked: u16,
        /// The most there can be.
        max: u16,
    },
    /// A number of connections that cannot be.
    Connections {
        /// What was asked for.
        asked: u32,
        /// The most there can be under the chosen driver.
        max: u32,
    },
    /// An address cannot be listened on.
    Listen {
        /// The address.
        address: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The path of a socket file is taken by something else.
    NotASocket {
        /// The path.
        path: String,
    },
    /// The system refuses a thread or a descriptor.
    System {
        /// What was asked for.
        what: &'static str,
        /// What the system says.
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
                write!(f, "cannot listen on {address}: another process does; ")?;
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
