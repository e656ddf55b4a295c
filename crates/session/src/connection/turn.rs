//! One turn of a connection: the loop over requests. Each is taken off the input and executed.
//!
//! ```text
//! run  -> run_gets              get of one key, as many as follow each other
//!      -> run_stores            plain set and add, likewise
//!      -> Requests::run_any     everything else, one at a time
//!      -> run_behind_gates      all of these, after a reply that waits for a gate
//! ```
//!
//! The first two are inlined down to the handler and keep what they need in registers. `run_stores`
//! has a frame of its own, so that its needs do not displace those of `run_gets`. Both are only for
//! a handler that is prompt while no earlier reply waits: their replies are complete at once, so
//! they have no ticket. A request that the handler declines there goes to `run_any`.
//!
//! A reply that waits for a gate stays in the output until the batch ends. Once one is held there,
//! all that follow in the turn are noted behind it, so that each can be moved to the queue with
//! what it waits for.
//!
//! Invariant: nothing is executed unless `flow` is `Idle`.

use super::flow::Flow;
use super::requests::Requests;
use crate::context::Context;
use crate::handler::{Answer, Handler, Prompt};
use crate::pending::Wait;
use crate::reply::{Mark, Reply};

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

    /// Whether a reply of this turn is held in the output.
    fn has_held<H>(&self, context: &Context<H>) -> bool {
        let begin = self.full_at - context.resources.bounds.output_bytes_max;
        context.held.last().is_some_and(|held| held.len_at >= begin)
    }

    #[inline(always)]
    fn is_full(&self, out: &Reply) -> bool {
        out.len() >= self.full_at
    }
}

/// Parses `input` from its beginning until it is used up or a bound stops it; returns how much
/// is left and leaves the reason in `flow`.
#[inline(never)]
pub(super) fn run<H: Handler>(
    requests: &mut Requests,
    input: &[u8],
    context: &mut Context<H>,
    requests_max: u32,
) -> usize {
    let mut waits = match &mut requests.pending {
        None => requests.is_parked(),
        Some(pending) => {
            pending.begin_run();
            true
        }
    };
    let full_at = context.out.len() + context.resources.bounds.output_bytes_max;
    let mut remaining = Remaining { requests: requests_max, full_at };
    let mut rest = if requests.swallow == 0 { input } else { &input[requests.skip(input)..] };
    while !rest.is_empty() {
        let before = rest.len();
        match if waits { Prompt::No } else { context.handler.prompt(&requests.conn) } {
            Prompt::Ungated => {
                rest = run_gets::<H, false>(requests, rest, context, &mut remaining);
                if rest.is_empty() {
                    break;
                }
                if rest.len() == before {
                    rest = run_stores::<H, false>(requests, rest, context, &mut remaining);
                    if rest.is_empty() {
                        break;
                    }
                }
            }
            Prompt::Gated => {
                let (begin, mark) = (rest, context.out.mark());
                rest = run_gets::<H, false>(requests, rest, context, &mut remaining);
                if rest.len() == before {
                    rest = run_stores::<H, true>(requests, rest, context, &mut remaining);
                } else if !context.handler.confirm() {
                    let left = rest.len();
                    rest = run_gets_again(requests, (begin, mark), left, context, &mut remaining);
                }
                if rest.is_empty() {
                    break;
                }
                if rest.len() < before && remaining.has_held(context) {
                    rest = run_behind_gates(requests, rest, context, &mut remaining);
                    break;
                }
            }
            Prompt::No => {}
        }
        if rest.len() == before {
            match run_one(requests, rest, context, &mut remaining) {
                Ok([]) => return 0,
                Ok(after) => rest = after,
                Err(left) => return left.len(),
            }
        }
        if is_stopped(requests, context, &remaining) {
            break;
        }
        waits = requests.waits();
    }
    rest.len()
}

/// Executes the request that `rest` begins with; returns what follows. `Err`, with what is left:
/// the turn ends there.
fn run_one<'i, H: Handler>(
    requests: &mut Requests,
    rest: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> Result<&'i [u8], &'i [u8]> {
    let used = requests.run_any(rest, context).ok_or(rest)?;
    remaining.requests -= 1;
    if requests.flow == Flow::Idle { Ok(&rest[used..]) } else { Err(&rest[used..]) }
}

/// Whether a bound stops the turn; if so, leaves the reason in `flow`.
fn is_stopped<H>(requests: &mut Requests, context: &Context<H>, remaining: &Remaining) -> bool {
    if remaining.is_full(&context.out) {
        requests.flow = Flow::Full;
    } else if remaining.requests == 0 {
        requests.flow = Flow::Again;
    }
    requests.flow != Flow::Idle
}

