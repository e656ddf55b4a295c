//! The `signal` driver: workers that learn of events from real-time signals.
//!
//! ```text
//! socket --F_SETSIG--> queue of the worker's thread --sigtimedwait--> one event
//!                      queue full: SIGIO            ----------------> a scan of all connections
//! ```
//!
//! `signalled.rs` turns signals into events, `raw.rs` makes the system calls.

mod raw;
mod signalled;

pub(crate) use signalled::Signalled;
