//! Executes requests: what a command means, in terms of the engine.
//!
//! All threads share one [`Cell`]. Each worker has a [`Service`], which implements the session's
//! `Handler`. To read the code, begin with `cell` and `worker`, then `service` (where every request
//! arrives), `retrieve` and `store` (the classic commands), `meta`, and at last `stats`, `admin`
//! and `dump`.
//!
//! Nothing here owns a socket, a clock or a thread. What only the process can know or do is behind
//! the trait [`Host`].
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `counters` | nothing | what a worker counts |
//! | `host` | nothing | what the service needs from its process |
//! | `leases` | nothing | the engine's locals, leased to workers |
//! | `cell` | `counters`, `host`, `leases` | what all workers share |
//! | `worker` | `cell`, `counters` | what a worker executes requests with |
//! | `facts` | nothing | what replies return about an item |
//! | `retrieve` | `worker` | `get`, `gets`, `gat`, `gats` |
//! | `store` | `worker` | the other classic commands |
//! | `meta` | `facts`, `store`, `worker` | the meta commands |
//! | `auth` | `worker` | the password before the first request |
//! | `dump` | `facts`, `worker` | lists of keys |
//! | `stats` | `cell`, `dump`, `worker` | the reports |
//! | `admin` | `dump`, `facts`, `stats`, `worker` | commands about the cell |
//! | `service` | `admin`, `auth`, `cell`, `meta`, `retrieve`, `store`, `worker` | the handler |
#![forbid(unsafe_code)]

mod admin;
mod auth;
mod cell;
mod counters;
mod dump;
mod facts;
mod host;
mod leases;
mod meta;
mod retrieve;
mod service;
mod stats;
mod store;
mod worker;

pub use cell::{Authenticate, Cell, Options};
pub use counters::Counters;
pub use host::{ConnectionReport, Connections, Host, Rusage};
pub use service::Service;
