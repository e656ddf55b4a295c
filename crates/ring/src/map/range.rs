//! A range: slices that have the same owner and the same copies.
//!
//! ```text
//! an order is in the map                      what its primary does
//! moves_to B            B is no copy          B learns it
//!                       B is a copy           it hands the range over; leaves, if enough are left
//! moves_to B, leaves C  B is a copy           C leaves
//! divides at S, to B                          it makes two of it, from S on another one; B is to
//!                                             lead that, and to replace a copy of the rest
//! unites_with R         both say so           it makes one of both: they are neighbours, with the
//!                                             same primary and the same copies
//! ```

use super::command::{Refusal, Stamp, Started};
use super::division::Division;
use crate::ids::{CellId, RangeId};
use base::SliceRange;
use serde::{Deserialize, Serialize};

/// Most epochs of a range: the part of a version that names the epoch has 20 bits.
pub const EPOCHS_MAX: u32 = 1 << 20;

fn is_no(yes: &bool) -> bool {
    !*yes
}

fn is_none(count: &u32) -> bool {
    *count == 0
}

fn is_zero(version: &u64) -> bool {
    *version == 0
}

/// Slices that have the same owner and the same copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// Its id.
    pub id: RangeId,
    /// The number of its first slice.
    pub start: u16,
    /// The number after that of its last slice.
    pub end: u16,
    /// How many primaries it has had. Versions carry it.
    pub epoch: u32,
    /// How many changes it has had: what a command is compared with.
    pub config: u64,
    /// Who orders its changes.
    pub primary: CellId,
    /// Who has all that was acknowledged, besides the primary.
    pub copies: Vec<CellId>,
    /// Who is on the way to be a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub learner: Option<CellId>,
    /// The version of the map in which it began to learn.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learner_since: u64,
    /// How often its last copy was lost, and it began again empty.
    #[serde(default, skip_serializing_if = "is_none")]
    pub losses: u32,
    /// Whether its primary has begun this epoch with what its journal has: its earlier life, in
    /// which it was in sync, had ended.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_recovered: bool,
    /// How often it has begun so.
    #[serde(default, skip_serializing_if = "is_none")]
    pub recoveries: u32,
    /// Who has all that was acknowledged in its journal alone: its life in which it was in sync has
    /// ended, and the primary has not gone on without it since. The primary serves nothing before
    /// it drops these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub journals: Vec<CellId>,
    /// The cell that is to lead it, or to replace a copy. One that is no copy learns it first, and
    /// takes the place of the primary, or of that copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<CellId>,
    /// The copy that `moves_to` replaces. `None`: the primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<CellId>,
    /// How it is to be divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divides: Option<Division>,
    /// The neighbour with which it is to become one range. That one names this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unites_with: Option<RangeId>,
    /// The cell that has led it until it ended or was emptied: it leads it again once it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<CellId>,
    /// Whether the cell that has led it was absorbed: it is to become one with a neighbour.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_absorbed: bool,
    /// Whether the primary before has handed it over: it had ended its log, and all that were in
    /// sync had all of it.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_handed_over: bool,
    /// Where it has begun this epoch as one range that was two: these, and their epochs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made_of: Vec<(RangeId, u32)>,
    /// Whether nobody leads it until an operator forgives it: its last copy has lost its journal,
    /// and what lies below may be older, and have what was deleted.
    #[serde(default, skip_serializing_if = "is_no")]
    pub waits_for_operator: bool,
}

impl Range {
    /// Its slices.
    #[must_use]
    pub fn slices(&self) -> SliceRange {
        SliceRange::new(usize::from(self.start)..usize::from(self.end))
    }

    /// The primary and all copies in sync.
    pub fn in_sync(&self) -> impl Iterator<Item = CellId> {
        std::iter::once(self.primary).chain(self.copies.iter().copied())
    }

    /// Whether `cell` is in sync.
    #[must_use]
    pub fn is_in_sync(&self, cell: CellId) -> bool {
        self.in_sync().any(|it| it == cell)
    }

    /// Whether it has fewer copies in sync than `wanted`, the primary included.
    #[must_use]
    pub fn is_short(&self, wanted: u8) -> bool {
        self.in_sync().count() < usize::from(wanted)
    }

    /// How often the ids of its requests were lost, with all copies or in a start from a journal:
    /// what a request from before comes to is in doubt.
    #[must_use]
    pub fn times_forgotten(&self) -> u32 {
        self.losses + self.recoveries
    }

