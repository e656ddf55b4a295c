//! The commands that change the map. Each is compared with the range that it changes: it is
//! refused where that has changed since the proposer saw it.

use super::below::{Below, OtherBelow};
use super::division::Division;
use super::edition::EDITION;
use super::leaving::Leaving;
use crate::ids::{CellId, Incarnation, RangeId};
use base::{RUN_SLICES, SLICES};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

/// Where a cell is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Addresses {
    /// By other cells, for heartbeats and agreement.
    pub control: SocketAddr,
    /// By other cells, for requests and copies.
    pub links: SocketAddr,
    /// By clients.
    pub clients: SocketAddr,
}

/// One start of a cell: which life it is, and where it is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The life.
    pub incarnation: Incarnation,
    /// Where it is reached.
    pub addresses: Addresses,
    /// Whether it has the journal of its life before, whole: what it led alone then, it can lead
    /// again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_journal: bool,
    /// Whether it has a tier at all, and so a journal, which may be new.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_tier: bool,
    /// What lies below its memory, which all cells of a ring share. `None`: an earlier build has
    /// started it, which does not say; or it is a witness.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<Below>,
    /// Which commands its build understands: its [`EDITION`].
    #[serde(default, skip_serializing_if = "is_first")]
    pub edition: u16,
}

fn is_first(edition: &u16) -> bool {
    *edition == 0
}

impl Started {
    /// One of this build, which says nothing of what lies below its memory, and has no journal.
    #[must_use]
    pub fn new(incarnation: Incarnation, addresses: Addresses) -> Self {
        Self {
            incarnation,
            addresses,
            has_journal: false,
            has_tier: false,
            below: None,
            edition: EDITION,
        }
    }
}

/// The state of a range that a proposer has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// The range.
    pub range: RangeId,
    /// Its epoch.
    pub epoch: u32,
    /// Its configuration.
    pub config: u64,
}

/// Why a cell is replaced or dropped, as the proposer has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// Nothing was heard of it for too long.
    #[default]
    Silent,
    /// Its connections are broken. For a primary, two cells have found that.
    Broken,
    /// It takes no more changes: its memory is full, or it is late.
    Refuses,
    /// It has started again, and has what it had in its journal alone.
    Ended,
    /// Another cell has taken its place.
    Replaced,
    /// It leaves the ring, and no other cell can take its place.
    Leaves,
}

impl Why {
    /// As a sentence about `cell`.
    pub(super) fn of(self, cell: CellId) -> String {
        match self {
            Self::Silent => format!("cell {cell} is silent"),
            Self::Broken => format!("the connections of cell {cell} are broken"),
            Self::Refuses => format!("cell {cell} takes no more changes"),
            Self::Ended => format!("cell {cell} has started again"),
            Self::Replaced => format!("cell {cell} is replaced"),
            Self::Leaves => format!("cell {cell} leaves, and no cell can take its place"),
        }
    }
}

/// A change of the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// A new cell. The same token again means the same cell.
    Join {
        /// A number that the cell drew.
        token: u64,
        /// Its start.
        started: Started,
    },
    /// A new witness: it takes part in agreement and heartbeats, and never in a range. The same
    /// token again means the same witness.
    JoinWitness {
        /// A number that the witness drew.
        token: u64,
        /// Its start.
        started: Started,
    },
    /// A cell has started again: a new life, which proves that the one before has ended. Also a
    /// cell that runs on and has moved to other addresses.
    Start {
        /// The cell.
        cell: CellId,
        /// Its start.
        started: Started,
    },
    /// A cell leaves the ring while it runs: primaries give what it has to others. It begins
    /// nothing new, until it starts again.
    Leave {
        /// The cell.
        cell: CellId,
        /// The life that leaves.
        life: Incarnation,
        /// How.
        how: Leaving,
    },
    /// A cell does not leave the ring after all.
    Stay {
        /// The cell.
        cell: CellId,
        /// Its life.
        life: Incarnation,
    },
    /// A cell that has ended, and has no part in any range, is in the ring no more. Its number is
    /// not used again.
    Remove {
        /// The cell.
        cell: CellId,
        /// The life that has ended.
        life: Incarnation,
    },
    /// All cells understand the commands of this edition: they may be used.
    Use {
        /// The edition.
        edition: u16,
    },
    /// A copy becomes the primary, since the present one is silent. The other copies stay. Likewise
    /// a cell whose journal counts, where no copy is heard: then no other copy stays.
    Promote {
        /// What the copy has seen.
        at: Stamp,
        /// The copy.
        cell: CellId,
        /// Why.
        #[serde(default)]
        why: Why,
    },
    /// The primary goes on without a copy or a learner, or without a cell whose journal counts, or
    /// that was to lead the range.
    Drop {
        /// What the primary has seen.
        at: Stamp,
        /// Whom it drops.
        cell: CellId,
        /// Why.
        #[serde(default)]
        why: Why,
    },
    /// A cell that has nothing of the range is to be made a copy.
    Learn {
        /// What the primary has seen.
        at: Stamp,
        /// The cell.
        cell: CellId,
    },
    /// The learner has all, and the primary waits for it already: it is a copy.
    Admit {
        /// What the primary has seen.
        at: Stamp,
        /// The learner.
        cell: CellId,
    },
    /// Another cell is to lead the range: its primary hands it over, once that cell is a copy. Or
    /// it is to replace a copy.
    Move {
        /// What the proposer has seen.
        at: Stamp,
        /// The cell.
        cell: CellId,
        /// Whom it replaces. `None`: the primary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<CellId>,
    },
    /// The range is to be divided: its primary does that.
    Divide {
        /// What the proposer has seen.
        at: Stamp,
        /// How.
        into: Division,
    },
    /// The primary has ended its log of the range, and all that are in sync have all of it: two
    /// ranges follow it, as was ordered. It leads both of them.
    Split {
        /// What the primary has seen.
        at: Stamp,
    },
    /// The range and the next one are to become one: their primary does that.
    Unite {
        /// What the primary has seen of the lower one.
        at: Stamp,
        /// And of the upper one.
        with: Stamp,
    },
    /// The primary has ended its logs of both ranges, and all that are in sync have all of them:
    /// one range follows them, which has the id of the lower one.
    Merge {
        /// What the primary has seen of the lower one.
        at: Stamp,
        /// And of the upper one.
        with: Stamp,
    },
    /// The primary has ended its log of the range, and all that are in sync have all of it: the
    /// copy to which it is to move leads it from now on. The primary is a copy, unless there are
    /// enough without it.
    HandOver {
        /// What the primary has seen.
        at: Stamp,
        /// The copy.
        cell: CellId,
    },
    /// An operator says that all copies are lost: `cell` begins again, with an empty range.
    Forgive {
        /// What the operator has seen.
        at: Stamp,
        /// The new primary.
        cell: CellId,
    },
    /// All items end in a second that is to come. The latest such command counts, unless the one
    /// before was due already.
    Flush {
        /// The second, on the clock of the ring.
        due_s: u32,
        /// The second at which it is asked for.
        at_s: u32,
    },
    /// Nothing changes but the configuration of the range. A proposer whose earlier proposal may
    /// still come settles by it that it does not.
    Settle {
        /// What the proposer has seen.
        at: Stamp,
    },
}

