//! One attempt to accept a client: the limit of connections, and what an error of `accept` means.
//!
//! Both acceptors use it: that of the workers and that of the thread-per-client driver. They differ
//! in where a client goes and in how they stop watching their listeners.
//!
//! Times are nanoseconds of the monotonic clock.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::state::Shared;
use crate::clock::SECOND_NS;
use crate::counters::Counters;
use crate::sockets::Accepted;

/// Attempts in a row at one listener, so that new clients do not starve those already served.
pub(crate) const ACCEPTS_MAX: usize = 64;

/// How long accepting pauses when it cannot continue, unless a connection closes before.
pub(crate) const RETRY_NS: u64 = SECOND_NS / 2;

/// What a client receives at the limit, before it is closed.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// The result of an attempt to accept.
pub(crate) enum Attempt {
    /// A client or a link, to be served.
    Accepted(Accepted),
    /// A connection that is gone, or a client that was rejected: try again at once.
    Again,
    /// The limit is reached: pause accepting clients.
    Full,
    /// Descriptors have run out: pause.
    Pause,
    /// None waits.
    NoneWaiting,
}

/// Calls `accept` for one client, unless the limit is reached and clients are to wait for it. At
/// the limit, where clients are not to wait, the client gets an error and is closed. No limit
/// applies to `links`.
pub(crate) fn attempt(
    shared: &Shared,
    counters: &Counters,
    links: bool,
    accept: impl FnOnce() -> Result<Accepted, Errno>,
) -> Attempt {
    if !links && shared.must_wait() {
        return Attempt::Full;
    }
    match accept() {
        Ok(accepted) if !links && shared.is_full() => {
            counters.rejected.add(1);
            // An error means that the client is gone already.
            let _ = send(accepted.fd(), TOO_MANY, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            Attempt::Again
        }
        Ok(accepted) => Attempt::Accepted(accepted),
        Err(Errno::INTR | Errno::CONNABORTED) => Attempt::Again,
        Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Attempt::Pause,
        Err(_) => Attempt::NoneWaiting,
    }
}