    /// The copy that the primary is to hand it over to now.
    #[must_use]
    pub fn hands_over_to(&self) -> Option<CellId> {
        self.moves_to.filter(|cell| self.leaves.is_none() && self.copies.contains(cell))
    }

    /// Whether the primary is to end its log of it now: it hands it over, or divides it.
    #[must_use]
    pub fn is_to_be_sealed(&self) -> bool {
        self.hands_over_to().is_some() || self.divides.is_some() || self.unites_with.is_some()
    }

    /// Whether something is ordered about it.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.moves_to.is_some() || self.divides.is_some() || self.unites_with.is_some()
    }

    /// Whether the log of `before`, which was this range or a part of it, had been ended when the
    /// present epoch began, and all that were in sync had all of it.
    #[must_use]
    pub fn follows(&self, before: &Self) -> bool {
        let is_next = match self.made_of.is_empty() {
            true => self.epoch == before.epoch + 1,
            false => self.made_of.contains(&(before.id, before.epoch)),
        };
        self.is_handed_over && is_next
    }

    /// Whether it can become one range with `upper`: the same cells have both, and nothing is on
    /// its way.
    #[must_use]
    pub fn fits(&self, upper: &Self) -> bool {
        let is_still = |it: &Self| {
            let waits = it.waits_for_operator || !it.journals.is_empty();
            it.learner.is_none() && it.moves_to.is_none() && it.divides.is_none() && !waits
        };
        self.end == upper.start
            && self.primary == upper.primary
            && self.copies.len() == upper.copies.len()
            && self.copies.iter().all(|copy| upper.copies.contains(copy))
            && is_still(self)
            && is_still(upper)
    }

    /// The copy that leaves it now: the one that replaces it is in sync.
    #[must_use]
    pub fn releases(&self) -> Option<CellId> {
        self.leaves.filter(|_| self.moves_to.is_some_and(|cell| self.copies.contains(&cell)))
    }

    /// A cell that an order names, and that has no part in it yet.
    #[must_use]
    pub fn expects(&self) -> Option<CellId> {
        let learner = self.moves_to_learner().filter(|_| self.learner.is_none());
        learner.or(self.divides.map(|it| it.cell).filter(|cell| !self.has(*cell)))
    }

    /// The cell that is to learn it because it is to lead it, or to replace a copy.
    #[must_use]
    pub fn moves_to_learner(&self) -> Option<CellId> {
        self.moves_to.filter(|cell| !self.is_in_sync(*cell))
    }

    /// All that have a part in it, or whose journal counts.
    pub(super) fn cells(&self) -> impl Iterator<Item = CellId> {
        self.in_sync().chain(self.learner).chain(self.journals.iter().copied())
    }

    /// All of which it says anything: that they have a part, are to have one, or had one that they
    /// are to get back.
    pub(super) fn named(&self) -> impl Iterator<Item = CellId> {
        let to_come = [self.moves_to, self.leaves, self.home, self.divides.map(|into| into.cell)];
        self.cells().chain(to_come.into_iter().flatten())
    }

    /// Whether it says anything of `cell`.
    pub(super) fn names(&self, cell: CellId) -> bool {
        self.named().any(|it| it == cell)
    }

    /// Whether `cell` has a part in it, or its journal counts.
    #[must_use]
    pub fn has(&self, cell: CellId) -> bool {
        self.cells().any(|it| it == cell)
    }

    /// What a command about it is compared with.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        Stamp { range: self.id, epoch: self.epoch, config: self.config }
    }

    pub(super) fn has_had_all_epochs(&self) -> bool {
        self.epoch + 1 >= EPOCHS_MAX
    }

    pub(super) fn changes(&mut self) {
        self.config += 1;
    }

    /// `primary` leads it, in a new epoch. The other copies stay in sync: before it serves, they
    /// exchange what they have of the log of the primary before. Who has led it first is its home.
    pub(super) fn begins_epoch(&mut self, primary: CellId) -> Result<(), Refusal> {
        if self.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        self.epoch += 1;
        self.is_recovered = false;
        self.is_handed_over = false;
        self.made_of.clear();
        self.ends_orders();
        self.waits_for_operator = false;
        let home = self.home.unwrap_or(self.primary);
        self.home = (home != primary && !self.is_absorbed).then_some(home);
        self.primary = primary;
        self.copies.retain(|copy| *copy != primary);
        self.journals.retain(|cell| *cell != primary);
        self.learner = None;
        self.changes();
        Ok(())
    }

    /// This epoch begins with what the journal of its primary has.
    pub(super) fn begins_with_its_journal(&mut self) {
        self.is_recovered = true;
        self.recoveries += 1;
    }

    pub(super) fn drops(&mut self, cell: CellId) {
        self.copies.retain(|copy| *copy != cell);
        self.journals.retain(|it| *it != cell);
        self.learner = self.learner.filter(|learner| *learner != cell);
        if self.divides.is_some_and(|it| it.cell == cell)
            || self.moves_to == Some(cell)
            || self.leaves == Some(cell)
        {
            self.ends_orders();
        }
        self.changes();
    }

    /// `cell` stays after all: who would take its place stops learning it.
    pub(super) fn keeps(&mut self, cell: CellId) {
        let is_its_own = self.leaves.unwrap_or(self.primary) == cell;
        if let Some(learner) = self.moves_to_learner().filter(|_| is_its_own) {
            self.drops(learner);
        }
    }

    pub(super) fn ends_orders(&mut self) {
        (self.moves_to, self.leaves, self.divides) = (None, None, None);
        self.unites_with = None;
    }

    /// Makes one of it and of `upper`, as it was ordered, in a new epoch of their primary, which
    /// has ended its logs of both. That epoch is above those of both.
    pub(super) fn merge(&mut self, upper: &Self) -> Result<(), Refusal> {
        if self.unites_with != Some(upper.id) || !self.fits(upper) {
            return Err(Refusal::NotEligible);
        }
        let made_of = vec![(self.id, self.epoch), (upper.id, upper.epoch)];
        let home = if self.is_absorbed { upper.home } else { self.home };
        if self.has_had_all_epochs() || upper.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        self.epoch = self.epoch.max(upper.epoch);
        self.config = self.config.max(upper.config);
        self.begins_epoch(self.primary)?;
        (self.is_handed_over, self.made_of) = (true, made_of);
        (self.end, self.home) = (upper.end, home.filter(|home| *home != self.primary));
        self.is_absorbed &= upper.is_absorbed;
        self.losses = self.losses.max(upper.losses);
        self.recoveries = self.recoveries.max(upper.recoveries);
        Ok(())
    }

    /// Makes two of it, as it was ordered: both in a new epoch of the same primary, which has ended
    /// its log of the one before. Returns the upper one, which has the id `id`.
    pub(super) fn split(&mut self, id: RangeId) -> Result<Self, Refusal> {
        let Division { slice, cell } = self.divides.ok_or(Refusal::NotEligible)?;
        self.begins_epoch(self.primary)?;
        self.is_handed_over = true;
        self.is_absorbed = false;
        let upper = Self { id, start: slice, moves_to: Some(cell), home: None, ..self.clone() };
        self.end = slice;
        // Where it is a copy, nobody is replaced.
        self.leaves = self.copies.last().copied().filter(|_| !self.copies.contains(&cell));
        self.moves_to = self.leaves.and(Some(cell));
        Ok(upper)
    }

    /// The life of `cell` in which it had its part has ended, which is proven. A primary is
    /// followed by its first copy; without one, by itself if it `has_journal`, or by another cell
    /// whose journal counts. Where there is none, it begins again itself, which is a loss; above a
    /// tier only when an operator forgives it.
    pub(super) fn loses(&mut self, cell: CellId, started: &Started) -> Result<(), Refusal> {
        if !self.has(cell) || self.waits_for_operator {
            return Ok(());
        }
        let keeps = started.has_journal && self.learner != Some(cell);
        if self.primary != cell {
            self.drops(cell);
            self.journals.extend(keeps.then_some(cell));
            return Ok(());
        }
        let copy = self.copies.first().copied();
        let journal = keeps.then_some(cell).or_else(|| self.journals.first().copied());
        let next = copy.or(journal);
        if next.is_none() && started.has_tier {
            self.waits_for_operator = true;
            self.learner = None;
            self.changes();
            return Ok(());
        }
        self.begins_epoch(next.unwrap_or(cell))?;
        if copy.is_none() && next.is_some() {
            self.begins_with_its_journal();
        }
        self.journals.extend((keeps && next != Some(cell)).then_some(cell));
        self.losses += u32::from(next.is_none());
        Ok(())
    }
}
