//! Opening a TCP connection without waiting: it is started, and looked at when its socket takes
//! bytes or has failed.
//!
//! As an accepted one, it sends without delay, and with keep-alive it notices a host that is gone.
//! It breaks when what was sent is not confirmed for [`UNCONFIRMED_MS`]: after a cut, another is
//! open before TCP would send again on this one.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_nodelay, set_tcp_user_timeout, socket_error,
};
use rustix::net::{connect, getpeername, getsockname};

use super::address::Address;
use super::info::{ConnectionInfo, Ends};
use super::stream::{family_of, stream};

/// How long sent bytes may stay unconfirmed by the system of the other end, in milliseconds.
const UNCONFIRMED_MS: u32 = 1_000;

/// What has become of a connection that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connected {
    /// It is open.
    Yes,
    /// It is under way.
    NotYet,
    /// It has failed.
    Failed,
}

/// Starts to connect to `to`. An error is final.
pub(crate) fn start_connect(to: &SocketAddr) -> Result<OwnedFd, Errno> {
    let fd = stream(family_of(to))?;
    set_tcp_nodelay(&fd, true)?;
    set_socket_keepalive(&fd, true)?;
    set_tcp_user_timeout(&fd, UNCONFIRMED_MS)?;
    match connect(&fd, to) {
        // After a signal it goes on as well.
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(fd),
        Err(error) => Err(error),
    }
}

/// Looks at a connection that was started.
pub(crate) fn connected(fd: &OwnedFd) -> Connected {
    match socket_error(fd) {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return Connected::Failed,
    }
    match getpeername(fd) {
        Ok(_) => Connected::Yes,
        Err(Errno::NOTCONN) => Connected::NotYet,
        Err(_) => Connected::Failed,
    }
}

/// What others may know of a link that is open on `fd`, from now on.
pub(crate) fn link_info(fd: &OwnedFd, to: SocketAddr, now_s: u32) -> Arc<ConnectionInfo> {
    let local = Address::of(getsockname(fd).ok());
    let ends = Ends { peer: Address::Tcp(to), local: Arc::new(local) };
    Arc::new(ConnectionInfo::new(fd.as_raw_fd(), ends, true, now_s))
}
