//! The load generator: the instrument by which every claim about speed is proved.
//!
//! ```text
//! workload   what is asked for: a seeded stream of (op, key, length, lifetime)      pure
//! protocol   requests as bytes, replies as tokens                                   pure
//! exchange   one connection: what was asked, what is owed, every reply checked      pure
//! rate       how many requests per second, and how that changes                     pure
//! ladder     how far a rate is raised before throughput is called flat               pure
//! schedule   when requests of an open loop are due, whatever the server does        pure
//! tally      counts and latencies; stats: means, medians, intervals                 pure
//! report     the conclusions, as text, JSON, CSV and one HTML page                  pure,
//!            but for its `outputs`, which write them
//! replay     committed streams, for the hit ratio of a server that evicts
//! drive      threads, sockets, clocks; server: its CPU time; cli: settings          the rim
//! double     a server whose delays are stated: the truth to hold reports against      the rim
//! pingpong, null_server: the floor that generator and server are held against
//! ```
//!
//! Honest: in an open loop latency counts from the moment a request was due, however late it
//! could be sent. Cheap: one `recv`, one `send` and one look at the clock per readable event.
//! Repeatable: what a thread asks for, and when, is a function of the seed.
#![forbid(unsafe_code)]

pub mod cli;
pub mod drive;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
pub mod ladder;
mod progress;
pub mod protocol;
pub mod rate;
pub mod replay;
pub mod report;
pub mod schedule;
mod server;
mod tally;
pub mod timeline;
pub mod workload;

pub use server::ask;
pub use tally::{Kind, Tally};
