//! The map of the ring, and the commands that change it.

mod changes;
mod command;
mod ring_map;

#[cfg(test)]
mod apply_test;

pub use changes::changes;
pub use command::{Addresses, Command, Refusal, Stamp, Started, Verdict};
pub use ring_map::{CELLS_MAX, COPIES_MAX, Cell, EPOCHS_MAX, Map, Range};
