//! Who is to be the next copy of a range.
//!
//! Of the cells that are heard, those with the fewest parts; with equal parts, the one that has the
//! most room for the range; then the next one after the primary. So ranges of different primaries,
//! which choose at the same time, choose different cells where they can. A cell to which ranges are
//! to go back, and that is quiet, comes last: it has ended, which those that shared no range with
//! it do not know yet. And one that copies nothing else of the primary, where that sends streams to
//! many cells already.
//!
//! A cell that has just ended may be back in a moment, and has all its memory free then. If nobody
//! else has room for the range, it is waited for, for [`RETURN_NS`] at most: a full cell would have
//! to evict.

use super::event::Memory;
use super::leases::SHRINK_NS;
use super::peers::Peers;
use crate::ids::{CellId, RangeId};
use crate::map::{Map, Range};
use std::collections::{BTreeMap, BTreeSet};

/// How long a cell that has refused a range is not asked to learn it; twice as long each time, at
/// most [`REST_NS_MAX`], if it refuses it again soon after.
const REST_NS: u64 = 5_000_000_000;
const REST_NS_MAX: u64 = 80_000_000_000;

/// How long a range stays without the copy that it lacks at most, because a cell that has ended may
/// return empty, and others have no room.
pub(super) const RETURN_NS: u64 = 1_000_000_000;

/// How long the home of a range is heard before it is led there again.
const HOME_NS: u64 = 1_000_000_000;

/// A cell that sends streams to this number of others chooses one of these where it can: its logs
/// have places for not many more, and what one copies that has none is not served.
const STREAMS_MAX: usize = 7;

/// How exactly room is compared: cells that lack nearly as much count as equal.
const STEPS: u64 = 4;

/// How long a cell rests that has refused a range.
#[derive(Clone, Copy, Default)]
struct Rest {
    until_ns: u64,
    length_ns: u64,
}

impl Rest {
    /// It refuses the range now. What it says while it rests is the same refusal.
    fn begin(&mut self, now_ns: u64) {
        if now_ns >= self.until_ns {
            let again = now_ns - self.until_ns < REST_NS_MAX && self.length_ns > 0;
            let length_ns = if again { self.length_ns * 2 } else { REST_NS };
            self.length_ns = length_ns.min(REST_NS_MAX);
        }
        self.until_ns = now_ns + self.length_ns;
    }
}

/// What a primary goes by when it chooses.
#[derive(Default)]
pub(super) struct Choice {
    /// Cells that are asked to learn nothing of a range for a while: they have refused it.
    rests: BTreeMap<(RangeId, CellId), Rest>,
    /// By range that this cell leads and that lacks a copy, since when. One that learns is none
    /// yet, so that a cell that returns again and again is waited for once.
    since_ns: BTreeMap<RangeId, u64>,
    /// By range that this cell leads and that has a home elsewhere, since when that is heard.
    home_ns: BTreeMap<RangeId, u64>,
    /// What this cell holds.
    memory: Memory,
}

impl Choice {
    /// This cell holds so much now.
    pub(super) fn holds(&mut self, memory: Memory) {
        self.memory = memory;
    }

    /// `cell` refuses `range`.
    pub(super) fn refuses(&mut self, range: RangeId, cell: CellId, now_ns: u64) {
        self.rests.entry((range, cell)).or_default().begin(now_ns);
    }

    /// Until when `cell` is not asked to learn `range`, which it has refused.
    pub(super) fn rests_until_ns(&self, range: RangeId, cell: CellId) -> u64 {
        self.rests.get(&(range, cell)).map_or(0, |rest| rest.until_ns)
    }

    /// Notes which of the ranges of `map` that `me` leads lack a copy now, and the home of which is
    /// heard.
    pub(super) fn look(&mut self, (map, me, peers): (&Map, CellId, &Peers), now_ns: u64) {
        self.rests.retain(|(id, _), _| map.range(*id).is_some());
        let is_heard = |cell| peers.get(cell).is_some_and(|peer| peer.is_heard(now_ns));
        let has_home = |range: &&Range| range.primary == me && range.home.is_some_and(is_heard);
        self.home_ns.retain(|id, _| map.range(*id).as_ref().is_some_and(has_home));
        for range in map.ranges.iter().filter(has_home) {
            self.home_ns.entry(range.id).or_insert(now_ns);
        }
        let lacks = |range: &&Range| range.primary == me && lacks_copy(range, map);
        self.since_ns.retain(|id, _| map.range(*id).as_ref().is_some_and(lacks));
        for range in map.ranges.iter().filter(lacks) {
            self.since_ns.entry(range.id).or_insert(now_ns);
        }
    }

    /// The home of `range`, which this cell leads, once that is heard for a while.
    pub(super) fn home_of(&self, range: &Range, now_ns: u64) -> Option<CellId> {
        let since_ns = self.home_ns.get(&range.id)?;
        range.home.filter(|_| now_ns.saturating_sub(*since_ns) >= HOME_NS)
    }

    /// Whether `cell` has room for a range that `me` leads, where nothing may be evicted: what does
    /// not fit there would be refused to clients, for as long as it tries.
    pub(super) fn fits(&self, cell: CellId, among: (&Map, CellId, &Peers)) -> bool {
        !self.memory.keeps_all || self.lacking(cell, among) == 0
    }

