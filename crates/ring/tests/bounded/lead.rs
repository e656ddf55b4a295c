//! What a cell may show and acknowledge, and what must be true of it.

use super::actions::Ring;
use super::cell::{CELLS, Cell, Learning, What};
use super::rules::Rule;
use super::world::{World, index};

impl Ring {
    /// Those whose acknowledgements `cell` waits for.
    fn waits_for(&self, world: &World, cell: u8) -> u8 {
        let own = &world.cells[usize::from(cell)];
        let mut waits = world.copies(cell);
        let counts = matches!(own.learning, Learning::Counted(_) | Learning::Ready);
        if let Some(learner) = world.range(cell).and_then(|range| range.learner)
            && counts
            && self.keeps(Rule::CountsBeforeJoining)
        {
            waits |= 1 << index(learner);
        }
        match own.open.map(|open| open.what) {
            Some(What::Drop(copy)) if !self.keeps(Rule::DropNeedsCommit) => waits & !(1 << copy),
            _ => waits,
        }
    }

    /// Up to which change `cell`, which leads, may show and acknowledge.
    pub fn committed(&self, world: &World, cell: u8) -> u8 {
        let own = &world.cells[usize::from(cell)];
        if !self.keeps(Rule::AllCopiesHaveIt) {
            return u8::MAX;
        }
        let acknowledged = world.acknowledged(cell, self.waits_for(world, cell));
        let held = if own.hold > 0 { own.before } else { u8::MAX };
        acknowledged.min(held)
    }

    /// Whether `cell` has exchanged tails with every other one in sync.
    pub fn has_exchanged(&self, world: &World, cell: u8) -> bool {
        let lacks = world.copies(cell) & !world.cells[usize::from(cell)].exchanged;
        !self.bounds.tails || lacks == 0 || !self.keeps(Rule::ExchangesTails)
    }

    /// Whether `cell` holds the leases that it needs to answer.
    pub fn may_answer(&self, world: &World, cell: u8) -> bool {
        let own = &world.cells[usize::from(cell)];
        let mut granters = world.copies(cell);
        match own.open.map(|open| open.what) {
            Some(What::Admit(learner)) if self.keeps(Rule::LeaseOfWhoIsAdmitted) => {
                granters |= 1 << learner;
            }
            Some(What::Drop(copy)) if !self.keeps(Rule::DropNeedsCommit) => {
                granters &= !(1 << copy);
            }
            _ => {}
        }
        world.led(cell).is_some()
            && (world.holds_leases(cell, granters) || !self.keeps(Rule::ServesUnderALease))
    }

    /// What a read at `cell` would show now: the item, or 0 for none. `None` if it waits.
    fn shows(&self, world: &World, cell: u8) -> Option<u8> {
        let own = &world.cells[usize::from(cell)];
        world.led(cell)?;
        let may_answer = match self.keeps(Rule::ReadsTheClockLast) {
            true => self.may_answer(world, cell),
            false => own.began_well,
        };
        let is_committed = own.version <= self.committed(world, cell);
        let waits = own.waits > 0 || !self.has_exchanged(world, cell);
        (may_answer && is_committed && !waits).then_some(own.item)
    }

    /// What was lost counts no more once the primary that begins empty may show so.
    pub fn begins_again(&self, world: &mut World) {
        let Some(epoch) = world.lost else { return };
        let shows = |own: &Cell| own.leads >= epoch && own.waits == 0;
        if world.cells.iter().any(shows) {
            (world.floor, world.lost) = (0, None);
        }
    }

    /// After which change a read that shows `item` may stand. `None`: it is too old for what was
    /// acknowledged or shown before.
    fn stands_after(&self, world: &World, item: u8) -> Option<u8> {
        if item > 0 {
            return (item >= world.floor).then_some(item);
        }
        let deleted = world.floor.next_multiple_of(2);
        (deleted <= world.stamped).then_some(deleted)
    }

    /// What a read at `cell` would change: the change that nobody may go behind afterwards.
    pub fn read(&self, world: &World, cell: u8) -> Option<u8> {
        let after = self.stands_after(world, self.shows(world, cell)?)?;
        (after > world.floor).then_some(after)
    }

    /// Whether a read could be answered now from before what was acknowledged or shown.
    pub fn has_stale_read(&self, world: &World) -> bool {
        let is_stale = |cell| {
            let item = self.shows(world, cell);
            item.is_some_and(|item| self.stands_after(world, item).is_none())
        };
        (0..CELLS as u8).any(is_stale)
    }

    /// Acknowledges what can be, at once: nothing is stricter.
    pub fn acknowledge(&self, world: &mut World) {
        for cell in 0..CELLS as u8 {
            if world.led(cell).is_none() || !self.has_exchanged(world, cell) {
                continue;
            }
            let until = self.committed(world, cell).min(15);
            let stamped = world.cells[usize::from(cell)].stamped;
            let leave = stamped & (((2_u32 << until) - 1) as u16);
            if leave != 0 {
                world.floor = world.floor.max(15 - leave.leading_zeros() as u8);
                world.cells[usize::from(cell)].stamped &= !leave;
            }
        }
    }
}
