//! The map of the ring: its cells, and for each range of slices who owns it.
//!
//! ```text
//! slices   0 ......... 5376 ......... 10752 ......... 16383
//! range       1              2               3
//! primary     cell 1         cell 2          cell 3
//! copies      cell 2         cell 3          cell 1           in sync: they have all that was
//! learner     -              -               -                acknowledged
//! ```
//!
//! Invariants: once the ring has formed, the ranges cover all slices, without overlap, in their
//! order. A range has a primary; no cell appears in it twice. Its epoch rises with each new
//! primary, its configuration with every change. The lives of its cells are those in `cells`: a
//! cell that starts again is removed from all ranges in the same step.

use super::below::OtherBelow;
use super::command::{Command, Refusal, Stamp, Started, Verdict};
use super::flushes::Flushes;
use crate::consistency::Consistency;
use crate::ids::{CellId, RangeId};
use base::{RUN_SLICES, SLICES, SliceId, SliceRange};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most cells that a ring has had, those included that are gone.
pub const CELLS_MAX: usize = 4096;
/// Most copies of a range, the primary included.
pub const COPIES_MAX: u8 = 3;
/// Most epochs of a range: the part of a version that names the epoch has 20 bits.
pub const EPOCHS_MAX: u32 = 1 << 20;

/// A cell of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// A number that the cell drew before it joined, so that joining twice makes one cell.
    pub token: u64,
    /// Its latest start.
    pub started: Started,
    /// Whether it is a witness: it has no part in any range, and serves no clients.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_witness: bool,
}

fn is_no(yes: &bool) -> bool {
    !*yes
}

