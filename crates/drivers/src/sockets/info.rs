//! What other threads may know of an open connection: its two ends, its state, and when its client
//! was last active.
//!
//! The worker that owns the connection is the only writer. It writes the state when the state
//! changes, and the time at most once a second. Any thread may read both, without a lock; a reader
//! may see a value that is a moment old.
//!
//! Times are whole seconds of the server's monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use super::address::Address;

/// What a connection is doing, in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It waits for a request, or for the rest of one.
    Read,
    /// It waits until its client takes replies.
    Write,
    /// It waits for a completion or a log.
    Wait,
    /// A listener: it waits for clients, or for other cells.
    Listening,
    /// A link to another cell, whatever it is doing.
    Link,
}

impl State {
    const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Wait, Self::Listening, Self::Link];

    /// As `stats conns` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "conn_read",
            Self::Write => "conn_mwrite",
            Self::Wait => "conn_io_pending",
            Self::Listening => "conn_listening",
            Self::Link => "conn_link",
        }
    }
}

/// The two ends of a connection.
pub(crate) struct Ends {
    /// The other one.
    pub(crate) peer: Address,
    /// This one: that of the listener, if it was accepted.
    pub(crate) local: Arc<Address>,
}

/// One connection, as its worker shows it to other threads.
pub(crate) struct ConnectionInfo {
    fd: i32,
    peer: Address,
    /// This end of it.
    local: Arc<Address>,
    is_link: bool,
    state: AtomicU8,
    active_s: AtomicU32,
}

impl ConnectionInfo {
    pub(crate) fn new(fd: i32, ends: Ends, is_link: bool, now_s: u32) -> Self {
        let Ends { peer, local } = ends;
        let state = AtomicU8::new(State::Read as u8);
        Self { fd, peer, local, is_link, state, active_s: AtomicU32::new(now_s) }
    }

    /// Notes that the client sent or took something.
    #[inline]
    pub(crate) fn touch(&self, now_s: u32) {
        if self.active_s.load(Ordering::Relaxed) != now_s {
            self.active_s.store(now_s, Ordering::Relaxed);
        }
    }

    /// The client is received from again, after it had to wait for the server: only from now on is
    /// it silent.
    pub(crate) fn read_again(&self, now_s: u32) {
        self.set_state(State::Read);
        self.touch(now_s);
    }

    /// Seconds since the client last sent or took something.
    pub(crate) fn idle_s(&self, now_s: u32) -> u32 {
        now_s.saturating_sub(self.active_s.load(Ordering::Relaxed))
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn report(&self, now_s: u32) -> Report {
        let state = State::ALL[usize::from(self.state.load(Ordering::Relaxed))];
        Report {
            fd: self.fd,
            address: self.peer.clone(),
            listener: Some(self.local.clone()),
            state: if self.is_link { State::Link } else { state },
            idle_s: self.idle_s(now_s),
        }
    }
}

/// One connection or one listener in `stats conns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The descriptor, by which memcached names connections.
    pub fd: i32,
    /// The end of the client or of the other cell; for a listener, where it listens.
    pub address: Address,
    /// The server's end; `None` for a listener.
    pub listener: Option<Arc<Address>>,
    /// What it is doing.
    pub state: State,
    /// Seconds since the other end last sent or took something.
    pub idle_s: u32,
}
