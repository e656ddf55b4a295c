//! One connection of a worker: its socket, what serves it, and what is known of its readiness.
//! What serves a client is a session; a handler may accept connections of other kinds too.
//!
//! ```text
//! receiving   the source receives from it by itself
//! readable    there may be bytes to receive, and the source does not receive them
//! hung_up     the peer has closed its side: an end follows the last bytes
//! ended       the end was received: nothing more comes
//! ```
//!
//! Invariants: `receiving` and `readable` are never both set. While replies of the present batch
//! are unsent, nothing is decided about the connection: it is neither closed for its end nor given
//! another turn. While an outbox is there, nothing is received from a client and nothing of it is
//! executed; a link is received from.
//!
//! It never closes itself and never waits: each call returns what came of it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use session::{Connection, Context, Flow, Reply, Serve, Span};

use super::key::{Key, key_of};
use super::waits::Gate;
use crate::counters::Counters;
use crate::outbox::Outbox;
use crate::silence::Expected;
use crate::sockets::{ConnectionInfo, Sent, send_span};

/// What reading once from a client came to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    /// Bytes, which the session has consumed or kept.
    Input,
    /// No bytes, or the end.
    Nothing,
    /// An error: the connection is broken.
    Broken,
}

/// What a turn of a connection works with, lent by its worker. It is taken apart before anything is
/// called that is not inlined, so that its parts stay in registers.
pub(crate) struct Turn<'w, H> {
    /// Where bytes are received into.
    pub(super) buffer: &'w mut [u8],
    pub(super) context: &'w mut Context<H>,
    pub(super) counters: &'w Counters,
}

/// What a worker keeps of each connection, beside what serves it: with a session, 4,000 connections
/// take 1 MiB.
const OWN_BYTES_MAX: usize = 128;

/// One connection.
pub(crate) struct Client<H: Serve> {
    pub(super) fd: OwnedFd,
    pub(super) connection: H::Connection,
    /// What it did not take yet, if anything.
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) info: Arc<ConnectionInfo>,
    /// Its replies in the present batch.
    pub(super) unsent: u32,
    pub(super) receiving: bool,
    pub(super) readable: bool,
    pub(super) hung_up: bool,
    ended: bool,
    /// It is in the list of connections with more to do.
    pub(super) queued: bool,
    /// The gate that its next reply waits for, as it was added to those of the worker.
    pub(super) gate: Option<Gate>,
    /// A deadline of it is among those of the worker.
    pub(super) timed: bool,
    /// It is in the queue of connections whose request is parked.
    pub(super) parked: bool,
    /// Whether it stands among those whose queues may hold replies of the present batch.
    pub(super) queueing: bool,
    /// Another thread asked not to read from it.
    pub(super) paused: bool,
    /// Its handler has ordered a turn, which comes when its outbox is gone.
    pub(super) ordered: bool,
    /// It is in the list of connections with completed replies.
    pub(super) completed: bool,
}

impl<H: Serve> Client<H> {
    pub(super) fn new(fd: OwnedFd, connection: H::Connection, info: Arc<ConnectionInfo>) -> Self {
        const { assert!(size_of::<Self>() <= OWN_BYTES_MAX + size_of::<H::Connection>()) };
        Self {
            fd,
            connection,
            outbox: None,
            info,
            unsent: 0,
            receiving: false,
            readable: false,
            hung_up: false,
            ended: false,
            queued: false,
            gate: None,
            timed: false,
            parked: false,
            queueing: false,
            paused: false,
            ordered: false,
            completed: false,
        }
    }

    pub(super) fn key(&self) -> Key {
        key_of(self.connection.id())
    }

    /// Whether a turn may receive from it: no bound has stopped it, no output waits for its client,
    /// and nobody has paused it.
    #[inline]
    pub(super) fn may_receive(&self) -> bool {
        let takes = self.outbox.is_none() || !self.connection.is_client();
        self.connection.flow() == Flow::Idle && takes && !self.paused
    }

    /// Whether a turn would do anything now. It would not while its client takes too little.
    pub(super) fn has_more_to_do(&self) -> bool {
        match self.connection.flow() {
            Flow::Idle => self.readable && self.may_receive() || self.has_ordered_turn(),
            flow => self.outbox.is_none() && matches!(flow, Flow::Again | Flow::Full),
        }
    }

    /// Whether the turn that its handler has ordered may come now.
    pub(super) fn has_ordered_turn(&self) -> bool {
        self.ordered && self.outbox.is_none()
    }

    /// Notes that its handler has ordered a turn. Returns whether it may come at once; if not, it
    /// comes when the output is sent, or is not due.
    pub(super) fn order_turn(&mut self) -> bool {
        let sent = self.outbox.is_none();
        match self.connection.flow() {
            Flow::Idle | Flow::Again if sent => true,
            Flow::Full | Flow::Parked if sent && self.unsent == 0 => true,
            flow => {
                self.ordered |= flow == Flow::Idle;
                false
            }
        }
    }

    /// Whether its request is parked, and may be tried again: all its output is sent.
    pub(super) fn may_retry(&self) -> bool {
        self.connection.flow() == Flow::Parked && self.outbox.is_none() && self.unsent == 0
    }

    /// Whether it waits for something other than its client.
    pub(super) fn waits(&self) -> bool {
        self.connection.is_pending() || self.connection.flow() == Flow::Parked
    }

    /// What its client is expected to do. Nothing more of a request while what it has sent is not
    /// received, or is not wanted.
    pub(super) fn expected(&self) -> Expected {
        match () {
            () if self.outbox.is_some() => Expected::Taking,
            () if self.readable || self.paused => Expected::Request,
            () if self.connection.awaits_rest() => Expected::Rest,
            () => Expected::Request,
        }
    }

