//! What people see on a terminal: tables, progress, work in parts.

mod progress;
pub mod stages;
mod table;

pub use progress::{Line, Progress};
pub use table::{Cell, Table, Tone, paint};
