//! One cell of a model: its data, its part in the range, and what it knows of the others.
//!
//! Times are ages in ticks of one clock, up to where they make no difference any more.

use super::rules::{LEASE, SILENCE};

/// Cells of a model.
pub const CELLS: usize = 3;
/// No acknowledgement yet.
pub const NOTHING: u8 = u8::MAX;

/// A proposal that is on its way to the coordinator, or was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flight {
    /// Who proposes it.
    pub by: u8,
    /// What it is.
    pub what: What,
    /// The epoch and the configuration that the proposer has seen.
    pub at: (u32, u64),
}

/// A command about the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    Promote,
    Drop(u8),
    Learn(u8),
    Admit(u8),
    Settle,
    /// A new life of the proposer.
    Start(u8),
    Forgive,
}

/// The proposal of a cell whose outcome is not certain, or not yet in its own map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Open {
    pub what: What,
    pub at: (u32, u64),
    /// The primary that it would replace.
    pub replaces: Option<u8>,
    pub state: Outcome,
}

/// What is known of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Proposed,
    Unknown,
    /// Over as soon as the own map has this version.
    Applied(u64),
}

/// How far a learner is, as its primary knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Learning {
    #[default]
    None,
    Waiting,
    Walking,
    /// Its acknowledgements count; ready when it has this version.
    Counted(u8),
    Ready,
}

/// A heartbeat on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Beat {
    /// Since it was sent, on the clock of its sender.
    pub sent: u8,
    /// Since the echoed heartbeat was sent, on the clock of the receiver.
    pub echo: Option<u8>,
    pub map: u64,
    pub life: u8,
    /// Whether its sender hears the receiver.
    pub counts: bool,
}

/// What a primary sends to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub epoch: u32,
    pub map: u64,
    /// Which time of learning it belongs to.
    pub reading: u64,
    pub version: u8,
    pub item: u8,
    /// It is of a walk, which sends what there is, and nothing of what was removed.
    pub walks: bool,
}

/// What a cell has applied of the log of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Applied {
    pub of: u8,
    pub epoch: u32,
    pub reading: u64,
    pub version: u8,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cell {
    pub is_up: bool,
    pub life: u8,
    /// The version of its map; 0 before it has one in which this life has begun.
    pub map: u64,
    /// The last change that it has applied.
    pub version: u8,
    /// The item: the change that has set it, or 0.
    pub item: u8,
    pub applied: Option<Applied>,
    /// The version of the map in which it began to learn: nothing older is applied.
    pub since: u64,
    /// The epoch in which it leads; 0 if it does not.
    pub leads: u32,
    /// The changes that it has stamped in this epoch, one bit each.
    pub stamped: u16,
    pub acked: [u8; CELLS],
    /// Which time of learning counts, by cell.
    pub reading: [u64; CELLS],
    pub learning: Learning,
    /// Ticks for which nothing of its own is shown, and the last version before it led.
    pub hold: u8,
    pub before: u8,
    /// Ticks for which nothing at all is shown: the range was lost.
    pub waits: u8,
    /// Ticks for which a lease may last that its life before has granted.
    pub young: u8,
    /// With whom it has exchanged tails in this epoch, one bit each.
    pub exchanged: u8,
    /// Since the heartbeat was sent by which each granted a lease.
    pub lease: [u8; CELLS],
    pub silence: [u8; CELLS],
    /// Of each other one, since its last heartbeat was sent that counts, on its clock.
    pub counted: [u8; CELLS],
    /// Whether the lease was held when the batch began: see `Rule::ReadsTheClockLast`.
    pub began_well: bool,
    pub open: Option<Open>,
}

impl Cell {
    /// A process that has just started, in its `life`.
    pub fn new(life: u8) -> Self {
        Self {
            is_up: true,
            life,
            map: 0,
            version: 0,
            item: 0,
            applied: None,
            since: 0,
            leads: 0,
            stamped: 0,
            acked: [NOTHING; CELLS],
            reading: [0; CELLS],
            learning: Learning::None,
            hold: 0,
            before: 0,
            waits: 0,
            young: SILENCE,
            exchanged: 0,
            lease: [LEASE; CELLS],
            silence: [0; CELLS],
            counted: [LEASE; CELLS],
            began_well: false,
            open: None,
        }
    }

    /// Its clock ticks.
    pub fn tick(&mut self) {
        self.lease.iter_mut().for_each(|age| *age = (*age + 1).min(LEASE));
        self.silence.iter_mut().for_each(|age| *age = (*age + 1).min(SILENCE));
        self.hold = self.hold.saturating_sub(1);
        self.waits = self.waits.saturating_sub(1);
        self.young = self.young.saturating_sub(1);
    }

    /// Drops what it has of the range.
    pub fn empty(&mut self) {
        (self.version, self.item, self.applied) = (0, 0, None);
    }

    /// Leads no more.
    pub fn steps_down(&mut self) {
        (self.leads, self.stamped, self.hold, self.before) = (0, 0, 0, 0);
        (self.exchanged, self.learning) = (0, Learning::None);
        self.acked = [NOTHING; CELLS];
    }
}
