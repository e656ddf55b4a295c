//! From checked settings to a cell that serves, until a signal ends it.
//!
//! ```text
//! serve: launch prepares the process -> driver chooses -> cell and server start -> startup reports
//! witness: the control plane of a cell alone
//! ```
//!
//! This room alone connects the crates: the budget, the engine, the service and the driver get
//! their settings here. It executes no request and moves no bytes.

mod database;
mod driver;
mod host;
mod keeping;
mod launch;
mod leaving;
mod member;
mod pace;
mod passed;
mod random;
mod repeats;
mod serve;
mod startup;
mod tier;
mod witness;

pub use launch::LaunchOptions;
pub use serve::serve;
pub use witness::{WantedWitness, witness};
