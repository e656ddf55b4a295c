//! `cargo xtask prove path|lab|foundation|ring`: the promises, measured on this machine.
//!
//! A list of claims, each with its bar and the function that measures it. The report says claim,
//! bar, measured, verdict. What was not measured fails the proof as surely as what missed its bar.
//! The quick form ends within 25 minutes. `--long` runs the full bars and keeps what it measured
//! under `docs/proof/`, line by line, with commit, date and machine; the README's tables of
//! promises are made of that.
//!
//! Servers and generators are processes. The small client in `instruments` shares no code with
//! `load`, so that each can be checked by the other. It runs a fixed number of requests; for time
//! there are the generators.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `claim` | `lab` | a promise, its bar, and how it ended |
//! | `claims` | `claim`, `instruments`, `lab` | the claims by theme, and what measures each |
//! | `cli` | `claim`, `claims`, `lab`, `report` | the command: which claims, which form |
//! | `gate` | `claims`, `lab` | the claims that `cargo xtask check --full` holds too |
//! | `instruments` | `lab` | servers under test, clients, generators, counts per request |
//! | `lab` | nothing | the programs under test, cores, files, progress |
//! | `report` | `claim`, `lab` | one run, the results that are kept, the README's tables |
#![forbid(unsafe_code)]

mod claim;
mod claims;
mod cli;
mod gate;
mod instruments;
mod lab;
mod report;

pub use cli::{Args, run};
pub use gate::{calls, clients, discovery, instructions, power_cuts, shuttle};
