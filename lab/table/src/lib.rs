//! The lab: our server under four I/O styles and a memcached beside it, measured by one generator.
//!
//! Contestants that are compared are measured in turns within a cell, so that a drift of the
//! machine affects all alike. Every finding is written when it is made: an interrupted lab
//! continues where it was. The lab starts the servers itself, on free ports of the loopback, and
//! ends them by their process ids.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `plan` | nothing | what is measured, in which order, with which arguments; pure |
//! | `findings` | `plan` | what was measured: one file per finding, in a folder |
//! | `running` | `findings`, `plan` | the measurements: servers and the generator |
//! | `pages` | `findings`, `plan` | the report: rows, winners, tables, plots; pure |
//! | `cli` | `findings`, `pages`, `plan`, `running` | the command line |
//!
//! Units are in the names. Rates are requests per second, latencies microseconds, sizes bytes of a
//! value; a mix is gets to sets.
#![forbid(unsafe_code)]

mod cli;
mod findings;
mod pages;
mod plan;
mod running;

pub use cli::{LabArgs, run};
