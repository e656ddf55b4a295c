//! What a worker of a ring's cell serves: clients, and links to other cells.

use super::handler::RingService;
use super::link::Link;
use session::{ConnId, Connection, Context, Flow, Resources, Session, Span, Ticket, Waited};

/// A connection of a ring's cell.
pub enum RingConnection {
    /// To a client.
    Client(Session),
    /// To another cell.
    Link(Box<Link>),
}

/// Calls the same function of what a connection is.
macro_rules! each {
    ($connection:expr, $it:ident => $call:expr) => {
        match $connection {
            RingConnection::Client($it) => $call,
            RingConnection::Link($it) => $call,
        }
    };
}

impl Connection<RingService> for RingConnection {
    #[inline(always)]
    fn id(&self) -> ConnId {
        each!(self, it => it.id())
    }

    #[inline(always)]
    fn is_client(&self) -> bool {
        matches!(self, Self::Client(_))
    }

    #[inline(always)]
    fn flow(&self) -> Flow {
        each!(self, it => it.flow())
    }

    #[inline(always)]
    fn is_pending(&self) -> bool {
        each!(self, it => it.is_pending())
    }

    fn waits_for(&self) -> Option<Waited> {
        each!(self, it => it.waits_for())
    }

    fn due_ns(&self) -> Option<u64> {
        each!(self, it => it.due_ns())
    }

    fn has_ticket(&self) -> bool {
        each!(self, it => it.has_ticket())
    }

    fn is_at_rest(&self) -> bool {
        each!(self, it => it.is_at_rest())
    }

    #[inline(always)]
    fn can_parse_in_place(&self) -> bool {
        each!(self, it => it.can_parse_in_place())
    }

    #[inline(always)]
    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<RingService>) {
        each!(self, it => it.receive_in_place(input, context));
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<RingService>) -> Flow {
        each!(self, it => it.receive(input, context))
    }

    fn resume(&mut self, context: &mut Context<RingService>) -> Flow {
        each!(self, it => it.resume(context))
    }

    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        match self {
            Self::Client(it) => it.value_buffer(resources),
            Self::Link(it) => it.value_buffer(resources),
        }
    }

    fn complete(&mut self, ticket: Ticket, bytes: &[u8], last: bool) -> bool {
        each!(self, it => it.complete(ticket, bytes, last))
    }

    fn withhold(&mut self, span: Span, context: &mut Context<RingService>) -> Span {
        each!(self, it => it.withhold(span, context))
    }

    fn release(&mut self, context: &mut Context<RingService>) -> Flow {
        each!(self, it => it.release(context))
    }
}
