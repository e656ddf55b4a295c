//! The process as the system sees it: limits, user, memory, signals, terminal, and the files by
//! which other programs find it.
//!
//! Each function changes one thing, once, at start. What the system refuses is an error that names
//! the limit and the remedy. Nothing here knows what the process serves.

mod again;
mod daemon;
mod files;
mod limits;
mod signals;

pub use again::Program;
pub use daemon::{Announcement, Stage, split};
pub use files::{PORT_FILE_VARIABLE, PidFile, write_ports};
pub use limits::{allow_connections, allow_core_dumps, become_user, lock_memory, machine_bytes};
pub use signals::{Closer, Request, Signals};
