//! The session itself: what is parsed, what may leave. [`Flow`] draws its states.
//!
//! Invariants: in `Idle`, a tail that is not empty begins with an unfinished request of which
//! more than its present length is needed. Outside `Idle` nothing is parsed but by `resume`.

use memcache::{Key, Parsed, Refusal};

use crate::order::{Order, Wait};
use crate::tail::Tail;
use crate::{
    Cause, Conn, ConnId, Flow, Ground, Handler, Mark, Outcome, Passed, Ticket, Turn, Want,
};

/// One connection without a socket.
pub struct Session {
    pub(crate) conn: Conn,
    pub(crate) flow: Flow,
    pub(crate) closing: bool,
    /// The number of the latest request, wrapping.
    pub(crate) requests: u32,
    /// Bytes of a refused value still to be thrown away.
    pub(crate) swallow: u64,
    /// Total length of the first request in the tail, as far as it is known.
    pub(crate) needed: usize,
    pub(crate) tail: Tail,
    order: Option<Box<Order>>,
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

    /// Parses and executes what `input` completes, from the caller's buffer where possible. All
    /// of `input` is consumed or kept.
    #[inline(always)]
    pub fn receive<H: Handler>(&mut self, input: &[u8], turn: &mut Turn<'_, H>) -> Flow {
        if self.flow == Flow::Idle && self.tail.is_empty() {
            let used = self.run(input, turn, turn.ground.bounds.requests_per_turn);
            if used < input.len() {
                self.keep(&input[used..], turn);
            }
            return self.flow;
        }
        self.receive_behind_tail(input, turn);
        self.flow
    }

    /// Goes on with input that was kept when a bound stopped it.
    pub fn resume<H: Handler>(&mut self, turn: &mut Turn<'_, H>) -> Flow {
        if matches!(self.flow, Flow::Again | Flow::Full) {
            self.flow = Flow::Idle;
            if !self.tail.is_empty() {
                self.run_tail(turn);
            }
        }
        self.flow
    }

    /// A buffer to receive into, when much of a value is missing; [`Session::receive`] with no
    /// input follows.
    #[inline]
    pub fn landing(&mut self, ground: &Ground) -> Option<&mut Vec<u8>> {
        if self.flow != Flow::Idle || self.tail.is_empty() {
            return None;
        }
        self.tail.landing(self.needed, ground)
    }

    /// The rest of a reply has come. `false` when nobody waits for it any more.
    /// [`Session::release`] follows.
    pub fn complete(&mut self, ticket: Ticket, bytes: &[u8]) -> bool {
        ticket.conn == self.conn.id()
            && self.order.as_mut().is_some_and(|order| order.complete(ticket.request, bytes))
    }

