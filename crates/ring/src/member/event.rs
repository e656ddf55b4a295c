//! What a member is given, and what it wants done.

use crate::ids::{CellId, Incarnation, RangeId};
use crate::map::{Command, Division, Map, Stamp, Verdict};
use std::sync::Arc;

/// What cells say to each other, at the latest every 50 ms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// When it was sent, on the clock of the sender.
    pub sent_ns: u64,
    /// The receiver's own [`Heartbeat::sent_ns`] that the sender has heard last, by which it grants
    /// a lease. 0: it grants none.
    pub echo_ns: u64,
    /// The same, even where it grants none: how the receiver knows that it is heard.
    pub heard_ns: u64,
    /// The version of the sender's map.
    pub map_version: u64,
    /// In the map of this version, or a later one, the sender holds nothing but what it is in sync
    /// with: it is ready to learn.
    pub ready_version: u64,
    /// Memory that is free at the sender, in bytes; 0 also if it does not say so.
    pub free_bytes: u64,
    /// The sender's second of the expiry clock, which has begun there; 0 if it does not know the
    /// time of the ring.
    pub expiry_s: u32,
    /// The latest second that requests were shown at the sender; 0 also if it does not say so.
    pub shown_s: u32,
    /// Whether the sender may answer now for all that it leads and the receiver copies.
    pub serves: bool,
    /// The cells whose links are broken, as the sender sees it.
    pub suspects: Vec<CellId>,
}

/// What a primary has granted a cell that copies its changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    /// When the copy has sent the latest of its heartbeats that the primary had when it might
    /// answer, and still waited for the copy, in nanoseconds of the copy's monotonic clock; 0:
    /// none. So the copy has all that was confirmed before, and nobody else has confirmed anything.
    pub from_ns: u64,
    /// The version of the map by which the copy counts that.
    pub map_version: u64,
    /// A second that the primary has shown; 0 if it has not said so.
    pub shown_s: u32,
    /// The primary has shown no later second than this.
    pub may_show_s: u32,
}

/// What a cell holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// That items and copies may still take.
    pub free_bytes: u64,
    /// That they have taken.
    pub used_bytes: u64,
    /// Nothing is evicted. All cells of a ring do the same.
    pub keeps_all: bool,
}

/// What an operator wants of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// All copies of it are lost: it is to begin again.
    Forgive {
        /// The range, as the operator has seen it.
        at: Stamp,
    },
    /// A cell is to lead it, or to replace a copy.
    Move {
        /// The range, as the operator has seen it.
        at: Stamp,
        /// The cell.
        cell: CellId,
        /// The copy that it replaces. `None`: the primary.
        from: Option<CellId>,
    },
    /// It and the next one are to become one range.
    Unite {
        /// The range, as the operator has seen it.
        at: Stamp,
        /// The next one, likewise.
        with: Stamp,
    },
    /// It is to be divided.
    Divide {
        /// The range, as the operator has seen it.
        at: Stamp,
        /// How.
        into: Division,
    },
}

impl Order {
    /// The range, as the operator has seen it.
    #[must_use]
    pub fn at(&self) -> Stamp {
        match *self {
            Self::Forgive { at }
            | Self::Move { at, .. }
            | Self::Unite { at, .. }
            | Self::Divide { at, .. } => at,
        }
    }
}

/// What came of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out or refused.
    Decided(Verdict),
    /// It may still be carried out.
    Unknown,
    /// It was not carried out, and will not be.
    Unavailable,
}

/// What has happened. The time comes with each.
#[derive(Clone, Debug)]
pub enum Event {
    /// A newer map.
    Map(Arc<Map>),
    /// A heartbeat has arrived.
    Heard {
        /// From whom.
        from: CellId,
        /// Which life of it.
        incarnation: Incarnation,
        /// What it says.
        heartbeat: Heartbeat,
    },
    /// The link to a cell is broken, and cannot be opened again for 20 ms.
    Broken(CellId),
    /// A proposal has ended.
    Proposed {
        /// The range that it is about.
        range: RangeId,
        /// What came of it.
        outcome: Outcome,
    },
    /// A learner has all of a range, and the primary waits for its acknowledgements already.
    CaughtUp {
        /// The range, as the map had it when it began to learn.
        at: Stamp,
        /// The learner.
        cell: CellId,
    },
    /// A copy or a learner takes no more of a range's changes; or the primary can do without the
    /// journal of a cell.
    Refuses {
        /// The range, as the map has it.
        at: Stamp,
        /// Who.
        cell: CellId,
    },
    /// An operator wants something.
    Ordered(Order),
    /// This cell has ended its log of a range that is to become another, and all that are in sync
    /// have all of it. It serves it no more, until [`Effect::Unseal`] or another map.
    Sealed {
        /// The range, as the map has it.
        at: Stamp,
    },
    /// Whether this cell leads the agreement.
    Leads(bool),
    /// This cell holds nothing but what the map of this version assigns to it.
    Ready(u64),
    /// What this cell holds now. It goes with the heartbeats.
    Memory(Memory),
    /// Time has passed: at [`Member::wakes_at_ns`](super::Member::wakes_at_ns), or earlier.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this.
    Beat {
        /// To whom.
        to: CellId,
        /// What.
        heartbeat: Heartbeat,
    },
    /// Take this second as the time of the ring. Nothing was served before.
    Take {
        /// The second, which begins now.
        second: u32,
    },
    /// This second has begun in the ring.
    Follow {
        /// The second.
        second: u32,
    },
    /// The range does not become another now, which is certain: serve it again.
    Unseal {
        /// The range, as it was sealed.
        at: Stamp,
    },
    /// Propose this. [`Event::Proposed`] follows.
    Propose {
        /// The range that it is about.
        range: RangeId,
        /// The command.
        command: Command,
    },
}
