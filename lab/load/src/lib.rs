//! The load generator: the instrument that proves every claim about speed.
//!
//! Honest: in an open loop latency counts from the moment a request was due, however late it is
//! sent. Cheap: one `recv`, one `send` and one look at the clock per readable event. Repeatable:
//! what a thread requests, and when, is a function of the seed.
//!
//! `workload` to `tally` are pure: no socket, no clock, no thread. `drive`, `server`, `replay` and
//! `cli` are the rim.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `workload` | nothing | what is requested: a seeded stream of requests, keys and values |
//! | `protocol` | `workload` | requests as bytes, replies as tokens |
//! | `rate` | nothing | how many requests per second are due, and how that changes |
//! | `schedule` | `rate` | when requests of an open loop are due, whatever the server does |
//! | `ladder` | `rate` | how far a rate is raised before throughput is called flat |
//! | `timeline` | nothing | replies by time |
//! | `by_time` | nothing | latencies by time |
//! | `tally` | `by_time`, `timeline` | counts and latencies |
//! | `exchange` | `workload`, `protocol`, `tally` | one connection without its socket: every reply checked |
//! | `server` | nothing | what the server states, and its CPU time |
//! | `drive` | `exchange`, `protocol`, `rate`, `schedule`, `server`, `tally`, `workload` | threads, sockets and clocks |
//! | `progress` | `drive` | the line on a terminal |
//! | `conclusion` | `by_time`, `drive`, `rate`, `schedule`, `tally` | the report of a run, the study of several, as text, JSON, CSV and HTML |
//! | `replay` | `conclusion`, `drive`, `exchange`, `progress`, `protocol`, `server`, `tally`, `workload` | streams and traces, for the hit ratio of a server that evicts |
//! | `cli` | `conclusion`, `drive`, `ladder`, `progress`, `protocol`, `rate`, `replay`, `schedule`, `server`, `workload` | settings and commands |
#![forbid(unsafe_code)]

mod by_time;
pub mod cli;
pub mod conclusion;
pub mod drive;
mod exchange;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
#[path = "../../../fuzz/load.rs"]
pub mod fuzzing;
pub mod ladder;
mod progress;
pub mod protocol;
pub mod rate;
pub mod replay;
pub mod schedule;
mod server;
mod tally;
pub mod timeline;
pub mod workload;

pub use server::ask;
pub use tally::{Kind, Requests, Tally, Totals};
