//! Processes: how a program is run to its end, and how a server is started, awaited and stopped.
//!
//! Every wait has a deadline. A process is ended by its own id, never by its name. Standard input
//! is closed for all of them.

pub mod cores;
pub mod emulators;
pub mod exec;
pub mod instrument;
pub mod launch;
pub mod server;
pub mod tools;

pub use cores::{CoreSet, Cores};
pub use exec::Exec;
pub use instrument::{ALLOCATIONS, Counts, INSTRUCTIONS, Instrument, per_request};
pub use launch::Launch;
pub use server::{Server, accepts};
