//! Processes: how a program is run to its end, and how a server is started, awaited and stopped.

pub mod cores;
pub mod exec;
pub mod instrument;
pub mod launch;
pub mod server;
pub mod tools;
