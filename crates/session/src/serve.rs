//! What serves a connection, as its driver sees it: for a client a [`Session`].
//!
//! A driver is generic over it, so a handler may serve connections of other kinds as well, all by
//! the same workers: its connections are then an enum of the kinds. Calls are static.

use crate::bounds::Resources;
use crate::connection::{Flow, Session};
use crate::context::Context;
use crate::handler::{Handler, Waited};
use crate::ids::{ConnId, Ticket};
use crate::reply::Span;

/// A handler whose connections a driver can serve.
pub trait Serve: Handler + Sized {
    /// What serves each of its connections.
    type Connection: Connection<Self>;

    /// The listener of this number, in the order of the configuration, has accepted a connection:
    /// a [client](Connection::is_client), unless the listener is one for links.
    fn accept(&mut self, id: ConnId, listener: usize) -> Self::Connection;

    /// The connection is open that [`Order::Connect`](crate::Order::Connect) has asked for. It is
    /// no [client](Connection::is_client), and gets a turn by [`Connection::resume`] at once, so
    /// that it can send first. `None` closes its socket, and nothing follows; so a handler that
    /// orders no connection needs no code.
    fn connected(&mut self, _id: ConnId, _purpose: u64) -> Option<Self::Connection> {
        None
    }

    /// It could not be opened: it was refused, its peer was not reached in time, or the system has
    /// no descriptor for it.
    fn unconnected(&mut self, _purpose: u64) {}
}

/// One connection without its socket. The contract of each call is that of [`Session`].
pub trait Connection<H: Handler>: Send + 'static {
    /// Its id.
    fn id(&self) -> ConnId;

    /// Whether its peer is a client. If not, it is a link, to another cell of the ring: the limit
    /// of connections and the time-outs for what a client sends do not apply, and a server that
    /// drains closes it when all clients are gone.
    ///
    /// A link that is [`Flow::Idle`] is received from also while its peer has not taken all that
    /// was sent, so that two cells never wait for each other. It bounds by itself what it sends; a
    /// turn that it needs is [ordered](crate::Order::Turn).
    #[inline(always)]
    fn is_client(&self) -> bool {
        true
    }

    /// What it needs next.
    fn flow(&self) -> Flow;

    /// Whether a reply waits for a completion or a log.
    fn is_pending(&self) -> bool;

    /// What the next reply waits for.
    fn waits_for(&self) -> Option<Waited>;

    /// When the next reply is overdue.
    fn due_ns(&self) -> Option<u64>;

    /// Whether a reply waits for the completion of its ticket.
    fn has_ticket(&self) -> bool;

    /// Whether its client has begun a long request of which the rest is awaited. Where it becomes
    /// so, the driver finds [`Context::has_kept`].
    fn awaits_rest(&self) -> bool;

    /// Whether nothing of it is unfinished, so that a server that drains may close it.
    fn is_at_rest(&self) -> bool;

    /// Whether [`Connection::receive_in_place`] may be called.
    fn can_parse_in_place(&self) -> bool;

    /// Takes in and executes `input`, and nothing was kept.
    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<H>);

    /// Takes in `input`, and executes what it completes.
    fn receive(&mut self, input: &[u8], context: &mut Context<H>) -> Flow;

    /// Continues where a bound or a parked request has stopped it.
    fn resume(&mut self, context: &mut Context<H>) -> Flow;

    /// A buffer to receive into directly.
    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>>;

    /// Takes in a part of a reply, and whether it is the last one.
    fn complete(&mut self, ticket: Ticket, part: (&[u8], bool), context: &mut Context<H>) -> bool;

    /// Keeps what may not leave of `span`, which is output of the present batch.
    fn withhold(&mut self, span: Span, context: &mut Context<H>) -> Span;

    /// Lets replies leave that have waited.
    fn release(&mut self, context: &mut Context<H>) -> Flow;
}

impl<H: Handler> Connection<H> for Session {
    #[inline(always)]
    fn id(&self) -> ConnId {
        self.id()
    }

    #[inline(always)]
    fn flow(&self) -> Flow {
        self.flow()
    }

    #[inline(always)]
    fn is_pending(&self) -> bool {
        self.is_pending()
    }

    fn waits_for(&self) -> Option<Waited> {
        self.waits_for()
    }

    fn due_ns(&self) -> Option<u64> {
        self.due_ns()
    }

    fn has_ticket(&self) -> bool {
        self.has_ticket()
    }

    fn awaits_rest(&self) -> bool {
        self.awaits_rest()
    }

    fn is_at_rest(&self) -> bool {
        self.is_at_rest()
    }

    #[inline(always)]
    fn can_parse_in_place(&self) -> bool {
        self.can_parse_in_place()
    }

    #[inline(always)]
    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<H>) {
        self.receive_in_place(input, context);
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<H>) -> Flow {
        self.receive(input, context)
    }

    fn resume(&mut self, context: &mut Context<H>) -> Flow {
        self.resume(context)
    }

    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        self.value_buffer(resources)
    }

    fn complete(&mut self, ticket: Ticket, part: (&[u8], bool), context: &mut Context<H>) -> bool {
        self.complete(ticket, part, context)
    }

    fn withhold(&mut self, span: Span, context: &mut Context<H>) -> Span {
        self.withhold(span, context)
    }

    fn release(&mut self, context: &mut Context<H>) -> Flow {
        self.release(context)
    }
}
