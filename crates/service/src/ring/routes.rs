//! Where the requests for a slice go, by one version of the map.

use super::granted::{Grants, OfPrimary};
use super::terms::{Term, Terms};
use base::{SLICES, SliceId};
use effects::Level;
use ring::{CellId, Consistency, Map, Range, RangeId};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where the requests for a range go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To this cell, at this level, in this epoch.
    Here(Level, u32),
    /// To another cell.
    Cell(CellId),
    /// Nowhere: the ring has not formed, or this cell leads more ranges than it can.
    Nowhere,
}

/// What this cell copies: who leads it, in which epoch, and what that has granted.
pub(crate) struct Copied {
    pub(crate) primary: CellId,
    pub(crate) epoch: u32,
    /// From when on it may answer reads of it.
    pub(crate) answers_from_ns: u64,
    pub(crate) granted: Arc<OfPrimary>,
}

/// The route of one range.
struct Route {
    target: Target,
    range: Option<RangeId>,
    /// Who copies it, in sync.
    copies: Box<[CellId]>,
    /// What this cell is to it, if it copies it, in sync, and has begun to.
    copied: Option<Copied>,
    /// How often the range was lost with its last copy, or began again with what a journal has:
    /// nobody knew any more then who had asked for what.
    losses: u32,
    /// The first version of the map in which this cell has seen the last time; 0 if there is none.
    lost_at: u64,
}

impl Route {
    /// That of slices which are in no range.
    fn nowhere() -> Self {
        let (target, copies) = (Target::Nowhere, Box::default());
        Self { target, range: None, copies, copied: None, losses: 0, lost_at: 0 }
    }
}

/// What the routes of a cell rest on, besides the map.
pub(crate) struct Parts<'a> {
    pub(crate) terms: &'a Terms,
    pub(crate) grants: &'a Grants,
    /// Whether the cell serves what it leads.
    pub(crate) serves: &'a dyn Fn(&Range) -> bool,
    /// From when on it may answer reads of what it copies, if it has begun to.
    pub(crate) copies: &'a dyn Fn(&Range) -> Option<u64>,
    /// The first version of the map in which it has seen the last loss of a range.
    pub(crate) lost_at: &'a dyn Fn(&Range) -> u64,
}

/// Groups of slices, and how many are in each: as long as two cache lines of their bounds, where
/// each slice is a range.
const GROUPS: usize = 256;
const GROUP: usize = SLICES / GROUPS;

/// The routes of all slices.
pub(crate) struct Routes {
    /// The version of the map.
    pub(crate) version: u64,
    /// What replies mean, unless a request chooses otherwise.
    pub(crate) consistency: Consistency,
    /// The first slice of each route but the first, by rising number. A few numbers that are
    /// searched stay in the cache of the processor, where a table of all slices would not.
    begins: Vec<u16>,
    /// For each group of slices, how many of them lie before it: a search looks at few of them.
    before: Box<[u16; GROUPS + 1]>,
    /// One more than there are first slices. Each ends where the next begins.
    routes: Vec<Route>,
    /// The first version of the map in which this cell has seen the last loss of any range.
    last_loss: u64,
    /// Where cells take requests, and in which life.
    pub(crate) cells: BTreeMap<CellId, (SocketAddr, u64)>,
    /// All cells with higher numbers have joined since.
    last_cell: CellId,
}

impl Routes {
    /// The routes by `map` at the cell `me`.
    pub(crate) fn of(map: &Map, me: CellId, parts: &Parts<'_>) -> Self {
        let Parts { terms, grants, serves, copies, lost_at } = parts;
        let route = |range: &Range| {
            let target = match range.primary {
                primary if primary == me => {
                    let level = serves(range)
                        .then(|| terms.level(Term { range: range.id, epoch: range.epoch }));
                    let level = level.flatten();
                    level.map_or(Target::Nowhere, |level| Target::Here(level, range.epoch))
                }
                primary => Target::Cell(primary),
            };
            let (losses, lost_at) = (range.times_forgotten(), lost_at(range));
            let is_copied = range.copies.contains(&me) && range.journals.is_empty();
            let (primary, epoch) = (range.primary, range.epoch);
            let from_ns = is_copied.then(|| copies(range)).flatten();
            let copied = from_ns.map(|answers_from_ns| {
                let granted = grants.of(primary);
                Copied { primary, epoch, answers_from_ns, granted }
            });
            let copies = range.copies.iter().copied().collect();
            Route { target, range: Some(range.id), copies, copied, losses, lost_at }
        };
        let mut ranges: Vec<_> = map.ranges.iter().collect();
        ranges.sort_by_key(|range| (range.start, range.end));
        let (mut begins, mut routes) = (Vec::new(), vec![Route::nowhere()]);
        for range in ranges {
            begins.extend([range.start, range.end]);
            routes.extend([route(range), Route::nowhere()]);
        }
        let lie_before =
            |group: usize| begins.partition_point(|it| usize::from(*it) < group * GROUP);
        let before = Box::new(std::array::from_fn(|group| lie_before(group) as u16));
        let cell = |(id, cell): (&CellId, &ring::Cell)| {
            (*id, (cell.started.addresses.links, cell.started.incarnation.0))
        };
        let cells = map.cells.iter().map(cell).collect();
        let last_cell = map.last_cell();
        let last_loss = routes.iter().map(|route| route.lost_at).max().unwrap_or(0);
        let (version, consistency) = (map.version, map.consistency);
        Self { version, consistency, begins, before, routes, last_loss, cells, last_cell }
    }

