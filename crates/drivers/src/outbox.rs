//! What a client did not take yet of its replies.
//!
//! It holds a copy of those bytes, so that the output buffer is free for the next batch; lent parts
//! stay lent. Its memory is taken from the budget, except for the first [`FREE_BYTES`] of each
//! connection. It never waits: what the socket does not take stays here.

use std::os::fd::BorrowedFd;

use base::Grant;
use session::{Context, Handler, Reply, Span};

use crate::clock::Clock;
use crate::counters::Counters;
use crate::sockets::{Sent, send_span};

/// Bytes of unsent replies that a connection may hold without asking the budget.
const FREE_BYTES: u64 = 2 << 10;

/// Replies that wait until their client takes more.
pub(crate) struct Outbox {
    reply: Reply,
    /// What is still to be sent.
    span: Span,
    _grant: Option<Grant>,
}

impl Outbox {
    /// Keeps `reply`; `None` when the budget has no memory for it.
    pub(crate) fn keep<H: Handler>(
        reply: Reply,
        context: &mut Context<H>,
        clock: &Clock,
    ) -> Option<Box<Self>> {
        let grant = match reply.heap_bytes() as u64 {
            ..=FREE_BYTES => None,
            bytes => Some(context.grant(bytes, || clock.now())?),
        };
        let span = reply.whole();
        Some(Box::new(Self { reply, span, _grant: grant }))
    }

    /// What is still to be sent.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Sends as much as the socket takes.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, counters: &Counters) -> Sent {
        let sent = send_span(fd, &mut self.reply, self.span, counters);
        if let Sent::Part(rest) = sent {
            self.span = rest;
        }
        sent
    }

    /// What is still to be sent, and `next` after it. Its memory goes back to the budget.
    pub(crate) fn into_reply_with(mut self, next: Reply) -> Reply {
        let mut rest = self.reply.detach(self.span);
        rest.append(next);
        rest
    }
}
