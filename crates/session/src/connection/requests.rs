//! The loop over requests: each is taken off the input and executed, and its outcome is applied.
//!
//! ```text
//! run  -> run_gets              get of one key, as many as follow each other
//!      -> run_stores            plain set and add, likewise
//!      -> run_any               everything else, one at a time
//! ```
//!
//! The first two are inlined down to the handler and keep what they need in registers. `run_stores`
//! has a frame of its own, so that its needs do not displace those of `run_gets`. Both are only for
//! a handler that is prompt while no earlier reply waits: their replies are complete at once, so
//! they have no outcome to apply and no ticket. A request that the handler declines there goes to
//! `run_any`.
//!
//! Invariants: `pending` is there exactly while a reply waits; every later reply is queued after
//! it. Nothing is executed unless `flow` is `Idle`. `swallow` is not 0 only between two calls of
//! `run`.

use memcache::{Limits, Parsed, Refusal};

use super::flow::Flow;
use super::value::{END, Value};
use crate::bounds::WAIT_NS_MAX;
use crate::context::Context;
use crate::handler::{Cause, Handler, Outcome, Passed, ValueStart, Waited};
use crate::ids::{Conn, ConnId, Ticket};
use crate::pending::{Ended, Executed, Pending, Wait};
use crate::reply::{Mark, Reply};

/// The deadline of a request of which a part is answered, and which is not parked.
const GOES_ON_NS: u64 = u64::MAX - 1;

/// What a turn may still do before a bound stops it.
struct Remaining {
    /// Requests, at least one.
    requests: u32,
    /// The length from which on the output is full.
    full_at: usize,
}

impl Remaining {
    /// Counts a request; whether it was the last of this turn.
    #[inline(always)]
    fn is_used_up(&mut self, out: &Reply) -> bool {
        self.requests -= 1;
        self.requests == 0 || self.is_full(out)
    }

    #[inline(always)]
    fn is_full(&self, out: &Reply) -> bool {
        out.len() >= self.full_at
    }
}

/// The requests of one connection and the replies to them.
pub(super) struct Requests {
    pub(super) conn: Conn,
    pub(super) flow: Flow,
    /// The connection ends when no reply waits.
    closing: bool,
    /// The number of the latest request that was given a ticket, wrapping.
    number: u32,
    /// Bytes of a refused value that are still to be discarded.
    pub(super) swallow: u64,
    /// Total length of the request that the input begins with, as far as it is known.
    pub(super) needed: usize,
    /// A part of the reply to the present request stands in the stream already.
    begun: bool,
    /// When the parked request must be answered; [`GOES_ON_NS`] while a request is answered in
    /// parts, and the highest number when there is neither.
    parked_until_ns: u64,
    pub(super) pending: Option<Box<Pending>>,
    /// The value that the handler takes in pieces.
    pub(super) value: Option<Box<Value>>,
}

impl Requests {
    pub(super) fn new(id: ConnId) -> Self {
        Self {
            conn: Conn::new(id),
            flow: Flow::Idle,
            closing: false,
            number: 0,
            swallow: 0,
            needed: 0,
            begun: false,
            parked_until_ns: u64::MAX,
            pending: None,
            value: None,
        }
    }

    /// Whether it is between two requests, with no reply that waits.
    pub(super) fn is_at_rest(&self) -> bool {
        self.flow == Flow::Idle && self.swallow == 0 && self.pending.is_none()
    }

    /// Whether no further input is parsed, now or later.
    pub(super) fn is_over(&self) -> bool {
        self.closing || matches!(self.flow, Flow::Close | Flow::Drop)
    }

    /// Total length of the incomplete request that the input begins with, as far as it is known; 0
    /// when a bound has stopped the parsing before the input was used up.
    #[inline]
    pub(super) fn needed(&self) -> usize {
        if self.flow == Flow::Idle { self.needed } else { 0 }
    }

    /// Allows parsing again after a bound of a turn or a parked request has stopped it; whether one
    /// had.
    pub(super) fn resume(&mut self) -> bool {
        let stopped = matches!(self.flow, Flow::Again | Flow::Full | Flow::Parked);
        if stopped {
            self.flow = Flow::Idle;
        }
        stopped
    }

