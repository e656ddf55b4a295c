//! What a session tells its driver, and what it works with.
//!
//! ```text
//!            input used up                 bound of requests
//!   +------------------------- Idle ----------------------------> Again --resume--+
//!   |                           | |                                               |
//!   |  receive                  | +-- bound of output --> Full --resume (sent)----+
//!   +---------------------------+ +-- bound of pending -> Waiting --release-> Again
//!                               |
//!                               +-- quit, refusal ------> Close (once nothing waits)
//!                               +-- gate in doubt ------> Drop
//! ```

use base::{Grant, Now, Owner};

use crate::bounds::ROOM_ATTEMPTS_MAX;
use crate::{BatchEnd, Handler, Reply, Resources};

/// What the session needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More input.
    Idle,
    /// [`Session::resume`](crate::Session::resume), after other connections had their turn.
    Again,
    /// [`Session::resume`](crate::Session::resume), after its output was sent.
    Full,
    /// [`Session::release`](crate::Session::release), when a completion or a mark of a log arrives.
    Waiting,
    /// The end, after its output was sent.
    Close,
    /// The end at once; its output must not be sent.
    Drop,
}

/// Whether the driver should read from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// It should.
    Read,
    /// It should not: what was read has not been dealt with.
    Pause,
}

/// What every session of a worker works with, one after the other.
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
    /// `bytes` of the budget for replies that a client has not taken yet. Where it has no room the
    /// handler makes some, in a batch of its own: that of the replies has ended. `None` when there
    /// is no room to be had, or when the gate is in doubt.
    pub fn grant(&mut self, bytes: u64) -> Option<Grant> {
        let grant = self.room(bytes);
        match self.handler.end_batch(self.now) {
            BatchEnd::Send => grant,
            BatchEnd::Drop => None,
        }
    }

    fn room(&mut self, bytes: u64) -> Option<Grant> {
        for _ in 0..ROOM_ATTEMPTS_MAX {
            let grant = self.resources.budget.take(Owner::Connections, bytes);
            if grant.is_some() || !self.handler.make_room(self.now, bytes) {
                return grant;
            }
        }
        self.resources.budget.take(Owner::Connections, bytes)
    }
}
