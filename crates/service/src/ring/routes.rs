//! Where the requests for a slice go, by one version of the map.

use super::terms::{Term, Terms};
use base::{SLICES, SliceId};
use effects::Level;
use ring::{CellId, Consistency, Map, Range, RangeId};
use std::collections::BTreeMap;
use std::net::SocketAddr;

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

/// The route of one range.
struct Route {
    target: Target,
    range: Option<RangeId>,
    /// How often the range was lost with its last copy.
    losses: u32,
    /// The first version of the map in which this cell has seen the last loss; 0 if there is none.
    lost_at: u64,
}

/// The routes of all slices.
pub(crate) struct Routes {
    /// The version of the map.
    pub(crate) version: u64,
    /// What replies mean, unless a request chooses otherwise.
    pub(crate) consistency: Consistency,
    /// By slice, the number of its range in `routes`.
    by_slice: Box<[u16]>,
    routes: Vec<Route>,
    /// Where cells take requests, and in which life.
    pub(crate) cells: BTreeMap<CellId, (SocketAddr, u64)>,
}

impl Routes {
    /// The routes by `map` at the cell `me`, which leads `terms` as far as it `serves` them.
    /// `lost_at`: the first version in which it has seen the last loss of a range.
    pub(crate) fn of(
        map: &Map,
        me: CellId,
        terms: &Terms,
        serves: impl Fn(&Range) -> bool,
        lost_at: impl Fn(&Range) -> u64,
    ) -> Self {
        let mut by_slice = vec![0; SLICES].into_boxed_slice();
        let nowhere = Route { target: Target::Nowhere, range: None, losses: 0, lost_at: 0 };
        let mut routes = vec![nowhere];
        for range in &map.ranges {
            let target = match range.primary {
                primary if primary == me => {
                    let level = serves(range)
                        .then(|| terms.level(Term { range: range.id, epoch: range.epoch }));
                    let level = level.flatten();
                    level.map_or(Target::Nowhere, |level| Target::Here(level, range.epoch))
                }
                primary => Target::Cell(primary),
            };
            by_slice[range.slices().numbers()].fill(routes.len() as u16);
            let (losses, lost_at) = (range.losses, lost_at(range));
            routes.push(Route { target, range: Some(range.id), losses, lost_at });
        }
        let cell = |(id, cell): (&CellId, &ring::Cell)| {
            (*id, (cell.started.addresses.links, cell.started.incarnation.0))
        };
        let cells = map.cells.iter().map(cell).collect();
        let (version, consistency) = (map.version, map.consistency);
        Self { version, consistency, by_slice, routes, cells }
    }

    /// Where the requests for `slice` go, and its range.
    #[inline(always)]
    pub(crate) fn target(&self, slice: SliceId) -> (Target, Option<RangeId>) {
        let Route { target, range, .. } = self.route(slice);
        (*target, *range)
    }

    /// How often the range of `slice` was lost, and since which version of the map this cell knows
    /// of the last time.
    pub(crate) fn losses(&self, slice: SliceId) -> (u32, u64) {
        let Route { losses, lost_at, .. } = self.route(slice);
        (*losses, *lost_at)
    }

    #[inline(always)]
    fn route(&self, slice: SliceId) -> &Route {
        &self.routes[usize::from(self.by_slice[slice.index()])]
    }
}
