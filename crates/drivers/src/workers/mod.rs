//! A few equal workers, each with its own connections, its own buffers and its own source of news.
//!
//! ```text
//! wait -> for each ready connection: one recv, parse and execute   (turn.rs)
//!      -> for each one that has more to do: the same               (again.rs)
//!      -> end_batch, then one send for each that answered          (turn.rs)
//!      -> what was not taken                                       (output.rs)
//!      -> mail, accepting, time-outs, drain       (worker.rs, accept.rs, tick.rs, drain.rs)
//! ```
//!
//! Drivers differ in their [`Source`] only: what tells them of news, and whether it receives and
//! sends by itself. A worker with nothing to do sleeps.

mod accept;
mod again;
mod client;
mod drain;
mod output;
mod source;
mod start;
mod tick;
mod turn;
mod worker;

pub(crate) use accept::KEY_LISTENERS;
pub(crate) use client::{Client, KEY_SPECIAL, Key};
pub(crate) use source::{Source, Unsent};
pub(crate) use start::start;
pub(crate) use turn::Received;
