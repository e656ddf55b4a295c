//! Drivers move bytes between sockets and sessions, and know nothing of what the bytes mean.
//!
//! There are four, under one contract and one conformance suite: a few workers that epoll, signals
//! or io_uring tell what has happened, or a thread per client. Either way each handler belongs to
//! one thread, replies leave in the order of their requests,
//! [`Handler::end_batch`](session::Handler::end_batch) is called before anything is sent and before
//! anybody sleeps, and a [`Remote`] reaches every connection from any thread.
//!
//! Clocks are read here and nowhere below.
#![deny(unsafe_code)]

mod accept;
mod clock;
mod config;
mod counters;
mod epoll;
mod error;
mod info;
mod listen;
mod mailbox;
mod net;
mod outbox;
mod server;
mod shared;
mod signal;
mod threads;
mod uring;
mod workers;

pub use clock::Clock;
pub use config::{Config, Driver, Listen, THREADS_MAX, WORKERS_MAX};
pub use counters::Snapshot;
pub use error::StartError;
pub use info::{Report, State};
pub use listen::Address;
pub use server::{Server, Slot};
pub use shared::Remote;
pub use uring::probe as probe_uring;