    /// Appends a part of the reply to the request of `ticket`, the last one or not; `false` when
    /// the request does not wait.
    pub(super) fn complete(&mut self, ticket: Ticket, bytes: &[u8], last: bool) -> bool {
        ticket.conn == self.conn.id()
            && self.pending.as_mut().is_some_and(|it| it.complete(ticket.request, bytes, last))
    }

    /// What the next reply waits for, and its deadline.
    pub(super) fn front(&self) -> Option<(Waited, u64)> {
        self.pending.as_ref()?.front(self.conn.id())
    }

    /// Moves to the output the replies that waited for a completion or a log and may leave now, and
    /// the errors in place of those that have waited for too long.
    pub(super) fn release<H: Handler>(&mut self, context: &mut Context<H>) {
        let Some(mut pending) = self.pending.take() else { return };
        let Context { handler, now, out, resources, spares } = context;
        match pending.release(self.conn.id(), handler, *now, out) {
            Ok(()) => {}
            Err(Ended::Drop) => {
                self.flow = Flow::Drop;
                return;
            }
            Err(Ended::Close) => {
                self.closing = true;
                return self.close();
            }
        }
        let full = pending.is_full(resources);
        if pending.is_empty() {
            spares.give(pending);
        } else {
            self.pending = Some(pending);
        }
        match self.flow {
            _ if self.closing => self.close(),
            Flow::Waiting if !full => self.flow = Flow::Again,
            // Parts of replies have come that must be kept.
            Flow::Idle if full => self.flow = Flow::Waiting,
            _ => {}
        }
    }

