//! One connection without a socket: bytes in, replies out, in the order of the requests.
//!
//! A driver hands a [`Session`] what it received and sends what appears in the [`Reply`]; a
//! [`Handler`] executes each request. The session owns the three things between them: the
//! unfinished end of the input, the replies that may not leave yet, and the bounds of both.
//!
//! It never reads a socket or a clock and never knows what a request means. While nothing is
//! pending, requests are parsed where the driver received them and replies are appended where the
//! driver sends them from, so an idle connection owns no heap memory.
#![forbid(unsafe_code)]

mod bounds;
mod flow;
mod handler;
mod kept;
mod order;
mod reply;
mod run;
mod session;
mod tail;
mod ticket;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod session_test;

pub use bounds::{Bounds, Resources};
pub use flow::{Context, Flow, Want};
pub use handler::{BatchEnd, Cause, Handler, LogId, Outcome, Passed};
pub use reply::{Lent, Mark, Reply, Span};
pub use session::Session;
pub use ticket::{Conn, ConnId, Ticket, WorkerId};
