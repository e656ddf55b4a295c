//! What a cell sees of the others, and how much they have learned. It decides nothing: reports show
//! it.

use crate::ids::CellId;
use std::collections::{BTreeMap, BTreeSet};

/// What a cell sees of the others at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The cells that it hears, itself included.
    pub heard: BTreeSet<CellId>,
    /// Memory that is free in others that it hears, in bytes.
    pub free_bytes: BTreeMap<CellId, u64>,
    /// Who leads the agreement, as far as it knows.
    pub leader: Option<CellId>,
    /// Who votes, as far as it knows.
    pub voters: BTreeSet<CellId>,
    /// The cells whose time is too far from that of this one to follow, and by how many seconds
    /// each is ahead.
    pub apart: Vec<(CellId, i64)>,
    /// How many seconds the clock of the machine is ahead of the time of the ring.
    pub wall_ahead_s: i64,
}

/// How much of a range a cell that learns it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Bytes of keys and values.
    pub bytes: u64,
    /// As many as the range has, as far as that can be said of the part that was sent; 0: it cannot
    /// be said yet.
    pub about_bytes: u64,
    /// How long it has learned, in nanoseconds.
    pub took_ns: u64,
}
