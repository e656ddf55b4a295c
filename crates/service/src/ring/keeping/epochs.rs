//! Since when this cell has seen the epoch of each range: how long a copy answers no reads.
//!
//! A new primary may have to hold back what it changes, because the one before may still answer
//! from before that. A copy has such a change as soon as the primary has, and must not show it
//! either.

use ring::{Map, Range, RangeId, SILENCE_NS};
use std::collections::BTreeMap;

/// The epochs of all ranges.
#[derive(Default)]
pub(crate) struct Epochs(BTreeMap<RangeId, u64>);

impl Epochs {
    /// `map` follows `old` at the time `now_ns` of the monotonic clock.
    pub(crate) fn adopt(&mut self, old: &Map, map: &Map, now_ns: u64) {
        let begins = |range: &Range| {
            let before = old.overlapping(range);
            let goes_on =
                |of: &Range| (of.id, of.epoch) == (range.id, range.epoch) || range.follows(of);
            let is_new = before.clone().count() == 0 || !before.clone().all(goes_on);
            let since = before.filter_map(|of| self.0.get(&of.id).copied()).max();
            (range.id, since.filter(|_| !is_new).unwrap_or(now_ns))
        };
        self.0 = map.ranges.iter().map(begins).collect();
    }

    /// From when on this cell may answer reads of `range` as a copy: the primary holds nothing back
    /// any more.
    pub(crate) fn answers_from_ns(&self, range: RangeId) -> u64 {
        self.0.get(&range).map_or(u64::MAX, |since| since.saturating_add(SILENCE_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::formed;
    use ring::CellId;

    #[test]
    fn a_copy_waits_where_the_primary_before_has_not_handed_over() {
        let (mut epochs, map) = (Epochs::default(), formed(2));
        let id = map.ranges[0].id;
        let next = |of: &Map, is_handed_over: bool| {
            let mut map = of.clone();
            let range = &mut map.ranges[0];
            (range.epoch, range.is_handed_over) = (range.epoch + 1, is_handed_over);
            range.primary = CellId(2);
            map
        };
        assert_eq!(epochs.answers_from_ns(id), u64::MAX, "nothing is known");
        epochs.adopt(&Map::new(7, 2, 2), &map, 5);
        assert_eq!(epochs.answers_from_ns(id), 5 + SILENCE_NS);
        let handed_over = next(&map, true);
        epochs.adopt(&map, &handed_over, 6);
        epochs.adopt(&handed_over, &handed_over, 7);
        assert_eq!(epochs.answers_from_ns(id), 5 + SILENCE_NS);
        let promoted = next(&handed_over, false);
        epochs.adopt(&handed_over, &promoted, 8);
        assert_eq!(epochs.answers_from_ns(id), 8 + SILENCE_NS);
        // It has missed one of two hand-overs.
        let missed = next(&next(&promoted, true), true);
        epochs.adopt(&promoted, &missed, 9);
        assert_eq!(epochs.answers_from_ns(id), 9 + SILENCE_NS);
    }
}
