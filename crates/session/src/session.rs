//! The session itself: what is parsed, what may leave. [`Flow`] draws its states.
//!
//! Invariants: in `Idle`, a tail that is not empty begins with an unfinished request of which
//! more than its present length is needed. Outside `Idle` nothing is parsed but by `resume`.

use crate::order::Order;
use crate::tail::Tail;
use crate::{Conn, ConnId, Context, Flow, Handler, Resources, Ticket, Want};

/// One connection without a socket.
pub struct Session {
    pub(crate) conn: Conn,
    pub(crate) flow: Flow,
    pub(crate) closing: bool,
    /// The number of the latest request that was given a ticket, wrapping.
    pub(crate) requests: u32,
    /// Bytes of a refused value still to be thrown away.
    pub(crate) swallow: u64,
    /// Total length of the first request in the tail, as far as it is known.
    pub(crate) needed: usize,
    pub(crate) tail: Tail,
    pub(crate) order: Option<Box<Order>>,
}

const _: () = assert!(size_of::<Session>() < 200, "an idle connection is small");

impl Session {
    /// A connection that has received nothing.
    #[must_use]
    pub fn new(id: ConnId) -> Self {
        Self {
            conn: Conn::new(id),
            flow: Flow::Idle,
            closing: false,
            requests: 0,
            swallow: 0,
            needed: 0,
            tail: Tail::default(),
            order: None,
        }
    }

    /// Its name.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.conn.id()
    }

    /// What it needs next.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Whether the client should be read from.
    #[inline]
    #[must_use]
    pub fn want(&self) -> Want {
        if self.flow == Flow::Idle { Want::Read } else { Want::Pause }
    }

    /// Whether a reply waits for a completion or a log.
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.order.is_some()
    }

    /// Whether it stands between two requests, owing nothing and owed nothing.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.flow == Flow::Idle && self.tail.is_empty() && self.swallow == 0 && !self.is_pending()
    }

    /// Memory that it owns beyond its own size, replies that wait excluded.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.tail.heap_bytes()
    }

    /// Whether what is received can be parsed where it lies: nothing is kept, no bound has stopped
    /// it.
    #[inline(always)]
    #[must_use]
    pub fn can_parse_in_place(&self) -> bool {
        self.flow == Flow::Idle && self.tail.is_empty()
    }

    /// Parses and executes what `input` completes, from the caller's buffer where possible. All
    /// of `input` is consumed or kept.
    pub fn receive<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> Flow {
        if self.can_parse_in_place() {
            self.receive_in_place(input, context);
        } else {
            self.receive_after_tail(input, context);
        }
        self.flow
    }

    /// [`Session::receive`] of a session that [is fresh](Session::can_parse_in_place).
    #[inline(always)]
    pub fn receive_in_place<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) {
        debug_assert!(self.can_parse_in_place());
        let requests_max = context.resources.bounds.requests_per_turn;
        let left = self.run(input, context, requests_max);
        if left > 0 {
            self.keep(&input[input.len() - left..], context);
        }
    }

    /// Goes on with input that was kept when a bound stopped it.
    pub fn resume<H: Handler>(&mut self, context: &mut Context<H>) -> Flow {
        if matches!(self.flow, Flow::Again | Flow::Full) {
            self.flow = Flow::Idle;
            if !self.tail.is_empty() {
                self.run_tail(context);
            }
        }
        self.flow
    }

    /// A buffer to receive into, when much of a value is missing; [`Session::receive`] with no
    /// input follows.
    #[inline]
    pub fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        if self.flow != Flow::Idle || self.tail.is_empty() {
            return None;
        }
        self.tail.value_buffer(self.needed, resources)
    }

    /// The rest of a reply has come. `false` when nobody waits for it any more.
    /// [`Session::release`] follows.
    pub fn complete(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        ticket.conn == self.conn.id()
            && self.order.as_mut().is_some_and(|order| order.complete(ticket.request, bytes))
    }

    /// Lets replies leave that waited for a completion or for a log.
    pub fn release<H: Handler>(&mut self, context: &mut Context<H>) -> Flow {
        let Some(order) = &mut self.order else { return self.flow };
        let handler = &context.handler;
        if order.release(|log, seq| handler.gate(log, seq), &mut context.out).is_err() {
            self.flow = Flow::Drop;
            return self.flow;
        }
        let full = order.is_full(&context.resources);
        if order.is_empty() {
            self.order = None;
        }
        if self.closing {
            self.close();
        } else if self.flow == Flow::Waiting && !full {
            self.flow = Flow::Again;
        }
        self.flow
    }
}
