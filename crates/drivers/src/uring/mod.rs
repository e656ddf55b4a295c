//! The `uring` driver: workers whose io_uring accepts and receives by itself, and sends the replies
//! of a batch in the same system call that waits.
//!
//! `completing.rs` turns completions into events, `raw.rs` owns the ring and its memory, `probe.rs`
//! finds out whether this system allows it.

mod completing;
mod probe;
mod raw;

pub(crate) use completing::Uring;
pub use probe::probe;
