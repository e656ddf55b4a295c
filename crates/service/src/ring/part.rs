//! What a cell is to a range.

use super::terms::Term;
use ring::{CellId, Range};

/// What this cell is to a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It leads it. `is_begun`: and has begun to.
    Primary { term: Term, is_begun: bool },
    /// It copies it. `is_begun`: and takes changes.
    Copy { primary: CellId, epoch: u32, is_begun: bool },
    /// It is on the way to be a copy. `is_begun`: it was empty, and takes changes.
    Learner { primary: CellId, epoch: u32, since: u64, is_begun: bool },
}

impl Part {
    /// What `cell` is to be to `range`.
    pub(crate) fn wanted(range: &Range, cell: CellId) -> Option<Self> {
        let (primary, epoch) = (range.primary, range.epoch);
        if primary == cell {
            return Some(Self::Primary { term: Term { range: range.id, epoch }, is_begun: false });
        }
        if range.copies.contains(&cell) {
            return Some(Self::Copy { primary, epoch, is_begun: false });
        }
        let since = range.learner_since;
        let learns = range.learner == Some(cell);
        learns.then_some(Self::Learner { primary, epoch, since, is_begun: false })
    }

    /// Whether it is the same, begun or not.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.begun() == other.begun()
    }

    /// Whether it has begun.
    pub(crate) fn is_begun(&self) -> bool {
        *self == self.begun()
    }

    /// The same, begun.
    pub(crate) fn begun(self) -> Self {
        match self {
            Self::Primary { term, .. } => Self::Primary { term, is_begun: true },
            Self::Copy { primary, epoch, .. } => Self::Copy { primary, epoch, is_begun: true },
            Self::Learner { primary, epoch, since, .. } => {
                Self::Learner { primary, epoch, since, is_begun: true }
            }
        }
    }
}
