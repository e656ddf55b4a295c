//! What every other crate agrees on: the slice a key belongs to, the version an item carries,
//! the moment a call happens at, and the one budget all memory is taken from.
//!
//! Nothing here owns a thread, a socket, a file or a clock. Units are part of the names:
//! `_ns` nanoseconds, `_s` seconds, `_bytes` bytes.
#![forbid(unsafe_code)]

mod budget;
mod counter;
mod crc32;
mod slice;
mod time;
mod version;

pub use budget::{Budget, Grant, MemoryBudget, Owner};
pub use counter::Counter;
pub use slice::{KeyId, SLICE_BITS, SLICES, SliceId};
pub use time::Now;
pub use version::Version;
