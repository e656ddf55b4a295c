//! TCP sockets on which the process listens before its server starts: those of the server before it
//! in the same process, whose clients wait to be accepted, or those of a service manager.
//!
//! A server that is to listen at the address of one of them takes it, and binds no other one.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard};

use rustix::net::getsockname;

static KEPT: Mutex<Vec<(SocketAddr, OwnedFd)>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<(SocketAddr, OwnedFd)>> {
    KEPT.lock().expect("no holder of the sockets panics")
}

/// Keeps a socket that listens at a TCP address, until a server takes it. Returns that address.
///
/// # Errors
/// That it is no such socket; it is closed then.
pub fn keep(fd: OwnedFd) -> io::Result<SocketAddr> {
    let address = SocketAddr::try_from(getsockname(&fd)?)?;
    kept().push((address, fd));
    Ok(address)
}

/// Closes those that no server has taken. Returns their addresses.
pub fn close_kept() -> Vec<SocketAddr> {
    kept().drain(..).map(|(address, _)| address).collect()
}

/// Whether one listens at `address`.
pub(super) fn is_kept(address: SocketAddr) -> bool {
    kept().iter().any(|(at, _)| *at == address)
}

/// The one that listens at `address`.
pub(super) fn take(address: SocketAddr) -> Option<OwnedFd> {
    let mut kept = kept();
    let at = kept.iter().position(|(at, _)| *at == address)?;
    Some(kept.swap_remove(at).1)
}
