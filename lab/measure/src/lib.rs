//! What every measurement needs: programs to run, servers to start, counts, statistics, a screen.
//!
//! Servers and generators are processes. This crate links nothing of the product: what it reports
//! comes from the kernel, an instrument or a socket.
//!
//! Everything that two parts of the laboratory need has its one home here. A program that is run
//! has a deadline, a server that is started is ended by its own id, a run that is seeded gives the
//! same numbers on every machine.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `account` | nothing | what the kernel counts of a process and of the machine |
//! | `clock` | nothing | the clock that processes share |
//! | `error` | nothing | why a client's socket or setting fails |
//! | `net` | `error`, `process` | the address of a server, waiting for several connections, networks that can be cut |
//! | `process` | nothing | programs with a deadline, servers, instruments, tools, cores |
//! | `repo` | `process` | where the repository is and what state it is in |
//! | `rng` | nothing | the one seeded source of numbers |
//! | `screen` | `process`, `repo` | tables, progress, work in parts |
//! | `stats` | nothing | summaries, intervals, turns |
//! | `units` | nothing | times and counts as people write them |
#![forbid(unsafe_code)]

pub mod account;
pub mod clock;
mod error;
pub mod net;
pub mod process;
pub mod repo;
pub mod rng;
pub mod screen;
pub mod stats;
pub mod units;

pub use error::Error;
pub use net::{namespaces, poll, target, target::Target};
pub use process::{exec, tools};
pub use screen::stages;