    /// Where the requests for `slice` go, and its range.
    #[inline(always)]
    pub(crate) fn target(&self, slice: SliceId) -> (Target, Option<RangeId>) {
        let Route { target, range, .. } = self.route(slice);
        (*target, *range)
    }

    /// Whether this life of a cell is over by the map, or the cell was removed.
    pub(crate) fn is_over(&self, cell: CellId, life: u64) -> bool {
        match self.cells.get(&cell) {
            Some((_, now)) => *now > life,
            None => (CellId(1)..=self.last_cell).contains(&cell),
        }
    }

    /// Who copies `slice`, in sync.
    pub(crate) fn copies(&self, slice: SliceId) -> &[CellId] {
        &self.route(slice).copies
    }

    /// What this cell is to `slice`, if it copies it, in sync.
    pub(crate) fn copied(&self, slice: SliceId) -> Option<&Copied> {
        self.route(slice).copied.as_ref()
    }

    /// How often the range of `slice` was lost.
    pub(crate) fn losses(&self, slice: SliceId) -> u32 {
        self.route(slice).losses
    }

    /// Whether a cell that goes by the map of `version` may not know that the range of `slice` was
    /// lost.
    #[inline]
    pub(crate) fn is_lost_since(&self, slice: SliceId, version: u64) -> bool {
        version < self.last_loss && version < self.route(slice).lost_at
    }

    #[inline(always)]
    fn route(&self, slice: SliceId) -> &Route {
        let (slice, group) = (slice.index() as u16, slice.index() / GROUP);
        let [from, to] = [self.before[group], self.before[group + 1]].map(usize::from);
        &self.routes[from + self.begins[from..to].partition_point(|begin| *begin <= slice)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::formed;

    /// A range with this number and primary.
    fn range((start, end): (u16, u16), number: u32) -> Range {
        let (id, primary) = (RangeId(number), CellId(number));
        Range { id, start, end, primary, losses: number, ..formed(1).ranges[0].clone() }
    }

    #[test]
    fn each_slice_goes_to_the_primary_of_its_range_and_that_of_none_goes_nowhere() {
        let all = SLICES as u16;
        let cases: [&[(u16, u16)]; 5] = [
            &[],
            &[(0, all)],
            &[(0, 5461), (5461, 10_922), (10_922, all)],
            &[(9000, 9001), (20, 20), (20, 300), (9001, all - 1), (0, 7)],
            &[(0, 1), (1, 2), (2, 2), (2, 3), (all - 1, all)],
        ];
        for bounds in cases {
            let mut map = Map::new(1, 3, 1);
            map.ranges = bounds.iter().zip(7..).map(|(bounds, at)| range(*bounds, at)).collect();
            let (terms, grants) = (&Terms::new(), &Grants::default());
            let (yes, four, none) = (&|_: &Range| true, &|_: &Range| 4, &|_: &Range| None);
            let parts = Parts { terms, grants, serves: yes, copies: none, lost_at: four };
            let routes = Routes::of(&map, CellId(1), &parts);
            for slice in SliceId::all() {
                let of = map.ranges.iter().find(|range| range.slices().contains(slice));
                let target = of.map_or(Target::Nowhere, |range| Target::Cell(range.primary));
                assert_eq!(routes.target(slice), (target, of.map(|range| range.id)), "{slice:?}");
                assert_eq!(routes.losses(slice), of.map_or(0, |range| range.times_forgotten()));
                let is_lost = [3, 4].map(|version| routes.is_lost_since(slice, version));
                assert_eq!(is_lost, [of.is_some(), false], "{slice:?}");
            }
        }
    }

    #[test]
    fn a_life_is_over_once_there_is_a_later_one_or_the_cell_was_removed() {
        let mut map = (*formed(3)).clone();
        map.cells.remove(&CellId(2));
        let (terms, grants) = (&Terms::new(), &Grants::default());
        let (nothing, nobody, never) = (&|_: &Range| false, &|_: &Range| None, &|_: &Range| 0);
        let parts = Parts { terms, grants, serves: nothing, copies: nobody, lost_at: never };
        let routes = Routes::of(&map, CellId(1), &parts);
        let is_over = |cell, life| routes.is_over(CellId(cell), life);
        assert_eq!([is_over(3, 0), is_over(3, 1)], [true, false]);
        assert!(is_over(2, 9), "it is in the ring no more");
        assert!(!is_over(4, 1), "it may have joined by a later map");
    }
}
