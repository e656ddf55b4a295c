//! Drivers move bytes between sockets and sessions. They know nothing of what the bytes mean.
//!
//! There are four drivers, with one contract and one conformance suite. Three are a few workers
//! that learn of events from epoll, from signals or from io_uring; the fourth is a thread per
//! client. The contract: each handler belongs to one thread; replies leave in the order of their
//! requests; [`Handler::end_batch`](session::Handler::end_batch) is called before anything is sent
//! and before a thread sleeps; what the handler [orders](session::Order) is done before that; a
//! [`Remote`] reaches every connection from any thread.
//!
//! What serves a connection is chosen by the handler that accepts it ([`Serve`](session::Serve)): a
//! session, or one of several kinds. A connection that is no
//! [client](session::Connection::is_client) is a link, to another cell: a handler orders it, or it
//! is accepted at [`Listen::Links`]. The workers serve links beside clients; with a thread per
//! client, one worker serves all links.
//!
//! The clock is read here and in no crate below.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `clock` | nothing | the clock of the server |
//! | `config` | `clock` | settings of a server |
//! | `counters` | nothing | what a worker counts |
//! | `epoll` | `counters`, `workers` | events from epoll |
//! | `error` | nothing | why a server does not start |
//! | `outbox` | `clock`, `counters`, `sockets` | what a client did not take yet |
//! | `server` | * | starting and ending a server |
//! | `shared` | `clock`, `config`, `counters`, `sockets` | what the threads of a server share |
//! | `signal` | `counters`, `shared`, `workers` | events from real-time signals |
//! | `silence` | `config`, `counters` | how long a client may be silent |
//! | `sockets` | `config`, `counters`, `error` | listeners, accepted sockets, sending |
//! | `threads` | `clock`, `error`, `outbox`, `shared`, `silence`, `sockets` | a thread per client |
//! | `uring` | `counters`, `sockets`, `workers` | completions from io_uring |
//! | `workers` | `clock`, `counters`, `error`, `outbox`, `shared`, `silence`, `sockets` | the workers |
#![deny(unsafe_code)]

mod clock;
mod config;
mod counters;
mod epoll;
mod error;
mod outbox;
mod server;
mod shared;
mod signal;
mod silence;
mod sockets;
mod threads;
mod uring;
mod workers;

pub use clock::Clock;
pub use config::{Config, Driver, Listen, THREADS_MAX, WORKERS_MAX};
pub use counters::Snapshot;
pub use error::StartError;
pub use server::Server;
pub use shared::{Post, Remote, Slot};
pub use sockets::{Address, Report, State, check_free, close_kept, keep};
pub use uring::probe as probe_uring;
