//! Whether the parts of a ring are spread evenly over its cells.

use super::range::Range;
use super::ring_map::Map;
use crate::ids::{CellId, RangeId};
use std::collections::{BTreeMap, BTreeSet};

/// A copy that should be at another cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uneven {
    /// Of which range.
    pub(crate) range: RangeId,
    /// Where it is.
    pub(crate) from: CellId,
    /// Where it should be.
    pub(crate) to: CellId,
}

/// The copy of `map` that should move first, so that of the cells that lead something none has two
/// parts more than another. `None` as long as anything else is under way: so all primaries, which
/// see the same map, move one copy at a time. A spare, which leads nothing, stays one.
pub(crate) fn uneven(map: &Map) -> Option<Uneven> {
    let copies = map.copies_possible();
    let is_still = |range: &Range| {
        let is_whole = !range.is_short(copies) && !range.waits_for_operator;
        is_whole && !range.is_ordered() && range.learner.is_none() && range.home.is_none()
    };
    if !map.ranges.iter().all(is_still) {
        return None;
    }
    let mut parts = BTreeMap::<CellId, usize>::new();
    for cell in map.ranges.iter().flat_map(Range::in_sync) {
        *parts.entry(cell).or_default() += 1;
    }
    let count = |cell: CellId| parts.get(&cell).copied().unwrap_or(0);
    let leading: BTreeSet<_> = map.ranges.iter().map(|range| range.primary).collect();
    let staying = leading.into_iter().filter(|cell| map.leaving(*cell).is_none());
    let to = staying.min_by_key(|cell| count(*cell))?;
    map.ranges.iter().filter(|range| !range.has(to)).find_map(|range| {
        let from = range.copies.iter().copied().max_by_key(|cell| count(*cell))?;
        let is_uneven = count(from) >= count(to) + 2;
        is_uneven.then_some(Uneven { range: range.id, from, to })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Incarnation;
    use crate::map::{Addresses, Command, Started};

    fn formed(cells: u64) -> Map {
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let addresses = Addresses { control: at, links: at, clients: at };
        let mut map = Map::new(7, cells as u32, 2);
        for token in 0..=cells {
            map.apply(&Command::Join { token, started: Started::new(Incarnation(1), addresses) });
        }
        map
    }

    #[test]
    fn one_copy_moves_at_a_time_until_no_cell_has_two_parts_more_and_spares_stay_spares() {
        let mut map = formed(5);
        assert_eq!(uneven(&map), None, "the sixth has nothing");
        // All copies are at two cells.
        for (range, copy) in [(2, 1), (3, 1), (4, 2)] {
            map.ranges[range].copies = vec![CellId(copy)];
        }
        let mut moved = 0;
        while let Some(Uneven { range, from, to }) = uneven(&map) {
            let range = map.ranges.iter_mut().find(|it| it.id == range).expect("a range");
            assert!(range.copies.contains(&from) && !range.has(to));
            range.copies = vec![to];
            moved += 1;
            assert!(moved < 9, "it comes to an end");
        }
        assert!(moved > 0);
        let count = |cell| map.ranges.iter().filter(|range| range.has(CellId(cell))).count();
        let counts: Vec<_> = (1..=6).map(count).collect();
        assert!(counts[..5].iter().all(|parts| (1..=3).contains(parts)), "{counts:?}");
        assert_eq!(counts[5], 0);
        // Not while a range is to come back to a cell.
        map.ranges[0].copies = vec![CellId(3)];
        map.ranges[4].copies = vec![CellId(3)];
        map.ranges[1].copies = vec![CellId(3)];
        assert!(uneven(&map).is_some());
        map.ranges[3].home = Some(CellId(9));
        assert_eq!(uneven(&map), None);
    }
}
