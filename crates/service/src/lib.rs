//! Executes requests: what a command means, in terms of the engine.
//!
//! One [`Cell`] is shared by all threads; each worker has a [`Service`], which implements the
//! session's `Handler`. Reading order: `cell`, `worker` (the way of every request), `retrieve` and
//! `store` (the classic commands), `meta`, then `stats`, `admin` and `dump`.
//!
//! Nothing here owns a socket, a clock or a thread. What only the process can know or do is asked
//! of a [`Host`].
#![forbid(unsafe_code)]

mod admin;
mod auth;
mod cell;
mod counters;
mod dump;
mod host;
mod leases;
mod meta;
mod retrieve;
mod stats;
mod store;
mod worker;

pub use cell::{Authenticate, Cell, Options};
pub use counters::Counters;
pub use host::{ConnectionReport, Connections, Host, Rusage};
pub use leases::Leases;
pub use worker::Service;
