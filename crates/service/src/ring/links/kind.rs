//! What a worker of a ring's cell serves: clients, and links to other cells.

use super::link::{Link, LinkHandler};
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

impl<H: LinkHandler> Connection<H> for RingConnection {
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
        match self {
            Self::Client(it) => it.is_pending(),
            Self::Link(it) => Connection::<H>::is_pending(&**it),
        }
    }

    fn waits_for(&self) -> Option<Waited> {
        match self {
            Self::Client(it) => it.waits_for(),
            Self::Link(it) => Connection::<H>::waits_for(&**it),
        }
    }

    fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Client(it) => it.due_ns(),
            Self::Link(it) => Connection::<H>::due_ns(&**it),
        }
    }

    fn has_ticket(&self) -> bool {
        match self {
            Self::Client(it) => it.has_ticket(),
            Self::Link(_) => false,
        }
    }

    fn awaits_rest(&self) -> bool {
        match self {
            Self::Client(it) => it.awaits_rest(),
            Self::Link(_) => false,
        }
    }

    fn is_at_rest(&self) -> bool {
        match self {
            Self::Client(it) => it.is_at_rest(),
            Self::Link(it) => Connection::<H>::is_at_rest(&**it),
        }
    }

    #[inline(always)]
    fn can_parse_in_place(&self) -> bool {
        each!(self, it => it.can_parse_in_place())
    }

    #[inline(always)]
    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<H>) {
        each!(self, it => it.receive_in_place(input, context));
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<H>) -> Flow {
        each!(self, it => it.receive(input, context))
    }

    fn resume(&mut self, context: &mut Context<H>) -> Flow {
        each!(self, it => it.resume(context))
    }

    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        match self {
            Self::Client(it) => it.value_buffer(resources),
            Self::Link(_) => None,
        }
    }

    fn complete(&mut self, ticket: Ticket, part: (&[u8], bool), context: &mut Context<H>) -> bool {
        match self {
            Self::Client(it) => it.complete(ticket, part, context),
            Self::Link(_) => false,
        }
    }

    fn withhold(&mut self, span: Span, context: &mut Context<H>) -> Span {
        each!(self, it => it.withhold(span, context))
    }

    fn release(&mut self, context: &mut Context<H>) -> Flow {
        each!(self, it => it.release(context))
    }
}
