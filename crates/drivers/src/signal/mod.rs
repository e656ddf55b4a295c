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
use crate::mail::Bell;
use crate::workers::{Key, Source, Unsent};
use raw::{News, Signals, look, send_none, send_signals};

/// Signals thrown away before a scan, which finds out what they were about. Left-over ones do no
/// harm, so this bounds the loop and no more.
const DISCARD_MAX: usize = 1 << 16;

/// Rings taken out of the bell at a time, and how often: together what a pipe holds.
const RINGS_MAX: usize = 256;
const TAKES_MAX: usize = (64 << 10) / RINGS_MAX;

/// The key of a descriptor that nobody watches.
const NOBODY: Key = Key::MAX;

/// What the system reports of a descriptor that has something to read, and nothing else.
const READ: EventFlags = EventFlags::IN.union(EventFlags::RDNORM);

/// Whose a descriptor is.
#[derive(Clone, Copy)]
struct Slot {
    key: Key,
    /// Its client has not taken everything.
    room: bool,
}

const VACANT: Slot = Slot { key: NOBODY, room: false };

/// The signals of one thread, and whom their descriptors belong to.
pub(crate) struct Signalled {
    signals: Signals,
    thread: Pid,
    bell: OwnedFd,
    mail: Key,
    /// By descriptor.
    slots: Vec<Slot>,
    /// Descriptors that may have had news before they sent signals.
    early: Vec<RawFd>,
    news: Vec<(Key, EventFlags)>,
}

impl Source for Signalled {
    const WHAT: &'static str = "signals of descriptors";

    fn bell() -> Result<Bell, Errno> {
        Bell::pipe()
    }

    fn new(bell: &OwnedFd, mail: Key) -> Result<Self, Errno> {
        let bell = rustix::io::fcntl_dupfd_cloexec(bell, 0)?;
        let mut this = Self {
            signals: Signals::hold_back()?,
            thread: gettid(),
            bell,
            mail,
            slots: Vec::new(),
            early: Vec::new(),
            news: Vec::new(),
        };
        let fd = this.bell.as_raw_fd();
        *this.slot(fd) = Slot { key: mail, room: false };
        send_signals(&this.bell, this.thread)?;
        this.early.push(fd);
        Ok(this)
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.watch(fd, key)
    }

    fn unwatch_listener(&mut self, fd: &OwnedFd, _key: Key) {
        *self.slot(fd.as_raw_fd()) = VACANT;
        // It goes on sending signals that nobody heeds, at worst.
        let _ = send_none(fd);
    }

    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        send_signals(fd, self.thread)?;
        *self.slot(fd.as_raw_fd()) = Slot { key, room: false };
        self.early.push(fd.as_raw_fd());
        Ok(())
    }

    fn watch_room(&mut self, fd: &OwnedFd, _key: Key, on: bool) -> Result<(), Errno> {
        self.slot(fd.as_raw_fd()).room = on;
        Ok(())
    }

    fn retire(&mut self, fd: OwnedFd) {
        *self.slot(fd.as_raw_fd()) = VACANT;
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
            Some(News::About { fd, events }) => self.hear(fd, events),
            Some(News::Lost) => {
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
    fn slot(&mut self, fd: RawFd) -> &mut Slot {
        let index = usize::try_from(fd).expect("an open descriptor is not negative");
        if self.slots.len() <= index {
            self.slots.resize(index + 1, VACANT);
        }
        &mut self.slots[index]
    }

    /// Takes up one signal.
    #[inline]
    fn hear(&mut self, fd: RawFd, events: u32) {
        let events = EventFlags::from_bits_truncate(events);
        match self.slots.get(fd as usize) {
            Some(slot) if slot.key < self.mail && READ.contains(events) => {
                self.news.push((slot.key, EventFlags::IN));
            }
            Some(slot) if slot.key != NOBODY => self.look_at(fd, *slot),
            _ => {}
        }
    }

    /// Reports what is true of a descriptor now.
    #[cold]
    fn look_at(&mut self, fd: RawFd, slot: Slot) {
        let mut fds = [question(fd, slot)];
        look(&mut fds);
        self.report(&fds);
    }

    /// Reports what was true of descriptors when they began to send signals, their end included.
    #[cold]
    fn look_at_early(&mut self) {
        let early = std::mem::take(&mut self.early);
        let watched = early.iter().map(|fd| (*fd, self.slots[*fd as usize]));
        let mut fds: Vec<pollfd> = watched
            .filter(|(_, slot)| slot.key != NOBODY)
            .map(|(fd, slot)| question(fd, slot))
            .collect();
        look(&mut fds);
        self.report(&fds);
    }

    /// Reports what is true of every descriptor now.
    #[cold]
    fn scan(&mut self) {
        let watched = (0..).zip(&self.slots).filter(|(_, slot)| slot.key != NOBODY);
        let mut fds: Vec<pollfd> = watched.map(|(fd, slot)| question(fd, *slot)).collect();
        look(&mut fds);
        self.report(&fds);
    }

    fn report(&mut self, fds: &[pollfd]) {
        for fd in fds.iter().filter(|fd| fd.revents != 0) {
            let key = self.slots[fd.fd as usize].key;
            if key == self.mail {
                self.quieten();
            }
            self.news.push((key, EventFlags::from_bits_truncate(fd.revents as u16 as u32)));
        }
    }

    /// Takes the rings out of the bell, so that it does not fill up. There may be none: an earlier
    /// look has taken them.
    fn quieten(&self) {
        let mut rings = [0; RINGS_MAX];
        let full = |_: &usize| rustix::io::read(&self.bell, &mut rings) == Ok(RINGS_MAX);
        (0..TAKES_MAX).take_while(full).for_each(drop);
    }
}

/// What `poll` is asked about a descriptor.
fn question(fd: RawFd, slot: Slot) -> pollfd {
    let mut events = EventFlags::IN | EventFlags::RDHUP;
    events.set(EventFlags::OUT, slot.room);
    pollfd { fd, events: events.bits() as i16, revents: 0 }
}
