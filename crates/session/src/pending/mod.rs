//! Replies that may not leave yet: the queue of a connection, and the queues that a worker keeps
//! for connections that will wait.
//!
//! ```text
//! queue.rs    the replies of one connection, in the order of its requests
//! entry.rs    one place in that order
//! held.rs     replies that wait in the output of the present batch, until its end
//! spares.rs   queues of connections that wait no longer, to be used again
//! ```

mod entry;
mod held;
mod queue;
mod spares;

pub(crate) use entry::{Executed, Wait};
pub(crate) use held::Held;
pub(crate) use queue::{Ended, Pending};
pub(crate) use spares::Spares;
