//! The loop over requests: each is taken off the input, executed, and its outcome seen to.
//!
//! ```text
//! run  -> run_gets              get of one key, as many as follow each other
//!      -> run_stores            plain set and add, likewise
//!      -> run_any               everything else, one at a time
//! ```
//!
//! The first two are inlined down to the handler and keep what they need in registers; the second
//! has a frame of its own, so that its needs do not displace those of the first. What is answered
//! there is answered at once: it has no outcome to see to, and no ticket, as nobody will ask for
//! it. That takes a handler that is prompt, and no earlier reply that waits.

use memcache::{Parsed, Refusal};

use crate::order::Wait;
use crate::{Cause, Context, Flow, Handler, Mark, Outcome, Passed, Reply, Session, Ticket};

/// What a turn may still do.
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

impl Session {
    /// Parses `input` from its beginning until it is used up or a bound stops it; returns how much
    /// is left and leaves the reason in `flow`.
    #[inline(never)]
    pub(crate) fn run<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
        requests_max: u32,
    ) -> usize {
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

    /// Executes each plain `set` and `add` that `input` begins with; returns what follows.
    #[inline(never)]
    fn run_stores<'i, H: Handler>(
        &self,
        mut input: &'i [u8],
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let value_bytes_max = context.handler.limits(&self.conn).value_bytes_max;
        while let Some((store, rest)) = memcache::plain_store(input, value_bytes_max) {
            context.handler.store_now(context.now, &store, &mut context.out);
            input = rest;
            if remaining.is_used_up(&context.out) {
                break;
            }
        }
        input
    }

    /// Whether a reply can be made at once, and may leave as soon as it is made.
    #[inline(always)]
    fn is_prompt<H: Handler>(&self, context: &Context<H>) -> bool {
        self.order.is_none() && context.handler.is_prompt(&self.conn)
    }

    /// Executes what `input` begins with, whatever it is; returns how much of it is used, or
    /// nothing when it is only the beginning of a request.
    #[inline(never)]
    fn run_any<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> Option<usize> {
        match memcache::parse(input, context.handler.limits(&self.conn)) {
            Parsed::Request { request, consumed } => {
                let mark = context.out.mark();
                self.requests = self.requests.wrapping_add(1);
                let ticket = Ticket { conn: self.conn.id(), request: self.requests };
                let (now, conn) = (context.now, &mut self.conn);
                let outcome = context.handler.call(now, conn, &request, ticket, &mut context.out);
                Some(self.record_outcome(outcome, consumed, mark, context))
            }
            Parsed::Incomplete { needed } => {
                self.needed = needed;
                None
            }
            Parsed::Refused { refusal, consumed, swallow, close, quiet } => {
                let outcome = if close { Outcome::Close } else { Outcome::Done };
                self.refuse(Some(&refusal), Cause::Malformed, quiet, outcome, consumed, context);
                self.swallow = swallow;
                Some(consumed + self.skip(&input[consumed..]))
            }
        }
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
    fn record_outcome<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        context: &mut Context<H>,
    ) -> usize {
        let used = if outcome == Outcome::More { 0 } else { consumed };
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
            Outcome::Done | Outcome::More | Outcome::Close => Wait::Nothing,
        };
        if outcome != Outcome::More {
            self.conn.progress = 0;
        }
        if self.order.is_some() || wait != Wait::Nothing {
            let reply = context.out.split_off(mark);
            let order = self.order.get_or_insert_default();
            order.push(self.requests, wait, reply, used);
            if order.is_full(&context.resources) || outcome == Outcome::More {
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
    pub(crate) fn close(&mut self) {
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
        context: &mut Context<H>,
    ) {
        let mark = context.out.mark();
        context.handler.refused(context.now, &mut self.conn, refusal, cause, &mut context.out);
        if quiet {
            context.out.rewind(mark);
        }
        self.requests = self.requests.wrapping_add(1);
        self.record_outcome(outcome, consumed, mark, context);
    }
}

/// Answers each `get` of one key that `input` begins with; returns what follows.
#[inline(always)]
fn run_gets<'i, H: Handler>(
    mut input: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    while let Some((key, rest)) = memcache::plain_get(input) {
        context.handler.get_now(context.now, key, &mut context.out);
        input = rest;
        if remaining.is_used_up(&context.out) {
            break;
        }
    }
    input
}
