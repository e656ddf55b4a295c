//! Replies that may not leave yet: the queue of a connection, and the queues that a worker keeps
//! for connections that will wait.
//!
//! ```text
//! queue.rs    the replies of one connection, in the order of its requests
//! entry.rs    one place in that order
//! spares.rs   queues of connections that wait no longer, to be used again
//! ```

mod entry;
mod queue;
mod spares;

pub(crate) use entry::{Executed, Wait};
pub(crate) use queue::{Ended, Pending};
pub(crate) use spares::Spares;
