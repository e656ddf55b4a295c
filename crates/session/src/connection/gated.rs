//! Replies to plain requests that wait for a gate: they stay in the output until the batch ends.
//!
//! Once a reply of a turn is held there, all that follow in the turn are noted behind it, so that
//! each can be moved to the queue with what it waits for. When something waits in the queue, the
//! replies that follow go there.

use super::flow::Flow;
use super::requests::{Remaining, Requests};
use crate::bounds::WAIT_NS_MAX;
use crate::context::Context;
use crate::handler::{Answer, Handler, Prompt};
use crate::pending::{Executed, Wait};
use crate::reply::{Mark, Span};

impl Remaining {
    /// Whether a reply of this turn is held in the output.
    pub(super) fn has_held<H>(&self, context: &Context<H>) -> bool {
        let begin = self.full_at - context.resources.bounds.output_bytes_max;
        context.held.last().is_some_and(|held| held.len_at >= begin)
    }
}

impl Requests {
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

    fn executed(&self, wait: Wait, request_bytes: usize) -> Executed {
        Executed { request: self.number, request_bytes, wait, due_ns: 0, begun: false }
    }

    /// Drops the replies to the `get`s that `input` begins with, up to the last `left` bytes, which
    /// stand in the output since `mark`, and executes them again, up to one whose reply waits.
    /// Returns what follows.
    #[cold]
    #[inline(never)]
    pub(super) fn run_gets_again<'i, H: Handler>(
        &mut self,
        (input, mark): (&'i [u8], Mark),
        left: usize,
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let lines =
            input[..input.len() - left].iter().filter(|byte| **byte == b'\n').count() as u32;
        context.out.rewind(mark);
        context.handler.executes_again(lines);
        remaining.requests += lines;
        self.run_gets::<H, true>(input, context, remaining)
    }

    /// Goes on with the turn when one of its replies is held; returns what is left of `rest`.
    #[inline(never)]
    pub(super) fn run_behind_gates<'i, H: Handler>(
        &mut self,
        mut rest: &'i [u8],
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let bounds = &context.resources.bounds;
        // What is held may have to be queued.
        remaining.full_at = remaining.full_at.min(context.out.len() + bounds.pending_bytes_max);
        remaining.requests = remaining.requests.min(bounds.pending_max as u32);
        while !rest.is_empty() && !self.is_stopped(context, remaining) {
            let before = rest.len();
            if self.prompt(context) != Prompt::No {
                rest = self.run_noted(rest, context, remaining);
            }
            if rest.len() == before {
                let Some(used) = self.run_any(rest, context) else { break };
                remaining.requests -= 1;
                rest = &rest[used..];
                if self.flow != Flow::Idle {
                    break;
                }
            }
        }
        rest
    }

    /// Executes each plain request that `input` begins with, up to one that the handler declines;
    /// returns what follows.
    fn run_noted<'i, H: Handler>(
        &mut self,
        mut input: &'i [u8],
        context: &mut Context<H>,
        remaining: &mut Remaining,
    ) -> &'i [u8] {
        let value_bytes_max = context.handler.limits(&self.conn).value_bytes_max;
        loop {
            let (now, mark) = (context.now, context.out.mark());
            let (answer, rest) =
                if let Some((store, rest)) = memcache::plain_store(input, value_bytes_max) {
                    (context.handler.store_now::<true>(now, &store, &mut context.out), rest)
                } else if let Some((key, rest)) = memcache::plain_get(input) {
                    (context.handler.get_now::<true>(now, key, &mut context.out), rest)
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
                let executed = self.executed(wait, request_bytes);
                context.held.push_next(&executed, &context.out, mark);
            }
            input = rest;
            if remaining.is_used_up(&context.out) {
                return input;
            }
        }
    }

    /// Queues what may not leave of `span`. Returns what may.
    pub(super) fn withhold<H: Handler>(&mut self, span: Span, context: &mut Context<H>) -> Span {
        let Context { handler, now, out, resources, spares, held } = context;
        let waits_already = self.pending.as_ref().is_some_and(|pending| pending.has_ahead());
        let leaving =
            if waits_already { span.cut_at(span.begin()).0 } else { held.leaving(span, handler) };
        if leaving == span {
            return span;
        }
        let pending = self.pending.get_or_insert_with(|| spares.take());
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
}