    /// Lets replies leave that waited for a completion or for a log.
    pub fn release<H: Handler>(&mut self, turn: &mut Turn<'_, H>) -> Flow {
        let Some(order) = &mut self.order else { return self.flow };
        let handler = &*turn.handler;
        if order.release(|log, seq| handler.gate(log, seq), turn.out).is_err() {
            self.flow = Flow::Drop;
            return self.flow;
        }
        let full = order.is_full(turn.ground);
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

    /// Parses `input` from its beginning until it is used up or a bound stops it; returns how much
    /// was used and leaves the reason in `flow`.
    #[inline(always)]
    pub(crate) fn run<H: Handler>(
        &mut self,
        input: &[u8],
        turn: &mut Turn<'_, H>,
        requests_max: u32,
    ) -> usize {
        let full_at = turn.out.len().saturating_add(turn.ground.bounds.output_bytes_max);
        let mut requests_left = requests_max;
        let mut at = self.skip(input);
        while at < input.len() {
            if requests_left == 0 {
                self.flow = Flow::Again;
                break;
            }
            requests_left -= 1;
            let rest = &input[at..];
            let used = match memcache::plain_get(rest) {
                Some((key, consumed)) => self.run_get(key, consumed, turn),
                None => match self.run_other(rest, turn) {
                    Some(used) => used,
                    None => break,
                },
            };
            at += used;
            if at == input.len() || self.flow != Flow::Idle {
                break;
            }
            if turn.out.len() >= full_at {
                self.flow = Flow::Full;
                break;
            }
        }
        at
    }

    /// Executes `get` of one key. It is inlined down to the handler, so that the request stays in
    /// registers.
    #[inline(always)]
    fn run_get<H: Handler>(
        &mut self,
        key: Key<'_>,
        consumed: usize,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        let mark = turn.out.mark();
        let (ticket, conn) = (self.next_ticket(), &mut self.conn);
        let outcome = turn.handler.call_get(turn.now, conn, key, ticket, turn.out);
        self.file(outcome, consumed, mark, turn)
    }

    /// Deals with anything that `input` begins with but the simplest `get`; returns how much of it
    /// is used, or nothing when it is only the beginning of a request.
    #[inline(never)]
    fn run_other<H: Handler>(&mut self, input: &[u8], turn: &mut Turn<'_, H>) -> Option<usize> {
        let limits = turn.handler.limits(&self.conn);
        let Some((store, consumed)) = memcache::plain_store(input, limits) else {
            return self.run_any(input, turn);
        };
        let mark = turn.out.mark();
        let (ticket, conn) = (self.next_ticket(), &mut self.conn);
        let outcome = turn.handler.call_store(turn.now, conn, &store, ticket, turn.out);
        Some(self.file(outcome, consumed, mark, turn))
    }

    #[inline(never)]
    fn run_any<H: Handler>(&mut self, input: &[u8], turn: &mut Turn<'_, H>) -> Option<usize> {
        match memcache::parse(input, turn.handler.limits(&self.conn)) {
            Parsed::Request { request, consumed } => {
                let mark = turn.out.mark();
                let (ticket, conn) = (self.next_ticket(), &mut self.conn);
                let outcome = turn.handler.call(turn.now, conn, &request, ticket, turn.out);
                Some(self.file(outcome, consumed, mark, turn))
            }
            Parsed::Incomplete { needed } => {
                self.needed = needed;
                None
            }
            Parsed::Refused { refusal, consumed, swallow, close, quiet } => {
                let outcome = if close { Outcome::Close } else { Outcome::Done };
                self.refuse(Some(&refusal), Cause::Malformed, quiet, outcome, consumed, turn);
                self.swallow = swallow;
                Some(consumed + self.skip(&input[consumed..]))
            }
        }
    }

    #[inline(always)]
    fn next_ticket(&mut self) -> Ticket {
        self.requests = self.requests.wrapping_add(1);
        Ticket { conn: self.conn.id(), request: self.requests }
    }

    /// Throws away what `input` holds of a refused value; returns how much that is.
    #[inline]
    pub(crate) fn skip(&mut self, input: &[u8]) -> usize {
        if self.swallow == 0 {
            return 0;
        }
        let skipped = self.swallow.min(input.len() as u64);
        self.swallow -= skipped;
        skipped as usize
    }

    /// Sees to the outcome of a request; returns how much of the input it has used.
    #[inline(always)]
    fn file<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        if outcome != Outcome::Done || self.order.is_some() {
            return self.file_apart(outcome, consumed, mark, turn);
        }
        self.conn.progress = 0;
        consumed
    }

    /// Deals with every outcome but the plain one: replies that wait, that come in parts, that end
    /// the connection.
    #[cold]
    fn file_apart<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        let used = if outcome == Outcome::More { 0 } else { consumed };
        let wait = match outcome {
            Outcome::Pending => Wait::Ticket,
            Outcome::Gate { log, seq } => match turn.handler.gate(log, seq) {
                Passed::Yes => Wait::Nothing,
                Passed::No => Wait::Gate { log, seq },
                Passed::InDoubt => {
                    self.flow = Flow::Drop;
                    return used;
                }
            },
            Outcome::Done | Outcome::More | Outcome::Close => Wait::Nothing,
        };
        if outcome != Outcome::More {
            self.conn.progress = 0;
        }
        if self.order.is_some() || wait != Wait::Nothing {
            let reply = turn.out.split_off(mark);
            let order = self.order.get_or_insert_default();
            order.push(self.requests, wait, reply, used);
            if order.is_full(turn.ground) || outcome == Outcome::More {
                self.flow = Flow::Waiting;
            }
        } else if outcome == Outcome::More {
            self.flow = Flow::Full;
        }
        if outcome == Outcome::Close {
            self.closing = true;
            self.close();
        }
        used
    }

    /// Ends the connection as soon as nothing waits.
    fn close(&mut self) {
        self.tail.clear();
        self.flow = if self.order.is_some() { Flow::Waiting } else { Flow::Close };
    }

    /// Has the handler answer a request that is not executed, in its place among the others. A
    /// client that wants no reply gets none, but the handler is told all the same.
    #[cold]
    pub(crate) fn refuse<H: Handler>(
        &mut self,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        quiet: bool,
        outcome: Outcome,
        consumed: usize,
        turn: &mut Turn<'_, H>,
    ) {
        let mark = turn.out.mark();
        turn.handler.refused(turn.now, &mut self.conn, refusal, cause, turn.out);
        if quiet {
            turn.out.rewind(mark);
        }
        self.requests = self.requests.wrapping_add(1);
        self.file_apart(outcome, consumed, mark, turn);
    }
}
