//! The two ends of a connection, as `stats conns` prints them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use rustix::net::SocketAddrAny;

/// One end of a connection, or where a listener listens.
///
/// ```
/// use drivers::Address;
///
/// let port = Address::Tcp("127.0.0.1:11211".parse()?);
/// assert_eq!(port.to_string(), "tcp:127.0.0.1:11211");
/// let file = Address::Unix(Some("/run/volvox.sock".into()));
/// assert_eq!(file.to_string(), "unix:/run/volvox.sock");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file. The client's end of one has no path.
    Unix(Option<PathBuf>),
}

impl Address {
    /// The address of an end of a socket. One that is gone already has no name.
    pub(super) fn of(end: Option<SocketAddrAny>) -> Self {
        let address = end.and_then(|end| SocketAddr::try_from(end).ok());
        address.map_or(Self::Unix(None), Self::Tcp)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(SocketAddr::V4(address)) => write!(f, "tcp:{address}"),
            Self::Tcp(SocketAddr::V6(address)) => write!(f, "tcp6:{address}"),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => write!(f, "unix:"),
        }
    }
}
