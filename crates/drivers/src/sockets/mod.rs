//! Sockets: where clients connect, what is known of an open one, and how bytes are sent.
//!
//! Nothing here knows of workers, sessions' order or time-outs.

mod address;
mod info;
mod listener;
mod send;

pub use address::Address;
pub(crate) use info::ConnectionInfo;
pub use info::{Report, State};
pub(crate) use listener::{Accepted, Listener};
pub(crate) use send::{Sent, send_span, sent};
