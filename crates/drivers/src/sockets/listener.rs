//! Sockets that clients and other cells connect to, and the sockets that are accepted from them.
//!
//! A socket file has its permissions before any client can connect, and is removed when its
//! listener is dropped. The file of a dead process is recognised because it refuses a connection;
//! only then is it removed. A file of any other kind is never touched.
//!
//! Every listener is non-blocking. An accepted TCP socket inherits `TCP_NODELAY` and
//! `SO_KEEPALIVE` from its listener, so it needs no system call of its own.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::sockopt::{
    set_ipv6_v6only, set_socket_keepalive, set_socket_reuseaddr, set_tcp_keepcnt, set_tcp_keepidle,
    set_tcp_keepintvl, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, acceptfrom_with, bind, connect, getpeername,
    getsockname, listen,
};

use super::address::Address;
use super::info::{ConnectionInfo, Ends, Report, State};
use super::kept;
use super::stream::{family_of, stream};
use crate::config::Listen;
use crate::error::StartError;

/// A link whose other machine has gone without a word ends after a silence of
/// `LINK_IDLE + LINK_PROBES * LINK_PROBE`: else it would hold a descriptor for hours.
const LINK_IDLE: Duration = Duration::from_secs(10);
const LINK_PROBE: Duration = Duration::from_secs(5);
const LINK_PROBES: u32 = 3;

/// How long an address may be in use before it is taken to stay so: the system frees the sockets of
/// a process that was killed a moment later where the kernel still works for it, as with io_uring.
const FREED_MAX: Duration = Duration::from_secs(1);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// Refuses a TCP address at which a server could not listen now. Nobody can connect meanwhile.
///
/// # Errors
/// That another process listens there, for a second at least, or that there is no such address.
pub fn check_free(at: &Listen) -> Result<(), StartError> {
    let (Listen::Tcp(address) | Listen::Links(address)) = at else { return Ok(()) };
    if kept::is_kept(*address) {
        return Ok(());
    }
    let start = Instant::now();
    loop {
        match bound(*address) {
            Err(Errno::ADDRINUSE) if start.elapsed() < FREED_MAX => sleep(LOOK),
            Err(cause) => {
                let address = Address::Tcp(*address).to_string();
                return Err(StartError::Listen { address, cause: cause.into() });
            }
            Ok(_) => return Ok(()),
        }
    }
}

/// A socket with that address, which does not listen yet.
fn bound(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let fd = stream(family_of(&address))?;
    set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        set_ipv6_v6only(&fd, true)?;
    }
    bind(&fd, &address)?;
    Ok(fd)
}

/// The socket of a client or of a link that was just accepted.
pub(crate) struct Accepted {
    fd: OwnedFd,
    ends: Ends,
    number: usize,
    is_link: bool,
}

impl Accepted {
    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The number of its listener.
    pub(crate) fn listener(&self) -> usize {
        self.number
    }

    /// Whether its listener is one for links.
    pub(crate) fn is_link(&self) -> bool {
        self.is_link
    }

    /// Its descriptor, and what others may know of it from now on.
    pub(crate) fn into_connection(self, now_s: u32) -> (OwnedFd, Arc<ConnectionInfo>) {
        let Self { fd, ends, is_link, .. } = self;
        let info = ConnectionInfo::new(fd.as_raw_fd(), ends, is_link, now_s);
        (fd, Arc::new(info))
    }
}

/// A socket that clients or other cells connect to.
pub(crate) struct Listener {
    fd: Arc<OwnedFd>,
    address: Arc<Address>,
    /// Its place in the configuration.
    number: usize,
    /// Whether it is for other cells.
    is_for_links: bool,
}

