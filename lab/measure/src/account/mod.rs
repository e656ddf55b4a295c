//! What the kernel accounts: time and memory of a process, and the machine as a whole.

pub mod machine;
pub mod process;
pub mod waits;

pub use machine::{Machine, stolen_ns};
pub use process::{Account, descriptors, rss_bytes, rss_peak_bytes, written_bytes};
pub use waits::Waits;
