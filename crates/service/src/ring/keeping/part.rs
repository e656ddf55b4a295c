//! What a cell is to a range.

use crate::ring::terms::Term;
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

/// What a map changes for a cell and a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartChange {
    /// Nothing.
    Nothing,
    /// It is a copy now, and takes the changes of its primary already.
    Joins,
    /// It stays in sync under a new primary, which may be itself. The named one has led the range.
    Stays(CellId),
    /// The same, and all have all of what the one before has handed over.
    Continues,
    /// Whatever it has of the range is of no use.
    BeginsEmpty,
}

/// How a range, or a part of it, has become what it is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// It was not lost meanwhile.
    pub(crate) lasts: bool,
    /// Its log had been ended before the present epoch, and all that were in sync have all of it.
    pub(crate) follows: bool,
}

impl PartChange {
    /// What changes where a range was two before. Who is in sync with the one has begun as a copy
    /// of both before they became one.
    pub(crate) fn of_both(self, other: Self) -> Self {
        match (self, other) {
            (one, other) if one == other => one,
            (Self::Continues, Self::Stays(of)) | (Self::Stays(of), Self::Continues) => {
                Self::Stays(of)
            }
            _ => Self::BeginsEmpty,
        }
    }
}

impl Part {
    /// What changes for a cell that was `before` and is `wanted` to be to `range`. One that has led
    /// it, and has sealed it, is given as its own copy.
    ///
    /// Maps may have been skipped: a learner may have become a copy, and then the primary. Nobody
    /// becomes a copy without having seen the map that makes it learn, so one who was on the way in
    /// the epoch before has all.
    pub(crate) fn change(
        before: Option<Self>,
        wanted: Option<Self>,
        range: &Range,
        past: Past,
    ) -> PartChange {
        let (leads, now) = (range.primary, range.epoch);
        if before.zip(wanted).is_some_and(|(before, wanted)| before.begun() == wanted.begun()) {
            return PartChange::Nothing;
        }
        let followed = match before {
            Some(
                Self::Copy { primary, epoch, .. }
                | Self::Learner { primary, epoch, is_begun: true, .. },
            ) => Some((primary, epoch)),
            _ => None,
        };
        match (wanted, followed) {
            (Some(Self::Copy { .. }), Some(of)) if of == (leads, now) => PartChange::Joins,
            // Who has missed the map of the hand-over may lack what came after it.
            (Some(Self::Copy { .. } | Self::Primary { .. }), Some(_))
                if past.lasts && past.follows =>
            {
                PartChange::Continues
            }
            (Some(Self::Copy { .. } | Self::Primary { .. }), Some((of, epoch)))
                if past.lasts && now > epoch =>
            {
                PartChange::Stays(of)
            }
            (None, _) if before.is_none() => PartChange::Nothing,
            _ => PartChange::BeginsEmpty,
        }
    }

    /// What `cell` is to be to `range`.
    pub(crate) fn wanted(range: &Range, cell: CellId) -> Option<Self> {
        let (primary, epoch) = (range.primary, range.epoch);
        if range.waits_for_operator {
            return None;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::formed;
    use ring::RangeId;

    #[test]
    fn of_a_range_that_was_two_all_counts_only_where_both_count() {
        use PartChange::{BeginsEmpty, Continues, Nothing, Stays};
        let [one, two] = [CellId(1), CellId(2)];
        let table = [
            (Nothing, Nothing, Nothing),
            (Continues, Continues, Continues),
            (Stays(one), Stays(one), Stays(one)),
            (Continues, Stays(one), Stays(one)),
            (Stays(one), Continues, Stays(one)),
            (Stays(one), Stays(two), BeginsEmpty),
            (Continues, BeginsEmpty, BeginsEmpty),
            (Nothing, BeginsEmpty, BeginsEmpty),
        ];
        for (lower, upper, change) in table {
            assert_eq!(lower.of_both(upper), change, "{lower:?} {upper:?}");
        }
    }

    #[test]
    fn what_a_map_changes_follows_from_what_was_copied_of_whom_and_when() {
        use PartChange::{BeginsEmpty, Continues, Joins, Nothing, Stays};
        let [one, two] = [CellId(1), CellId(2)];
        let leads = |epoch| {
            Some(Part::Primary { term: Term { range: RangeId(1), epoch }, is_begun: false })
        };
        let copies = |primary, epoch| Some(Part::Copy { primary, epoch, is_begun: true });
        let learns =
            |primary, epoch, is_begun| Some(Part::Learner { primary, epoch, since: 7, is_begun });
        let changes = |before, wanted, lasts, is_handed_over| {
            let led = match wanted {
                Some(Part::Primary { term, .. }) => (CellId(9), term.epoch),
                Some(Part::Copy { primary, epoch, .. } | Part::Learner { primary, epoch, .. }) => {
                    (primary, epoch)
                }
                None => (two, 2),
            };
            let (primary, epoch) = led;
            let range = formed(1).ranges[0].clone();
            let range = Range { primary, epoch, is_handed_over, ..range };
            let was = match before {
                Some(Part::Primary { term, .. }) => term.epoch,
                Some(Part::Copy { epoch, .. } | Part::Learner { epoch, .. }) => epoch,
                None => 0,
            };
            let follows = is_handed_over && epoch == was + 1;
            Part::change(before, wanted, &range, Past { lasts, follows })
        };
        // Before, after, whether the range was not lost; and what follows.
        let table = [
            (None, None, true, Nothing),
            (copies(one, 1), copies(one, 1), true, Nothing),
            (learns(one, 1, true), copies(one, 1), true, Joins),
            (learns(one, 1, false), copies(one, 1), true, BeginsEmpty),
            (learns(one, 1, true), copies(two, 2), true, Stays(one)),
            (copies(one, 1), copies(two, 2), true, Stays(one)),
            (copies(one, 1), leads(2), true, Stays(one)),
            (copies(one, 1), leads(2), false, BeginsEmpty),
            (copies(one, 1), learns(two, 2, false), true, BeginsEmpty),
            (copies(one, 1), None, true, BeginsEmpty),
            (leads(1), copies(two, 2), true, BeginsEmpty),
            (None, leads(1), true, BeginsEmpty),
        ];
        for (before, wanted, lasts, change) in table {
            let is = changes(before, wanted, lasts, false);
            assert_eq!(is, change, "{before:?} {wanted:?}");
        }
        // The same where the present epoch has begun by a hand-over.
        let table = [
            (copies(one, 1), copies(two, 2), true, Continues),
            (copies(one, 1), leads(2), true, Continues),
            (learns(one, 1, true), copies(two, 2), true, Continues),
            (copies(one, 1), leads(2), false, BeginsEmpty),
            // What came between may have gone without it.
            (copies(one, 1), copies(two, 3), true, Stays(one)),
            (copies(one, 1), leads(3), true, Stays(one)),
            (copies(two, 2), copies(two, 2), true, Nothing),
            (learns(one, 1, false), copies(two, 2), true, BeginsEmpty),
            (leads(1), copies(two, 2), true, BeginsEmpty),
            (None, leads(2), true, BeginsEmpty),
        ];
        for (before, wanted, lasts, change) in table {
            let is = changes(before, wanted, lasts, true);
            assert_eq!(is, change, "{before:?} {wanted:?}");
        }
    }
}
