//! A ring of real processes, and what its cells say of it.

mod map;
mod process;

#[cfg(test)]
pub use map::RangeOf;
pub use map::RingMap;
pub use process::Ring;
