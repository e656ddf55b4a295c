//! Servers that stand in for others, each exact in one thing: its delays, its bytes, its policy,
//! its faults.
//!
//! They answer as much of the protocol as one experiment needs, and nothing of the product is
//! linked. Each runs on one thread with one epoll loop until its caller sets a flag; the proxy has
//! a thread for each connection. Sizes are bytes; times are in the unit that a name ends with.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `listener` | nothing | a listening socket and its connections in one epoll loop |
//! | `fixed` | `listener` | messages of one length answered by messages of one length |
//! | `delayed` | `listener` | a server whose delays are stated |
//! | `null_server` | `listener`, `fixed` | the floor for a server: bytes moved |
//! | `pingpong` | `listener`, `fixed` | the floor for the generator |
//! | `policy` | nothing | a cache of items by LRU, FIFO or S3-FIFO |
//! | `exact` | `listener`, `policy` | a cache server whose policy is exact |
//! | `proxy` | nothing | a proxy that makes a service of HTTP faulty |
#![forbid(unsafe_code)]

pub mod delayed;
pub mod exact;
mod fixed;
mod listener;
pub mod null_server;
pub mod pingpong;
pub mod policy;
pub mod proxy;
