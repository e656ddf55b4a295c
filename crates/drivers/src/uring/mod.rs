//! The `uring` driver: workers that have the kernel receive and accept by itself, and hand it all
//! sends of a batch at once.
//!
//! ```text
//! flush   end_batch; the sends stay where they are
//! wait    one system call: hands over the sends and whatever else was asked for, waits
//! news    bytes of a client, in a buffer of the pool; a new client; room; mail
//! ```
//!
//! A client is received from by one request that goes on until an error or the end. It is ended
//! when the client is not to be read from, and asked for again when it is. What arrives between is
//! taken in all the same: at most what one wait brings.
//!
//! ```text
//! tag  63..........32 31   30.......0
//!      generation     0    index       bytes or end of a client: its key
//!      generation     1    index       the client takes again
//!      all ones       what is no client: mail, ends of requests, accepts and sends (raw.rs)
//! ```

mod probe;
mod raw;

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use session::{Context, Handler};

use crate::counters::Counters;
use crate::listen::{Accepted, Listener};
use crate::workers::{Client, KEY_LISTENERS, KEY_SPECIAL, Key, Received, Source, Unsent};
pub use probe::probe;
use raw::{Ring, SENDS_MAX, TAG_ACCEPTS, TAG_SENDS, Tag};

/// Set in the tag of a client that is waited for to take again.
const ROOM: Tag = 1 << 31;

/// The tag of requests that end others; nobody waits for them.
const TAG_ENDS: Tag = KEY_SPECIAL | 1 << 29;

/// Exchanges without waiting; also how a ring is emptied.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A listener, as far as the ring knows it.
#[derive(Default)]
struct Listening {
    /// Clients are wanted.
    watched: bool,
    /// It is closed: whoever is accepted yet is turned away.
    closed: bool,
    /// A request to accept is under way.
    armed: bool,
    /// Clients that were accepted and not yet taken over: at most those of two waits, for accepting
    /// ends when they are not wanted.
    accepted: VecDeque<OwnedFd>,
    /// Why accepting has ended.
    failed: Option<Errno>,
}

/// One ring and what it has brought.
pub(crate) struct Uring {
    ring: Ring,
    waker: OwnedFd,
    mail: Key,
    listening: Vec<Listening>,
    /// Listeners whose accepted are to be looked at without further news.
    early: Vec<Key>,
    /// Whom the completions of the latest wait are about, and which of them it is.
    news: Vec<(Key, EventFlags, usize)>,
    /// What came of the sends of the latest wait.
    sent: Vec<Option<Result<u32, Errno>>>,
    /// Descriptors that must stay until requests that name them are handed over.
    retired: Vec<OwnedFd>,
}

impl Source for Uring {
    const WHAT: &'static str = "an io_uring";
    const COMPLETES: bool = true;
    const SENDS_MAX: usize = SENDS_MAX;

