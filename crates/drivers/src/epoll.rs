//! The `epoll` driver: workers that learn of events from epoll.
//!
//! Each socket is registered once, edge-triggered. A `recv` that did not fill its buffer has
//! emptied the socket, so nothing is received again before the next event. A registration changes
//! only when a client takes too little of its replies, and again when it has taken them.
//!
//! Listeners are level-triggered: a client that was not accepted is reported by the next wait.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use session::Serve;

use crate::counters::Counters;
use crate::workers::{Key, Source, Unsent};

/// Events taken from epoll at a time.
const EVENTS_MAX: usize = 256;

/// What every connection is registered for.
const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// One epoll and the events of its latest wait.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<Event>,
}

impl Source for Epoll {
    const WHAT: &'static str = "an epoll descriptor";

    fn new(waker: &OwnedFd, messages: Key) -> Result<Self, Errno> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        // Edge-triggered, so that the waker need not be read.
        epoll::add(&fd, waker, EventData::new_u64(messages), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { fd, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, EventData::new_u64(key), EventFlags::IN)
    }

    fn unwatch_listener(&mut self, fd: &OwnedFd, _key: Key) {
        // An error means that it is not registered, which is the aim.
        let _ = epoll::delete(&self.fd, fd);
    }

    fn watch_connecting(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, EventData::new_u64(key), EventFlags::OUT | EventFlags::ET)
    }

    fn unwatch_connecting(&mut self, fd: &OwnedFd, _key: Key) {
        // An error means that it is not registered, which is the aim.
        let _ = epoll::delete(&self.fd, fd);
    }

    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, EventData::new_u64(key), INTEREST)
    }

    fn watch_writable(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno> {
        let flags = if on { INTEREST | EventFlags::OUT } else { INTEREST };
        epoll::modify(&self.fd, fd, EventData::new_u64(key), flags)
    }

    #[inline(always)]
    fn wait<H: Serve>(
        &mut self,
        _unsent: &Unsent<'_, H>,
        timeout: &Timespec,
        _counters: &Counters,
    ) -> usize {
        self.events.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.events), Some(timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => panic!("epoll of a worker is broken: {error}"),
        }
    }

    #[inline(always)]
    fn event(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.events.get(at).map(|event| (event.data.u64(), event.flags))
    }
}
