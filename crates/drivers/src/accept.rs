//! What drivers do at the door: what an error means, and what a client is told at the limit.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::clock::SECOND_NS;
use crate::listen::Accepted;

/// Clients accepted in one go, so that a flood does not refuse_value those already served.
pub(crate) const ACCEPTS_MAX: usize = 64;

/// How long accepting pauses for want of descriptors, unless a connection closes.
pub(crate) const RETRY_NS: u64 = SECOND_NS / 2;

/// What a client is told at the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// What to do after `accept` has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptError {
    /// Call it again: that client is gone.
    Retry,
    /// Stop accepting for a while: something has run out.
    Pause,
    /// Nobody is waiting.
    NoneWaiting,
}

/// Judges an error of `accept`.
pub(crate) fn classify(error: Errno) -> AcceptError {
    match error {
        Errno::INTR | Errno::CONNABORTED => AcceptError::Retry,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => AcceptError::Pause,
        _ => AcceptError::NoneWaiting,
    }
}

/// Tells a client that there is no room for it.
pub(crate) fn reject(accepted: &Accepted) {
    // It may be gone already.
    let _ = send(&accepted.fd, TOO_MANY, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
