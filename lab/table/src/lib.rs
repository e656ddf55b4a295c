//! The lab: one cell under four I/O styles, and a memcached beside it, measured by one generator.
//!
//! ```text
//! contestant, form   who is measured, and how thoroughly                          pure
//! instrument         which programs count what a request costs                    pure
//! plan               the measurements in their order, with their settings         pure
//! finding, subject   what a measurement brought; what a report is a report of     pure
//! table, column, verdict     every cell of the table; who wins where, and why     pure
//! document, markdown, page   the report as JSON, CSV, Markdown and one HTML page  pure
//! host, pin, probe, count, store, measure, run                                    the rim
//! ```
//!
//! Contestants that are compared take turns within a cell, so that a drift of the machine falls on
//! all alike. Every finding is written when it is made: an interrupted lab goes on where it was.
//! It starts the servers itself, on free ports of the loopback, and ends them by their id.
#![forbid(unsafe_code)]

mod cli;
mod column;
mod contestant;
mod count;
mod counters;
mod document;
mod error;
mod finding;
mod form;
mod host;
mod instrument;
mod machine;
mod markdown;
mod measure;
mod page;
mod pictures;
mod pin;
mod plan;
mod probe;
mod progress;
mod run;
mod store;
mod subject;
mod table;
mod verdict;

pub use cli::{LabArgs, run};
pub use error::Error;
