//! Events from the signals that descriptors send.
//!
//! The signals are blocked in the worker's thread and taken one by one where it waits, so no signal
//! handler ever runs. Each signal names a descriptor. By the time it is taken, that number may
//! belong to a new connection. To receive from that one without need does no harm; what any other
//! signal says is looked up before it is reported.
//!
//! Invariants: a descriptor that is watched sends its signals to this thread. When the system loses
//! signals because their queue is full, every watched descriptor is looked at, so no event is lost.

use std::iter;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::pollfd;
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::thread::{Pid, gettid};
use session::Serve;

use super::raw::{Signal, Signals, look, send_none, send_signals};
use crate::counters::Counters;
use crate::shared::Waker;
use crate::workers::{Key, Source, Unsent};

/// Signals that are discarded at most before a scan, which finds out what they were about. Those
/// that are left do no harm, so this only bounds the loop.
const DISCARD_MAX: usize = 1 << 16;

/// Bytes read from the waker's pipe at a time, and how often: together what a pipe holds.
const READ_BYTES: usize = 256;
const READS_MAX: usize = (64 << 10) / READ_BYTES;

/// The key of a descriptor that is not watched.
const UNWATCHED: Key = Key::MAX;

/// What the system reports of a descriptor that has something to read and nothing else.
const READ: EventFlags = EventFlags::IN.union(EventFlags::RDNORM);

/// What a descriptor is watched for.
#[derive(Clone, Copy)]
struct Watched {
    key: Key,
    /// Whether its client has not taken everything, so that it is to be reported when it takes
    /// again.
    writable: bool,
}

const VACANT: Watched = Watched { key: UNWATCHED, writable: false };

/// The signals of one thread, and what their descriptors are watched for.
pub(crate) struct Signalled {
    signals: Signals,
    thread: Pid,
    waker: OwnedFd,
    messages: Key,
    /// By descriptor.
    watched: Vec<Watched>,
    /// Descriptors that may have had events before they sent signals.
    early: Vec<RawFd>,
    events: Vec<(Key, EventFlags)>,
}

impl Source for Signalled {
    const WHAT: &'static str = "signals of descriptors";

    fn waker() -> Result<Waker, Errno> {
        Waker::pipe()
    }

    fn new(waker: &OwnedFd, messages: Key) -> Result<Self, Errno> {
        let waker = rustix::io::fcntl_dupfd_cloexec(waker, 0)?;
        let mut this = Self {
            signals: Signals::block()?,
            thread: gettid(),
            waker,
            messages,
            watched: Vec::new(),
            early: Vec::new(),
            events: Vec::new(),
        };
        let fd = this.waker.as_raw_fd();
        *this.watched(fd) = Watched { key: messages, writable: false };
        send_signals(&this.waker, this.thread)?;
        this.early.push(fd);
        Ok(this)
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.watch(fd, key)
    }

    fn unwatch_listener(&mut self, fd: &OwnedFd, _key: Key) {
        *self.watched(fd.as_raw_fd()) = VACANT;
        // At worst it continues to send signals, which are ignored.
        let _ = send_none(fd);
    }

    fn watch_connecting(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.watch_for(fd, Watched { key, writable: true })
    }

    fn unwatch_connecting(&mut self, fd: &OwnedFd, key: Key) {
        self.unwatch_listener(fd, key);
    }

    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.watch_for(fd, Watched { key, writable: false })
    }

    fn watch_writable(&mut self, fd: &OwnedFd, _key: Key, on: bool) -> Result<(), Errno> {
        self.watched(fd.as_raw_fd()).writable = on;
        Ok(())
    }

    fn close(&mut self, fd: OwnedFd) {
        *self.watched(fd.as_raw_fd()) = VACANT;
    }

    fn report_again(&mut self, fd: &OwnedFd, _key: Key) {
        self.early.push(fd.as_raw_fd());
    }

    #[inline(always)]
    fn wait<H: Serve>(
        &mut self,
        _unsent: &Unsent<'_, H>,
        timeout: &Timespec,
        counters: &Counters,
    ) -> usize {
        self.events.clear();
        if !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            // What happened before they sent signals, their end included, has sent none.
            self.look_at(early.into_iter());
        }
        if !self.events.is_empty() {
            return self.events.len();
        }
        match self.signals.wait(timeout) {
            Some(Signal::About { fd, events }) => self.on_signal(fd, events),
            Some(Signal::Lost) => {
                counters.signals_lost.add(1);
                self.signals.discard(DISCARD_MAX);
                self.look_at(0..self.watched.len() as RawFd);
            }
            None => {}
        }
        self.events.len()
    }

    #[inline(always)]
    fn event(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.events.get(at).copied()
    }
}

impl Signalled {
    fn watch_for(&mut self, fd: &OwnedFd, watched: Watched) -> Result<(), Errno> {
        send_signals(fd, self.thread)?;
        *self.watched(fd.as_raw_fd()) = watched;
        self.early.push(fd.as_raw_fd());
        Ok(())
    }

    fn watched(&mut self, fd: RawFd) -> &mut Watched {
        let index = usize::try_from(fd).expect("an open descriptor is not negative");
        if self.watched.len() <= index {
            self.watched.resize(index + 1, VACANT);
        }
        &mut self.watched[index]
    }

    /// Turns one signal into an event.
    #[inline]
    fn on_signal(&mut self, fd: RawFd, events: u32) {
        let events = EventFlags::from_bits_truncate(events);
        match self.watched.get(fd as usize) {
            Some(watched) if watched.key < self.messages && READ.contains(events) => {
                self.events.push((watched.key, EventFlags::IN));
            }
            Some(watched) if watched.key != UNWATCHED => self.look_at(iter::once(fd)),
            _ => {}
        }
    }

    /// Reports what is true now of those of `fds` that are watched.
    #[cold]
    fn look_at(&mut self, fds: impl Iterator<Item = RawFd>) {
        let watched = fds.map(|fd| (fd, self.watched[fd as usize]));
        let mut fds: Vec<pollfd> = watched
            .filter(|(_, watched)| watched.key != UNWATCHED)
            .map(|(fd, watched)| question(fd, watched))
            .collect();
        look(&mut fds);
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            let key = self.watched[fd.fd as usize].key;
            if key == self.messages {
                self.empty_pipe();
            }
            self.events.push((key, EventFlags::from_bits_truncate(fd.revents as u16 as u32)));
        }
    }

    /// Empties the waker's pipe, so that it does not fill up. It may be empty already.
    fn empty_pipe(&self) {
        let mut bytes = [0; READ_BYTES];
        let full = |_: &usize| rustix::io::read(&self.waker, &mut bytes) == Ok(READ_BYTES);
        (0..READS_MAX).take_while(full).for_each(drop);
    }
}

/// What `poll` is asked about a descriptor.
fn question(fd: RawFd, watched: Watched) -> pollfd {
    let mut events = EventFlags::IN | EventFlags::RDHUP;
    events.set(EventFlags::OUT, watched.writable);
    pollfd { fd, events: events.bits() as i16, revents: 0 }
}