/// Answers each `get` of one key that `input` begins with, up to one that the handler declines or
/// whose reply waits for a gate; returns what follows.
#[inline(always)]
fn run_gets<'i, H: Handler, const GATED: bool>(
    requests: &mut Requests,
    mut input: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    while let Some((key, rest)) = memcache::plain_get(input) {
        let mark = if GATED { context.out.mark() } else { Mark::default() };
        match context.handler.get_now::<GATED>(context.now, &requests.conn, key, &mut context.out) {
            Answer::Done => {}
            Answer::Declined => break,
            Answer::Gate { log, seq } => {
                let wait = Wait::Gate { log, seq };
                return hold_first(requests, wait, (input, rest), mark, context, remaining);
            }
        }
        input = rest;
        if remaining.is_used_up(&context.out) {
            break;
        }
    }
    input
}

/// Executes each plain `set` and `add` that `input` begins with, likewise.
#[inline(never)]
fn run_stores<'i, H: Handler, const GATED: bool>(
    requests: &mut Requests,
    mut input: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    let value_bytes_max = context.handler.limits(&requests.conn).value_bytes_max;
    while let Some((store, rest)) = memcache::plain_store(input, value_bytes_max) {
        let mark = if GATED { context.out.mark() } else { Mark::default() };
        let answer = context.handler.store_now::<GATED>(context.now, &store, &mut context.out);
        if let Answer::Gate { log, seq } = answer {
            let wait = Wait::Gate { log, seq };
            return hold_first(requests, wait, (input, rest), mark, context, remaining);
        }
        if answer == Answer::Declined {
            break;
        }
        input = rest;
        if remaining.is_used_up(&context.out) {
            break;
        }
    }
    input
}

/// Holds the first reply of a turn that waits for a gate, to the request between `input` and
/// `rest`; returns the latter.
#[inline(never)]
fn hold_first<'i, H: Handler>(
    requests: &mut Requests,
    wait: Wait,
    (input, rest): (&[u8], &'i [u8]),
    mark: Mark,
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    remaining.requests -= 1;
    requests.hold(wait, input.len() - rest.len(), mark, context);
    rest
}

/// Drops the replies to the `get`s that `input` begins with, up to the last `left` bytes, which
/// stand in the output since `mark`, and executes them again, up to one whose reply waits.
/// Returns what follows.
#[cold]
#[inline(never)]
fn run_gets_again<'i, H: Handler>(
    requests: &mut Requests,
    (input, mark): (&'i [u8], Mark),
    left: usize,
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    let lines = input[..input.len() - left].iter().filter(|byte| **byte == b'\n').count() as u32;
    context.out.rewind(mark);
    context.handler.executes_again(lines);
    remaining.requests += lines;
    run_gets::<H, true>(requests, input, context, remaining)
}

/// Continues the turn when one of its replies is held; returns what is left of `rest`.
#[inline(never)]
fn run_behind_gates<'i, H: Handler>(
    requests: &mut Requests,
    mut rest: &'i [u8],
    context: &mut Context<H>,
    remaining: &mut Remaining,
) -> &'i [u8] {
    let bounds = &context.resources.bounds;
    // What is held may have to be queued.
    remaining.full_at = remaining.full_at.min(context.out.len() + bounds.pending_bytes_max);
    remaining.requests = remaining.requests.min(bounds.pending_max as u32);
    while !rest.is_empty() && !is_stopped(requests, context, remaining) {
        let before = rest.len();
        if requests.prompt(context) != Prompt::No {
            rest = run_noted(rest, requests, remaining, context);
        }
        if rest.len() == before {
            match run_one(requests, rest, context, remaining) {
                Ok(after) => rest = after,
                Err(left) => return left,
            }
        }
    }
    rest
}

/// Executes each plain request that `input` begins with, up to one that the handler declines;
/// returns what follows.
fn run_noted<'i, H: Handler>(
    mut input: &'i [u8],
    requests: &mut Requests,
    remaining: &mut Remaining,
    context: &mut Context<H>,
) -> &'i [u8] {
    let value_bytes_max = context.handler.limits(&requests.conn).value_bytes_max;
    loop {
        let (now, mark) = (context.now, context.out.mark());
        let (answer, rest) =
            if let Some((store, rest)) = memcache::plain_store(input, value_bytes_max) {
                (context.handler.store_now::<true>(now, &store, &mut context.out), rest)
            } else if let Some((key, rest)) = memcache::plain_get(input) {
                (context.handler.get_now::<true>(now, &requests.conn, key, &mut context.out), rest)
            } else {
                return input;
            };
        let request_bytes = input.len() - rest.len();
        let wait = match answer {
            Answer::Declined => return input,
            Answer::Gate { log, seq } => Wait::Gate { log, seq },
            Answer::Done => Wait::Nothing,
        };
        if !context.held.join(wait, request_bytes, &context.out) && context.out.mark() > mark {
            let executed = requests.executed(wait, request_bytes);
            context.held.push_next(&executed, &context.out, mark);
        }
        input = rest;
        if remaining.is_used_up(&context.out) {
            return input;
        }
    }
}
