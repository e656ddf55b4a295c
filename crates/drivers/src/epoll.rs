//! The `epoll` driver: workers that learn from epoll what has happened.
//!
//! Sockets are registered once, edge-triggered. A `recv` that did not fill its buffer has emptied
//! the socket, so nothing is received again before the next event, and epoll is touched again only
//! when a client takes too little of its replies.

use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::counters::Counters;
use crate::workers::{Key, Source, Unsent};

/// Events taken from epoll at a time.
const EVENTS_MAX: usize = 256;

/// What every connection is registered for.
const INTEREST: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// One epoll and the events it gave last.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<Event>,
}

impl Source for Epoll {
    const WHAT: &'static str = "an epoll descriptor";

    fn new(waker: &OwnedFd, mail: Key) -> Result<Self, Errno> {
        let fd = epoll::create(CreateFlags::CLOEXEC)?;
        // Edge-triggered, so that ringing needs no reading.
        epoll::add(&fd, waker, EventData::new_u64(mail), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { fd, events: Vec::with_capacity(EVENTS_MAX) })
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, EventData::new_u64(key), EventFlags::IN)
    }

    fn unwatch_listener(&mut self, fd: &OwnedFd, _key: Key) {
        // One that is not registered is what is wanted.
        let _ = epoll::delete(&self.fd, fd);
    }

    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        epoll::add(&self.fd, fd, EventData::new_u64(key), INTEREST)
    }

    fn watch_room(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno> {
        let flags = if on { INTEREST | EventFlags::OUT } else { INTEREST };
        epoll::modify(&self.fd, fd, EventData::new_u64(key), flags)
    }

    #[inline(always)]
    fn wait(&mut self, _unsent: &Unsent<'_>, timeout: &Timespec, _counters: &Counters) -> usize {
        self.events.clear();
        match epoll::wait(&self.fd, spare_capacity(&mut self.events), Some(timeout)) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => panic!("epoll of a worker is broken: {error}"),
        }
    }

    #[inline(always)]
    fn news(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.events.get(at).map(|event| (event.data.u64(), event.flags))
    }
}
