//! What the binary is made of beside the data path: settings, command line, log, signals, process.
//!
//! ```text
//! cli -> config | memcached (flags) -> Loaded -> launch::prepare -> Launch -> serve
//! ```
//!
//! [`cli::run`] reads the command line and prepares the process; the function it is given then
//! serves, with a [`launch::Launch`] in hand: the settings, the users, the log and the signals.
//! This crate alone reads settings and the environment, changes the process, and logs; nothing
//! below it does.
#![forbid(unsafe_code)]

pub mod auth;
pub mod cli;
pub mod config;
pub mod daemon;
mod driver;
mod host;
pub mod launch;
pub mod logging;
pub mod memcached;
pub mod originals;
pub mod process;
pub mod run_files;
mod serve;
pub mod signals;
mod startup;

#[cfg(test)]
mod committed;
#[cfg(test)]
mod scratch;
