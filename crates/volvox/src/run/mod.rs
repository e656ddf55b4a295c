//! From checked settings to a cell that serves, until a signal ends it.
//!
//! ```text
//! serve -> launch (the process is prepared) -> driver (chosen) -> cell, server -> startup (said)
//! ```
//!
//! The only room that knows every other crate: it wires the budget, the engine's settings, the
//! service and the driver together. It holds no state of its own beyond the running cell.

mod driver;
mod host;
mod launch;
mod serve;
mod startup;

pub use launch::LaunchOptions;
pub use serve::serve;