    fn new(waker: &OwnedFd, mail: Key) -> Result<Self, Errno> {
        let ring = Ring::new().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOSYS))?;
        let mut this = Self {
            ring,
            waker: rustix::io::fcntl_dupfd_cloexec(waker, 0)?,
            mail,
            listening: Vec::new(),
            early: Vec::new(),
            news: Vec::new(),
            sent: Vec::new(),
            retired: Vec::new(),
        };
        this.listen_to_bell()?;
        Ok(this)
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        let index = (key - KEY_LISTENERS) as usize;
        if self.listening.len() <= index {
            self.listening.resize_with(index + 1, Listening::default);
        }
        let listener = &mut self.listening[index];
        listener.watched = true;
        if !listener.accepted.is_empty() {
            self.early.push(key);
        }
        self.arm(fd, index)
    }

    fn unwatch_listener(&mut self, _fd: &OwnedFd, key: Key) {
        let index = (key - KEY_LISTENERS) as usize;
        let Some(listener) = self.listening.get_mut(index) else { return };
        listener.watched = false;
        if listener.armed {
            // At worst, clients are accepted that wait in the listener instead of outside.
            let _ = self.ring.cancel(TAG_ACCEPTS + index as u64, TAG_ENDS);
        }
    }

    fn close_listener(&mut self, fd: &OwnedFd, key: Key) {
        self.unwatch_listener(fd, key);
        if let Some(listener) = self.listening.get_mut((key - KEY_LISTENERS) as usize) {
            listener.closed = true;
            listener.accepted.clear();
        }
    }

    fn remind(&mut self, _fd: &OwnedFd, key: Key) {
        self.early.push(key);
    }

    fn accept(&mut self, listener: &Listener, key: Key) -> Result<Accepted, Errno> {
        let index = (key - KEY_LISTENERS) as usize;
        let Some(state) = self.listening.get_mut(index) else { return Err(Errno::AGAIN) };
        if let Some(fd) = state.accepted.pop_front() {
            return Ok(listener.accepted(fd));
        }
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        self.arm(&listener.fd, index)?;
        Err(Errno::AGAIN)
    }

    /// Nothing: a client is received from when it has its first turn.
    fn watch(&mut self, _fd: &OwnedFd, _key: Key) -> Result<(), Errno> {
        Ok(())
    }

    fn watch_room(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno> {
        if on {
            self.ring.poll(fd.as_fd(), key | ROOM, EventFlags::OUT.bits(), false)?;
            self.hold_off(key);
        }
        Ok(())
    }

    fn retire(&mut self, fd: OwnedFd) {
        // Ends what is under way for it; a connection that is broken has ended it already.
        let _ = shutdown(&fd, Shutdown::Both);
        if self.ring.submit().is_err() {
            self.retired.push(fd);
        }
    }

    fn hold_off(&mut self, key: Key) {
        // At worst, more is taken in than was wanted.
        let _ = self.ring.cancel(key, TAG_ENDS);
    }

    #[inline]
    fn receive<H: Handler>(
        &mut self,
        at: usize,
        client: &mut Client,
        _buffer: &mut [u8],
        context: &mut Context<H>,
        counters: &Counters,
    ) -> Received {
        let at = self.news[at].2;
        let done = &self.ring.done()[at];
        let (result, more) = (done.result, done.more);
        counters.recv_calls.add(1);
        client.receiving = more;
        client.readable = !more;
        match result {
            Ok(0) => {
                client.readable = false;
                client.ended = true;
                Received::Nothing
            }
            Ok(count) => {
                counters.bytes_in.add(count.into());
                client.session.receive(self.ring.bytes(at), context);
                Received::Input
            }
            // It was ended by us, or the pool was empty.
            Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::Broken,
        }
    }

    /// Has the kernel receive from now on.
    fn receive_again<H: Handler>(
        &mut self,
        client: &mut Client,
        _buffer: &mut [u8],
        _context: &mut Context<H>,
        _counters: &Counters,
    ) -> Received {
        client.readable = false;
        if client.receiving {
            return Received::Nothing;
        }
        match self.ring.receive(client.fd.as_fd(), client.key()) {
            Ok(()) => {
                client.receiving = true;
                Received::Nothing
            }
            Err(_) => Received::Broken,
        }
    }

    fn wait(&mut self, unsent: &Unsent<'_>, timeout: &Timespec, _counters: &Counters) -> usize {
        let timeout = if self.early.is_empty() { timeout } else { &AT_ONCE };
        self.ring.exchange(unsent.plain(), timeout);
        self.retired.clear();
        self.sent.clear();
        self.sent.resize(unsent.len(), None);
        self.news.clear();
        self.news.extend(self.early.drain(..).map(|key| (key, EventFlags::IN, usize::MAX)));
        for at in 0..self.ring.done().len() {
            self.sort(at);
        }
        self.news.len()
    }

    #[inline]
    fn news(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.news.get(at).map(|(key, flags, _)| (*key, *flags))
    }

    #[inline]
    fn sent(&self, at: usize) -> Option<Result<usize, Errno>> {
        self.sent[at].map(|result| result.map(|count| count as usize))
    }
}

impl Uring {
    /// Sees whom a completion is about.
    fn sort(&mut self, at: usize) {
        let done = &mut self.ring.done()[at];
        let (tag, result, more, accepted) =
            (done.tag, done.result, done.more, done.accepted.take());
        match tag {
            TAG_SENDS.. => self.sent[(tag - TAG_SENDS) as usize] = Some(result),
            TAG_ACCEPTS.. => {
                let index = (tag - TAG_ACCEPTS) as usize;
                let listener = &mut self.listening[index];
                listener.armed = more;
                listener.accepted.extend(accepted.filter(|_| !listener.closed));
                listener.failed = result.err().filter(|error| *error != Errno::CANCELED);
                self.news.push((KEY_LISTENERS + index as u64, EventFlags::IN, at));
            }
            TAG_ENDS => {}
            _ if tag == self.mail => {
                if !more {
                    self.listen_to_bell().expect("the queue of requests is empty");
                }
                self.news.push((tag, EventFlags::IN, at));
            }
            _ if tag & ROOM != 0 => self.news.push((tag & !ROOM, EventFlags::OUT, at)),
            _ => self.news.push((tag, EventFlags::IN, at)),
        }
    }

    /// The waker is never read: each ring is news.
    fn listen_to_bell(&mut self) -> Result<(), Errno> {
        self.ring.poll(self.waker.as_fd(), self.mail, EventFlags::IN.bits(), true)
    }

    /// Has the kernel accept at a listener, if clients are wanted there and it does not yet.
    fn arm(&mut self, fd: &OwnedFd, index: usize) -> Result<(), Errno> {
        let listener = &mut self.listening[index];
        if listener.watched && !listener.armed {
            self.ring.accept(fd.as_fd(), index)?;
            listener.armed = true;
        }
        Ok(())
    }
}

impl Drop for Uring {
    /// Lets go of listeners and connections that the kernel still holds for requests under way.
    fn drop(&mut self) {
        for index in 0..self.listening.len() {
            let _ = self.ring.cancel(TAG_ACCEPTS + index as u64, TAG_ENDS);
        }
        self.ring.exchange(std::iter::empty(), &AT_ONCE);
    }
}
