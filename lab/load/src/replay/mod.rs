//! Hit ratio: streams that test what a cache keeps, replayed as a cache-aside client would.
//!
//! ```text
//! list    the committed streams, by name                                            pure
//! trace   a stream as a sequence of steps, a function of its description alone      pure
//! round   each reply held against its request; outcome: what was counted             pure
//! client  batches sent to a server, every missed get followed by a set              the rim
//! wire    the steps of a stream through the client, at their pace                   the rim
//! file    a trace replayed: feed makes batches, walk carries them out, line shows how
//!         far it is, summary says what was found                                    the rim
//! cli     which stream goes where: to a server, or to a file                        the rim
//! record  traces of others, read one record after another                            pure
//! source  where they are read from: files and pipes; unpack: Zstandard              the rim
//! history the hit ratio over the course of a replay                                 pure
//! ```
//!
//! A step happens at a second of the stream's own clock. Where items expire, the wire keeps that
//! pace by the wall clock, so that two servers see the same lifetimes; where none do, it does not
//! wait. Hits are counted from [`Trace::measured_from`] on, when the server has filled.

mod cli;
mod client;
mod feed;
mod file;
mod history;
mod line;
mod list;
mod outcome;
mod record;
pub(crate) mod round;
mod source;
mod summary;
mod trace;
pub(crate) mod unpack;
mod walk;
mod wire;

pub use cli::HitRatioArgs;
pub use file::{EXAMPLES, ReplayArgs};
pub use history::History;
pub use list::{STREAMS, find};
pub use outcome::Outcome;
pub use record::{Columns, Form, Record, Records};
pub use trace::{Disturbance, Spec, Step, Trace};
pub use wire::replay;
