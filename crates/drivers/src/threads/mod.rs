//! A thread for each client, with blocking calls: the simplest server there is, and the one that
//! the others are compared with.
//!
//! ```text
//! acceptor  poll -> accept -> a thread with a handler and a mailbox of its own   (acceptor.rs)
//! client    recv -> parse and execute -> end_batch -> send                       (client.rs)
//!                -> while anything is pending: wait for messages instead of recv
//!                -> while its client takes little: wait until it takes more
//! ```
//!
//! Links to other cells are served by a worker of the driver `epoll`, worker 0, where there is a
//! listener for them. The threads of clients reach its handler by mail, and it answers them by
//! [`Remote::complete`](crate::Remote::complete).
//!
//! A thread that blocks on its socket is woken by shutting the socket down. So draining answers
//! what has arrived and gives up requests that are incomplete; the other drivers wait for their
//! rest.

mod acceptor;
mod client;

pub(crate) use acceptor::start;
