//! What drivers do at the door: what an error means, and what a client is told at the limit.

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::clock::SECOND_NS;
use crate::listen::Guest;

/// Clients accepted in one go, so that a flood does not starve those already served.
pub(crate) const ACCEPTS_MAX: usize = 64;

/// How long accepting pauses for want of descriptors, unless a connection closes.
pub(crate) const RETRY_NS: u64 = SECOND_NS / 2;

/// What a client is told at the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// What to do after `accept` has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// Call it again: that client is gone.
    Again,
    /// Stop accepting for a while: something has run out.
    Pause,
    /// Nobody is waiting.
    Nobody,
}

/// Judges an error of `accept`.
pub(crate) fn judge(error: Errno) -> Failed {
    match error {
        Errno::INTR | Errno::CONNABORTED => Failed::Again,
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Failed::Pause,
        _ => Failed::Nobody,
    }
}

/// Tells a client that there is no room for it.
pub(crate) fn turn_away(guest: &Guest) {
    // It may be gone already.
    let _ = send(&guest.fd, TOO_MANY, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}
