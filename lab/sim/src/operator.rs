//! An operator, who has the primaries of ranges hand them over while faults come, to copies and to
//! cells that have nothing of them. In one half of the rings there is one; in four of five of
//! these, ranges are also divided, copies replaced, two ranges made one (the same cells are to have
//! both before), and cells emptied and absorbed. When all faults are over, all cells are to stay.

use crate::cells::Cells;
use crate::coordinator::About;
use crate::dice::Dice;
use crate::scene::{Event, Scene, index_of};
use base::SliceId;
use ring::{CellId, Command, Division, Leaving, Map, Order, Range, Stamp};

/// The lane of the operator's choices: without one a run is what it was.
const LANE: u64 = 1;
/// The same of divisions.
const DIVISIONS_LANE: u64 = 2;
/// Of 1,000 orders, how many are no hand-overs, where there are others; and of these, how many are
/// to make two ranges one.
const OTHERS_PER_MILLE: u64 = 650;
const UNIONS_PER_MILLE: u64 = 560;
/// Of 1,000 orders, how many are about cells and no range, where there are such.
const CELLS_PER_MILLE: u64 = 150;

/// Who gives orders, and how often in the mean.
pub(crate) struct Operator {
    dice: Dice,
    pace_ns: u64,
    /// Whether ranges are divided and made one, and copies replaced; and how.
    others: Option<Dice>,
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
        let mut others = Dice::new(seed, DIVISIONS_LANE);
        let others = others.per_mille(800).then_some(others);
        Some(Self { dice, pace_ns, others })
    }

    /// Gives an order at some cell that runs, by the map that this has, and plans the next one.
    pub(crate) fn order(&mut self, cells: &mut Cells, scene: &mut Scene) {
        if let Some(dice) = self.others.as_mut()
            && dice.per_mille(CELLS_PER_MILLE)
        {
            leaves(cells, dice, scene);
            return self.goes_on(scene);
        }
        let running = cells.machines.iter().filter_map(|machine| machine.process.as_ref());
        let running: Vec<_> = running.collect();
        if !running.is_empty() {
            let at = running[self.dice.index(running.len())];
            let map = at.member.map();
            let range = &map.ranges[self.dice.index(map.ranges.len())];
            let is_other = self.others.as_mut().is_some_and(|it| it.per_mille(OTHERS_PER_MILLE));
            let order = match self.others.as_mut().filter(|_| is_other) {
                Some(dice) => match dice.per_mille(UNIONS_PER_MILLE) {
                    true => unites(map),
                    false => divides_or_replaces(map, range, cells.coordinator.keys(), dice),
                },
                None => moves(map, range, &mut self.dice),
            };
            // Only the primary knows whether its copies are ready for a union.
            let leads = |at: Stamp| {
                let range = map.range(at.range).map(|range| index_of(range.primary));
                running.iter().find(|it| Some(it.life.cell) == range).copied()
            };
            let asked = match order {
                Some(Order::Unite { at, .. }) => leads(at),
                _ => Some(at),
            };
            if let (Some(order), Some(asked)) = (order, asked) {
                scene.say(|| format!("  an operator wants {order:?}"));
                let event = Box::new(ring::Event::Ordered(order));
                scene.after(0, Event::Member(asked.life, event));
            }
        }
        self.goes_on(scene);
    }

    /// Has all cells stay that leave.
    pub(crate) fn ends(&mut self, cells: &mut Cells, scene: &mut Scene) {
        let map = cells.coordinator.map().clone();
        for (id, cell) in map.cells.iter().filter(|(_, cell)| cell.leaves.is_some()) {
            asks(cells, Command::Stay { cell: *id, life: cell.started.incarnation }, scene);
        }
        self.goes_on(scene);
    }

    fn goes_on(&mut self, scene: &mut Scene) {
        let delay_ns = self.dice.between(self.pace_ns / 4, self.pace_ns * 2);
        scene.after(delay_ns, Event::Order);
    }
}

