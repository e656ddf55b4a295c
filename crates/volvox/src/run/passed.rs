//! Sockets that a process passes to the program with which it begins again, so that clients that
//! connect meanwhile wait and are not refused; or that a service manager has passed to it.

use std::os::fd::OwnedFd;

use drivers::{Remote, close_kept, keep};
use listenfd::ListenFd;

/// Keeps what was passed to this process, for its server.
pub(super) fn keep_all() {
    let mut passed = ListenFd::from_env();
    for at in 0..passed.len() {
        let socket = passed.take_tcp_listener(at);
        let kept = socket.and_then(|socket| socket.map(|it| keep(it.into())).transpose());
        if let Err(error) = kept {
            tracing::warn!("socket {at} that was passed to the process is not used: {error}");
        }
    }
}

/// Closes what the server has not taken: clients would wait there for ever.
pub(super) fn close_others() {
    for address in close_kept() {
        tracing::warn!("{address}: a socket was passed for it, and no server.listen names it");
    }
}

/// The sockets that clients connect to, to be passed on.
pub(super) fn listening(remote: &Remote) -> Vec<OwnedFd> {
    remote.listening().unwrap_or_else(|error| {
        tracing::warn!("clients cannot connect while the program begins again: {error}");
        Vec::new()
    })
}
