//! What others may know of an open connection: its ends, what it is doing, since when.
//!
//! The worker writes a info only when something changes, at most once a second for the time; any
//! thread may read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::Address;

/// What a connection is doing, in memcached's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// Waiting for a request, or for the rest of one.
    Read,
    /// Waiting for its client to take replies.
    Write,
    /// Waiting for a completion or a log.
    Wait,
    /// Waiting to be closed.
    Closing,
    /// Waiting for clients.
    Listening,
}

impl State {
    const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Wait, Self::Closing, Self::Listening];

    /// As `stats conns` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "conn_read",
            Self::Write => "conn_mwrite",
            Self::Wait => "conn_io_pending",
            Self::Closing => "conn_closing",
            Self::Listening => "conn_listening",
        }
    }
}

/// The info of one connection.
pub(crate) struct ConnectionInfo {
    pub(crate) fd: i32,
    pub(crate) peer: Address,
    pub(crate) listener: Arc<Address>,
    state: AtomicU8,
    active_s: AtomicU32,
}

impl ConnectionInfo {
    pub(crate) fn new(fd: i32, peer: Address, listener: Arc<Address>, now_s: u32) -> Self {
        let state = AtomicU8::new(State::Read as u8);
        Self { fd, peer, listener, state, active_s: AtomicU32::new(now_s) }
    }

    /// Notes that the client sent or took something.
    #[inline]
    pub(crate) fn touch(&self, now_s: u32) {
        if self.active_s.load(Ordering::Relaxed) != now_s {
            self.active_s.store(now_s, Ordering::Relaxed);
        }
    }

    /// Seconds since it did so last.
    pub(crate) fn idle_s(&self, now_s: u32) -> u32 {
        now_s.saturating_sub(self.active_s.load(Ordering::Relaxed))
    }

    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> State {
        State::ALL[usize::from(self.state.load(Ordering::Relaxed))]
    }
}

/// One line-up of `stats conns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The descriptor, by which memcached names connections.
    pub fd: i32,
    /// The client's end; for a listener, where it listens.
    pub address: Address,
    /// The server's end; `None` for a listener.
    pub listener: Option<Arc<Address>>,
    /// What it is doing.
    pub state: State,
    /// Seconds since the client last sent or took something.
    pub idle_s: u32,
}
