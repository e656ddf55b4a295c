//! Where a worker learns what has happened to its sockets: all that tells one driver from another.
//!
//! A source reports edges: a socket once per news, not for as long as there is something to read.
//! It may report too much, never too little; whoever is told looks at the socket itself.
//!
//! A source that *completes* goes further: it receives by itself and brings the bytes with the
//! news, and it takes the sends of a batch along when it waits.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use session::{Context, Handler, Reply, Span};

use super::client::{Client, Clients, Key};
use super::turn::{Received, receive};
use crate::counters::Counters;
use crate::listen::{Accepted, Listener};
use crate::mailbox::Waker;

/// Tells a worker which of its descriptors have news. It is made and used in one thread.
pub(crate) trait Source: Sized {
    /// What the system is asked for when one is made, as an error names it.
    const WHAT: &'static str;

    /// Whether it receives by itself and sends when it waits.
    const COMPLETES: bool = false;

    /// Replies that it sends in one wait at most, if it does.
    const SENDS_MAX: usize = 0;

    /// A waker that this kind of source can hear.
    fn waker() -> Result<Waker, Errno> {
        Waker::descriptor()
    }

    /// Watches `waker`, which rings when mail comes, under the key `mail`.
    fn new(waker: &OwnedFd, mail: Key) -> Result<Self, Errno>;

    /// Begins to report clients that wait at a listener.
    fn watch_listener(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Stops that. One that is not watched is left as it is.
    fn unwatch_listener(&mut self, fd: &OwnedFd, key: Key);

    /// A listener is about to be closed.
    fn close_listener(&mut self, fd: &OwnedFd, key: Key) {
        self.unwatch_listener(fd, key);
    }

    /// Not all clients that wait at a listener were accepted: they are to be reported again.
    /// Nothing to do for a source that does so anyway.
    fn remind(&mut self, _fd: &OwnedFd, _key: Key) {}

    /// The next client of a listener that was reported.
    fn accept(&mut self, listener: &Listener, _key: Key) -> Result<Accepted, Errno> {
        listener.accept(true)
    }

    /// Begins to report that a client has sent something or hung up.
    fn watch(&mut self, fd: &OwnedFd, key: Key) -> Result<(), Errno>;

    /// Begins or stops to report that a client takes bytes again.
    fn watch_room(&mut self, fd: &OwnedFd, key: Key, on: bool) -> Result<(), Errno>;

    /// Closes a client.
    fn retire(&mut self, fd: OwnedFd) {
        drop(fd);
    }

    /// Stops to receive from a client until [`Source::receive_again`]. Only sources that complete
    /// receive by themselves.
    fn hold_off(&mut self, _key: Key) {}

    /// Receives from a client that news number `at` is about, and has its session deal with it.
    #[inline(always)]
    fn receive<H: Handler>(
        &mut self,
        _at: usize,
        client: &mut Client,
        buffer: &mut [u8],
        context: &mut Context<H>,
        counters: &Counters,
    ) -> Received {
        receive(client, buffer, context, counters)
    }

    /// Receives from a client that may have sent something, without news of it.
    fn receive_again<H: Handler>(
        &mut self,
        client: &mut Client,
        buffer: &mut [u8],
        context: &mut Context<H>,
        counters: &Counters,
    ) -> Received {
        receive(client, buffer, context, counters)
    }

    /// Waits up to `timeout` for news; returns how many there are. A source that completes first
    /// sends what is unsent.
    ///
    /// # Panics
    /// When the source itself is broken: a worker without one can do nothing.
    fn wait(&mut self, unsent: &Unsent<'_>, timeout: &Timespec, counters: &Counters) -> usize;

    /// News number `at` of the latest wait, if there are so many: about whom, and what.
    fn news(&self, at: usize) -> Option<(Key, EventFlags)>;

    /// What came of send number `at` of the latest wait; `None` when it was not tried.
    fn sent(&self, _at: usize) -> Option<Result<usize, Errno>> {
        None
    }
}

/// The replies of a batch, lent to a source that sends them.
pub(crate) struct Unsent<'a> {
    pub(super) clients: &'a Clients,
    pub(super) sends: &'a [(Key, Span)],
    pub(super) out: &'a Reply,
}

impl<'a> Unsent<'a> {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sends.len()
    }

    /// Each one by its number, without those whose connection has gone.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (usize, BorrowedFd<'a>, &'a [u8])> {
        let (clients, out) = (self.clients, self.out);
        self.sends.iter().enumerate().filter_map(move |(at, (key, span))| {
            let client = clients.look(*key)?;
            Some((at, client.fd.as_fd(), out.plain(*span)?))
        })
    }
}
