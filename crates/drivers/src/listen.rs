//! Sockets that clients connect to, and the names of both ends.
//!
//! A socket file is made with its permissions before anybody can connect, and removed when its
//! listener is dropped. One left over by a dead process is recognised by its refusal.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_keepalive, set_socket_reuseaddr, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind,
    connect, getpeername, getsockname, listen, socket_with,
};

use crate::{Listen, StartError};

/// One end of a connection, or where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and port.
    Tcp(SocketAddr),
    /// A socket file; the client's end of one has no path.
    Unix(Option<PathBuf>),
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

/// A client that was just accepted.
pub(crate) struct Accepted {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Address,
    pub(crate) listener: Arc<Address>,
}

/// A socket that clients connect to.
pub(crate) struct Listener {
    pub(crate) fd: OwnedFd,
    pub(crate) address: Arc<Address>,
}

impl Listener {
    pub(crate) fn open(at: &Listen, backlog: u32) -> Result<Self, StartError> {
        match at {
            Listen::Tcp(address) => Self::open_tcp(*address, backlog).map_err(|cause| {
                let address = Address::Tcp(*address).to_string();
                StartError::Listen { address, cause: cause.into() }
            }),
            Listen::Unix { path, mode } => {
                remove_stale(path)?;
                Self::open_unix(path, *mode, backlog).map_err(|cause| {
                    let address = Address::Unix(Some(path.clone())).to_string();
                    StartError::Listen { address, cause }
                })
            }
        }
    }

    fn open_tcp(address: SocketAddr, backlog: u32) -> Result<Self, Errno> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let fd = stream(family)?;
        set_socket_reuseaddr(&fd, true)?;
        // Accepted sockets inherit both: a reply never waits for the acknowledgement of the one
        // before, and a host that is gone is noticed in the end.
        set_tcp_nodelay(&fd, true)?;
        set_socket_keepalive(&fd, true)?;
        if address.is_ipv6() {
            set_ipv6_v6only(&fd, true)?;
        }
        bind(&fd, &address)?;
        listen(&fd, backlog_of(backlog))?;
        let address = SocketAddr::try_from(getsockname(&fd)?)?;
        Ok(Self { fd, address: Arc::new(Address::Tcp(address)) })
    }

    fn open_unix(path: &Path, mode: u32, backlog: u32) -> io::Result<Self> {
        let fd = stream(AddressFamily::UNIX)?;
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        let address = Arc::new(Address::Unix(Some(path.to_path_buf())));
        let listener = Self { fd, address };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        listen(&listener.fd, backlog_of(backlog))?;
        Ok(listener)
    }

    /// The next client. Its socket waits for nothing if `nonblocking`.
    pub(crate) fn accept(&self, nonblocking: bool) -> Result<Accepted, Errno> {
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let (fd, peer) = acceptfrom_with(&self.fd, flags)?;
        let peer = peer_of(peer);
        Ok(Accepted { fd, peer, listener: self.address.clone() })
    }

    /// A client that was accepted from it otherwise.
    pub(crate) fn accepted(&self, fd: OwnedFd) -> Accepted {
        // One that is gone already has no name.
        let peer = peer_of(getpeername(&fd).ok().flatten());
        Accepted { fd, peer, listener: self.address.clone() }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(Some(path)) = &*self.address {
            // Nothing is lost when it is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn stream(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(family, SocketType::STREAM, flags, None)
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

fn peer_of(peer: Option<SocketAddrAny>) -> Address {
    let address = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    address.map_or(Address::Unix(None), Address::Tcp)
}

/// Removes the socket file of a dead process at `path`.
fn remove_stale(path: &Path) -> Result<(), StartError> {
    let failed = |cause: io::Error| StartError::Listen {
        address: Address::Unix(Some(path.to_path_buf())).to_string(),
        cause,
    };
    let kind = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata.file_type(),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
    };
    if !kind.is_socket() {
        return Err(StartError::NotASocket { path: path.display().to_string() });
    }
    let probe = |path: &Path| connect(stream(AddressFamily::UNIX)?, &SocketAddrUnix::new(path)?);
    match probe(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(failed),
        Ok(()) | Err(Errno::AGAIN) => Err(failed(io::ErrorKind::AddrInUse.into())),
        Err(cause) => Err(failed(cause.into())),
    }
}
