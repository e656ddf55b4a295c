//! Where a range should be, if not where it is: what its primary orders then.
//!
//! ```text
//! the primary leaves          to a copy, or to who may learn it; if it is absorbed, to the primary
//!                             of a neighbour
//! a copy leaves               another cell replaces it
//! the range is absorbed       to the primary and the copies of a neighbour; then both become one
//! its home runs again         back there
//! a copy is one too many      where others have fewer parts: once nothing else is under way
//! ```
//!
//! Of two neighbours that are absorbed the lower one goes to the upper one: they would change
//! places otherwise.

use super::choice::Choice;
use super::peers::Peers;
use crate::ids::CellId;
use crate::map::{Command, Map, Range, Uneven, Why};

/// How long nothing has changed before a copy moves only so that parts are spread evenly.
const EVEN_NS: u64 = 1_000_000_000;

/// What a primary goes by.
#[derive(Clone, Copy)]
pub(super) struct Moving<'a> {
    pub(super) map: &'a Map,
    pub(super) me: CellId,
    pub(super) peers: &'a Peers,
    pub(super) choice: &'a Choice,
    pub(super) now_ns: u64,
    /// The copy that should be elsewhere, and since when.
    pub(super) uneven: Option<(Uneven, u64)>,
}

impl Moving<'_> {
    /// What is to be ordered about `range`, which `me` leads. `are_ready`: whether `me` and the
    /// copies of a range have begun with all that the map says.
    pub(super) fn order(
        &self,
        range: &Range,
        are_ready: impl Fn(&Range) -> bool,
    ) -> Option<Command> {
        let leaves_itself = self.map.leaving(self.me).is_some();
        // Also where more copies are missing than that one, which nobody can be.
        if let Some(drop) = self.drops(range).filter(|_| !leaves_itself) {
            return Some(drop);
        }
        if self.map.check_order(range, leaves_itself).is_err() {
            return None;
        }
        if leaves_itself {
            return Some(self.to(range, self.successor(range)?));
        }
        if let Some(cell) = self.leaving_copy(range) {
            return self.replaces(range, cell);
        }
        if let Some(upper) = self.unites_with(range) {
            let unites = Command::Unite { at: range.stamp(), with: upper.stamp() };
            return are_ready(range).then_some(unites);
        }
        if range.is_absorbed {
            return self.joins(range);
        }
        let home = self.choice.home_of(range, self.now_ns);
        let home = home.filter(|home| self.can_lead(range, *home));
        home.map(|home| self.to(range, home)).or_else(|| self.evens_out(range))
    }

    /// Has the copy of `range` that should be elsewhere go there.
    fn evens_out(&self, range: &Range) -> Option<Command> {
        let (Uneven { from, to, .. }, _) = self.uneven.filter(|(uneven, since_ns)| {
            uneven.range == range.id && self.now_ns.saturating_sub(*since_ns) >= EVEN_NS
        })?;
        let moves = Command::Move { at: range.stamp(), cell: to, from: Some(from) };
        self.may_take(range, to).then_some(moves)
    }

    fn to(&self, range: &Range, cell: CellId) -> Command {
        Command::Move { at: range.stamp(), cell, from: None }
    }

    /// The next range, if it and `range` are to become one now.
    fn unites_with(&self, range: &Range) -> Option<&Range> {
        let [_, upper] = self.map.neighbours(range);
        let upper = upper.filter(|upper| range.is_absorbed || upper.is_absorbed)?;
        let fits = range.fits(upper) && self.map.check_order(upper, false).is_ok();
        fits.then_some(upper)
    }

    /// Who is to lead `range` instead of this cell, which leaves. Where it lacks a copy, one that
    /// has it.
    fn successor(&self, range: &Range) -> Option<CellId> {
        let is_absorbed = self.map.leaving(self.me).is_some_and(|how| how.is_absorbed);
        let neighbour =
            || self.neighbours(range).map(|it| it.primary).find(|it| self.can_lead(range, *it));
        let copy = || range.copies.iter().copied().filter(|it| self.can_lead(range, *it));
        let led = |cell: &CellId| self.map.ranges.iter().filter(|it| it.primary == *cell).count();
        if range.is_short(self.map.copies_possible()) {
            return copy().min_by_key(led);
        }
        is_absorbed
            .then(neighbour)
            .flatten()
            .or_else(|| copy().min_by_key(led))
            .or_else(|| self.best(range).filter(|it| self.map.may_lead_more(*it)))
    }

    /// How the copy `from`, which leaves, is replaced.
    fn replaces(&self, range: &Range, from: CellId) -> Option<Command> {
        // Those that are to become one have the same copies.
        let is_to_join = |it: &&Range| range.is_absorbed || it.is_absorbed;
        let led = self.neighbours(range).filter(|it| it.primary == self.me).filter(is_to_join);
        let alike = led.flat_map(|it| &it.copies).copied().find(|it| self.may_take(range, *it));
        let cell = alike.or_else(|| self.best(range))?;
        Some(Command::Move { at: range.stamp(), cell, from: Some(from) })
    }

    /// A copy of `range` that leaves.
    fn leaving_copy(&self, range: &Range) -> Option<CellId> {
        range.copies.iter().copied().find(|cell| self.map.leaving(*cell).is_some())
    }

    /// Drops a copy that leaves by force and that nobody can replace.
    fn drops(&self, range: &Range) -> Option<Command> {
        let is_forced = |cell: &CellId| self.map.leaving(*cell).is_some_and(|how| how.is_forced);
        let cell = self.leaving_copy(range).filter(is_forced)?;
        // One that is not heard for a moment may be the one that takes its place.
        let is_there =
            |cell: CellId| self.peers.get(cell).is_some_and(|peer| !peer.is_lost(self.now_ns));
        let among = (self.map, self.me, self.peers);
        let is_other = |cell: CellId| {
            let may_take = self.may_stay(cell) && self.choice.fits(cell, among);
            !range.has(cell) && may_take && is_there(cell)
        };
        let is_free = !range.waits_for_operator && range.learner.is_none() && !range.is_ordered();
        let nobody = !self.peers.ids().any(is_other);
        let drop = Command::Drop { at: range.stamp(), cell, why: Why::Leaves };
        (is_free && nobody).then_some(drop)
    }

    /// The next step until `range` has the primary and the copies of a neighbour.
    fn joins(&self, range: &Range) -> Option<Command> {
        let own = self.neighbours(range).find(|it| it.primary == self.me);
        let Some(other) = own else {
            let led = self.neighbours(range).map(|it| it.primary);
            return led
                .into_iter()
                .find(|it| self.can_lead(range, *it))
                .map(|it| self.to(range, it));
        };
        self.map.check_order(other, false).ok()?;
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
        let is_heard = self.peers.get(cell).is_some_and(|peer| peer.is_heard(self.now_ns));
        let is_copy = range.copies.contains(&cell);
        let leaves = self.map.leaving(range.primary).is_some();
        is_heard
            && self.may_stay(cell)
            && (is_copy && leaves || self.map.may_lead_more(cell))
            && (is_copy || self.may_take(range, cell))
    }

    /// Whether `cell` may have a part in ranges, and does not leave.
    fn may_stay(&self, cell: CellId) -> bool {
        let known = self.map.cells.get(&cell);
        known.is_some_and(|it| !it.is_witness && it.leaves.is_none())
    }

    fn may_take(&self, range: &Range, cell: CellId) -> bool {
        self.choice.may_take(range, cell, (self.map, self.me, self.peers), self.now_ns)
    }

    fn best(&self, range: &Range) -> Option<CellId> {
        self.choice.best(range, (self.map, self.me, self.peers), self.now_ns)
    }
}
