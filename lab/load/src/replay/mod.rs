//! Replays: streams and recorded traces, sent as a cache-aside client would, for the hit ratio.
//!
//! ```text
//! list    the committed streams, by name                                            pure
//! trace   a stream as a sequence of steps, a function of its description alone      pure
//! record  recorded traces, one record after another                                 pure
//! source  where they are read from: files and pipes; unpack: Zstandard              the rim
//! feed    steps into batches                                                        pure
//! round   the answer to each request, over an exchange; outcome: what was counted   pure
//! client  batches sent to a server, every missed get followed by a set              the rim
//! walk    a trace carried out batch by batch; sampler: what the server holds        the rim
//! wire    a committed stream to a server; file: `load replay`; summary: its study   the rim
//! cli     `load hit-ratio`                                                          the rim
//! history the hit ratio over the course of a replay                                 pure
//! ```
//!
//! A step happens at a second of the stream's own clock. Where items expire, a replay keeps that
//! pace by the wall clock, so that two servers see the same lifetimes; elsewhere it does not wait.
//! Hits count from [`Trace::measured_from`] on, when the server is full.

mod cli;
mod client;
mod feed;
mod file;
mod history;
mod list;
mod outcome;
mod record;
mod round;
mod sampler;
mod source;
mod summary;
mod trace;
mod unpack;
mod walk;
mod wire;

pub use cli::HitRatioArgs;
pub use file::{EXAMPLES, ReplayArgs};
pub use history::History;
pub use list::{BASE, STREAMS, find};
pub use outcome::Outcome;
pub use record::{Columns, Form, Record, Records};
#[cfg(any(test, fuzzing))]
pub(crate) use round::{Checks, Round};
pub use trace::{Disturbance, Spec, Step, Trace};
#[doc(hidden)]
pub use unpack::Unpack;
pub use wire::replay;