    /// How much room `cell` lacks for a range that `me` leads, in [`STEPS`] of what that has.
    fn lacking(&self, cell: CellId, (map, me, peers): (&Map, CellId, &Peers)) -> u64 {
        // What it holds is of all its parts alike, as far as is known.
        let needed = self.memory.used_bytes / parts(map, me).max(1) as u64;
        let free = peers.get(cell).map_or(0, |peer| peer.free_bytes);
        needed.saturating_sub(free).saturating_mul(STEPS).div_ceil(needed.max(1))
    }

    /// Whether `cell` may learn `range`, which `me` leads, if it is heard and has room.
    fn may_learn(
        &self,
        range: &Range,
        cell: CellId,
        (map, me): (&Map, CellId),
        now_ns: u64,
    ) -> bool {
        let is_cell = map.cells.get(&cell).is_some_and(|it| !it.is_witness && it.leaves.is_none());
        // Where it is waited for by its journal alone, that is over soon.
        let is_awaited = |of: &Range| of.primary == me && of.journals.contains(&cell);
        let is_free = !range.has(cell) && !map.ranges.iter().any(is_awaited);
        is_free && is_cell && now_ns >= self.rests_until_ns(range.id, cell)
    }

    /// Whether `cell` may learn `range` now, which `me` leads.
    pub(super) fn may_take(
        &self,
        range: &Range,
        cell: CellId,
        (map, me, peers): (&Map, CellId, &Peers),
        now_ns: u64,
    ) -> bool {
        let is_heard = peers.get(cell).is_some_and(|peer| peer.is_heard(now_ns));
        is_heard
            && self.may_learn(range, cell, (map, me), now_ns)
            && self.fits(cell, (map, me, peers))
    }

    /// The best of the cells that may learn `range` now, which `me` leads.
    pub(super) fn best(
        &self,
        range: &Range,
        among: (&Map, CellId, &Peers),
        now_ns: u64,
    ) -> Option<CellId> {
        let (map, me, peers) = among;
        let parts = |cell: CellId| parts(map, cell);
        let lacking = |cell: CellId| self.lacking(cell, among);
        let is_home = |cell: CellId| map.ranges.iter().any(|range| range.home == Some(cell));
        let is_quiet =
            |cell: CellId| peers.get(cell).is_none_or(|it| it.absent_ns(now_ns) >= SHRINK_NS);
        let is_away = |cell: CellId| is_home(cell) && is_quiet(cell);
        let streams = streams(map, me);
        let is_more = |cell: CellId| streams.len() >= STREAMS_MAX && !streams.contains(&cell);
        let order = |cell: &CellId| {
            let parts = (parts(*cell), lacking(*cell));
            (is_away(*cell), is_more(*cell), parts, *cell < range.primary, *cell)
        };
        peers.ids().filter(|it| self.may_take(range, *it, among, now_ns)).min_by_key(order)
    }

    /// The cell that should learn `range` now, which `me` leads.
    pub(super) fn of(
        &self,
        range: &Range,
        (map, me, peers): (&Map, CellId, &Peers),
        now_ns: u64,
    ) -> Option<CellId> {
        // Nothing is served until it goes on without the journals: that comes first.
        let is_served = range.journals.is_empty();
        let wanted = range.moves_to_learner();
        let lacks = lacks_copy(range, map);
        if !lacks && wanted.is_none() || range.learner.is_some() || !is_served {
            return None;
        }
        let among = (map, me, peers);
        let may_take = |cell: &CellId| self.may_take(range, *cell, among, now_ns);
        if let Some(cell) = wanted.or(range.home.filter(|_| lacks)).filter(may_take) {
            return Some(cell);
        }
        if !lacks {
            return None;
        }
        let best = self.best(range, among, now_ns)?;
        // One that has started again is not heard at once.
        let may_return = |cell: CellId| {
            let peer = peers.get(cell);
            let is_recent = peer.is_some_and(|peer| peer.absent_ns(now_ns) < RETURN_NS);
            let is_heard = peer.is_some_and(|peer| peer.is_heard(now_ns));
            is_recent && self.may_learn(range, cell, (map, me), now_ns) && !is_heard
        };
        let since_ns = self.since_ns.get(&range.id).copied().unwrap_or(0);
        let waits = self.lacking(best, among) > 0
            && now_ns.saturating_sub(since_ns) < RETURN_NS
            && peers.ids().any(may_return);
        (!waits).then_some(best)
    }
}

/// Ranges in which `cell` has a part.
fn parts(map: &Map, cell: CellId) -> usize {
    map.ranges.iter().filter(|range| range.has(cell)).count()
}

/// The cells that have a part in what `me` leads.
fn streams(map: &Map, me: CellId) -> BTreeSet<CellId> {
    let led = map.ranges.iter().filter(|range| range.primary == me);
    led.flat_map(|range| range.copies.iter().copied().chain(range.learner)).collect()
}

/// Whether `range` has fewer copies than `map` wants. One that learns is none yet.
fn lacks_copy(range: &Range, map: &Map) -> bool {
    range.copies.len() + 1 < usize::from(map.copies_wanted)
}
