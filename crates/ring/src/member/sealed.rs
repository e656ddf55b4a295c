//! Ranges that this cell is to hand over, to divide, or to make one of: sealed, and not served; or
//! given up, and served again.
//!
//! ```text
//! sealed    --> the map makes another of it
//!           --> it is certain that the map does not: given up --> changed by a settlement, so
//!               that it can be sealed again
//! ```
//!
//! The same state of a range is not sealed a second time.

use crate::ids::RangeId;
use crate::map::{Command, Map, Range, Stamp};
use std::collections::BTreeMap;

/// Whether a range that was sealed is served again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seal {
    Holds,
    GivenUp,
}

/// What this cell has sealed.
#[derive(Default)]
pub(super) struct Sealed(BTreeMap<RangeId, (Stamp, Seal)>);

impl Sealed {
    /// It was sealed as `at` says. What comes late may be of before it was given up.
    pub(super) fn seals(&mut self, at: Stamp, map: &Map) {
        let is_known = self.0.get(&at.range).is_some_and(|(known, _)| *known == at);
        let stands = map.range(at.range).is_some_and(|range| range.stamp() == at);
        if stands && !is_known {
            self.0.insert(at.range, (at, Seal::Holds));
        }
    }

    /// What was sealed as `at` says is served again, and with it the range with which it was to
    /// become one. Returns these.
    pub(super) fn gives_up(&mut self, at: Stamp, map: &Map) -> impl Iterator<Item = Stamp> {
        let range = map.range(at.range).filter(|range| range.stamp() == at);
        let other = range.and_then(|range| map.range(range.unites_with?)).map(Range::stamp);
        let both = std::iter::once(at).chain(other);
        self.0.extend(both.clone().map(|at| (at.range, (at, Seal::GivenUp))));
        both
    }

    /// Forgets what `map` has changed.
    pub(super) fn adopt(&mut self, map: &Map) {
        self.0.retain(|id, (at, _)| map.range(*id).is_some_and(|it| it.stamp() == *at));
    }

    /// The end of a hand-over, of a division, or of a union of `range` with the next one: this cell
    /// has stopped to serve it before. Where that was given up, it is sealed again once it is
    /// another than it was.
    pub(super) fn proposes(&self, range: &Range, map: &Map) -> Option<Command> {
        let (at, seal) = (range.stamp(), self.seal(range)?);
        let of_copy = || Some(Command::HandOver { at, cell: range.hands_over_to()? });
        let split = range.divides.map(|_| Command::Split { at });
        let command = split.or_else(of_copy).or_else(|| {
            let upper = map.range(range.unites_with?)?;
            let are_sealed = self.seal(upper) == Some(seal) && range.end == upper.start;
            are_sealed.then(|| Command::Merge { at, with: upper.stamp() })
        })?;
        Some(match seal {
            Seal::Holds => command,
            Seal::GivenUp => Command::Settle { at },
        })
    }

    fn seal(&self, range: &Range) -> Option<Seal> {
        let (at, seal) = self.0.get(&range.id)?;
        (*at == range.stamp()).then_some(*seal)
    }
}