/// Why a command was not applied. The map is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The range has changed since.
    Changed,
    /// There is no such range, or there are none yet.
    NoRange,
    /// There is no such cell.
    NoCell,
    /// The cell has no such part in the range, or has one already.
    NotEligible,
    /// A cell learns the range, or it is being handed over, or it lacks a copy.
    Busy,
    /// Above a bucket, a run of slices would have two owners.
    DividesRun,
    /// The cell leaves the ring.
    Leaves,
    /// Fewer cells would stay than each range should have copies, or none at all.
    TooFewStay,
    /// A life of the cell has begun that is later.
    OldLife,
    /// There are [`CELLS_MAX`](crate::CELLS_MAX) cells, or all numbers of cells are used.
    TooManyCells,
    /// The range has had [`EPOCHS_MAX`](crate::EPOCHS_MAX) primaries.
    TooManyEpochs,
    /// The ring has [`RANGES_MAX`](crate::RANGES_MAX) ranges, the primary of one that is to be
    /// divided leads [`LED_MAX`](crate::LED_MAX), or the cell that is to lead one
    /// [`ORDERED_MAX`](crate::ORDERED_MAX).
    TooManyRanges,
    /// A cell of the ring does not understand the command.
    NotUnderstood,
    /// The cell has a part in a range, or a range is to go back to it.
    HasPart,
    /// The build of the cell does not understand the commands that the ring uses.
    EarlierBuild {
        /// The edition that it understands.
        has: u16,
        /// The edition that is used.
        used: u16,
    },
    /// The cell has something else below its memory than another one.
    OtherBelow(OtherBelow),
    /// The cell has a bucket, and the ring has, or will have, a range that begins at this slice:
    /// amid a run, of which the bucket has one map.
    CutsRun {
        /// The number of the slice.
        start: u16,
    },
}

impl Refusal {
    /// Whether it says that a start of this build, with the settings that it has, is refused for
    /// good.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        matches!(self, Self::OtherBelow(_) | Self::CutsRun { .. } | Self::EarlierBuild { .. })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OtherBelow(other) => return other.fmt(f),
            Self::CutsRun { start } => {
                let most = SLICES / RUN_SLICES;
                return write!(
                    f,
                    "a range of the ring begins at slice {start}: above a bucket ranges begin at \
                     multiples of {RUN_SLICES}, as in a new ring that forms with {most} cells or \
                     fewer; found another ring"
                );
            }
            Self::EarlierBuild { has, used } => {
                return write!(
                    f,
                    "the ring uses commands of edition {used}, of which this build understands \
                     those up to {has}: run the release that the other cells run"
                );
            }
            Self::NotUnderstood => "a cell of the ring is of a build that does not understand it",
            Self::HasPart => "the cell has a part in a range, or one is to go back to it",
            Self::Changed => "the range has changed since",
            Self::NoRange => "there is no such range",
            Self::NoCell => "there is no such cell",
            Self::NotEligible => "the cell has no part in the range that allows it",
            Self::Busy => {
                "the range lacks a copy, or is being handed over already: try again later"
            }
            Self::DividesRun => {
                let run = RUN_SLICES;
                return write!(f, "above a bucket a range is divided at a multiple of {run} alone");
            }
            Self::Leaves => "the cell leaves the ring",
            Self::TooFewStay => "fewer cells would stay than each range should have copies",
            Self::OldLife => "the cell has started again since",
            Self::TooManyCells => {
                "the ring has as many cells as it can, or has used all numbers: remove those that \
                 have ended (volvox ctl remove)"
            }
            Self::TooManyEpochs => "the range has had as many primaries as it can",
            Self::TooManyRanges => "the ring, or the cell, has as many ranges as it may",
        })
    }
}

/// What came of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It was applied, or was applied before. For [`Command::Join`], the cell.
    Applied {
        /// The version of the map after it.
        version: u64,
        /// Of a join, or that of a witness: the cell.
        cell: Option<CellId>,
    },
    /// It was refused.
    Refused(Refusal),
}
