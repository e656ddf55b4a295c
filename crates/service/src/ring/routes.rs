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

/// The routes of all slices.
pub(crate) struct Routes {
    /// The version of the map.
    pub(crate) version: u64,
    /// What replies mean, unless a request chooses otherwise.
    pub(crate) consistency: Consistency,
    /// By slice, the number of its range in `targets`.
    by_slice: Box<[u16]>,
    targets: Vec<(Target, Option<RangeId>)>,
    /// Where cells take requests, and in which life.
    pub(crate) cells: BTreeMap<CellId, (SocketAddr, u64)>,
}

impl Routes {
    /// The routes by `map` at the cell `me`, which leads `terms` as far as it `serves` them.
    pub(crate) fn of(
        map: &Map,
        me: CellId,
        terms: &Terms,
        serves: impl Fn(&Range) -> bool,
    ) -> Self {
        let mut by_slice = vec![0; SLICES].into_boxed_slice();
        let mut targets = vec![(Target::Nowhere, None)];
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
            by_slice[range.slices().numbers()].fill(targets.len() as u16);
            targets.push((target, Some(range.id)));
        }
        let cell = |(id, cell): (&CellId, &ring::Cell)| {
            (*id, (cell.started.addresses.links, cell.started.incarnation.0))
        };
        let cells = map.cells.iter().map(cell).collect();
        let (version, consistency) = (map.version, map.consistency);
        Self { version, consistency, by_slice, targets, cells }
    }

    /// Where the requests for `slice` go, and its range.
    #[inline(always)]
    pub(crate) fn target(&self, slice: SliceId) -> (Target, Option<RangeId>) {
        let at = usize::from(self.by_slice[slice.index()]);
        self.targets[at]
    }
}