fn is_none(count: &u32) -> bool {
    *count == 0
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
    pub learner: Option<CellId>,
    /// The version of the map in which it began to learn.
    pub learner_since: u64,
    /// How often its last copy was lost, and it began again empty.
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
    /// The cell that is to lead it. One that is no copy learns it first, and takes the place of the
    /// primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moves_to: Option<CellId>,
    /// Whether the primary before has handed it over: it had ended its log, and all that were in
    /// sync had all of it.
    #[serde(default, skip_serializing_if = "is_no")]
    pub is_handed_over: bool,
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
        self.moves_to.filter(|cell| self.copies.contains(cell))
    }

    /// The cell that is to learn it because it is to lead it.
    #[must_use]
    pub fn moves_to_learner(&self) -> Option<CellId> {
        self.moves_to.filter(|cell| !self.is_in_sync(*cell))
    }

    /// All that have a part in it, or whose journal counts.
    fn cells(&self) -> impl Iterator<Item = CellId> {
        self.in_sync().chain(self.learner).chain(self.journals.iter().copied())
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

    fn has_had_all_epochs(&self) -> bool {
        self.epoch + 1 >= EPOCHS_MAX
    }

    fn changes(&mut self) {
        self.config += 1;
    }

    /// `primary` leads it, in a new epoch. The other copies stay in sync: before it serves, they
    /// exchange what they have of the log of the primary before.
    fn begins_epoch(&mut self, primary: CellId) -> Result<(), Refusal> {
        if self.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        self.epoch += 1;
        self.is_recovered = false;
        self.is_handed_over = false;
        self.moves_to = None;
        self.waits_for_operator = false;
        self.primary = primary;
        self.copies.retain(|copy| *copy != primary);
        self.journals.retain(|cell| *cell != primary);
        self.learner = None;
        self.changes();
        Ok(())
    }

    /// This epoch begins with what the journal of its primary has.
    fn begins_with_its_journal(&mut self) {
        self.is_recovered = true;
        self.recoveries += 1;
    }

    fn drops(&mut self, cell: CellId) {
        self.copies.retain(|copy| *copy != cell);
        self.journals.retain(|it| *it != cell);
        self.learner = self.learner.filter(|learner| *learner != cell);
        self.moves_to = self.moves_to.filter(|to| *to != cell);
        self.changes();
    }

    /// The life of `cell` in which it had its part has ended, which is proven. A primary is
    /// followed by its first copy; without one, by itself if it `has_journal`, or by another cell
    /// whose journal counts. Where there is none, it begins again itself, which is a loss; above a
    /// tier only when an operator forgives it.
    fn loses(&mut self, cell: CellId, started: &Started) -> Result<(), Refusal> {
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

/// The map of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The ring that it is of.
    pub ring: u64,
    /// Rises with each command, and above all earlier ones with a recovery.
    pub version: u64,
    /// The number of cells with which the ring forms.
    pub cells_wanted: u32,
    /// Copies that each range should have, the primary included.
    pub copies_wanted: u8,
    /// What its replies mean, unless a request chooses otherwise.
    #[serde(default)]
    pub consistency: Consistency,
    /// All cells.
    pub cells: BTreeMap<CellId, Cell>,
    /// All ranges, by their slices. None before the ring has formed.
    pub ranges: Vec<Range>,
    /// When all items are to end.
    #[serde(default)]
    pub flushes: Flushes,
    /// The number of the next cell.
    next_cell: u32,
}

/// The number of the first slice of the range number `at` of a new ring of `cells`, counted from 0.
fn bound(at: usize, cells: usize) -> u16 {
    // What lies below a ring is kept by runs of slices, of which each has one owner.
    let step = if cells <= SLICES / RUN_SLICES { RUN_SLICES } else { 1 };
    (at * (SLICES / step) / cells.clamp(1, SLICES) * step) as u16
}

impl Map {
    /// The map of a new ring, in which there is nothing yet.
    #[must_use]
    pub fn new(ring: u64, cells_wanted: u32, copies_wanted: u8) -> Self {
        Self {
            ring,
            version: 0,
            cells_wanted,
            copies_wanted: copies_wanted.clamp(1, COPIES_MAX),
            consistency: Consistency::default(),
            cells: BTreeMap::new(),
            ranges: Vec::new(),
            flushes: Flushes::default(),
            next_cell: 1,
        }
    }

    /// The same with another meaning of its replies.
    #[must_use]
    pub fn with_consistency(self, consistency: Consistency) -> Self {
        Self { consistency, ..self }
    }

    /// Whether the ring has formed.
    #[must_use]
    pub fn has_formed(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The range of `slice`. `None` before the ring has formed.
    #[must_use]
    pub fn range_of(&self, slice: SliceId) -> Option<&Range> {
        let index = slice.index();
        let at = self.ranges.partition_point(|range| usize::from(range.end) <= index);
        self.ranges.get(at)
    }

    /// Whether `cell` is one that may have a part in ranges.
    fn may_hold(&self, cell: CellId) -> Result<(), Refusal> {
        match self.cells.get(&cell) {
            None => Err(Refusal::NoCell),
            Some(cell) if cell.is_witness => Err(Refusal::NotEligible),
            Some(_) => Ok(()),
        }
    }

    /// The range with this id.
    #[must_use]
    pub fn range(&self, id: RangeId) -> Option<&Range> {
        self.ranges.iter().find(|range| range.id == id)
    }

    /// What breaks the invariants, for a test or a message. `None` if nothing does.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let mut next = 0;
        for range in &self.ranges {
            if range.start != next || range.end <= range.start {
                return Some(format!("range {} begins at {}, not {next}", range.id, range.start));
            }
            next = range.end;
            let mut cells: Vec<_> = range.cells().collect();
            let count = cells.len();
            cells.sort_unstable();
            cells.dedup();
            if cells.len() != count {
                return Some(format!("range {} has a cell twice", range.id));
            }
            let most = usize::from(self.copies_wanted) + usize::from(range.moves_to.is_some());
            if range.in_sync().count() > most {
                return Some(format!("range {} has more copies than are wanted", range.id));
            }
            if let Some(cell) = cells.iter().find(|cell| self.may_hold(**cell).is_err()) {
                return Some(format!("range {} has cell {cell}, which may not", range.id));
            }
        }
        let covers = self.ranges.is_empty() || usize::from(next) == SLICES;
        (!covers).then(|| format!("slices from {next} on are in no range"))
    }

    /// Applies `command`. A command that is refused changes nothing.
    pub fn apply(&mut self, command: &Command) -> Verdict {
        let applied = match *command {
            Command::Join { token, started } => self.join(token, started, false).map(Some),
            Command::JoinWitness { token, started } => self.join(token, started, true).map(Some),
            Command::Start { cell, started } => self.start(cell, started).map(|()| None),
            Command::Promote { at, cell, .. } => self.promote(at, cell).map(|()| None),
            Command::Drop { at, cell, .. } => self.drop_copy(at, cell).map(|()| None),
            Command::Learn { at, cell } => self.learn(at, cell).map(|()| None),
            Command::Admit { at, cell } => self.admit(at, cell).map(|()| None),
            Command::Move { at, cell } => self.order_move(at, cell).map(|()| None),
            Command::HandOver { at, cell } => self.hand_over(at, cell).map(|()| None),
            Command::Forgive { at, cell } => self.forgive(at, cell).map(|()| None),
            Command::Flush { due_s, at_s } => self.flush(due_s, at_s).map(|()| None),
            Command::Settle { at } => self.range_at(at).map(|range| range.changes()).map(|()| None),
        };
        match applied {
            Ok(cell) => {
                self.version += 1;
                Verdict::Applied { version: self.version, cell }
            }
            Err(refusal) => Verdict::Refused(refusal),
        }
    }

    fn join(&mut self, token: u64, started: Started, is_witness: bool) -> Result<CellId, Refusal> {
        if let Some((id, cell)) = self.cells.iter().find(|(_, cell)| cell.token == token) {
            if cell.is_witness != is_witness {
                return Err(Refusal::NotEligible);
            }
            let id = *id;
            self.start(id, started)?;
            return Ok(id);
        }
        if self.cells.len() >= CELLS_MAX {
            return Err(Refusal::TooManyCells);
        }
        let id = CellId(self.next_cell);
        self.check_start(id, &started)?;
        self.next_cell += 1;
        self.cells.insert(id, Cell { token, started, is_witness });
        let count = self.cells.values().filter(|cell| !cell.is_witness).count();
        if !self.has_formed() && !is_witness && count as u32 >= self.cells_wanted {
            self.form();
        }
        Ok(id)
    }

    /// Refuses a start above a bucket where ranges are no whole runs of slices, or would not be
    /// once the ring forms; and one of a cell that has something else below its memory than those
    /// that have a part in a range, itself included; before the ring has formed, than any other. A
    /// cell that is gone has no part for long. Starts of earlier builds say nothing, and are taken.
    ///
    /// # Errors
    /// How the start does not fit.
    pub fn check_start(&self, id: CellId, started: &Started) -> Result<(), Refusal> {
        let formed = self.ranges.iter().map(|range| range.start);
        let to_form = (!self.has_formed()).then(|| bound(1, self.cells_wanted as usize));
        let cuts = |start: &u16| !usize::from(*start).is_multiple_of(RUN_SLICES);
        if let Some(start) = formed.chain(to_form).find(cuts)
            && started.below.is_some_and(|below| below.bucket.is_some())
        {
            return Err(Refusal::CutsRun { start });
        }
        let others = self.cells.keys().copied().filter(|it| *it != id && !self.has_formed());
        let of_ranges = self.ranges.iter().flat_map(Range::cells);
        let below = |id: CellId| Some((id, self.cells.get(&id)?.started.below));
        let mut all = others.chain(of_ranges).filter_map(below);
        let differs = all.find_map(|other| OtherBelow::of(started.below, other));
        differs.map_or(Ok(()), |differs| Err(Refusal::OtherBelow(differs)))
    }

    /// Gives each cell an equal range, and to each range the cells that follow as copies. All are
    /// empty, so all are in sync.
    fn form(&mut self) {
        let cells = self.cells.iter().filter(|(_, cell)| !cell.is_witness);
        let cells: Vec<_> = cells.map(|(id, _)| *id).collect();
        let count = cells.len().clamp(1, SLICES);
        let copies = usize::from(self.copies_wanted).min(count) - 1;
        let range = |at: usize| Range {
            id: RangeId(at as u32 + 1),
            start: bound(at, count),
            end: bound(at + 1, count),
            epoch: 1,
            config: 1,
            primary: cells[at],
            copies: (1..=copies).map(|next| cells[(at + next) % count]).collect(),
            learner: None,
            learner_since: 0,
            losses: 0,
            is_recovered: false,
            journals: Vec::new(),
            moves_to: None,
            is_handed_over: false,
            waits_for_operator: false,
            recoveries: 0,
        };
        self.ranges = (0..count).map(range).collect();
    }

    fn start(&mut self, id: CellId, started: Started) -> Result<(), Refusal> {
        let cell = self.cells.get(&id).ok_or(Refusal::NoCell)?;
        let before = cell.started.incarnation;
        if started.incarnation < before {
            return Err(Refusal::OldLife);
        }
        self.check_start(id, &started)?;
        let is_new = started.incarnation > before;
        let mut led = self.ranges.iter().filter(|range| range.primary == id);
        if is_new && led.any(Range::has_had_all_epochs) {
            return Err(Refusal::TooManyEpochs);
        }
        self.cells.entry(id).and_modify(|cell| cell.started = started);
        if is_new {
            let lose = |range: &mut Range| range.loses(id, &started);
            self.ranges.iter_mut().try_for_each(lose)?;
        }
        Ok(())
    }

    fn promote(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        let is_journal = range.journals.contains(&cell);
        if !is_journal && !range.copies.contains(&cell) {
            return Err(Refusal::NotEligible);
        }
        range.begins_epoch(cell)?;
        if is_journal {
            // It has nothing in memory that it could exchange with them.
            range.copies.clear();
            range.begins_with_its_journal();
        }
        Ok(())
    }

    fn drop_copy(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        if range.primary == cell || !range.has(cell) && range.moves_to != Some(cell) {
            return Err(Refusal::NotEligible);
        }
        range.drops(cell);
        Ok(())
    }

    fn learn(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        self.may_hold(cell)?;
        let (wanted, since) = (usize::from(self.copies_wanted), self.version + 1);
        let range = self.range_at(at)?;
        let is_wanted = range.copies.len() + 1 < wanted || range.moves_to == Some(cell);
        if !is_wanted || range.learner.is_some() || range.has(cell) || range.waits_for_operator {
            return Err(Refusal::NotEligible);
        }
        range.learner = Some(cell);
        range.learner_since = since;
        range.changes();
        Ok(())
    }

    fn admit(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        if range.learner != Some(cell) {
            return Err(Refusal::NotEligible);
        }
        range.learner = None;
        range.copies.push(cell);
        range.changes();
        Ok(())
    }

    /// Refused while a copy is missing or is being filled: the new epoch would have it begin again.
    fn order_move(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        self.may_hold(cell)?;
        let wanted = self.copies_wanted;
        let cells = self.cells.values().filter(|cell| !cell.is_witness).count();
        let has_tier = |cell: CellId| self.cells.get(&cell).is_some_and(|it| it.started.has_tier);
        let has_tier = has_tier(cell);
        let range = self.range_at(at)?;
        let is_other = range.primary != cell && !range.journals.contains(&cell);
        if !is_other || range.waits_for_operator {
            return Err(Refusal::NotEligible);
        }
        if has_tier {
            return Err(Refusal::AboveTier);
        }
        let lacks = range.is_short(wanted.min(u8::try_from(cells).unwrap_or(u8::MAX)));
        if lacks || range.learner.is_some() || range.moves_to.is_some() {
            return Err(Refusal::Busy);
        }
        if range.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        range.moves_to = Some(cell);
        range.changes();
        Ok(())
    }

    fn hand_over(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let wanted = self.copies_wanted;
        let range = self.range_at(at)?;
        if range.hands_over_to() != Some(cell) {
            return Err(Refusal::NotEligible);
        }
        let before = range.primary;
        range.begins_epoch(cell)?;
        range.is_handed_over = true;
        let stays = range.is_short(wanted);
        range.copies.extend(stays.then_some(before));
        Ok(())
    }

    fn forgive(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        self.may_hold(cell)?;
        let range = self.range_at(at)?;
        range.begins_epoch(cell)?;
        range.copies.clear();
        range.journals.clear();
        range.losses += 1;
        Ok(())
    }

    fn flush(&mut self, due_s: u32, at_s: u32) -> Result<(), Refusal> {
        if !self.has_formed() {
            return Err(Refusal::NoRange);
        }
        self.flushes.add(due_s, at_s);
        Ok(())
    }

    fn range_at(&mut self, at: Stamp) -> Result<&mut Range, Refusal> {
        let range = self.ranges.iter_mut().find(|range| range.id == at.range);
        let range = range.ok_or(Refusal::NoRange)?;
        if range.stamp() == at { Ok(range) } else { Err(Refusal::Changed) }
    }
}
