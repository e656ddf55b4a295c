//! What the binary is made of beside the data path: settings, command line, log, signals, process.
//!
//! ```text
//! cli -> config | memcached (flags) -> Loaded -> run -> process, logging, auth
//! ```
//!
//! [`cli::run`] reads the command line and lays the layers of settings over each other; `run`
//! prepares the process and serves until a signal ends it. This crate alone reads settings and the
//! environment, changes the process, and logs; no crate below it does.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `auth` | nothing | the file of users, and the check of a client's credentials |
//! | `cli` | `config`, `ctl`, `logging`, `memcached`, `run`, `up` | the commands, and which part each one calls |
//! | `config` | nothing | every setting: its type, its range, where its value came from |
//! | `ctl` | nothing | questions to a ring that runs |
//! | `logging` | `config` | the log of the cell |
//! | `memcached` | `config` | memcached's command line, and what `stats settings` answers |
//! | `process` | `config` | what happens to the process: limits, user, background, signals, files |
//! | `run` | `auth`, `config`, `logging`, `memcached`, `process` | settings become a running cell |
//! | `up` | nothing | a ring of processes on one machine |
#![forbid(unsafe_code)]

pub mod auth;
pub mod cli;
pub mod config;
mod ctl;
mod logging;
pub mod memcached;
mod process;
mod run;
mod up;

#[cfg(test)]
mod scratch;
