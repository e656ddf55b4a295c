//! What a session needs its driver to do next.
//!
//! ```text
//!            input used up                 bound of requests
//!   +------------------------- Idle ----------------------------> Again --resume--+
//!   |                           | |                                               |
//!   |  receive                  | +-- bound of output --> Full --resume (sent)----+
//!   +---------------------------+ +-- bound of pending -> Waiting --release-> Again
//!                               |                          +-- parts leave --> Full --+
//!                               |                          +--- resume (sent) -------+
//!                               +-- request parks ----> Parked --resume (later)---> Idle
//!                               +-- quit, refusal ------> Close (once nothing waits)
//!                               +-- gate in doubt ------> Drop
//!                               +-- reply overdue whose first part has left ---> Close
//! ```
//!
//! Only `Idle` takes input. `Close` and `Drop` are final.

/// What the session needs next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More input.
    Idle,
    /// [`Session::resume`](crate::Session::resume), after other connections had their turn.
    Again,
    /// [`Session::resume`](crate::Session::resume), after its output was sent. It waits for replies
    /// or takes in more requests then.
    Full,
    /// [`Session::release`](crate::Session::release), when a completion or a mark of a log arrives.
    Waiting,
    /// [`Session::resume`](crate::Session::resume), a little later: its next request cannot run
    /// now. Replies to earlier ones may still leave.
    Parked,
    /// The end, after its output was sent.
    Close,
    /// The end at once; its output must not be sent.
    Drop,
}
