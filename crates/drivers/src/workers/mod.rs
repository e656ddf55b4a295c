//! N equal workers, each with its own connections, its own buffers and its own source of events.
//!
//! ```text
//! wait -> for each readable connection: one recv, parse and execute     (receiver.rs, client.rs)
//!      -> for each connection with more to do: the same                 (receiver.rs)
//!      -> what the handler has ordered                                  (sender.rs)
//!      -> end_batch, then one send for each connection that answered    (sender.rs)
//!      -> messages, accepting, time-outs, drain    (housekeeper.rs, acceptor.rs, timeouts.rs)
//! ```
//!
//! Drivers differ in their [`Source`] only: how they learn of events, and whether the source
//! receives and sends by itself. A worker with nothing to do sleeps.
//!
//! ```text
//! worker.rs       the loop; composes what follows, and each uses only files below it in this list
//! housekeeper.rs  messages from other threads, drain, the end; owns acceptor.rs and timeouts.rs
//! receiver.rs     owns the buffer: turns of connections
//! sender.rs       owns the connections and the replies of the batch: sends them, or keeps them
//! connections.rs  the open connections and what every step needs: opening, closing, what is next
//! waits.rs        what connections wait for: logs, deadlines, another try
//! connects.rs     connections that are under way
//! source.rs       events; clients.rs, client.rs, key.rs  the connections themselves
//! ```

mod acceptor;
mod client;
mod clients;
mod connections;
mod connects;
mod housekeeper;
mod key;
mod receiver;
mod sender;
mod source;
mod spawn;
mod timeouts;
mod waits;
mod worker;

pub(crate) use client::{Client, Received, Turn};
pub(crate) use key::{KEY_CONNECTS, KEY_LISTENERS, KEY_SPECIAL, Key};
pub(crate) use source::{Source, Unsent};
pub(crate) use spawn::{all_or_none, start};
