//! Sockets: where clients connect, how links are opened, what is known of an open connection, and
//! how bytes are sent.
//!
//! Nothing here knows of workers, sessions' order or time-outs.

mod address;
mod connect;
mod info;
mod kept;
mod listener;
mod send;
mod stream;

pub use address::Address;
pub(crate) use connect::{Connected, connected, link_info, start_connect};
pub(crate) use info::ConnectionInfo;
pub use info::{Report, State};
pub use kept::{close_kept, keep};
pub use listener::check_free;
pub(crate) use listener::{Accepted, Listener};
pub(crate) use send::{Sent, send_span, sent};
