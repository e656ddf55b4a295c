//! The requests of one connection: each is executed, and its outcome is applied.
//!
//! The loop over them is in `turn.rs`.
//!
//! Invariants: `pending` is there exactly while a reply is queued; every later reply is queued
//! after it. `swallow` is not 0 only between two turns.

use memcache::{Limits, Parsed, Refusal};

use super::flow::Flow;
use super::value::{END, Value};
use crate::bounds::{KEPT_BYTES_MAX, WAIT_NS_MAX};
use crate::context::Context;
use crate::handler::{Cause, Handler, Outcome, Passed, Plain, Prompt, ValueStart, Waited};
use crate::ids::{Conn, ConnId, Ticket};
use crate::pending::{Ended, Executed, Pending, Wait};
use crate::reply::{Mark, Span};

/// The deadline of a request of which a part is answered, and which is not parked.
const GOES_ON_NS: u64 = u64::MAX - 1;

/// The requests of one connection and the replies to them.
pub(super) struct Requests {
    pub(super) conn: Conn,
    pub(super) flow: Flow,
    /// The connection ends when no reply waits.
    closing: bool,
    /// The number of the latest request that was given a ticket, wrapping.
    pub(super) number: u32,
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
    /// Bytes of the longest reply of late that has come by its ticket; 0 before the first.
    longest: u32,
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
            longest: 0,
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

    /// Has the rest of a reply come whose first parts are sent. Whether that is what has stopped
    /// the parsing.
    pub(super) fn asks_for_rest<H: Handler>(&mut self, context: &mut Context<H>) -> bool {
        let Some(request) = self.sends_parts() else { return false };
        self.flow = Flow::Waiting;
        let due_ns = context.now.mono_ns + WAIT_NS_MAX;
        self.pending.iter_mut().for_each(|pending| pending.extend_first(due_ns));
        let ticket = Ticket { conn: self.conn.id(), request };
        context.handler.parts_sent(context.now, ticket);
        true
    }

    /// The request of whose reply parts are being sent, while the rest of it is not asked for.
    fn sends_parts(&self) -> Option<u32> {
        self.pending.as_ref().filter(|_| self.flow == Flow::Full)?.first_alone()
    }

    /// Appends a part of the reply to the request of `ticket`, the last one or not; `false` when
    /// the request does not wait.
    pub(super) fn complete<H: Handler>(
        &mut self,
        ticket: Ticket,
        part: (&[u8], bool),
        context: &mut Context<H>,
    ) -> bool {
        let pending = self.pending.as_mut().filter(|_| ticket.conn == self.conn.id());
        let Some(pending) = pending else { return false };
        let (request, bytes) = (ticket.request, part.0.len());
        if bytes > KEPT_BYTES_MAX {
            // Where even the handler finds no room, an error takes its place.
            let _ = context.with_room(|resources| pending.reserve(request, bytes, resources));
        }
        pending.complete(request, part, context.now.mono_ns + WAIT_NS_MAX, &context.resources)
    }

    /// What the next reply waits for, and its deadline.
    pub(super) fn front(&self) -> Option<(Waited, u64)> {
        self.pending.as_ref()?.front(self.conn.id())
    }

    /// Moves to the output the replies that waited for a completion or a log and may leave now, and
    /// the errors in place of those that have waited for too long.
    pub(super) fn release<H: Handler>(&mut self, context: &mut Context<H>) {
        let waits_for_client = self.sends_parts().is_some();
        let Some(mut pending) = self.pending.take() else { return };
        let Context { handler, now, out, resources, spares, .. } = context;
        if waits_for_client {
            pending.extend_first(now.mono_ns + WAIT_NS_MAX);
        }
        let mark = out.mark();
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
        let has_rest = pending.first_alone().is_some() && out.len_since(mark) > 0;
        if pending.is_empty() {
            let longest = u32::try_from(pending.longest()).unwrap_or(u32::MAX);
            self.longest = if longest > 0 { longest.max(self.longest / 2) } else { self.longest };
            spares.give(pending);
        } else {
            self.pending = Some(pending);
        }
        match self.flow {
            _ if self.closing => self.close(),
            Flow::Waiting if !full => self.flow = Flow::Again,
            Flow::Waiting if has_rest => self.flow = Flow::Full,
            // Parts of replies have come that must be kept.
            Flow::Idle if full => self.flow = Flow::Waiting,
            _ => {}
        }
    }

    /// Whether an earlier reply waits, or the next request was parked or is answered in part: that
    /// has an outcome to apply, which ends its wait.
    #[inline(always)]
    pub(super) fn waits(&self) -> bool {
        self.pending.is_some() || self.is_parked()
    }

    #[inline(always)]
    pub(super) fn is_parked(&self) -> bool {
        self.parked_until_ns != u64::MAX
    }

    /// Whether a plain request can be executed apart from the others.
    #[inline(always)]
    pub(super) fn prompt<H: Handler>(&self, context: &Context<H>) -> Prompt {
        if self.waits() { Prompt::No } else { context.handler.prompt(&self.conn) }
    }

