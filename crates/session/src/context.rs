//! What the sessions of a worker work with, one after the other: handler, moment, output,
//! resources.
//!
//! A worker has one context for all its connections, so a session keeps no reference to any of it.

use base::{Grant, Now, Owner};

use crate::bounds::{ROOM_ATTEMPTS_MAX, Resources};
use crate::handler::{BatchEnd, Handler};
use crate::pending::{Held, Spares};
use crate::reply::{Mark, Reply};

/// What every session of a worker works with.
pub struct Context<H> {
    /// Executes the requests.
    pub handler: H,
    /// The moment of the batch.
    pub now: Now,
    /// Where replies are appended.
    pub out: Reply,
    /// Bounds and budget.
    pub resources: Resources,
    /// Queues for the connections that begin to wait.
    pub(crate) spares: Spares,
    /// Replies in the output that wait for a gate.
    pub(crate) held: Held,
    /// A session has kept input since [`Context::take_kept`].
    pub(crate) kept: bool,
}

impl<H: Handler> Context<H> {
    /// What the sessions of `handler` work with, at the moment `now`.
    pub fn new(handler: H, now: Now, resources: Resources) -> Self {
        let (spares, held) = (Spares::default(), Held::default());
        Self { handler, now, out: Reply::new(), resources, spares, held, kept: false }
    }

    /// Whether a session has kept input since [`Context::take_kept`], so that it may
    /// [await the rest](crate::Session::awaits_rest) of a request.
    pub fn has_kept(&self) -> bool {
        self.kept
    }

    /// The same, and forgets it.
    pub fn take_kept(&mut self) -> bool {
        std::mem::take(&mut self.kept)
    }

    /// Whether replies in the output wait for a gate. When the batch has ended, and before anything
    /// is sent, [`Context::held_may_leave`] follows.
    #[inline(always)]
    pub fn has_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether all gates have passed that replies in the output wait for. If so, they may leave.
    /// Otherwise [`Session::withhold`](crate::Session::withhold) follows for each connection that
    /// has something to send, and then [`Context::forget_held`].
    pub fn held_may_leave(&mut self) -> bool {
        let may_leave = self.held.has_passed(&self.handler);
        if may_leave {
            self.held.clear();
        }
        may_leave
    }

    /// Nothing in the output waits for a gate any more: it has left the output, or is dropped.
    pub fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Forgets what was appended to the output since `mark`.
    pub fn drop_since(&mut self, mark: Mark) {
        self.out.rewind(mark);
        self.held.cut(mark);
    }

    /// Takes `bytes` of the budget for replies that a client has not taken yet. Where the budget
    /// refuses, the handler may make room, in a batch of its own: that of the replies has ended.
    /// `None` when there is no memory, or when the handler has lost the right to answer. `fresh`
    /// reads the clock.
    pub fn grant(&mut self, bytes: u64, fresh: impl Fn() -> Now) -> Option<Grant> {
        let grant = self
            .with_room(|resources| resources.budget.take(Owner::Connections, bytes).ok_or(bytes));
        match self.handler.end_batch(self.now, fresh) {
            BatchEnd::Send => grant.ok(),
            BatchEnd::Drop => None,
        }
    }

    /// Tries to reserve memory. While that is refused, with the bytes that were refused, and the
    /// handler can make room, tries again.
    pub(crate) fn with_room<T>(
        &mut self,
        mut reserve: impl FnMut(&Resources) -> Result<T, u64>,
    ) -> Result<T, u64> {
        for _ in 0..ROOM_ATTEMPTS_MAX {
            match reserve(&self.resources) {
                Err(bytes) if self.handler.make_room(self.now, bytes) => {}
                result => return result,
            }
        }
        reserve(&self.resources)
    }
}