/// Some cell is to leave, or to stay if it leaves.
fn leaves(cells: &mut Cells, dice: &mut Dice, scene: &mut Scene) {
    let map = cells.coordinator.map().clone();
    let Some(cell) = one_of(&map, |_| true, dice) else { return };
    let life = map.cells[&cell].started.incarnation;
    let how = Leaving { is_absorbed: dice.per_mille(500), is_forced: dice.per_mille(500) };
    let command = match map.leaving(cell) {
        Some(_) => Command::Stay { cell, life },
        None => Command::Leave { cell, life, how },
    };
    asks(cells, command, scene);
}

/// Some cell that runs proposes it.
fn asks(cells: &mut Cells, command: Command, scene: &mut Scene) {
    let running = cells.machines.iter().filter_map(|machine| machine.process.as_ref());
    if let Some(life) = running.map(|process| process.life).next() {
        cells.coordinator.call(life, About::Cell, command, scene);
    }
}

/// Some other cell is to lead `range`.
fn moves(map: &Map, range: &Range, dice: &mut Dice) -> Option<Order> {
    let copies = dice.per_mille(500);
    let may_lead =
        |cell: &CellId| *cell != range.primary && (!copies || range.copies.contains(cell));
    let cell = one_of(map, may_lead, dice)?;
    Some(Order::Move { at: range.stamp(), cell, from: None })
}

/// `range` is to be divided, mostly where a key is, for a copy of it or for another cell; or some
/// other cell is to replace a copy.
fn divides_or_replaces(
    map: &Map,
    range: &Range,
    keys: &[SliceId],
    dice: &mut Dice,
) -> Option<Order> {
    let at = range.stamp();
    if !range.copies.is_empty() && dice.per_mille(400) {
        let cell = one_of(map, |cell| !range.has(*cell), dice)?;
        let from = range.copies[dice.index(range.copies.len())];
        return Some(Order::Move { at, cell, from: Some(from) });
    }
    let copies = dice.per_mille(300);
    let may_lead = |cell: &CellId| match copies {
        true => range.copies.contains(cell),
        false => !range.has(*cell),
    };
    let cell = one_of(map, may_lead, dice)?;
    let (first, last) = (u64::from(range.start) + 1, u64::from(range.end));
    let within = |slice: &u64| (first..last).contains(slice);
    let of_key = keys[dice.index(keys.len())].index() as u64;
    let step = map.division_step(range.primary) as u64;
    let any = dice.between(first, last.max(first + 1));
    let slice = [of_key, any].map(|slice| slice / step * step).into_iter().find(within)?;
    Some(Order::Divide { at, into: Division { slice: slice as u16, cell } })
}

/// Two ranges are to become one: those that lack least for that. The same cells are to have both.
fn unites(map: &Map) -> Option<Order> {
    let lacks = |pair: &&[Range]| (!pair[0].fits(&pair[1]), pair[0].primary != pair[1].primary);
    let pair = map.ranges.windows(2).min_by_key(lacks)?;
    let (range, upper) = (&pair[0], &pair[1]);
    if upper.primary != range.primary {
        return Some(Order::Move { at: upper.stamp(), cell: range.primary, from: None });
    }
    let lacks = |of: &Range, other: &Range| {
        of.copies.iter().copied().find(|cell| !other.copies.contains(cell))
    };
    let both = lacks(range, upper).zip(lacks(upper, range));
    Some(match both {
        Some((cell, from)) => Order::Move { at: upper.stamp(), cell, from: Some(from) },
        None => Order::Unite { at: range.stamp(), with: upper.stamp() },
    })
}

/// One of the cells of `map` that may be it.
fn one_of(map: &Map, may_be: impl Fn(&CellId) -> bool, dice: &mut Dice) -> Option<CellId> {
    let cells: Vec<_> = map.cells.keys().copied().filter(may_be).collect();
    (!cells.is_empty()).then(|| cells[dice.index(cells.len())])
}