    /// Executes the request that `input` begins with; returns how much of it is used, or `None`
    /// when the request is incomplete.
    #[inline(never)]
    pub(super) fn run_any<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
    ) -> Option<usize> {
        if H::SENDS_ON && !self.is_parked() {
            let used = self.send_on(input, context);
            if used.is_some() {
                return used;
            }
        }
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

    /// Offers the plain request that `input` begins with to the handler, which may have it executed
    /// elsewhere. Returns how much of the input is used; `None` if it does not.
    #[inline(always)]
    fn send_on<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> Option<usize> {
        let value_bytes_max = context.handler.limits(&self.conn).value_bytes_max;
        let (key, reads, noreply, rest) = match memcache::plain_store(input, value_bytes_max) {
            Some((store, rest)) => (store.key, false, store.noreply, rest),
            None => memcache::plain_get(input).map(|(key, rest)| (key, true, false, rest))?,
        };
        let used = input.len() - rest.len();
        let (mark, ticket) = (context.out.mark(), self.next_ticket());
        let plain = Plain { key, text: &input[..used], reads, noreply };
        if !context.handler.send_on(context.now, &self.conn, &plain, ticket) {
            return None;
        }
        let outcome = if noreply { Outcome::Done } else { Outcome::Pending };
        Some(self.record_outcome(outcome, used, mark, context))
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
        let gate = match outcome {
            Outcome::Gate { log, seq } | Outcome::Part { log, seq, .. } => Some((log, seq)),
            _ => None,
        };
        let outcome = match outcome {
            Outcome::Part { parks: true, .. } => Outcome::Park,
            Outcome::Part { .. } => Outcome::More,
            outcome => outcome,
        };
        let stays = matches!(outcome, Outcome::More | Outcome::Park);
        let used = if stays { 0 } else { consumed };
        let wait = match (outcome, gate) {
            (Outcome::Park, _) if self.conn.overdue => {
                self.flow = Flow::Drop;
                return used;
            }
            (Outcome::Pending | Outcome::PendingAlone, _) => Wait::Ticket,
            (_, Some((log, seq))) => match context.handler.gate(log, seq) {
                Passed::Yes => Wait::Nothing,
                Passed::No => Wait::Gate { log, seq },
                Passed::InDoubt => {
                    self.flow = Flow::Drop;
                    return used;
                }
            },
            (_, None) => Wait::Nothing,
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
        // No error can take the place of a part that waits for a gate.
        let begun = self.begun || stays && wait != Wait::Nothing;
        self.begun = stays && (self.begun || produced);
        let (request, due_ns) = (self.number, now_ns + WAIT_NS_MAX);
        let executed = Executed { request, request_bytes: used, wait, due_ns, begun };
        if self.pending.is_none() && wait == Wait::Nothing {
            self.hold_behind(&executed, mark, context);
        } else {
            let Context { out, resources, spares, .. } = context;
            let longest = self.longest as usize;
            let pending = self.pending.get_or_insert_with(|| spares.take_for(longest));
            if produced || !stays || wait != Wait::Nothing {
                pending.push(executed, out, mark);
            }
            if outcome == Outcome::PendingAlone {
                pending.is_alone();
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

    /// Holds the first reply of a turn that waits for a gate: it was appended since `mark`, unless
    /// the client wants none.
    #[inline(never)]
    pub(super) fn hold<H: Handler>(
        &mut self,
        wait: Wait,
        request_bytes: usize,
        mark: Mark,
        context: &mut Context<H>,
    ) {
        if context.out.len_since(mark) == 0 {
            return;
        }
        self.number = self.number.wrapping_add(1);
        let executed = self.executed(wait, request_bytes);
        context.held.push(self.conn.id(), &executed, &context.out, mark);
    }

    /// Notes a reply that waits for nothing, if one before it is held.
    pub(super) fn hold_behind<H: Handler>(
        &self,
        executed: &Executed,
        mark: Mark,
        context: &mut Context<H>,
    ) {
        let is_behind = context.held.last().is_some_and(|held| held.conn == self.conn.id());
        if is_behind && context.out.len_since(mark) > 0 {
            context.held.push_next(executed, &context.out, mark);
        }
    }

    pub(super) fn executed(&self, wait: Wait, request_bytes: usize) -> Executed {
        Executed { request: self.number, request_bytes, wait, due_ns: 0, begun: false }
    }

    /// Queues what may not leave of `span`. Returns what may.
    pub(super) fn withhold<H: Handler>(&mut self, span: Span, context: &mut Context<H>) -> Span {
        let Context { handler, now, out, resources, spares, held, .. } = context;
        let waits_already = self.pending.as_ref().is_some_and(|pending| pending.has_ahead());
        let leaving =
            if waits_already { span.cut_at(span.begin()).0 } else { held.leaving(span, handler) };
        if leaving == span {
            return span;
        }
        let longest = self.longest as usize;
        let pending = self.pending.get_or_insert_with(|| spares.take_for(longest));
        let (_, rest) = span.cut_at(leaving.finish());
        held.queue(rest, out, pending, now.mono_ns + WAIT_NS_MAX);
        let is_full = pending.is_full(resources);
        self.flow = match self.flow {
            // Its output has not left after all.
            Flow::Close | Flow::Full => Flow::Waiting,
            Flow::Idle | Flow::Again if is_full => Flow::Waiting,
            flow => flow,
        };
        leaving
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
