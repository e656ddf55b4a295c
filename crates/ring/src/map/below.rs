//! What lies below the memory of a cell, as the map knows it. In one ring it is the same for all
//! cells: two that wrote back to different buckets would each miss what the other one has written,
//! and a copy with a lower level would acknowledge what its journal can still lose.

use crate::ids::CellId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a reply promises: `tier.ack` of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ack {
    /// The log has it, in memory.
    #[default]
    Memory,
    /// The journal has given it to the system.
    Os,
    /// It is on the disk.
    Disk,
    /// It is below the journal too.
    Backend,
}

/// What lies below the memory of a cell, and what its replies promise. The default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Below {
    /// The identity that the bucket has, however its place is spelled; `None`: there is no tier.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bucket: Option<u64>,
    /// The level of keys with no prefix that is named.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ack: Ack,
    /// A checksum of the levels by prefix; 0: there are none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub prefixes: u32,
    /// Whether the cell starts also where other cells have other levels: those of all are being
    /// changed, one cell after the other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_levels: bool,
}

/// What is not written: a map has it once for each cell.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A cell has something else below its memory than another one of its ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherBelow {
    /// What the cell has that starts.
    pub own: Below,
    /// The other cell; the same one, if it had something else in the start before.
    pub cell: CellId,
    /// What that one has.
    pub other: Below,
}

impl OtherBelow {
    /// How a start with `own` does not fit what `cell` has; `None`: it does, or one of them was
    /// started by an earlier build, which does not say what it has.
    pub(super) fn of(own: Option<Below>, (cell, other): (CellId, Option<Below>)) -> Option<Self> {
        let (own, other) = own.zip(other)?;
        let has_same_levels = (own.ack, own.prefixes) == (other.ack, other.prefixes);
        let differs = Self { own, cell, other };
        (!differs.is_of_levels() || !has_same_levels && !own.changes_levels).then_some(differs)
    }

    /// Whether the bucket is the same: levels differ, which the cells of a ring may change.
    #[must_use]
    pub fn is_of_levels(&self) -> bool {
        self.own.bucket == self.other.bucket
    }
}

impl fmt::Display for OtherBelow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { own, cell, other } = self;
        let place = |below: &Below| match below.bucket {
            Some(id) => format!("the bucket {id:016x}"),
            None => "none".to_owned(),
        };
        let ack = |below: &Below| format!("{:?}", below.ack).to_lowercase();
        let prefixes = |below: &Below| format!("a list with the checksum {:08x}", below.prefixes);
        let (setting, own, other) = match self.is_of_levels() {
            false => ("tier.database", place(own), place(other)),
            true if own.ack != other.ack => ("tier.ack", ack(own), ack(other)),
            true => ("tier.prefixes", prefixes(own), prefixes(other)),
        };
        let remedy = match self.is_of_levels() {
            false => "share one bucket, or have none, from its founding on; set the same as there",
            true => {
                "have the same levels; set the same as there, or, to change those of all, start \
                 each again with tier.change_levels"
            }
        };
        write!(
            f,
            "{setting} of this cell is {own}, and that of cell {cell} of the ring is {other}: all \
             cells of a ring {remedy}"
        )
    }
}
