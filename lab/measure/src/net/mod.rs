//! Sockets of clients: the address of a server, and waiting for several connections.

pub mod poll;
pub mod target;
