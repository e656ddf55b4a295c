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
use super::division::Division;
use super::flushes::Flushes;
use super::leaving::Leaving;
use super::range::Range;
use crate::consistency::Consistency;
use crate::ids::{CELL_NUMBERS, CellId, Incarnation, RangeId};
use base::{RUN_SLICES, SLICES, SliceId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most cells of a ring, those included that have ended and were not removed.
pub const CELLS_MAX: usize = 4096;
/// Most copies of a range, the primary included.
pub const COPIES_MAX: u8 = 3;
/// Most ranges.
pub const RANGES_MAX: usize = 2 * CELLS_MAX;
/// Most ranges that a cell leads after one of them was divided: each needs a level of its replies.
pub const LED_MAX: usize = 12;
/// Most ranges that a cell leads by orders of any kind.
pub const ORDERED_MAX: usize = 24;

/// A cell of the ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// A number that the cell drew before it joined, so that joining twice makes one cell.
    pub token: u64,
    /// Its latest start.
    pub started: Started,
    /// Whether it is a witness: it has no part in any range, and serves no clients.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_witness: bool,
    /// How it leaves, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaving>,
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
    /// Which edition of commands is used.
    #[serde(default)]
    pub edition: u16,
    /// The number of the next cell.
    next_cell: u32,
    /// The number of the next range; 0 in a map of a build that divides none.
    #[serde(default)]
    next_range: u32,
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
            edition: 0,
            next_cell: 1,
            next_range: 1,
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

    /// The primaries of which `cell` is a copy in sync, each once.
    #[must_use]
    pub fn primaries_copied_by(&self, cell: CellId) -> BTreeSet<CellId> {
        let copied = self.ranges.iter().filter(|range| range.copies.contains(&cell));
        copied.map(|range| range.primary).collect()
    }

    /// The cells that ranges name which name `cell`, itself included.
    pub(crate) fn sharing_with(&self, cell: CellId) -> BTreeSet<CellId> {
        let shared = self.ranges.iter().filter(|range| range.names(cell));
        shared.flat_map(Range::named).collect()
    }

    /// How `cell` leaves the ring, if it does.
    #[must_use]
    pub fn leaving(&self, cell: CellId) -> Option<Leaving> {
        self.cells.get(&cell)?.leaves
    }

    /// Whether `cell` is one that may have more parts in ranges than it has.
    fn may_take(&self, cell: CellId) -> Result<(), Refusal> {
        self.may_hold(cell)?;
        let stays = self.leaving(cell).is_none();
        stays.then_some(()).ok_or(Refusal::Leaves)
    }

    /// Copies that each range can have: those that are wanted, or as many as there are cells that
    /// stay.
    #[must_use]
    pub fn copies_possible(&self) -> u8 {
        let stays = |cell: &&Cell| !cell.is_witness && cell.leaves.is_none();
        let cells = self.cells.values().filter(stays).count();
        self.copies_wanted.min(u8::try_from(cells).unwrap_or(u8::MAX))
    }

    /// The ranges before and after `range`, which is one of this map.
    pub fn neighbours(&self, range: &Range) -> [Option<&Range>; 2] {
        let at = self.ranges.partition_point(|it| it.start < range.start);
        [at.checked_sub(1).and_then(|it| self.ranges.get(it)), self.ranges.get(at + 1)]
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

    /// The ranges of this map that have slices of `range`, which is of another one.
    pub fn overlapping(&self, range: &Range) -> impl Iterator<Item = &Range> + Clone {
        let first = self.ranges.partition_point(|it| it.end <= range.start);
        let (rest, end) = (&self.ranges[first..], range.end);
        rest.iter().take_while(move |it| it.start < end)
    }

    /// What `range`, which is of a later map, was in this one. `None` if nothing was formed. Other
    /// ranges may have become a part of it.
    #[must_use]
    pub fn before(&self, range: &Range) -> Option<&Range> {
        self.range(range.id).or_else(|| self.range_of(SliceId::new(usize::from(range.start))?))
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
            Command::Leave { cell, life, how } => self.leave(cell, life, Some(how)).map(|()| None),
            Command::Stay { cell, life } => self.leave(cell, life, None).map(|()| None),
            Command::Remove { cell, life } => self.remove(cell, life).map(|()| None),
            Command::Use { edition } => self.use_edition(edition).map(|()| None),
            Command::Promote { at, cell, .. } => self.promote(at, cell).map(|()| None),
            Command::Drop { at, cell, .. } => self.drop_copy(at, cell).map(|()| None),
            Command::Learn { at, cell } => self.learn(at, cell).map(|()| None),
            Command::Admit { at, cell } => self.admit(at, cell).map(|()| None),
            Command::Move { at, cell, from } => self.order_move(at, cell, from).map(|()| None),
            Command::Divide { at, into } => self.order_division(at, into).map(|()| None),
            Command::Split { at } => self.split(at).map(|()| None),
            Command::Unite { at, with } => self.order_union(at, with).map(|()| None),
            Command::Merge { at, with } => self.merge(at, with).map(|()| None),
            Command::HandOver { at, cell } => self.hand_over(at, cell).map(|()| None),
            Command::Forgive { at, cell } => self.forgive(at, cell).map(|()| None),
            Command::Flush { due_s, at_s } => self.flush(due_s, at_s).map(|()| None),
            Command::Settle { at } => self.settle(at).map(|()| None),
        };
        match applied {
            Ok(cell) => {
                self.end_half_orders();
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
        if self.cells.len() >= CELLS_MAX || self.next_cell >= CELL_NUMBERS {
            return Err(Refusal::TooManyCells);
        }
        let id = CellId(self.next_cell);
        self.check_start(id, &started)?;
        self.next_cell += 1;
        self.cells.insert(id, Cell { token, started, is_witness, leaves: None });
        let count = self.cells.values().filter(|cell| !cell.is_witness).count();
        if !self.has_formed() && !is_witness && count as u32 >= self.cells_wanted {
            self.form();
        }
        Ok(id)
    }

    /// Refuses a start of a build that does not understand what the ring uses; one above a bucket
    /// where ranges are no whole runs of slices, or would not be once the ring forms; and one of a
    /// cell that has something else below its memory than those that have a part in a range, itself
    /// included; before the ring has formed, than any other. A cell that is gone has no part for
    /// long. Starts of earlier builds say nothing, and are taken.
    ///
    /// # Errors
    /// How the start does not fit.
    pub fn check_start(&self, id: CellId, started: &Started) -> Result<(), Refusal> {
        let (has, used) = (started.edition, self.edition);
        if has < used {
            return Err(Refusal::EarlierBuild { has, used });
        }
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
            leaves: None,
            divides: None,
            unites_with: None,
            home: None,
            is_absorbed: false,
            is_handed_over: false,
            made_of: Vec::new(),
            waits_for_operator: false,
            recoveries: 0,
        };
        self.ranges = (0..count).map(range).collect();
        self.next_range = count as u32 + 1;
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
            self.cells.entry(id).and_modify(|cell| cell.leaves = None);
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
        let before = range.primary;
        range.begins_epoch(cell)?;
        if is_journal {
            // It has nothing in memory that it could exchange with them.
            range.copies.clear();
            range.begins_with_its_journal();
        }
        self.follows(at.range, before);
        Ok(())
    }

    fn drop_copy(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        if range.primary == cell || !range.has(cell) && range.expects() != Some(cell) {
            return Err(Refusal::NotEligible);
        }
        range.drops(cell);
        Ok(())
    }

    /// `cell` leaves, or does not. What it would have begun is not begun. The ranges of one that is
    /// absorbed do not come back to it.
    fn leave(
        &mut self,
        id: CellId,
        life: Incarnation,
        leaves: Option<Leaving>,
    ) -> Result<(), Refusal> {
        self.may_hold(id)?;
        let stays = |(other, cell): (&CellId, &Cell)| {
            *other != id && !cell.is_witness && cell.leaves.is_none()
        };
        let stay = self.cells.iter().filter(|it| stays(*it)).count();
        let wanted = usize::from(self.copies_wanted);
        let cell = self.cells.get_mut(&id).ok_or(Refusal::NoCell)?;
        if cell.started.incarnation != life {
            return Err(Refusal::OldLife);
        }
        if leaves.is_some_and(|how| stay == 0 || stay < wanted && !how.is_forced) {
            return Err(Refusal::TooFewStay);
        }
        let has_left = std::mem::replace(&mut cell.leaves, leaves).is_some();
        let Some(how) = leaves else {
            // What moves for other reasons goes on.
            self.ranges.iter_mut().filter(|_| has_left).for_each(|range| range.keeps(id));
            return Ok(());
        };
        for range in &mut self.ranges {
            let is_more = range.moves_to == Some(id) && range.in_sync().count() > wanted;
            if is_more || range.learner == Some(id) || range.expects() == Some(id) {
                range.drops(id);
            } else if range.moves_to == Some(id) || range.divides.is_some_and(|it| it.cell == id) {
                range.ends_orders();
                range.changes();
            }
            // What it has led before, and was given to others meanwhile, is absorbed, too.
            if range.home == Some(id) && how.is_absorbed {
                (range.home, range.is_absorbed) = (None, true);
                range.changes();
            }
        }
        self.ends_absorption();
        Ok(())
    }

    /// Whether there was a cell with this number, which was removed.
    #[must_use]
    pub fn has_removed(&self, cell: CellId) -> bool {
        (CellId(1)..=self.last_cell()).contains(&cell) && !self.cells.contains_key(&cell)
    }

    /// The cell that has joined last; 0: none has.
    #[must_use]
    pub fn last_cell(&self) -> CellId {
        CellId(self.next_cell.saturating_sub(1))
    }

    fn remove(&mut self, id: CellId, life: Incarnation) -> Result<(), Refusal> {
        let cell = self.cells.get(&id).ok_or(Refusal::NoCell)?;
        if cell.started.incarnation != life {
            return Err(Refusal::OldLife);
        }
        if self.ranges.iter().any(|range| range.names(id)) {
            return Err(Refusal::HasPart);
        }
        self.cells.remove(&id);
        Ok(())
    }

    /// The edition that is to be used, if it is a later one than is: all cells understand it.
    #[must_use]
    pub fn edition_to_use(&self) -> Option<u16> {
        let all = self.cells.values().map(|cell| cell.started.edition);
        all.min().filter(|edition| self.has_formed() && *edition > self.edition)
    }

    fn use_edition(&mut self, edition: u16) -> Result<(), Refusal> {
        if edition <= self.edition {
            return Err(Refusal::NotEligible);
        }
        if self.cells.values().any(|cell| cell.started.edition < edition) {
            return Err(Refusal::NotUnderstood);
        }
        self.edition = edition;
        Ok(())
    }

    fn learn(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        self.may_take(cell)?;
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

    fn order_move(&mut self, at: Stamp, cell: CellId, from: Option<CellId>) -> Result<(), Refusal> {
        self.may_take(cell)?;
        let range = self.range_at(at)?;
        let leaves = from.filter(|from| *from != range.primary);
        let is_possible = match leaves {
            Some(from) => range.copies.contains(&from) && !range.has(cell),
            None => range.primary != cell && !range.journals.contains(&cell),
        };
        if !is_possible {
            return Err(Refusal::NotEligible);
        }
        let range = self.range(at.range).ok_or(Refusal::NoRange)?;
        // A copy would lead it by a failover, too.
        let is_succession = self.leaving(range.primary).is_some() && range.copies.contains(&cell);
        if leaves.is_none() && !is_succession && !self.may_lead_more(cell) {
            return Err(Refusal::TooManyRanges);
        }
        // A primary that leaves hands over also what lacks a copy, to one that has it.
        let may_be_short = leaves.is_none()
            && range.copies.contains(&cell)
            && self.leaving(range.primary).is_some();
        self.check_order(range, may_be_short)?;
        let range = self.range_at(at)?;
        (range.moves_to, range.leaves) = (Some(cell), leaves);
        range.changes();
        Ok(())
    }

    fn order_division(&mut self, at: Stamp, into: Division) -> Result<(), Refusal> {
        self.may_take(into.cell)?;
        let range = self.range_at(at)?;
        let is_possible =
            range.primary != into.cell && (range.start + 1..range.end).contains(&into.slice);
        if !is_possible {
            return Err(Refusal::NotEligible);
        }
        if !self.may_lead_more(into.cell) {
            return Err(Refusal::TooManyRanges);
        }
        let range = self.range(at.range).ok_or(Refusal::NoRange)?;
        let primary = range.primary;
        if !usize::from(into.slice).is_multiple_of(self.division_step(primary)) {
            return Err(Refusal::DividesRun);
        }
        let led = self.ranges.iter().filter(|range| range.primary == primary).count();
        if led >= LED_MAX || self.ranges.len() >= RANGES_MAX {
            return Err(Refusal::TooManyRanges);
        }
        self.check_order(self.range(at.range).ok_or(Refusal::NoRange)?, false)?;
        let range = self.range_at(at)?;
        range.divides = Some(into);
        range.changes();
        Ok(())
    }

    /// Whether an order about `range` may be given. Refused while a copy is missing, unless it
    /// `may_be_short`, or is being filled: the new epoch would have it begin again.
    pub(crate) fn check_order(&self, range: &Range, may_be_short: bool) -> Result<(), Refusal> {
        if range.waits_for_operator {
            return Err(Refusal::NotEligible);
        }
        let is_short = range.is_short(self.copies_possible()) && !may_be_short;
        if is_short || range.learner.is_some() || range.is_ordered() {
            return Err(Refusal::Busy);
        }
        if range.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        Ok(())
    }

    /// Ranges that `cell` leads begin at multiples of this number of slices: above a bucket a run
    /// of slices has one owner.
    #[must_use]
    pub fn division_step(&self, cell: CellId) -> usize {
        let has_tier = self.cells.get(&cell).is_some_and(|it| it.started.has_tier);
        if has_tier { RUN_SLICES } else { 1 }
    }

    /// The number of the next range: none is used again.
    fn next_range(&self) -> u32 {
        let last = self.ranges.iter().map(|range| range.id.0).max().unwrap_or(0);
        self.next_range.max(last + 1)
    }

    /// A range that has no neighbour can become one with none.
    fn ends_absorption(&mut self) {
        if let [only] = &mut self.ranges[..] {
            only.is_absorbed = false;
        }
    }

    /// Whether `cell` may lead one more range by order, with those that it is to lead: a failover
    /// may bring it others besides.
    pub(crate) fn may_lead_more(&self, cell: CellId) -> bool {
        let is_to_lead = |range: &&Range| {
            let is_ordered = range.moves_to == Some(cell) && range.leaves.is_none();
            range.primary == cell || is_ordered || range.divides.is_some_and(|it| it.cell == cell)
        };
        self.ranges.iter().filter(is_to_lead).count() < ORDERED_MAX
    }

    fn split(&mut self, at: Stamp) -> Result<(), Refusal> {
        let id = self.next_range();
        let upper = self.range_at(at)?.split(RangeId(id))?;
        let place = self.ranges.partition_point(|range| range.start < upper.start);
        self.ranges.insert(place, upper);
        self.next_range = id + 1;
        Ok(())
    }

    fn order_union(&mut self, at: Stamp, with: Stamp) -> Result<(), Refusal> {
        let (lower, upper) = self.both(at, with)?;
        if !lower.fits(&upper) {
            return Err(Refusal::NotEligible);
        }
        for at in [at, with] {
            self.check_order(self.range(at.range).ok_or(Refusal::NoRange)?, false)?;
        }
        for (at, other) in [(at, with), (with, at)] {
            let range = self.range_at(at)?;
            range.unites_with = Some(other.range);
            range.changes();
        }
        Ok(())
    }

    fn merge(&mut self, at: Stamp, with: Stamp) -> Result<(), Refusal> {
        let next = self.next_range();
        let (lower, upper) = self.both(at, with)?;
        lower.merge(&upper)?;
        self.ranges.retain(|range| range.id != with.range);
        self.next_range = next;
        self.ends_absorption();
        Ok(())
    }

    /// Two ranges as a command has seen them. That the upper one has changed is no change of the
    /// lower one.
    fn both(&mut self, at: Stamp, with: Stamp) -> Result<(&mut Range, Range), Refusal> {
        self.range_at(at)?;
        let upper = self.range_at(with).map_err(|_| Refusal::NotEligible)?.clone();
        Ok((self.range_at(at)?, upper))
    }

    /// Of two ranges that are to become one, both change: what was proposed before is of neither.
    fn settle(&mut self, at: Stamp) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        range.changes();
        let other = range.unites_with;
        let other = self.ranges.iter_mut().find(|range| Some(range.id) == other);
        other.into_iter().for_each(Range::changes);
        Ok(())
    }

    /// Two ranges that were to become one do not where one of them has become another.
    fn end_half_orders(&mut self) {
        let stands = |range: &Range, other: RangeId| {
            let other = self.range(other).filter(|it| it.unites_with == Some(range.id));
            other.is_some_and(|other| range.fits(other) || other.fits(range))
        };
        let is_over = |range: &&Range| range.unites_with.is_some_and(|it| !stands(range, it));
        let ended = self.ranges.iter().filter(is_over).map(|range| range.id);
        let ended: Vec<_> = ended.collect();
        for range in self.ranges.iter_mut().filter(|range| ended.contains(&range.id)) {
            range.ends_orders();
            range.changes();
        }
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
        self.follows(at.range, before);
        Ok(())
    }

    /// Another cell leads `range` now, which `before` has led. Where that one is absorbed, the
    /// range is, too. Where it stays, somebody wants the range to be elsewhere.
    fn follows(&mut self, range: RangeId, before: CellId) {
        let leaving = self.leaving(before);
        let Some(range) = self.ranges.iter_mut().find(|it| it.id == range) else { return };
        range.is_absorbed |= leaving.is_some_and(|how| how.is_absorbed);
        let comes_back = leaving.is_some() || !range.is_handed_over;
        range.home = range.home.filter(|_| comes_back && !range.is_absorbed);
        self.ends_absorption();
    }

    fn forgive(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        self.may_hold(cell)?;
        let range = self.range_at(at)?;
        range.begins_epoch(cell)?;
        range.home = None;
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
