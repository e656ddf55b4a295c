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
            let other = map.range(range.unites_with?)?;
            let (is_lower, are_alike) = (range.end == other.start, self.seal(other) == Some(seal));
            // Given up alone: the other one has changed since, and this one has not.
            let is_alone = seal == Seal::GivenUp && !are_alike;
            (is_lower && are_alike || is_alone).then(|| Command::Merge { at, with: other.stamp() })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{CellId, Incarnation};
    use crate::map::{Addresses, Started, Verdict};

    /// Two ranges of cell 1 that are to become one.
    fn uniting() -> Map {
        let at = "127.0.0.1:1".parse().expect("an address");
        let addresses = Addresses { control: at, links: at, clients: at };
        let started = Started::new(Incarnation(1), addresses);
        let mut map = Map::new(7, 2, 1);
        (1..=2).for_each(|token| _ = map.apply(&Command::Join { token, started }));
        map.ranges[1].primary = CellId(1);
        let [at, with] = [0, 1].map(|range| map.ranges[range].stamp());
        assert!(matches!(map.apply(&Command::Unite { at, with }), Verdict::Applied { .. }));
        map
    }

    #[test]
    fn a_union_that_was_given_up_is_settled_also_where_one_of_both_has_changed_since() {
        let map = uniting();
        let mut sealed = Sealed::default();
        let stamps = [0, 1].map(|range| map.ranges[range].stamp());
        stamps.iter().for_each(|at| sealed.seals(*at, &map));
        let proposes = |sealed: &Sealed, map: &Map| {
            [0, 1].map(|range| sealed.proposes(&map.ranges[range], map))
        };
        let merge = Command::Merge { at: stamps[0], with: stamps[1] };
        assert_eq!(proposes(&sealed, &map), [Some(merge), None]);
        assert_eq!(sealed.gives_up(stamps[0], &map).count(), 2);
        let settles = |range: usize| Some(Command::Settle { at: stamps[range] });
        assert_eq!(proposes(&sealed, &map), [settles(0), None], "that of both");
        for (changed, left) in [(1, [settles(0), None]), (0, [None, settles(1)])] {
            let mut map = map.clone();
            map.ranges[changed].config += 1;
            let mut sealed = Sealed(sealed.0.clone());
            sealed.adopt(&map);
            assert_eq!(proposes(&sealed, &map), left);
        }
    }
}