impl Listener {
    /// Listens at an address, which is number `number` of the configuration.
    pub(crate) fn open(number: usize, at: &Listen, backlog: u32) -> Result<Self, StartError> {
        match at {
            Listen::Tcp(address) | Listen::Links(address) => {
                let is_for_links = matches!(at, Listen::Links(_));
                Self::open_tcp(number, *address, backlog, is_for_links).map_err(|cause| {
                    let address = Address::Tcp(*address).to_string();
                    StartError::Listen { address, cause: cause.into() }
                })
            }
            Listen::Unix { path, mode } => {
                remove_stale(path)?;
                Self::open_unix(number, path, *mode, backlog).map_err(|cause| {
                    let address = Address::Unix(Some(path.clone())).to_string();
                    StartError::Listen { address, cause }
                })
            }
        }
    }

    fn open_tcp(
        number: usize,
        address: SocketAddr,
        backlog: u32,
        is_for_links: bool,
    ) -> Result<Self, Errno> {
        let fd = match kept::take(address) {
            Some(fd) => {
                fcntl_setfd(&fd, FdFlags::CLOEXEC)?;
                ioctl_fionbio(&fd, true)?;
                fd
            }
            None => bound(address)?,
        };
        // Accepted sockets inherit these. Without delay, a reply never waits until the one before
        // is acknowledged. With keep-alive, a host that is gone is noticed after some time.
        set_tcp_nodelay(&fd, true)?;
        set_socket_keepalive(&fd, true)?;
        if is_for_links {
            set_tcp_keepidle(&fd, LINK_IDLE)?;
            set_tcp_keepintvl(&fd, LINK_PROBE)?;
            set_tcp_keepcnt(&fd, LINK_PROBES)?;
        }
        listen(&fd, backlog_of(backlog))?;
        let address = Arc::new(Address::Tcp(SocketAddr::try_from(getsockname(&fd)?)?));
        Ok(Self { fd: Arc::new(fd), address, number, is_for_links })
    }

    fn open_unix(number: usize, path: &Path, mode: u32, backlog: u32) -> io::Result<Self> {
        let fd = stream(AddressFamily::UNIX)?;
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        let address = Arc::new(Address::Unix(Some(path.to_path_buf())));
        let listener = Self { fd: Arc::new(fd), address, number, is_for_links: false };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        listen(listener.fd(), backlog_of(backlog))?;
        Ok(listener)
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The socket, as long as the listener is open, if it is one of TCP for clients.
    pub(crate) fn of_clients(&self) -> Weak<OwnedFd> {
        match (&*self.address, self.is_for_links) {
            (Address::Tcp(_), false) => Arc::downgrade(&self.fd),
            _ => Weak::new(),
        }
    }

    /// Whether it is for other cells.
    pub(crate) fn is_for_links(&self) -> bool {
        self.is_for_links
    }

    /// As `stats conns` shows it, with the port that the system chose.
    pub(crate) fn report(&self) -> Report {
        let address = (*self.address).clone();
        let fd = self.fd.as_raw_fd();
        Report { fd, address, listener: None, state: State::Listening, idle_s: 0 }
    }

    /// The next connection. `nonblocking`: calls on its socket never wait.
    pub(crate) fn accept(&self, nonblocking: bool) -> Result<Accepted, Errno> {
        let mut flags = SocketFlags::CLOEXEC;
        flags.set(SocketFlags::NONBLOCK, nonblocking);
        let (fd, peer) = acceptfrom_with(self.fd(), flags)?;
        Ok(self.accepted_from(fd, Address::of(peer)))
    }

    /// A client that the kernel accepted here without [`Listener::accept`].
    pub(crate) fn accepted(&self, fd: OwnedFd) -> Accepted {
        let peer = Address::of(getpeername(&fd).ok().flatten());
        self.accepted_from(fd, peer)
    }

    fn accepted_from(&self, fd: OwnedFd, peer: Address) -> Accepted {
        let ends = Ends { peer, local: self.address.clone() };
        Accepted { fd, ends, number: self.number, is_link: self.is_for_links }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Address::Unix(Some(path)) = &*self.address {
            // An error means that the file is gone already.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
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
