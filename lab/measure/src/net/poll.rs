//! An epoll instance, and space for the events that it reports.
//!
//! Every watch is edge-triggered: an event is reported once, when new bytes arrive, so its reader
//! reads until a short read. A wait always has a deadline and ends within microseconds of it. The
//! plain wait of epoll counts whole milliseconds, which is longer than many replies take. A finer
//! wait therefore goes through `poll` on the instance itself.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::error::Error;

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 256;

const NANOS_PER_MS: u32 = 1_000_000;

/// The instance.
pub struct Poll {
    epoll: OwnedFd,
}

/// Space for events, owned by the thread that waits.
pub struct Events(Vec<Event>);

impl Default for Events {
    fn default() -> Self {
        Self::new()
    }
}

impl Events {
    /// Space for 256 events.
    pub fn new() -> Self {
        Self(Vec::with_capacity(EVENTS_MAX))
    }

    /// Name and flags of each event of the last wait.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u64, EventFlags)> {
        // The kernel's structure is packed: its fields are copied out, never borrowed.
        self.0.iter().map(|event| (event.data.u64(), event.flags))
    }
}

impl Poll {
    /// An instance that watches nothing yet.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn new() -> Result<Self, Error> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|errno| Error::io("cannot create an epoll instance", errno))?;
        Ok(Self { epoll })
    }

    /// Reports on `fd` under `name` when it can be read, and with `write` when it can be written.
    pub fn watch(&self, fd: impl AsFd, name: u64, write: bool) -> Result<(), Error> {
        epoll::add(&self.epoll, fd, EventData::new_u64(name), flags(write))
            .map_err(|errno| Error::io("cannot watch a connection", errno))
    }

    /// Changes whether writing is reported.
    pub fn watch_write(&self, fd: impl AsFd, name: u64, write: bool) -> Result<(), Error> {
        epoll::modify(&self.epoll, fd, EventData::new_u64(name), flags(write))
            .map_err(|errno| Error::io("cannot watch a connection", errno))
    }

    /// Waits for events, at most for `timeout`, and leaves them in `events`.
    #[inline]
    pub fn wait(&self, events: &mut Events, timeout: Duration) -> Result<(), Error> {
        events.0.clear();
        let fine = !timeout.subsec_nanos().is_multiple_of(NANOS_PER_MS);
        if fine && !self.wait_finely(timeout)? {
            return Ok(());
        }
        let timeout = if fine { Timespec::default() } else { timespec(timeout) };
        let spare = rustix::buffer::spare_capacity(&mut events.0);
        match epoll::wait(&self.epoll, spare, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(Error::io("cannot wait for events", errno)),
        }
    }

    /// Waits to the nanosecond; whether there is an event.
    fn wait_finely(&self, timeout: Duration) -> Result<bool, Error> {
        let mut instance = [PollFd::new(&self.epoll, PollFlags::IN)];
        match poll(&mut instance, Some(&timespec(timeout))) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::INTR) => Ok(false),
            Err(errno) => Err(Error::io("cannot wait for events", errno)),
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

fn flags(write: bool) -> EventFlags {
    let write = if write { EventFlags::OUT } else { EventFlags::empty() };
    EventFlags::IN | EventFlags::ET | write
}
