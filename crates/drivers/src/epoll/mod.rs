//! A few equal workers, each with its own epoll, its own connections and its own buffers.
//!
//! ```text
//! wait -> for each ready connection: one recv, parse and execute   (step.rs)
//!      -> for each one that has more to do: the same
//!      -> end_batch, then one send for each that answered          (output.rs)
//!      -> mail, accepting, time-outs, drain       (worker.rs, accept.rs, tick.rs, drain.rs)
//! ```
//!
//! Sockets are registered once, edge-triggered. A `recv` that did not fill its buffer has emptied
//! the socket, so nothing is received again before the next event, and epoll is touched again only
//! when a client takes too little of its replies. A worker with nothing to do sleeps.

mod accept;
mod client;
mod drain;
mod output;
mod start;
mod step;
mod tick;
mod worker;

pub(crate) use start::start;
