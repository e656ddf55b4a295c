//! A ring of real processes, what its cells say of it, and clients that see it through faults.
//!
//! `load` is a verified load: each of its clients knows what its keys may hold. `probe` sends
//! requests for the keys that a fault concerns, whether or not earlier ones are answered.

mod answered;
mod load;
mod map;
mod probe;
mod process;

pub use answered::{Answered, Ended};
pub use load::Client as LoadClient;
#[cfg(test)]
pub use map::RangeOf;
pub use map::RingMap;
pub use probe::{Probe, Stream};
pub use process::{Cell, Ring};
