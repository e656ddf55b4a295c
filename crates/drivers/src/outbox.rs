//! What a client did not take yet.

use base::Grant;
use session::{Context, Handler, Reply, Span};

/// Bytes of unsent replies that every connection may hold without asking the budget.
const FREE_BYTES: u64 = 2 << 10;

/// Replies that wait until their client takes more.
pub(crate) struct Outbox {
    pub(crate) reply: Reply,
    pub(crate) span: Span,
    _grant: Option<Grant>,
}

impl Outbox {
    /// Keeps `reply`; `None` when the budget has no room for it.
    pub(crate) fn keep<H: Handler>(reply: Reply, context: &mut Context<H>) -> Option<Box<Self>> {
        let grant = match reply.heap_bytes() as u64 {
            ..=FREE_BYTES => None,
            bytes => Some(context.grant(bytes)?),
        };
        let span = reply.whole();
        Some(Box::new(Self { reply, span, _grant: grant }))
    }
}
