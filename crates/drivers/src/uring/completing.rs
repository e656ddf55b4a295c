//! Events from the completions of an io_uring.
//!
//! ```text
//! flush   end_batch; the replies stay in the output
//! wait    one system call: submits the sends and all other requests, and waits
//! events  bytes of a client, in a buffer of the pool; a new client; a client takes again; messages
//! ```
//!
//! A client is received from by one request that continues until an error or the end. The request
//! is cancelled when the client is not to be read from, and made again later. What arrives before
//! the cancellation takes effect is taken in as well: at most what one wait brings.
//!
//! ```text
//! tag  63..........32 31   30.......0
//!      generation     0    index       bytes or end of a client: its key
//!      generation     1    index       the client takes again
//!      all ones       what is no client: messages, connections under way, cancellations, accepts
//!                     and sends (raw.rs)
//! ```

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};
use session::Serve;

use super::raw::{AT_ONCE, Ring, SENDS_MAX, TAG_ACCEPTS, TAG_SENDS, Tag};
use crate::counters::Counters;
use crate::sockets::{Accepted, Listener};
use crate::workers::{
    Client, KEY_CONNECTS, KEY_LISTENERS, KEY_SPECIAL, Key, Received, Source, Turn, Unsent,
};

/// Set in the tag of a request that completes when a client takes again.
const WRITABLE: Tag = 1 << 31;

/// The tag of cancellations, whose completions are ignored.
const TAG_CANCELS: Tag = KEY_SPECIAL | 1 << 29;

/// The state of a listener in the ring.
#[derive(Default)]
struct Listening {
    /// Clients are wanted.
    watched: bool,
    /// It is closed: a client that is accepted after that is closed at once.
    closed: bool,
    /// A request to accept is under way.
    armed: bool,
    /// Clients that were accepted and not yet taken over: at most those of two waits, because the
    /// request to accept is cancelled when they are not wanted.
    accepted: VecDeque<OwnedFd>,
    /// Why the latest request to accept has ended.
    failed: Option<Errno>,
}

/// One ring and what it has brought.
pub(crate) struct Uring {
    ring: Ring,
    waker: OwnedFd,
    messages: Key,
    listening: Vec<Listening>,
    /// Listeners that the next wait reports without a completion.
    early: Vec<Key>,
    /// What the completions of the latest wait are about, and which completion each is.
    events: Vec<(Key, EventFlags, usize)>,
    /// What the sends of the latest wait returned.
    sent: Vec<Option<Result<u32, Errno>>>,
    /// Descriptors that must stay open until the requests that name them are submitted.
    closing: Vec<OwnedFd>,
}

impl Source for Uring {
    const WHAT: &'static str = "an io_uring";
    const COMPLETES: bool = true;
    const SENDS_MAX: usize = SENDS_MAX;