    /// Parses `input` from its beginning until it is used up or a bound stops it; returns how much
    /// is left and leaves the reason in `flow`.
    #[inline(never)]
    pub(super) fn run<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
        requests_max: u32,
    ) -> usize {
        if let Some(pending) = &mut self.pending {
            pending.begin_run();
        }
        let full_at = context.out.len() + context.resources.bounds.output_bytes_max;
        let mut remaining = Remaining { requests: requests_max, full_at };
        let mut rest = if self.swallow == 0 { input } else { &input[self.skip(input)..] };
        while !rest.is_empty() {
            let before = rest.len();
            if self.is_prompt(context) {
                rest = run_gets(rest, context, &mut remaining);
                if rest.is_empty() {
                    break;
                }
                if rest.len() == before {
                    rest = self.run_stores(rest, context, &mut remaining);
                }
            } else if !self.waits() && context.handler.may_confirm(&self.conn) {
                rest = self.run_unconfirmed(rest, context, &mut remaining);
            }
            if rest.len() == before {
                let Some(used) = self.run_any(rest, context) else { break };
                remaining.requests -= 1;
                rest = &rest[used..];
                if self.flow != Flow::Idle {
                    break;
                }
            }
            if rest.is_empty() {
                break;
            }
            if remaining.is_full(&context.out) {
                self.flow = Flow::Full;
                break;
            }
            if remaining.requests == 0 {
                self.flow = Flow::Again;
                break;
            }
        }
        rest.len()
    }

    /// Executes each `get` of one key that `input` begins with, or else each plain `set` and `add`;
    /// returns what follows. Replies that the handler does not confirm are dropped.
    #[inline(never)]
    fn run_unconfirmed<'i, H: Handler>(
        &self,
        input: &'i [u8],
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let (mark, requests) = (context.out.mark(), remaining.requests);
        let rest = run_gets(input, context, remaining);
        if rest.len() == input.len() {
            let may_store = context.handler.may_store();
            return if may_store { self.run_stores(input, context, remaining) } else { input };
        }
        if context.handler.confirm() {
            return rest;
        }
        context.out.rewind(mark);
        remaining.requests = requests;
        input
    }

    /// Executes each plain `set` and `add` that `input` begins with, up to one that the handler
    /// declines; returns what follows.
    #[inline(never)]
    fn run_stores<'i, H: Handler>(
        &self,
        mut input: &'i [u8],
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let value_bytes_max = context.handler.limits(&self.conn).value_bytes_max;
        while let Some((store, rest)) = memcache::plain_store(input, value_bytes_max) {
            if !context.handler.store_now(context.now, &store, &mut context.out) {
                break;
            }
            input = rest;
            if remaining.is_used_up(&context.out) {
                break;
            }
        }
        input
    }

    /// Whether an earlier reply waits, or the next request was parked or is answered in part: that
    /// has an outcome to apply, which ends its wait.
    #[inline(always)]
    fn waits(&self) -> bool {
        self.pending.is_some() || self.parked_until_ns != u64::MAX
    }

    /// Whether a reply is complete at once, and may leave at once.
    #[inline(always)]
    fn is_prompt<H: Handler>(&self, context: &Context<H>) -> bool {
        !self.waits() && context.handler.is_prompt(&self.conn)
    }

    /// Executes the request that `input` begins with; returns how much of it is used, or `None`
    /// when the request is incomplete.
    #[inline(never)]
    fn run_any<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> Option<usize> {
        match memcache::parse(input, context.handler.limits(&self.conn)) {
            Parsed::Request { request, consumed } => {
                let mark = context.out.mark();
                let ticket = self.next_ticket();
                self.note_overdue(context);
                let (now, conn) = (context.now, &mut self.conn);
                let outcome = context.handler.call(now, conn, &request, ticket, &mut context.out);
                Some(self.record_outcome(outcome, consumed, mark, context))
            }
            Parsed::Incomplete { needed } => {
                self.needed = needed;
                let is_long = needed > context.handler.whole_bytes_max();
                if is_long { self.begin_value(input, needed, context) } else { None }
            }
            Parsed::Refused { refusal, consumed, swallow, close, quiet } => {
                let outcome = if close { Outcome::Close } else { Outcome::Done };
                self.refuse(Some(&refusal), Cause::Malformed, quiet, outcome, consumed, context);
                self.swallow = swallow;
                Some(consumed + self.skip(&input[consumed..]))
            }
        }
    }

    /// The ticket of one more request.
    #[inline(always)]
    pub(super) fn next_ticket(&mut self) -> Ticket {
        self.number = self.number.wrapping_add(1);
        Ticket { conn: self.conn.id(), request: self.number }
    }

    /// Notes whether the request that is about to be executed has been parked for too long.
    #[inline(always)]
    pub(super) fn note_overdue<H: Handler>(&mut self, context: &Context<H>) {
        self.conn.overdue = context.now.mono_ns >= self.parked_until_ns;
    }

    /// Parks the present request.
    pub(super) fn park<H: Handler>(&mut self, context: &mut Context<H>) -> usize {
        let mark = context.out.mark();
        self.record_outcome(Outcome::Park, 0, mark, context)
    }

    /// The parked request goes on: a later wait of it has a deadline of its own.
    pub(super) fn end_park(&mut self) {
        self.parked_until_ns = u64::MAX;
        self.conn.overdue = false;
    }

    /// Length of the line of the request whose value arrives in pieces, if one does.
    #[inline]
    pub(super) fn value_line_bytes(&self) -> Option<usize> {
        self.value.as_ref().map(|value| value.line_bytes)
    }

    /// `input` begins with a part of a request that takes `needed` bytes. If that is a value which
    /// the handler takes in pieces, it begins. Returns how much of the input is used; `None` if the
    /// rest of it must be kept.
    #[cold]
    fn begin_value<H: Handler>(
        &mut self,
        input: &[u8],
        needed: usize,
        context: &mut Context<H>,
    ) -> Option<usize> {
        let limits = context.handler.limits(&self.conn);
        let (request, line_bytes) = memcache::announced(input, limits)?;
        let bytes = (needed - line_bytes - END.len()) as u64;
        self.note_overdue(context);
        match context.handler.begin_value(context.now, &mut self.conn, &request, bytes) {
            ValueStart::Whole => None,
            ValueStart::Pieces => {
                self.needed = 0;
                self.end_park();
                self.value = Some(Box::new(Value::new(&request, line_bytes, bytes)));
                None
            }
            ValueStart::Later if !self.conn.is_overdue() => Some(self.park(context)),
            ValueStart::Later | ValueStart::Refused => Some(self.refuse_value(input, context)),
        }
    }

    /// Lets the handler drop the value, if one arrives in pieces.
    pub(super) fn drop_value<H: Handler>(&mut self, context: &mut Context<H>) {
        if self.value.take().is_some() {
            context.handler.drop_value(self.conn.id());
        }
    }

    /// Discards what `input` holds of a refused value; returns how much that is.
    #[inline]
    pub(super) fn skip(&mut self, input: &[u8]) -> usize {
        if self.swallow == 0 {
            return 0;
        }
        let skipped = self.swallow.min(input.len() as u64);
        self.swallow -= skipped;
        skipped as usize
    }

    /// Applies the outcome of a request; returns how much of the input the request has used.
    pub(super) fn record_outcome<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        context: &mut Context<H>,
    ) -> usize {
        let stays = matches!(outcome, Outcome::More | Outcome::Park);
        let used = if stays { 0 } else { consumed };
        let wait = match outcome {
            Outcome::Pending => Wait::Ticket,
            Outcome::Gate { log, seq } => match context.handler.gate(log, seq) {
                Passed::Yes => Wait::Nothing,
                Passed::No => Wait::Gate { log, seq },
                Passed::InDoubt => {
                    self.flow = Flow::Drop;
                    return used;
                }
            },
            Outcome::Park if self.conn.overdue => {
                self.flow = Flow::Drop;
                return used;
            }
            Outcome::Done | Outcome::More | Outcome::Park | Outcome::Close => Wait::Nothing,
        };
        match outcome {
            Outcome::More => self.flow = Flow::Full,
            Outcome::Park => self.flow = Flow::Parked,
            _ => self.conn.progress = 0,
        }
        let now_ns = context.now.mono_ns;
        self.parked_until_ns = match outcome {
            Outcome::Park => self.parked_until_ns.min(now_ns + WAIT_NS_MAX),
            Outcome::More => GOES_ON_NS,
            _ => u64::MAX,
        };
        let produced = context.out.len_since(mark) > 0;
        let begun = self.begun;
        self.begun = stays && (begun || produced);
        if self.pending.is_some() || wait != Wait::Nothing {
            let Context { out, resources, spares, .. } = context;
            let pending = self.pending.get_or_insert_with(|| spares.take());
            let (request, due_ns) = (self.number, now_ns + WAIT_NS_MAX);
            let executed = Executed { request, request_bytes: used, wait, due_ns, begun };
            if produced || !stays {
                pending.push(executed, out, mark);
            }
            if pending.is_full(resources) || outcome == Outcome::More {
                self.flow = Flow::Waiting;
            }
        }
        if outcome == Outcome::Close {
            self.closing = true;
            self.close();
        }
        used
    }

    /// Ends the connection as soon as no reply waits.
    fn close(&mut self) {
        self.flow = if self.pending.is_some() { Flow::Waiting } else { Flow::Close };
    }

    /// Lets the handler answer a request that is not executed, in its place among the others. The
    /// handler is called also for a client that wants no reply, and then the answer is discarded.
    #[cold]
    pub(super) fn refuse<H: Handler>(
        &mut self,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        quiet: bool,
        outcome: Outcome,
        consumed: usize,
        context: &mut Context<H>,
    ) {
        let mark = context.out.mark();
        context.handler.refused(context.now, &mut self.conn, refusal, cause, &mut context.out);
        if quiet {
            context.out.rewind(mark);
        }
        self.number = self.number.wrapping_add(1);
        self.record_outcome(outcome, consumed, mark, context);
    }

    /// There is no memory for the request that `input` begins with. If it is a value, the value is
    /// discarded and answered like one that is too large; anything else ends the connection.
    /// Returns how much of the input is used.
    #[cold]
    pub(super) fn refuse_value<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
    ) -> usize {
        let limits = Limits { value_bytes_max: 0, ..*context.handler.limits(&self.conn) };
        let Parsed::Refused { refusal, consumed, swallow, close: false, quiet } =
            memcache::parse(input, &limits)
        else {
            self.refuse_input(context);
            return input.len();
        };
        self.refuse(Some(&refusal), Cause::NoMemory, quiet, Outcome::Done, consumed, context);
        self.swallow = swallow;
        consumed + self.skip(&input[consumed..])
    }

    /// There is no memory for input that is no value: answers so and ends the connection.
    #[cold]
    pub(super) fn refuse_input<H: Handler>(&mut self, context: &mut Context<H>) {
        self.drop_value(context);
        self.refuse(None, Cause::NoMemoryForInput, false, Outcome::Close, 0, context);
    }
}

/// Answers each `get` of one key that `input` begins with, up to one that the handler declines;
/// returns what follows.
#[inline(always)]
fn run_gets<'i, H: Handler>(
    mut input: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    while let Some((key, rest)) = memcache::plain_get(input) {
        if !context.handler.get_now(context.now, key, &mut context.out) {
            break;
        }
        input = rest;
        if remaining.is_used_up(&context.out) {
            break;
        }
    }
    input
}
