//! One connection without a socket: bytes in, replies out, in the order of the requests.
//!
//! A driver hands a [`Session`] what it received and sends what appears in the [`Reply`]; a
//! [`Handler`] executes each request. The session owns what lies between: the unfinished end of the
//! input, the replies that may not leave yet, and the bounds of both.
//!
//! It never reads a socket or a clock and never knows what a request means. While nothing is
//! pending, requests are parsed where the driver received them, and replies are appended where the
//! driver sends them from. So an idle connection owns no heap memory.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `bounds` | nothing | how much one connection may hold |
//! | `completions` | `ids` | replies that have come by their tickets |
//! | `connection` | `bounds`, `context`, `handler`, `ids`, `pending`, `reply` | the session |
//! | `context` | `bounds`, `handler`, `pending`, `reply` | what sessions work with |
//! | `handler` | `completions`, `ids`, `reply` | what executes requests |
//! | `ids` | nothing | identities of workers, connections, requests |
//! | `pending` | `bounds`, `handler`, `ids`, `reply` | replies that may not leave yet |
//! | `reply` | nothing | output |
//! | `serve` | `bounds`, `connection`, `context`, `handler`, `ids`, `reply` | what drivers serve |
#![forbid(unsafe_code)]

mod bounds;
mod completions;
mod connection;
mod context;
mod handler;
mod ids;
mod pending;
mod reply;
mod serve;

pub use bounds::{Bounds, Resources, WAIT_NS_MAX};
pub use completions::Completions;
pub use connection::{Flow, Session};
pub use context::Context;
pub use handler::{
    Answer, BatchEnd, Cause, Handler, LogId, Order, Outcome, Passed, Plain, Prompt, Taken,
    ValueStart, Waited,
};
pub use ids::{Conn, ConnId, Copies, Ticket, WorkerId};
pub use reply::{Lent, Mark, Reply, Span};
pub use serve::{Connection, Serve};
