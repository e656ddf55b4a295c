//! The map of the ring: its cells, and for each range of slices who owns it.
//!
//! ```text
//! slices   0 ......... 5461 ......... 10922 ......... 16383
//! range       1              2               3
//! primary     cell 1         cell 2          cell 3
//! copies      cell 2         cell 3          cell 1           in sync: they have all that was
//! learner     -              -               -                acknowledged
//! ```
//!
//! Invariants: once the ring has formed, the ranges cover all slices, without overlap, in their
//! order. A range has a primary; no cell appears in it twice. Its epoch rises with each new
//! primary, its configuration with every change. The lives of its cells are those in `cells`: a
//! cell that starts again is removed from all ranges in the same step.

use crate::ids::{CellId, Incarnation, RangeId};
use base::{SLICES, SliceId, SliceRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Most cells that a ring has had, those included that are gone.
pub const CELLS_MAX: usize = 4096;
/// Most copies of a range, the primary included.
pub const COPIES_MAX: u8 = 3;
/// Most epochs of a range: the part of a version that names the epoch has 20 bits.
pub const EPOCHS_MAX: u32 = 1 << 20;

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
}

/// A cell of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// A number that the cell drew before it joined, so that joining twice makes one cell.
    pub token: u64,
    /// Its latest start.
    pub started: Started,
}

/// Slices that have the same owner and the same copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Its id.
    pub id: RangeId,
    /// The number of its first slice.
    pub start: u16,
    /// The number after that of its last slice.
    pub end: u16,
    /// How many primaries it has had. Versions carry it.
    pub epoch: u32,
    /// How many changes it has had: what a command is compared with.
    pub config: u64,
    /// Who orders its changes.
    pub primary: CellId,
    /// Who has all that was acknowledged, besides the primary.
    pub copies: Vec<CellId>,
    /// Who is on the way to be a copy.
    pub learner: Option<CellId>,
    /// The version of the map in which it began to learn.
    pub learner_since: u64,
    /// How often its last copy was lost, and it began again empty.
    pub losses: u32,
}

impl Range {
    /// Its slices.
    #[must_use]
    pub fn slices(&self) -> SliceRange {
        SliceRange::new(usize::from(self.start)..usize::from(self.end))
    }

    /// The primary and all copies in sync.
    pub fn in_sync(&self) -> impl Iterator<Item = CellId> {
        std::iter::once(self.primary).chain(self.copies.iter().copied())
    }

    /// Whether `cell` is in sync.
    #[must_use]
    pub fn is_in_sync(&self, cell: CellId) -> bool {
        self.in_sync().any(|it| it == cell)
    }

    /// Whether `cell` has a part in it.
    #[must_use]
    pub fn has(&self, cell: CellId) -> bool {
        self.is_in_sync(cell) || self.learner == Some(cell)
    }
}

/// The map of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The ring that it is of.
    pub ring: u64,
    /// How many commands have changed it.
    pub version: u64,
    /// The ring forms when so many cells are present.
    pub cells_wanted: u32,
    /// Copies that each range should have, the primary included.
    pub copies_wanted: u8,
    /// All cells.
    pub cells: BTreeMap<CellId, Cell>,
    /// All ranges, by their slices. None before the ring has formed.
    pub ranges: Vec<Range>,
    /// The number of the next cell.
    pub(super) next_cell: u32,
}

impl Map {
    /// The map of a new ring, in which there is nothing yet.
    #[must_use]
    pub fn new(ring: u64, cells_wanted: u32, copies_wanted: u8) -> Self {
        Self {
            ring,
            version: 0,
            cells_wanted,
            copies_wanted: copies_wanted.clamp(1, COPIES_MAX),
            cells: BTreeMap::new(),
            ranges: Vec::new(),
            next_cell: 1,
        }
    }

    /// Whether the ring has formed.
    #[must_use]
    pub fn has_formed(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The range of `slice`. `None` before the ring has formed.
    #[must_use]
    pub fn range_of(&self, slice: SliceId) -> Option<&Range> {
        let index = slice.index();
        let at = self.ranges.partition_point(|range| usize::from(range.end) <= index);
        self.ranges.get(at)
    }

    /// The range with this id.
    #[must_use]
    pub fn range(&self, id: RangeId) -> Option<&Range> {
        self.ranges.iter().find(|range| range.id == id)
    }

    /// What breaks the invariants, for a test or a message. `None` if nothing does.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let mut next = 0;
        for range in &self.ranges {
            if range.start != next || range.end <= range.start {
                return Some(format!("range {} begins at {}, not {next}", range.id, range.start));
            }
            next = range.end;
            let mut cells: Vec<_> = range.in_sync().chain(range.learner).collect();
            let count = cells.len();
            cells.sort_unstable();
            cells.dedup();
            if cells.len() != count {
                return Some(format!("range {} has a cell twice", range.id));
            }
            if let Some(cell) = cells.iter().find(|cell| !self.cells.contains_key(cell)) {
                return Some(format!("range {} has cell {cell}, which there is not", range.id));
            }
        }
        let covers = self.ranges.is_empty() || usize::from(next) == SLICES;
        (!covers).then(|| format!("slices from {next} on are in no range"))
    }
}
