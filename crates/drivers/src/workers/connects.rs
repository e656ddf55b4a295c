//! Connections that are under way: what a handler has ordered to connect, until it is open or has
//! failed.
//!
//! Invariants: there are at most [`CONNECTS_MAX`]. Each has a key that no other one has; a key that
//! comes with a late event matches none. The source watches each socket until it is taken from
//! here.
//!
//! Times are nanoseconds of the monotonic clock.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::key::{CONNECT_NUMBERS, KEY_CONNECTS, Key};
use super::source::Source;
use crate::clock::SECOND_NS;
use crate::sockets::{Connected, connected, start_connect};

/// How long a connection may be under way.
const CONNECT_NS_MAX: u64 = SECOND_NS;

/// Connections of one worker that may be under way: one to each cell of a large ring, while all of
/// its other cells restart.
const CONNECTS_MAX: usize = 256;

/// One connection that is under way, or has just been opened.
pub(super) struct Connect {
    key: Key,
    pub(super) fd: OwnedFd,
    pub(super) to: SocketAddr,
    pub(super) purpose: u64,
    due_ns: u64,
}

/// The connections of one worker that are under way, in the order in which they were started.
#[derive(Default)]
pub(super) struct Connects {
    under_way: Vec<Connect>,
    /// Wrapping, below [`CONNECT_NUMBERS`].
    next: u64,
}

impl Connects {
    /// Starts to connect to `to`. `false` when that has failed already, or too many are under way.
    pub(super) fn start(
        &mut self,
        to: SocketAddr,
        purpose: u64,
        now_ns: u64,
        source: &mut impl Source,
    ) -> bool {
        if self.under_way.len() >= CONNECTS_MAX {
            return false;
        }
        let Ok(fd) = start_connect(&to) else { return false };
        let key = KEY_CONNECTS + self.next;
        self.next = (self.next + 1) % CONNECT_NUMBERS;
        if source.watch_connecting(&fd, key).is_err() {
            return false;
        }
        self.under_way.push(Connect { key, fd, to, purpose, due_ns: now_ns + CONNECT_NS_MAX });
        true
    }

    /// Takes the one of `key`, which the source has reported, and whether it is open. `None` while
    /// it is still under way.
    pub(super) fn take(&mut self, key: Key, source: &mut impl Source) -> Option<(Connect, bool)> {
        let at = self.under_way.iter().position(|connect| connect.key == key)?;
        let is_open = match connected(&self.under_way[at].fd) {
            Connected::NotYet => return None,
            state => state == Connected::Yes,
        };
        let connect = self.under_way.remove(at);
        source.unwatch_connecting(&connect.fd, connect.key);
        Some((connect, is_open))
    }

    /// Takes one that was not opened in time; all have the same time.
    pub(super) fn take_late(&mut self, now_ns: u64, source: &mut impl Source) -> Option<Connect> {
        self.under_way.first().filter(|connect| connect.due_ns <= now_ns)?;
        let connect = self.under_way.remove(0);
        source.unwatch_connecting(&connect.fd, connect.key);
        Some(connect)
    }

    /// When the next one is late.
    #[inline]
    pub(super) fn due_at_ns(&self) -> u64 {
        self.under_way.first().map_or(u64::MAX, |connect| connect.due_ns)
    }
}
