//! Applying commands: all cells do it, in the same order, and come to the same map.

use super::command::{Command, Refusal, Stamp, Verdict};
use super::ring_map::{CELLS_MAX, Cell, EPOCHS_MAX, Map, Range, Started};
use crate::ids::{CellId, RangeId};
use base::SLICES;

impl Map {
    /// Applies `command`. A command that is refused changes nothing.
    pub fn apply(&mut self, command: &Command) -> Verdict {
        let applied = match *command {
            Command::Join { token, started } => self.join(token, started).map(Some),
            Command::Start { cell, started } => self.start(cell, started).map(|()| None),
            Command::Promote { at, cell } => self.promote(at, cell).map(|()| None),
            Command::Drop { at, cell } => self.drop_copy(at, cell).map(|()| None),
            Command::Learn { at, cell } => self.learn(at, cell).map(|()| None),
            Command::Admit { at, cell } => self.admit(at, cell).map(|()| None),
            Command::Forgive { at, cell } => self.forgive(at, cell).map(|()| None),
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

    fn join(&mut self, token: u64, started: Started) -> Result<CellId, Refusal> {
        if let Some((id, _)) = self.cells.iter().find(|(_, cell)| cell.token == token) {
            let id = *id;
            self.start(id, started)?;
            return Ok(id);
        }
        if self.cells.len() >= CELLS_MAX {
            return Err(Refusal::TooManyCells);
        }
        let id = CellId(self.next_cell);
        self.next_cell += 1;
        self.cells.insert(id, Cell { token, started });
        if !self.has_formed() && self.cells.len() as u32 >= self.cells_wanted {
            self.form();
        }
        Ok(id)
    }

    /// Gives each cell an equal range, and to each range the cells that follow as copies. All are
    /// empty, so all are in sync.
    fn form(&mut self) {
        let cells: Vec<_> = self.cells.keys().copied().collect();
        let count = cells.len().clamp(1, SLICES);
        let copies = usize::from(self.copies_wanted).min(count) - 1;
        let bound = |at: usize| (at * SLICES / count) as u16;
        let range = |at: usize| Range {
            id: RangeId(at as u32 + 1),
            start: bound(at),
            end: bound(at + 1),
            epoch: 1,
            config: 1,
            primary: cells[at],
            copies: (1..=copies).map(|next| cells[(at + next) % count]).collect(),
            learner: None,
            learner_since: 0,
            losses: 0,
        };
        self.ranges = (0..count).map(range).collect();
    }

    fn start(&mut self, id: CellId, started: Started) -> Result<(), Refusal> {
        let cell = self.cells.get_mut(&id).ok_or(Refusal::NoCell)?;
        let before = cell.started.incarnation;
        if started.incarnation < before {
            return Err(Refusal::OldLife);
        }
        let is_new = started.incarnation > before;
        let mut led = self.ranges.iter().filter(|range| range.primary == id);
        if is_new && led.any(Range::has_had_all_epochs) {
            return Err(Refusal::TooManyEpochs);
        }
        cell.started = started;
        if is_new {
            self.ranges.iter_mut().try_for_each(|range| range.loses(id))?;
        }
        Ok(())
    }

    fn promote(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        if !range.copies.contains(&cell) {
            return Err(Refusal::NotEligible);
        }
        range.begins_epoch(cell)
    }

    fn drop_copy(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        let range = self.range_at(at)?;
        if range.primary == cell || !range.has(cell) {
            return Err(Refusal::NotEligible);
        }
        range.drops(cell);
        Ok(())
    }

    fn learn(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        if !self.cells.contains_key(&cell) {
            return Err(Refusal::NoCell);
        }
        let (wanted, since) = (usize::from(self.copies_wanted), self.version + 1);
        let range = self.range_at(at)?;
        let is_full = range.copies.len() + 1 >= wanted || range.learner.is_some();
        if is_full || range.has(cell) {
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

    fn forgive(&mut self, at: Stamp, cell: CellId) -> Result<(), Refusal> {
        if !self.cells.contains_key(&cell) {
            return Err(Refusal::NoCell);
        }
        let range = self.range_at(at)?;
        range.begins_epoch(cell)?;
        range.losses += 1;
        Ok(())
    }

    fn range_at(&mut self, at: Stamp) -> Result<&mut Range, Refusal> {
        let range = self.ranges.iter_mut().find(|range| range.id == at.range);
        let range = range.ok_or(Refusal::NoRange)?;
        if range.stamp() == at { Ok(range) } else { Err(Refusal::Changed) }
    }
}

impl Range {
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

    /// The only cell in sync is `primary`, in a new epoch.
    fn begins_epoch(&mut self, primary: CellId) -> Result<(), Refusal> {
        if self.has_had_all_epochs() {
            return Err(Refusal::TooManyEpochs);
        }
        self.epoch += 1;
        self.primary = primary;
        self.copies.clear();
        self.learner = None;
        self.changes();
        Ok(())
    }

    fn drops(&mut self, cell: CellId) {
        self.copies.retain(|copy| *copy != cell);
        self.learner = self.learner.filter(|learner| *learner != cell);
        self.changes();
    }

    /// The life of `cell` in which it had its part has ended, which is proven. A primary is followed
    /// by its first copy. Where it was the last, it begins again itself: the range is lost.
    fn loses(&mut self, cell: CellId) -> Result<(), Refusal> {
        if !self.has(cell) {
            return Ok(());
        }
        if self.primary != cell {
            self.drops(cell);
            return Ok(());
        }
        let next = self.copies.first().copied();
        self.losses += u32::from(next.is_none());
        self.begins_epoch(next.unwrap_or(cell))
    }
}
