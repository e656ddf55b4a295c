//! What the sessions of a worker work with, one after the other: handler, moment, output, resources.
//!
//! A worker has one context for all its connections, so a session keeps no reference to any of it.

use base::{Grant, Now, Owner};

use crate::bounds::{ROOM_ATTEMPTS_MAX, Resources};
use crate::handler::{BatchEnd, Handler};
use crate::reply::Reply;

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
}

impl<H: Handler> Context<H> {
    /// Takes `bytes` of the budget for replies that a client has not taken yet. Where the budget
    /// refuses, the handler may make room, in a batch of its own: that of the replies has ended.
    /// `None` when there is no memory, or when the handler has lost the right to answer.
    pub fn grant(&mut self, bytes: u64) -> Option<Grant> {
        let grant = self.take(bytes);
        match self.handler.end_batch(self.now) {
            BatchEnd::Send => grant,
            BatchEnd::Drop => None,
        }
    }

    fn take(&mut self, bytes: u64) -> Option<Grant> {
        for _ in 0..ROOM_ATTEMPTS_MAX {
            let grant = self.resources.budget.take(Owner::Connections, bytes);
            if grant.is_some() || !self.handler.make_room(self.now, bytes) {
                return grant;
            }
        }
        self.resources.budget.take(Owner::Connections, bytes)
    }
}
