//! The map of the ring, and the commands that change it.

mod apply;
mod changes;
mod command;
mod ring_map;

#[cfg(test)]
mod apply_test;

pub use changes::changes;
pub use command::{Command, Refusal, Stamp, Verdict};
pub use ring_map::{Addresses, CELLS_MAX, COPIES_MAX, Cell, EPOCHS_MAX, Map, Range, Started};
