//! The ring: which cell owns which slices, and what follows when a cell falls silent.
//!
//! Nothing here owns a thread, a socket, a file or a clock. The map changes only by commands, which
//! all cells apply in one order; a member takes events and the time, and says what is to be done.
//!
//! ```text
//! heartbeats, resets, time --> Member --effects--> heartbeats, proposals
//!                                ^                        |
//!                                |                        v
//!                               map <--apply-- commands in the order of the coordinator
//! ```
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `ids` | nothing | the identities of cells, their lives and ranges |
//! | `consistency` | nothing | what a reply of the ring means |
//! | `agreement` | `ids` | which agreement counts, after one was recovered |
//! | `map` | `consistency`, `ids` | the map of the ring, and the commands that change it |
//! | `member` | `agreement`, `ids`, `map` | a cell of the ring: whom it hears, what follows, how long it may answer |
//! | `outlook` | `ids` | what a cell sees of the others, for reports |
#![forbid(unsafe_code)]

mod agreement;
mod consistency;
mod ids;
mod map;
mod member;
mod outlook;

pub use agreement::{Agreement, RECOVERIES_MAX};
pub use consistency::{Consistency, Durability, Reads, UnknownToken};
pub use ids::{CellId, Incarnation, RangeId};
pub use map::{
    Ack, Addresses, Below, CELLS_MAX, CHANGES_MAX, COPIES_MAX, Cell, Change, Command, Division,
    EDITION, EPOCHS_MAX, Flush, Flushes, LED_MAX, Leaving, Map, ORDERED_MAX, OtherBelow,
    RANGES_MAX, Range, Refusal, Stamp, Started, Verdict, Why,
};
pub use member::{
    APART_S, BEAT_NS, Effect, Event, FIRST_NS, Granted, Heartbeat, LEASE_NS, LOST_NS, Member,
    Memory, Order, Outcome, SHRINK_NS, SILENCE_NS, lost_after_ns,
};
pub use outlook::{Learned, Outlook};
