//! Sockets of clients: the address of a server, waiting for several connections, and networks that
//! can be cut.

pub mod namespaces;
pub mod poll;
pub mod target;
