//! An operator, who has the primaries of ranges hand them over while faults come, to copies and to
//! cells that have nothing of them. In one half of the rings there is one.

use crate::cells::Cells;
use crate::dice::Dice;
use crate::scene::{Event, Scene};
use ring::{CellId, Order};

/// The lane of the operator's choices: without one a run is what it was.
const LANE: u64 = 1;

/// Who gives orders, and how often in the mean.
pub(crate) struct Operator {
    dice: Dice,
    pace_ns: u64,
}

impl Operator {
    /// The operator of the ring of `seed`, whose first order comes after `from_ns`; `None`: there
    /// is none.
    pub(crate) fn of(seed: u64, from_ns: u64, scene: &mut Scene) -> Option<Self> {
        let mut dice = Dice::new(seed, LANE);
        if dice.per_mille(500) {
            return None;
        }
        let pace_ns = dice.duration(30_000_000, 1_000_000_000);
        scene.at(from_ns, Event::Order);
        Some(Self { dice, pace_ns })
    }

    /// Gives an order at some cell that runs, by the map that this has, and plans the next one.
    pub(crate) fn order(&mut self, cells: &Cells, scene: &mut Scene) {
        let running = cells.machines.iter().filter_map(|machine| machine.process.as_ref());
        let running: Vec<_> = running.collect();
        if !running.is_empty() {
            let at = running[self.dice.index(running.len())];
            let ranges = &at.member.map().ranges;
            let range = &ranges[self.dice.index(ranges.len())];
            let copies = self.dice.per_mille(500);
            let may_lead =
                |cell: &CellId| *cell != range.primary && (!copies || range.copies.contains(cell));
            let cells: Vec<_> = at.member.map().cells.keys().copied().filter(may_lead).collect();
            if !cells.is_empty() {
                let cell = cells[self.dice.index(cells.len())];
                let (life, at) = (at.life, range.stamp());
                scene.say(|| format!("  an operator moves range {} to cell {cell}", range.id));
                let event = Box::new(ring::Event::Ordered(Order::Move { at, cell }));
                scene.after(0, Event::Member(life, event));
            }
        }
        let delay_ns = self.dice.between(self.pace_ns / 4, self.pace_ns * 2);
        scene.after(delay_ns, Event::Order);
    }
}