    /// Whether no bound has stopped its session and none of its replies waits.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.connection.flow() == Flow::Idle && !self.connection.is_pending()
    }

    /// Whether its output may leave before anything else does: a client that was just received from
    /// has no earlier one.
    #[inline(always)]
    pub(super) fn sends_at_once(&self) -> bool {
        self.connection.is_client() || self.outbox.is_none()
    }

    /// Whether nothing follows after its replies are sent but to wait for an event.
    #[inline]
    pub(super) fn only_waits(&self) -> bool {
        self.connection.flow() == Flow::Idle && !self.readable && !self.ended
    }

    /// Whether it ends now that its output is sent.
    pub(super) fn is_over(&self) -> bool {
        match self.connection.flow() {
            Flow::Close | Flow::Drop => true,
            Flow::Idle => self.ended && !self.connection.is_pending(),
            _ => false,
        }
    }

    /// Whether it is between two requests, with nothing left to read or send.
    pub(super) fn is_at_rest(&self) -> bool {
        let sent = self.unsent == 0 && self.outbox.is_none();
        sent && !self.readable && self.connection.is_at_rest()
    }

    /// Sends `span` of `out`.
    #[inline(always)]
    pub(super) fn send(&self, out: &mut Reply, span: Span, counters: &Counters) -> Sent {
        send_span(self.fd.as_fd(), out, span, counters)
    }

    /// Sends more of its outbox, if there is one.
    pub(super) fn send_outbox(&mut self, now_s: u32, counters: &Counters) -> Option<Sent> {
        let outbox = self.outbox.as_mut()?;
        let before = outbox.span();
        let sent = outbox.send(self.fd.as_fd(), counters);
        if sent != Sent::Part(before) {
            self.info.touch(now_s);
        }
        Some(sent)
    }

    /// Receives once, into the buffer or into the buffer of an unfinished value, and lets the
    /// session execute what is complete.
    #[inline(always)]
    pub(super) fn receive(&mut self, turn: Turn<'_, H>) -> Received {
        let Turn { buffer, context, counters } = turn;
        if !self.connection.can_parse_in_place() {
            return self.receive_after_tail(buffer, context, counters);
        }
        counters.recv_calls.add(1);
        let asked = buffer.len();
        match recv(&self.fd, &mut *buffer, RecvFlags::empty()).map(|(_, count)| count) {
            Ok(count) if count > 0 => {
                self.note_received(count, asked, counters);
                self.connection.receive_in_place(&buffer[..count], context);
                Received::Input
            }
            result => self.note_nothing(result),
        }
    }

    /// [`Client::receive`] while earlier input is kept.
    #[cold]
    fn receive_after_tail(
        &mut self,
        buffer: &mut [u8],
        context: &mut Context<H>,
        counters: &Counters,
    ) -> Received {
        counters.recv_calls.add(1);
        let direct = self.connection.value_buffer(&context.resources);
        let is_direct = direct.is_some();
        let (asked, result) = match direct {
            Some(value) => {
                let asked = value.capacity() - value.len();
                (asked, recv(&self.fd, spare_capacity(value), RecvFlags::empty()).map(|(_, n)| n))
            }
            None => {
                let result = recv(&self.fd, &mut *buffer, RecvFlags::empty());
                (buffer.len(), result.map(|(_, count)| count))
            }
        };
        match result {
            Ok(count) if count > 0 => {
                self.note_received(count, asked, counters);
                let input = if is_direct { &[] } else { &buffer[..count] };
                self.connection.receive(input, context);
                Received::Input
            }
            result => self.note_nothing(result),
        }
    }

    /// Notes `count` bytes from a `recv` that asked for `asked`: fewer have emptied the socket.
    #[inline(always)]
    fn note_received(&mut self, count: usize, asked: usize, counters: &Counters) {
        counters.bytes_in.add(count as u64);
        self.readable = count == asked || self.hung_up;
    }

    /// Notes a `recv` without bytes.
    #[cold]
    fn note_nothing(&mut self, result: Result<usize, Errno>) -> Received {
        self.readable = result == Err(Errno::INTR);
        match result {
            Ok(_) => {
                self.ended = true;
                Received::Nothing
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::Broken,
        }
    }

    /// Takes in what the source has received by itself: bytes, which are empty at the end, or an
    /// error. `more`: the source continues to receive.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        received: Result<&[u8], Errno>,
        more: bool,
        turn: Turn<'_, H>,
    ) -> Received {
        turn.counters.recv_calls.add(1);
        self.receiving = more;
        self.readable = !more;
        match received {
            Ok([]) => {
                self.readable = false;
                self.ended = true;
                Received::Nothing
            }
            Ok(bytes) => {
                turn.counters.bytes_in.add(bytes.len() as u64);
                self.connection.receive(bytes, turn.context);
                Received::Input
            }
            // The worker has ended the request, or the source had no buffer left.
            Err(Errno::CANCELED | Errno::NOBUFS | Errno::INTR | Errno::AGAIN) => Received::Nothing,
            Err(_) => Received::Broken,
        }
    }

    /// Makes the source receive by itself from now on, by `request`, unless it does already.
    pub(crate) fn start_receiving(
        &mut self,
        request: impl FnOnce(BorrowedFd<'_>, Key) -> Result<(), Errno>,
    ) -> Received {
        self.readable = false;
        if !self.receiving && request(self.fd.as_fd(), self.key()).is_err() {
            return Received::Broken;
        }
        self.receiving = true;
        Received::Nothing
    }
}
