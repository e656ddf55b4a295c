//! The identities of cells, of their lives, and of ranges. None is ever used again.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A cell of the ring, from its joining on. 0 is no cell.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct CellId(pub u32);

/// A ring has fewer cells than this in all its life.
pub(crate) const CELL_NUMBERS: u32 = 10_000;

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a cell, from a start to its end. Each start has a higher one, which its directory
/// keeps: so it proves that the life before has ended. 0 is none.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Incarnation(pub u64);

/// A range of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RangeId(pub u32);

impl fmt::Display for RangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
