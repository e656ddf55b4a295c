//! How a worker learns what has happened to its sockets: the only difference between its drivers.
//!
//! A source reports edges: one event for each change, not one for as long as there is something to
//! read. It may report too much, never too little; the worker then looks at the socket itself.
//!
//! A source that *completes* does more. It receives by itself and brings the bytes with the event,
//! and it sends the replies of a batch when it waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use session::{Reply, Serve, Span};

use super::client::{Client, Received, Turn};
use super::clients::Clients;
use super::key::Key;
use crate::counters::Counters;
use crate::shared::Waker;
use crate::sockets::{Accepted, Listener};

/// Reports events of a worker's descriptors. It is made and used in one thread.
pub(crate) trait Source: Sized {
    /// What the system must provide for one, as an error names it.
    const WHAT: &'static str;

    /// Whether it receives by itself and sends when it waits.
    const COMPLETES: bool = false;

    /// Replies that it sends in one wait at most, if it completes.
    const SENDS_MAX: usize = 0;

    /// A waker that this kind of source can watch.
    fn waker() -> Result<Waker, Errno> {
        Waker::descriptor()
    }

    /// A source that reports `waker` under the key `messages`.
    fn new(waker: &OwnedFd, messages: Key) -> Result<Self, Errno>;

    /// Starts to report clients that wait at a listener.
    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Stops that. A listener that is not watched stays as it is.
    fn unwatch_listener(&mut self, fd: &OwnedFd, key: Key);

    /// A listener is about to be closed.
    fn close_listener(&mut self, fd: &OwnedFd, key: Key) {
        self.unwatch_listener(fd, key);
    }

    /// Some clients that wait at a listener were not accepted: reports the listener again. A source
    /// that does so by itself has nothing to do.
    fn report_again(&mut self, _fd: &OwnedFd, _key: Key) {}

    /// The next client of a listener that was reported.
    fn accept(&mut self, listener: &Listener, _key: Key) -> Result<Accepted, Errno> {
        listener.accept(true)
    }

    /// Starts to report that a connection that is under way is open or has failed, as one that
    /// takes bytes.
    fn watch_connecting(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Stops that. [`Source::watch`] or [`Source::close`] follows.
    fn unwatch_connecting(&mut self, fd: &OwnedFd, key: Key);

    /// Starts to report that a client has sent something or hung up.
    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Starts or stops to report that a client takes bytes again.
    fn watch_writable(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno>;

    /// Closes a client.
    fn close(&mut self, fd: OwnedFd) {
        drop(fd);
    }

    /// Stops receiving from a client until [`Source::receive_again`]. Only a source that completes
    /// has something to do.
    fn stop_receiving(&mut self, _key: Key) {}

    /// Receives from the client of event number `at`, and lets its session execute.
    #[inline(always)]
    fn receive<H: Serve>(
        &mut self,
        _at: usize,
        client: &mut Client<H>,
        turn: Turn<'_, H>,
    ) -> Received {
        client.receive(turn)
    }

    /// Receives from a client without an event: it may have sent something.
    fn receive_again<H: Serve>(&mut self, client: &mut Client<H>, turn: Turn<'_, H>) -> Received {
        client.receive(turn)
    }

    /// Waits up to `timeout` for events; returns how many there are. A source that completes first
    /// sends what is unsent.
    ///
    /// # Panics
    /// When the source itself is broken: a worker without a source can do nothing.
    fn wait<H: Serve>(
        &mut self,
        unsent: &Unsent<'_, H>,
        timeout: &Timespec,
        counters: &Counters,
    ) -> usize;

    /// Event number `at` of the latest wait: what it is about, and what has happened. `None` after
    /// the last.
    fn event(&self, at: usize) -> Option<(Key, EventFlags)>;

    /// What send number `at` of the latest wait returned; `None` when it was not tried.
    fn sent(&self, _at: usize) -> Option<Result<usize, Errno>> {
        None
    }
}

/// The replies of a batch, lent to a source that sends them.
pub(crate) struct Unsent<'a, H: Serve> {
    pub(super) clients: &'a Clients<H>,
    pub(super) spans: &'a [(Key, Span)],
    pub(super) out: &'a Reply,
}

impl<'a, H: Serve> Unsent<'a, H> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Each one with its number, without those whose connection is gone.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (usize, BorrowedFd<'a>, &'a [u8])> {
        let (clients, out) = (self.clients, self.out);
        self.spans.iter().enumerate().filter_map(move |(at, (key, span))| {
            let client = clients.look(*key)?;
            Some((at, client.fd.as_fd(), out.plain(*span)?))
        })
    }
}
