//! A cell as a member of its ring: whom it hears, what follows, and how long it may answer.

mod beats;
mod choice;
mod event;
mod leases;
mod moving;
mod newer;
mod peers;
mod proposals;
mod sealed;
mod state;
mod time;

#[cfg(test)]
mod member_test;

pub use beats::lost_after_ns;
pub use event::{Effect, Event, Granted, Heartbeat, Memory, Order, Outcome};
pub use leases::{BEAT_NS, FIRST_NS, LEASE_NS, LOST_NS, SHRINK_NS, SILENCE_NS};
pub use state::Member;
pub use time::APART_S;
