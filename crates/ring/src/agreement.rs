//! Which agreement a ring goes by: its first one, or one that an operator has begun at a survivor.
//!
//! ```text
//! version of a map    1 0002 00000013        recoveries, the cell of the latest, changes
//! ```
//!
//! Invariants: agreements have one order, and of two the later one counts. Each version of a map
//! that a later agreement makes is higher than all that earlier ones make. So a member compares
//! versions alone, and never goes back.

use crate::ids::{CELL_NUMBERS, CellId};
use serde::{Deserialize, Serialize};

/// Versions that one agreement can make.
const VERSIONS: u64 = 100_000_000;
/// Cells that may begin an agreement of the same number.
const CELLS: u64 = CELL_NUMBERS as u64;
/// Most recoveries of a ring: versions stay exact as numbers of JSON.
pub const RECOVERIES_MAX: u32 = 9_000;

const _: () = assert!((RECOVERIES_MAX as u64 + 1) * CELLS * VERSIONS < 1 << 53);

/// An agreement: which group of voters decides about the map.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Agreement {
    /// How many recoveries came before and with it. The first agreement of a ring has 0.
    pub number: u32,
    /// The cell at which it was begun. 0 for the first.
    pub cell: CellId,
    /// The version of the map from which it goes on.
    pub from: u64,
}

impl Agreement {
    /// The one that follows where `cell` goes on from the map of version `from`. `None` after
    /// [`RECOVERIES_MAX`].
    #[must_use]
    pub fn after(self, cell: CellId, from: u64) -> Option<Self> {
        let number = self.number + 1;
        (number <= RECOVERIES_MAX).then_some(Self { number, cell, from })
    }

    /// Whether it is the first one of a ring.
    #[must_use]
    pub fn is_first(&self) -> bool {
        *self == Self::default()
    }

    /// The version of its first map.
    #[must_use]
    pub fn first_version(self) -> u64 {
        let of_cell = u64::from(self.number) * CELLS + u64::from(self.cell.0) % CELLS;
        of_cell * VERSIONS + self.from % VERSIONS + 1
    }

    /// How many recoveries there were before the map of `version`.
    #[must_use]
    pub fn recoveries(version: u64) -> u64 {
        version / (VERSIONS * CELLS)
    }

    /// Whether a cell of this agreement, whose map has `version`, knows of nothing that `later`
    /// does not know of.
    #[must_use]
    pub fn is_continued_by(self, later: Self, version: u64) -> bool {
        later.number == self.number + 1 && version <= later.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_agreement_makes_higher_versions() {
        let first = Agreement::default();
        let at = |of: Agreement, cell, from| of.after(CellId(cell), from).unwrap();
        let second = at(first, 2, 12);
        let others = [at(first, 3, 7), at(second, 1, second.first_version() + 40)];
        let mut all = vec![first, second];
        all.extend(others);
        assert!(all.is_sorted(), "{all:?}");
        assert_eq!(second.first_version(), 1_0002_0000_0013);
        for pair in all.windows(2) {
            // However much the earlier one changes after it was left.
            let last = pair[0].first_version() + VERSIONS / 2;
            assert!(pair[1].first_version() > last, "{pair:?}");
        }
        let recoveries = all.iter().map(|it| Agreement::recoveries(it.first_version()));
        assert!(recoveries.eq([0, 1, 1, 2]));
        assert_eq!(first.after(CellId(1), 1).map(|it| it.number), Some(1));
        let last = Agreement { number: RECOVERIES_MAX, ..first };
        assert_eq!(last.after(CellId(1), 1), None);
    }

    #[test]
    fn only_who_knows_no_more_goes_on() {
        let first = Agreement::default();
        let second = first.after(CellId(2), 12).unwrap();
        let third = second.after(CellId(2), second.first_version() + 3).unwrap();
        let other = first.after(CellId(3), 12).unwrap();
        let cases = [
            (first, second, 11, true),
            (first, second, 12, true),
            (first, second, 13, false),
            (second, third, second.first_version() + 3, true),
            (second, third, second.first_version() + 4, false),
            // What came between is not known.
            (first, third, 11, false),
            // Two cells were recovered: the one that loses has begun something of its own.
            (second, other, 11, false),
        ];
        for (own, later, version, goes_on) in cases {
            assert_eq!(own.is_continued_by(later, version), goes_on, "{own:?} {later:?} {version}");
        }
    }
}
