//! The `signal` driver: workers that learn from real-time signals what has happened.
//!
//! ```text
//! socket --F_SETSIG--> queue of the worker's thread --sigtimedwait--> one piece of news
//!                      queue full: SIGIO            ----------------> a scan of all connections
//! ```
//!
//! The signals are held back and taken one by one where the worker waits, so nothing ever runs in a
//! handler. Each says which descriptor it is about. By the time it is taken, that number may belong
//! to a new connection: being received from once too often does no harm to it, and any other news
//! is looked up before it is believed.

mod raw;

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libc::pollfd;
use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::thread::{Pid, gettid};

use crate::counters::Counters;
use crate::mailbox::Waker;
use crate::workers::{Key, Source, Unsent};
use raw::{Signal, Signals, look, send_none, send_signals};

/// Signals thrown away before a scan, which finds out what they were about. Left-over ones do no
/// harm, so this bounds the loop and no more.
const DISCARD_MAX: usize = 1 << 16;

/// Rings taken out of the waker at a time, and how often: together what a pipe holds.
const RINGS_MAX: usize = 256;
const TAKES_MAX: usize = (64 << 10) / RINGS_MAX;

/// The key of a descriptor that nobody watches.
const NOBODY: Key = Key::MAX;

/// What the system reports of a descriptor that has something to read, and nothing else.
const READ: EventFlags = EventFlags::IN.union(EventFlags::RDNORM);

/// Whose a descriptor is.
#[derive(Clone, Copy)]
struct Watched {
    key: Key,
    /// Its client has not taken everything.
    room: bool,
}

const VACANT: Watched = Watched { key: NOBODY, room: false };

/// The signals of one thread, and whom their descriptors belong to.
pub(crate) struct Signalled {
    signals: Signals,
    thread: Pid,
    waker: OwnedFd,
    mail: Key,
    /// By descriptor.
    watched: Vec<Watched>,
    /// Descriptors that may have had news before they sent signals.
    early: Vec<RawFd>,
    news: Vec<(Key, EventFlags)>,
}

impl Source for Signalled {
    const WHAT: &'static str = "signals of descriptors";

    fn waker() -> Result<Waker, Errno> {
        Waker::pipe()
    }

    fn new(waker: &OwnedFd, mail: Key) -> Result<Self, Errno> {
        let waker = rustix::io::fcntl_dupfd_cloexec(waker, 0)?;
        let mut this = Self {
            signals: Signals::hold_back()?,
            thread: gettid(),
            waker,
            mail,
            watched: Vec::new(),
            early: Vec::new(),
            news: Vec::new(),
        };
        let fd = this.waker.as_raw_fd();
        *this.watched(fd) = Watched { key: mail, room: false };
        send_signals(&this.waker, this.thread)?;
        this.early.push(fd);
        Ok(this)
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.watch(fd, key)
    }

    fn unwatch_listener(&mut self, fd: &OwnedFd, _key: Key) {
        *self.watched(fd.as_raw_fd()) = VACANT;
        // It goes on sending signals that nobody heeds, at worst.
        let _ = send_none(fd);
    }

    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        send_signals(fd, self.thread)?;
        *self.watched(fd.as_raw_fd()) = Watched { key, room: false };
        self.early.push(fd.as_raw_fd());
        Ok(())
    }

    fn watch_room(&mut self, fd: &OwnedFd, _key: Key, on: bool) -> Result<(), Errno> {
        self.watched(fd.as_raw_fd()).room = on;
        Ok(())
    }

    fn retire(&mut self, fd: OwnedFd) {
        *self.watched(fd.as_raw_fd()) = VACANT;
    }

    fn remind(&mut self, fd: &OwnedFd, _key: Key) {
        self.early.push(fd.as_raw_fd());
    }

    #[inline(always)]
    fn wait(&mut self, _unsent: &Unsent<'_>, timeout: &Timespec, counters: &Counters) -> usize {
        self.news.clear();
        if !self.early.is_empty() {
            self.look_at_early();
        }
        if !self.news.is_empty() {
            return self.news.len();
        }
        match self.signals.wait(timeout) {
            Some(Signal::About { fd, events }) => self.on_signal(fd, events),
            Some(Signal::Lost) => {
                counters.signals_lost.add(1);
                self.signals.discard(DISCARD_MAX);
                self.scan();
            }
            None => {}
        }
        self.news.len()
    }

    #[inline(always)]
    fn news(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.news.get(at).copied()
    }
}

impl Signalled {
    fn watched(&mut self, fd: RawFd) -> &mut Watched {
        let index = usize::try_from(fd).expect("an open descriptor is not negative");
        if self.watched.len() <= index {
            self.watched.resize(index + 1, VACANT);
        }
        &mut self.watched[index]
    }

    /// Takes up one signal.
    #[inline]
    fn on_signal(&mut self, fd: RawFd, events: u32) {
        let events = EventFlags::from_bits_truncate(events);
        match self.watched.get(fd as usize) {
            Some(watched) if watched.key < self.mail && READ.contains(events) => {
                self.news.push((watched.key, EventFlags::IN));
            }
            Some(watched) if watched.key != NOBODY => self.look_at(fd, *watched),
            _ => {}
        }
    }

    /// Reports what is true of a descriptor now.
    #[cold]
    fn look_at(&mut self, fd: RawFd, watched: Watched) {
        let mut fds = [question(fd, watched)];
        look(&mut fds);
        self.report(&fds);
    }

    /// Reports what was true of descriptors when they began to send signals, their end included.
    #[cold]
    fn look_at_early(&mut self) {
        let early = std::mem::take(&mut self.early);
        let watched = early.iter().map(|fd| (*fd, self.watched[*fd as usize]));
        let mut fds: Vec<pollfd> = watched
            .filter(|(_, watched)| watched.key != NOBODY)
            .map(|(fd, watched)| question(fd, watched))
            .collect();
        look(&mut fds);
        self.report(&fds);
    }

    /// Reports what is true of every descriptor now.
    #[cold]
    fn scan(&mut self) {
        let watched = (0..).zip(&self.watched).filter(|(_, watched)| watched.key != NOBODY);
        let mut fds: Vec<pollfd> = watched.map(|(fd, watched)| question(fd, *watched)).collect();
        look(&mut fds);
        self.report(&fds);
    }

    fn report(&mut self, fds: &[pollfd]) {
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            let key = self.watched[fd.fd as usize].key;
            if key == self.mail {
                self.empty_pipe();
            }
            self.news.push((key, EventFlags::from_bits_truncate(fd.revents as u16 as u32)));
        }
    }

    /// Takes the rings out of the waker, so that it does not fill up. There may be none: an earlier
    /// look has taken them.
    fn empty_pipe(&self) {
        let mut rings = [0; RINGS_MAX];
        let full = |_: &usize| rustix::io::read(&self.waker, &mut rings) == Ok(RINGS_MAX);
        (0..TAKES_MAX).take_while(full).for_each(drop);
    }
}

/// What `poll` is asked about a descriptor.
fn question(fd: RawFd, watched: Watched) -> pollfd {
    let mut events = EventFlags::IN | EventFlags::RDHUP;
    events.set(EventFlags::OUT, watched.room);
    pollfd { fd, events: events.bits() as i16, revents: 0 }
}
