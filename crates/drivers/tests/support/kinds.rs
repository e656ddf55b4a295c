//! A handler of sessions and of connections of one other kind, by the same workers.

use base::Now;
use memcache::{Key, Limits, Refusal, Request, Store};
use session::{
    Answer, BatchEnd, Cause, Conn, ConnId, Connection, Context, Flow, Handler, LogId, Order,
    Outcome, Passed, Prompt, Reply, Resources, Serve, Session, Span, Ticket, Waited,
};

use super::fake::{Delays, Fake, Items};

/// What the other connections are, and what their handler does beside the sessions.
pub trait Kinds: Delays + Sized + Send + 'static {
    /// What serves a connection that is no session.
    type Other: Other<Self>;

    /// What other threads send.
    type Mail: Send + 'static;

    /// The connection that a listener has accepted, unless it is for sessions.
    fn accept(&mut self, id: ConnId, listener: usize) -> Option<Self::Other>;

    fn connected(&mut self, _id: ConnId, _purpose: u64) -> Option<Self::Other> {
        None
    }

    fn unconnected(&mut self, _purpose: u64) {}

    fn take_order(&mut self) -> Option<Order> {
        None
    }

    fn deliver_mail(&mut self, _mail: Self::Mail) {}

    fn has_closed(&mut self, _id: ConnId) {}
}

/// A connection that is no session: none of its output waits.
pub trait Other<K>: Send + 'static {
    fn id(&self) -> ConnId;

    fn is_client(&self) -> bool;

    fn awaits_rest(&self) -> bool;

    fn receive(&mut self, kinds: &mut K, input: &[u8], out: &mut Vec<u8>);

    fn resume(&mut self, kinds: &mut K, out: &mut Vec<u8>);
}

/// The handler.
pub struct Mixed<K>(Fake<K>);

impl<K: Kinds> Mixed<K> {
    pub fn new(kinds: K, items: Items) -> Self {
        Self(Fake::new(kinds, items, 1 << 20, 16 << 10))
    }
}

impl<K: Kinds> Handler for Mixed<K> {
    type Mail = K::Mail;

    fn limits(&self, conn: &Conn) -> &Limits {
        self.0.limits(conn)
    }

    fn call(
        &mut self,
        now: Now,
        conn: &mut Conn,
        request: &Request<'_>,
        ticket: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        self.0.call(now, conn, request, ticket, reply)
    }

    fn prompt(&self, conn: &Conn) -> Prompt {
        self.0.prompt(conn)
    }

    fn get_now<const GATED: bool>(
        &mut self,
        now: Now,
        conn: &Conn,
        key: Key<'_>,
        reply: &mut Reply,
    ) -> Answer {
        self.0.get_now::<GATED>(now, conn, key, reply)
    }

    fn confirm(&self) -> bool {
        self.0.confirm()
    }

    fn executes_again(&mut self, gets: u32) {
        self.0.executes_again(gets);
    }

    fn store_now<const GATED: bool>(
        &mut self,
        now: Now,
        store: &Store<'_>,
        reply: &mut Reply,
    ) -> Answer {
        self.0.store_now::<GATED>(now, store, reply)
    }

    fn refused(
        &mut self,
        now: Now,
        conn: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.0.refused(now, conn, refusal, cause, reply);
    }

    fn overdue(&mut self, now: Now, waited: &Waited, reply: &mut Reply) {
        self.0.overdue(now, waited, reply);
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        self.0.gate(log, seq)
    }

    fn deliver(&mut self, _now: Now, mail: K::Mail) {
        self.0.delays.deliver_mail(mail);
    }

    fn closed(&mut self, conn: ConnId) {
        self.0.delays.has_closed(conn);
    }

    fn take_order(&mut self) -> Option<Order> {
        self.0.delays.take_order()
    }

    fn end_batch(&mut self, now: Now, fresh: impl Fn() -> Now) -> BatchEnd {
        self.0.end_batch(now, fresh)
    }
}