    fn new(waker: &OwnedFd, messages: Key) -> Result<Self, Errno> {
        let ring = Ring::new().map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::NOSYS))?;
        let mut this = Self {
            ring,
            waker: rustix::io::fcntl_dupfd_cloexec(waker, 0)?,
            messages,
            listening: Vec::new(),
            early: Vec::new(),
            events: Vec::new(),
            sent: Vec::new(),
            closing: Vec::new(),
        };
        this.watch_waker()?;
        Ok(this)
    }

    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        let index = (key - KEY_LISTENERS) as usize;
        if self.listening.len() <= index {
            self.listening.resize_with(index + 1, Listening::default);
        }
        let state = &mut self.listening[index];
        state.watched = true;
        if !state.accepted.is_empty() {
            self.early.push(key);
        }
        self.arm(fd, index)
    }

    fn unwatch_listener(&mut self, _fd: &OwnedFd, key: Key) {
        let index = (key - KEY_LISTENERS) as usize;
        let Some(state) = self.listening.get_mut(index) else { return };
        state.watched = false;
        if state.armed {
            // At worst, clients are accepted that then wait here instead of in the backlog.
            let _ = self.ring.cancel(TAG_ACCEPTS + index as u64, TAG_CANCELS);
        }
    }

    fn close_listener(&mut self, fd: &OwnedFd, key: Key) {
        self.unwatch_listener(fd, key);
        if let Some(state) = self.listening.get_mut((key - KEY_LISTENERS) as usize) {
            state.closed = true;
            state.accepted.clear();
        }
    }

    fn report_again(&mut self, _fd: &OwnedFd, key: Key) {
        self.early.push(key);
    }

    fn accept(&mut self, listener: &Listener, key: Key) -> Result<Accepted, Errno> {
        let index = (key - KEY_LISTENERS) as usize;
        let Some(state) = self.listening.get_mut(index) else { return Err(Errno::AGAIN) };
        if let Some(fd) = state.accepted.pop_front() {
            return Ok(listener.accepted(fd));
        }
        // An error ends the request that accepts, whatever the acceptor makes of it.
        let failed = state.failed.take();
        self.arm(listener.fd(), index)?;
        Err(failed.unwrap_or(Errno::AGAIN))
    }

    fn watch_connecting(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno> {
        self.ring.poll(fd.as_fd(), key, EventFlags::OUT.bits(), false)
    }

    fn unwatch_connecting(&mut self, _fd: &OwnedFd, key: Key) {
        // At worst, an event comes that matches no connection.
        let _ = self.ring.cancel(key, TAG_CANCELS);
    }

    /// Does nothing: the first turn of a client makes the ring receive from it.
    fn watch(&mut self, _fd: &OwnedFd, _key: Key) -> Result<(), Errno> {
        Ok(())
    }

    fn watch_writable(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno> {
        if on {
            self.ring.poll(fd.as_fd(), key | WRITABLE, EventFlags::OUT.bits(), false)?;
        }
        Ok(())
    }

    fn close(&mut self, fd: OwnedFd) {
        // Ends the requests under way for it. An error means that the connection is broken, which
        // has ended them already.
        let _ = shutdown(&fd, Shutdown::Both);
        if self.ring.submit().is_err() {
            self.closing.push(fd);
        }
    }

    fn stop_receiving(&mut self, key: Key) {
        // At worst, more is taken in than is wanted.
        let _ = self.ring.cancel(key, TAG_CANCELS);
    }

    #[inline]
    fn receive<H: Serve>(
        &mut self,
        at: usize,
        client: &mut Client<H>,
        turn: Turn<'_, H>,
    ) -> Received {
        let at = self.events[at].2;
        let done = &self.ring.done()[at];
        let (result, more) = (done.result, done.more);
        client.take_in(result.map(|_| self.ring.bytes(at)), more, turn)
    }

    /// Makes the kernel receive from now on.
    fn receive_again<H: Serve>(&mut self, client: &mut Client<H>, _turn: Turn<'_, H>) -> Received {
        client.start_receiving(|fd, key| self.ring.receive(fd, key))
    }

    fn wait<H: Serve>(
        &mut self,
        unsent: &Unsent<'_, H>,
        timeout: &Timespec,
        _counters: &Counters,
    ) -> usize {
        let timeout = if self.early.is_empty() { timeout } else { &AT_ONCE };
        self.ring.exchange(unsent.plain(), timeout);
        self.closing.clear();
        self.sent.clear();
        self.sent.resize(unsent.len(), None);
        self.events.clear();
        self.events.extend(self.early.drain(..).map(|key| (key, EventFlags::IN, usize::MAX)));
        for at in 0..self.ring.done().len() {
            self.sort(at);
        }
        self.events.len()
    }

    #[inline]
    fn event(&self, at: usize) -> Option<(Key, EventFlags)> {
        self.events.get(at).map(|(key, flags, _)| (*key, *flags))
    }

    #[inline]
    fn sent(&self, at: usize) -> Option<Result<usize, Errno>> {
        self.sent[at].map(|result| result.map(|count| count as usize))
    }
}

impl Uring {
    /// Turns completion number `at` into an event, or into the result of a send.
    fn sort(&mut self, at: usize) {
        let done = &mut self.ring.done()[at];
        let (tag, result, more, accepted) =
            (done.tag, done.result, done.more, done.accepted.take());
        match tag {
            TAG_SENDS.. => self.sent[(tag - TAG_SENDS) as usize] = Some(result),
            TAG_ACCEPTS.. => {
                let index = (tag - TAG_ACCEPTS) as usize;
                let state = &mut self.listening[index];
                state.armed = more;
                state.accepted.extend(accepted.filter(|_| !state.closed));
                state.failed = result.err().filter(|error| *error != Errno::CANCELED);
                self.events.push((KEY_LISTENERS + index as u64, EventFlags::IN, at));
            }
            TAG_CANCELS => {}
            _ if tag == self.messages => {
                if !more {
                    self.watch_waker().expect("the queue of requests is empty");
                }
                self.events.push((tag, EventFlags::IN, at));
            }
            KEY_CONNECTS.. => self.events.push((tag, EventFlags::OUT, at)),
            _ if tag & WRITABLE != 0 => self.events.push((tag & !WRITABLE, EventFlags::OUT, at)),
            _ => self.events.push((tag, EventFlags::IN, at)),
        }
    }

    /// Reports each wake-up from now on. The waker is never read: every write to it is an event.
    fn watch_waker(&mut self) -> Result<(), Errno> {
        self.ring.poll(self.waker.as_fd(), self.messages, EventFlags::IN.bits(), true)
    }

    /// Makes the kernel accept at a listener, if clients are wanted there and it does not yet.
    fn arm(&mut self, fd: &OwnedFd, index: usize) -> Result<(), Errno> {
        let state = &mut self.listening[index];
        if state.watched && !state.armed {
            self.ring.accept(fd.as_fd(), index)?;
            state.armed = true;
        }
        Ok(())
    }
}

impl Drop for Uring {
    /// Makes the kernel give up the listeners and connections that requests under way still hold.
    fn drop(&mut self) {
        for index in 0..self.listening.len() {
            let _ = self.ring.cancel(TAG_ACCEPTS + index as u64, TAG_CANCELS);
        }
        self.ring.exchange(std::iter::empty(), &AT_ONCE);
    }
}
