//! Where a range should be, if not where it is: what its primary orders then.
//!
//! ```text
//! the primary leaves          to a copy, or to who may learn it; if it is absorbed, to the primary
//!                             of a neighbour
//! a copy leaves               another cell replaces it
//! the range is absorbed       to the primary and the copies of a neighbour; then both become one
//! its home runs again         back there
//! ```
//!
//! Of two neighbours that are absorbed the lower one goes to the upper one: they would change
//! places otherwise.

use super::choice::Choice;
use super::peers::Peers;
use crate::ids::CellId;
use crate::map::{Command, Map, Range, Why};

/// What a primary goes by.
#[derive(Clone, Copy)]
pub(super) struct Moving<'a> {
    pub(super) map: &'a Map,
    pub(super) me: CellId,
    pub(super) peers: &'a Peers,
    pub(super) choice: &'a Choice,
    pub(super) now_ns: u64,
}

impl Moving<'_> {
    /// What is to be ordered about `range`, which `me` leads. `are_ready`: whether the copies of a
    /// range have begun with all that the map says.
    pub(super) fn order(
        &self,
        range: &Range,
        are_ready: impl Fn(&Range) -> bool,
    ) -> Option<Command> {
        if self.map.check_order(range).is_err() {
            return None;
        }
        if self.map.leaving(self.me).is_some() {
            return Some(self.to(range, self.successor(range)?));
        }
        let leaves = |cell: &&CellId| self.map.leaving(**cell).is_some();
        if let Some(cell) = range.copies.iter().find(leaves) {
            return self.replaces(range, *cell);
        }
        if range.is_absorbed {
            return self.joins(range, are_ready);
        }
        self.choice.home_of(range, self.now_ns).map(|home| self.to(range, home))
    }

    fn to(&self, range: &Range, cell: CellId) -> Command {
        Command::Move { at: range.stamp(), cell, from: None }
    }

    /// Who is to lead `range` instead of this cell, which leaves.
    fn successor(&self, range: &Range) -> Option<CellId> {
        let is_absorbed = self.map.leaving(self.me).is_some_and(|how| how.is_absorbed);
        let neighbour =
            || self.neighbours(range).map(|it| it.primary).find(|it| self.can_lead(range, *it));
        let copy = || range.copies.iter().copied().filter(|it| self.can_lead(range, *it));
        let led = |cell: &CellId| self.map.ranges.iter().filter(|it| it.primary == *cell).count();
        is_absorbed
            .then(neighbour)
            .flatten()
            .or_else(|| copy().min_by_key(led))
            .or_else(|| self.best(range))
    }

    /// How the copy `from`, which leaves, is replaced.
    fn replaces(&self, range: &Range, from: CellId) -> Option<Command> {
        let at = range.stamp();
        let led = self.neighbours(range).filter(|it| it.primary == self.me);
        let alike = led.flat_map(|it| &it.copies).copied().find(|it| self.may_take(range, *it));
        if let Some(cell) = alike.or_else(|| self.best(range)) {
            return Some(Command::Move { at, cell, from: Some(from) });
        }
        let is_forced = self.map.leaving(from).is_some_and(|how| how.is_forced);
        let is_other = |cell: &CellId| !range.has(*cell) && self.stays(*cell);
        let has_others = self.peers.ids().any(|cell| is_other(&cell));
        let drop = Command::Drop { at, cell: from, why: Why::Leaves };
        (is_forced && !has_others).then_some(drop)
    }

    /// The next step until `range` is one with a neighbour.
    fn joins(&self, range: &Range, are_ready: impl Fn(&Range) -> bool) -> Option<Command> {
        let own = self.neighbours(range).find(|it| it.primary == self.me);
        let Some(other) = own else {
            let led = self.neighbours(range).map(|it| it.primary);
            return led
                .into_iter()
                .find(|it| self.can_lead(range, *it))
                .map(|it| self.to(range, it));
        };
        self.map.check_order(other).ok()?;
        let (lower, upper) =
            if other.start < range.start { (other, range) } else { (range, other) };
        if lower.fits(upper) {
            let unites = Command::Unite { at: lower.stamp(), with: upper.stamp() };
            return are_ready(lower).then_some(unites);
        }
        let lacks = |cell: &CellId| !range.copies.contains(cell) && self.may_take(range, *cell);
        let cell = other.copies.iter().copied().find(lacks)?;
        let from = range.copies.iter().copied().find(|it| !other.copies.contains(it))?;
        Some(Command::Move { at: range.stamp(), cell, from: Some(from) })
    }

    /// The neighbours with which an absorbed `range` may become one, the next one first.
    fn neighbours(&self, range: &Range) -> impl Iterator<Item = &Range> {
        let [before, after] = self.map.neighbours(range);
        let are_absorbed = [before, after].into_iter().flatten().all(|it| it.is_absorbed);
        let before = before.filter(|it| !it.is_absorbed);
        let first = after.filter(|it| are_absorbed || !it.is_absorbed);
        first.into_iter().chain(before)
    }

    /// Whether `cell` is one that may lead `range` next: a copy, or one that may learn it.
    fn can_lead(&self, range: &Range, cell: CellId) -> bool {
        self.stays(cell) && (range.copies.contains(&cell) || self.may_take(range, cell))
    }

    /// Whether `cell` is heard, and does not leave.
    fn stays(&self, cell: CellId) -> bool {
        let is_heard = self.peers.get(cell).is_some_and(|peer| peer.is_heard(self.now_ns));
        let is_cell = self.map.cells.get(&cell).is_some_and(|it| !it.is_witness);
        is_heard && is_cell && self.map.leaving(cell).is_none()
    }

    fn may_take(&self, range: &Range, cell: CellId) -> bool {
        self.choice.may_take(range, cell, (self.map, self.me, self.peers), self.now_ns)
    }

    fn best(&self, range: &Range) -> Option<CellId> {
        self.choice.best(range, (self.map, self.me, self.peers), self.now_ns)
    }
}