/// A connection of either kind.
pub enum Kind<O> {
    Session(Session),
    Other(O),
}

impl<K: Kinds> Serve for Mixed<K> {
    type Connection = Kind<K::Other>;

    fn accept(&mut self, id: ConnId, listener: usize) -> Self::Connection {
        let other = self.0.delays.accept(id, listener);
        other.map_or_else(|| Kind::Session(Session::new(id)), Kind::Other)
    }

    fn connected(&mut self, id: ConnId, purpose: u64) -> Option<Self::Connection> {
        self.0.delays.connected(id, purpose).map(Kind::Other)
    }

    fn unconnected(&mut self, purpose: u64) {
        self.0.delays.unconnected(purpose);
    }
}

impl<K: Kinds> Connection<Mixed<K>> for Kind<K::Other> {
    fn id(&self) -> ConnId {
        match self {
            Self::Session(session) => session.id(),
            Self::Other(other) => other.id(),
        }
    }

    fn is_client(&self) -> bool {
        match self {
            Self::Session(_) => true,
            Self::Other(other) => other.is_client(),
        }
    }

    fn flow(&self) -> Flow {
        match self {
            Self::Session(session) => session.flow(),
            Self::Other(_) => Flow::Idle,
        }
    }

    fn is_pending(&self) -> bool {
        matches!(self, Self::Session(session) if session.is_pending())
    }

    fn waits_for(&self) -> Option<Waited> {
        match self {
            Self::Session(session) => session.waits_for(),
            Self::Other(_) => None,
        }
    }

    fn due_ns(&self) -> Option<u64> {
        match self {
            Self::Session(session) => session.due_ns(),
            Self::Other(_) => None,
        }
    }

    fn has_ticket(&self) -> bool {
        matches!(self, Self::Session(session) if session.has_ticket())
    }

    fn awaits_rest(&self) -> bool {
        match self {
            Self::Session(session) => session.awaits_rest(),
            Self::Other(other) => other.awaits_rest(),
        }
    }

    fn is_at_rest(&self) -> bool {
        match self {
            Self::Session(session) => session.is_at_rest(),
            Self::Other(_) => true,
        }
    }

    fn can_parse_in_place(&self) -> bool {
        match self {
            Self::Session(session) => session.can_parse_in_place(),
            Self::Other(_) => true,
        }
    }

    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<Mixed<K>>) {
        match self {
            Self::Session(session) => session.receive_in_place(input, context),
            Self::Other(other) => {
                let Context { handler, out, .. } = context;
                other.receive(&mut handler.0.delays, input, out.bytes_mut());
            }
        }
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<Mixed<K>>) -> Flow {
        match self {
            Self::Session(session) => session.receive(input, context),
            Self::Other(_) => {
                self.receive_in_place(input, context);
                Flow::Idle
            }
        }
    }

    fn resume(&mut self, context: &mut Context<Mixed<K>>) -> Flow {
        match self {
            Self::Session(session) => session.resume(context),
            Self::Other(other) => {
                let Context { handler, out, .. } = context;
                other.resume(&mut handler.0.delays, out.bytes_mut());
                Flow::Idle
            }
        }
    }

    fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        match self {
            Self::Session(session) => session.value_buffer(resources),
            Self::Other(_) => None,
        }
    }

    fn complete(
        &mut self,
        ticket: Ticket,
        part: (&[u8], bool),
        context: &mut Context<Mixed<K>>,
    ) -> bool {
        match self {
            Self::Session(session) => session.complete(ticket, part, context),
            Self::Other(_) => false,
        }
    }

    fn withhold(&mut self, span: Span, context: &mut Context<Mixed<K>>) -> Span {
        match self {
            Self::Session(session) => session.withhold(span, context),
            Self::Other(_) => span,
        }
    }

    fn release(&mut self, context: &mut Context<Mixed<K>>) -> Flow {
        match self {
            Self::Session(session) => session.release(context),
            Self::Other(_) => Flow::Idle,
        }
    }
}
