//! `load honesty`: the generator against servers whose behaviour is known.
//!
//! ```text
//! frozen       a server that freezes for 1 s in every 10: an open loop must show it, and a closed
//!              loop beside it shows how it would be hidden
//! delays       a server that delays each reply by a stated time from 5 to 50 ms: the reported
//!              percentiles must be the stated ones
//! bottleneck   a server that only moves bytes: beyond its own limit the generator must say that it
//!              is the bottleneck, and below 80 % of its CPU it must not be at fault
//! ```

mod bottleneck;
mod command;
mod statement;

pub(super) use command::EXAMPLES;
pub use command::{HonestyArgs, Part};
