//! The map of the ring, and the commands that change it.

mod below;
mod change;
mod changes;
mod command;
mod division;
mod edition;
mod evenness;
mod flushes;
mod leaving;
mod range;
mod ring_map;

#[cfg(test)]
mod apply_test;
#[cfg(test)]
mod below_test;
#[cfg(test)]
mod removal_test;

pub use below::{Ack, Below, OtherBelow};
pub use change::{CHANGES_MAX, Change};
pub use command::{Addresses, Command, Refusal, Stamp, Started, Verdict, Why};
pub use division::Division;
pub use edition::EDITION;
pub(crate) use evenness::{Uneven, uneven};
pub use flushes::{Flush, Flushes};
pub use leaving::Leaving;
pub use range::{EPOCHS_MAX, Range};
pub use ring_map::{CELLS_MAX, COPIES_MAX, Cell, LED_MAX, Map, ORDERED_MAX, RANGES_MAX};
