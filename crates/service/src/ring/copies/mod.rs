//! Copies: at a primary, who reads its logs, and how far; at a copy, what it has applied of the
//! logs of others, what it keeps of them, and how much room it promises.
//!
//! To read it, begin with `copy` and `origin`, the two ends of a stream; then `room`. `kept`,
//! `tail` and `exchange` are for three copies.

mod copy;
mod exchange;
mod kept;
mod origin;
mod room;
pub(super) mod settled;
pub(super) mod slice_state;
mod tail;

pub(super) use copy::{Copy, FIRST_BYTES, LEARNER_LATE_NS, has};
pub(super) use exchange::{Exchange, Exchanges, OldEntry};
pub(super) use origin::{Followed, Lane, Origin, Origins, READINGS_BITS};
pub(super) use room::{Promised, Room, StreamPromise};
#[cfg(test)]
pub(super) use tail::Reach;
pub(super) use tail::{ENTRY_KIND, REACH_KIND, Tail};

/// The number of the entries in a log that say which keys were written back.
pub(crate) const WRITTEN_BACK_KIND: u8 = 7;
