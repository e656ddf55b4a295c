//! What can happen next in a model.

use super::cell::{CELLS, Learning, NOTHING, Outcome, What};
use super::rules::{Bounds, LEASE, Rule, SILENCE, SKEW};
use super::world::{World, id, index};
use stateright::{Model, Property};

/// Proposals on their way at once.
const FLIGHTS_MAX: usize = 3;

/// A model within bounds, which may leave out rules.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub bounds: Bounds,
    pub without: &'static [Rule],
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// All clocks tick, or one does.
    Tick(Option<u8>),
    Beat {
        from: u8,
        to: u8,
        counts: bool,
    },
    Hear {
        from: u8,
        to: u8,
    },
    Write(u8),
    Send {
        from: u8,
        to: u8,
    },
    Take {
        from: u8,
        to: u8,
    },
    Acknowledge {
        from: u8,
        to: u8,
    },
    Read(u8),
    /// A worker reads the clock, and will use that until its next batch.
    BeginBatch(u8),
    Propose(u8, What),
    /// The flight with this index is decided; its proposer hears of it, or not.
    Decide(usize, bool),
    LoseOutcome(u8),
    Settle(u8),
    ReadMap(u8),
    Adopt(u8, u64),
    Walk(u8),
    Exchange {
        from: u8,
        to: u8,
    },
    Crash(u8),
    Restart(u8),
}

impl Ring {
    /// Whether the model keeps `rule`.
    pub fn keeps(&self, rule: Rule) -> bool {
        !self.without.contains(&rule)
    }

    /// Ticks of silence after which a primary is replaced.
    pub fn silence(&self) -> u8 {
        if self.keeps(Rule::LeaseIsShorter) { SILENCE } else { LEASE }
    }

    fn of_time(&self, world: &World, actions: &mut Vec<Action>) {
        let (spent, bounds) = (&world.spent, &self.bounds);
        if spent.ticks < bounds.ticks {
            actions.push(Action::Tick(None));
            let may_deviate = |cell: &u8| {
                spent.deviations < bounds.deviations && world.ahead[usize::from(*cell)] < SKEW
            };
            actions.extend((0..CELLS as u8).filter(may_deviate).map(|it| Action::Tick(Some(it))));
        }
    }

    /// Whether a heartbeat between two cells can matter: one leads what the other has a part in.
    fn matters(world: &World, from: u8, to: u8) -> bool {
        let does = |range: &ring::Range| {
            let (from, to) = (id(from), id(to));
            range.primary == from && range.has(to) || range.primary == to && range.has(from)
        };
        world.range(from).is_some_and(does) || world.range(to).is_some_and(does)
    }

    fn of_pair(&self, world: &World, from: u8, to: u8, actions: &mut Vec<Action>) {
        let (at, of) = (usize::from(from), usize::from(to));
        let is_up = world.cells[at].is_up && world.cells[at].map > 0;
        let may_beat = world.spent.beats < self.bounds.beats;
        if is_up && may_beat && Self::matters(world, from, to) {
            for counts in [true, false] {
                let is_new = world.beats[at][of] != Some(self.beat(world, from, to, counts));
                if is_new && (counts || world.spent.deaf_beats < self.bounds.deaf_beats) {
                    actions.push(Action::Beat { from, to, counts });
                }
            }
        }
        let receives = world.cells[of].is_up && world.cells[of].map > 0;
        if world.beats[at][of].is_some() && receives {
            actions.push(Action::Hear { from, to });
        }
        if self.entry(world, from, to).is_some_and(|entry| world.entries[at][of] != Some(entry)) {
            actions.push(Action::Send { from, to });
        }
        let can_take = world.entries[at][of].is_some_and(|entry| world.cells[of].map >= entry.map);
        if can_take && receives {
            actions.push(Action::Take { from, to });
        }
        if self.acknowledges(world, from, to).is_some() {
            actions.push(Action::Acknowledge { from, to });
        }
        if self.bounds.tails && self.can_exchange(world, from, to) {
            actions.push(Action::Exchange { from, to });
        }
    }

    /// What `from` acknowledges to `to`, if that is new there.
    pub fn acknowledges(&self, world: &World, from: u8, to: u8) -> Option<u8> {
        let (own, other) = (&world.cells[usize::from(from)], &world.cells[usize::from(to)]);
        let range = world.led(to)?;
        let applied = own.applied.filter(|_| own.is_up)?;
        let at = usize::from(from);
        let is_of = applied.of == to
            && applied.epoch == other.leads
            && applied.reading == other.reading[at]
            && range.has(id(from));
        let is_new = other.acked[at] == NOTHING || other.acked[at] < applied.version;
        (is_of && is_new).then_some(applied.version)
    }

    fn can_exchange(&self, world: &World, from: u8, to: u8) -> bool {
        let Some(range) = world.led(from) else { return false };
        let lacks = world.copies(from) & !world.cells[usize::from(from)].exchanged;
        let follows = |other: &ring::Range| other.epoch == range.epoch;
        lacks >> to & 1 == 1 && world.range(to).is_some_and(follows)
    }

    fn of_cell(&self, world: &World, cell: u8, actions: &mut Vec<Action>) {
        let (own, spent, bounds) = (&world.cells[usize::from(cell)], &world.spent, &self.bounds);
        if spent.crashes < bounds.crashes && own.is_up {
            actions.push(Action::Crash(cell));
        }
        if !own.is_up {
            return actions.push(Action::Restart(cell));
        }
        let newest = world.map().version;
        let next = world.maps.iter().map(|map| map.version).find(|version| *version > own.map);
        let is_begun = own.map > 0;
        actions.extend(next.filter(|_| is_begun).map(|version| Action::Adopt(cell, version)));
        let has_life = world.map().cells[&id(cell)].started.incarnation.0 == u64::from(own.life);
        if newest > own.map && (!is_begun && has_life || is_begun && next != Some(newest)) {
            actions.push(Action::Adopt(cell, newest));
        }
        if world.led(cell).is_some() {
            let writes = world.stamped < bounds.writes && self.has_exchanged(world, cell);
            actions.extend(writes.then_some(Action::Write(cell)));
            actions.extend(self.read(world, cell).map(|_| Action::Read(cell)));
            let begins = self.may_answer(world, cell) != own.began_well;
            if !self.keeps(Rule::ReadsTheClockLast) && begins {
                actions.push(Action::BeginBatch(cell));
            }
            if self.walks(world, cell) {
                actions.push(Action::Walk(cell));
            }
        }
        match own.open {
            None if is_begun => self.proposals(world, cell, actions),
            Some(open)
                if matches!(open.state, Outcome::Proposed) && spent.unknowns < bounds.unknowns =>
            {
                actions.push(Action::LoseOutcome(cell));
            }
            Some(open) if matches!(open.state, Outcome::Unknown) => {
                if world.flights.len() < FLIGHTS_MAX {
                    actions.push(Action::Settle(cell));
                }
                if !self.keeps(Rule::ReadSettlesNothing) && world.map().ranges[0].epoch == open.at.0
                {
                    actions.push(Action::ReadMap(cell));
                }
            }
            _ => {}
        }
    }

    /// Whether `cell` can begin to send what it has to its learner, which is empty.
    fn walks(&self, world: &World, cell: u8) -> bool {
        let Some(range) = world.led(cell) else { return false };
        let is_ready = |learner: ring::CellId| {
            let other = &world.cells[usize::from(index(learner))];
            other.is_up && other.map >= range.learner_since && other.since == range.learner_since
        };
        world.cells[usize::from(cell)].learning == Learning::Waiting
            && range.learner.is_some_and(is_ready)
    }

    fn proposals(&self, world: &World, cell: u8, actions: &mut Vec<Action>) {
        let (spent, bounds) = (&world.spent, &self.bounds);
        let Some(range) = world.range(cell) else { return };
        let fits = world.flights.len() < FLIGHTS_MAX && spent.changes < bounds.changes;
        if !fits {
            return;
        }
        let own = &world.cells[usize::from(cell)];
        let mut propose = |what| actions.push(Action::Propose(cell, what));
        if world.led(cell).is_some() {
            for copy in range.copies.iter().copied().chain(range.learner).map(index) {
                if spent.drops < bounds.drops {
                    propose(What::Drop(copy));
                }
            }
            let is_short = range.copies.len() + 1 < usize::from(bounds.copies);
            let hears = |other: &u8| {
                let other_cell = &world.cells[usize::from(*other)];
                *other != cell && other_cell.is_up && other_cell.map > 0 && !range.has(id(*other))
            };
            if is_short && range.learner.is_none() && spent.learns < bounds.learns {
                // At first the cells that have no part are alike.
                let count = if range.epoch == 1 { 1 } else { CELLS };
                let others = (0..CELLS as u8).filter(hears).take(count);
                others.for_each(|other| propose(What::Learn(other)));
            }
            if let Some(learner) = range.learner.map(index)
                && own.learning == Learning::Ready
                && world.holds_leases(cell, 1 << learner)
            {
                propose(What::Admit(learner));
            }
            return;
        }
        let silence = own.silence[usize::from(index(range.primary))];
        let is_gone = silence >= self.silence() || spent.suspicions < bounds.suspicions;
        let may_learn = range.learner == Some(id(cell)) && !self.keeps(Rule::OnlyInSyncIsPromoted);
        if is_gone && (range.copies.contains(&id(cell)) || may_learn) {
            propose(What::Promote);
        }
        let is_lost = range.copies.is_empty() && silence >= self.silence();
        if is_lost && range.primary != id(cell) && !self.keeps(Rule::LossIsProven) {
            propose(What::Forgive);
        }
    }
}

impl Model for Ring {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.bounds.present, self.bounds.copies)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.of_time(world, actions);
        for cell in 0..CELLS as u8 {
            self.of_cell(world, cell, actions);
            for to in (0..CELLS as u8).filter(|to| *to != cell) {
                self.of_pair(world, cell, to, actions);
            }
        }
        for flight in 0..world.flights.len() {
            actions.extend([true, false].map(|answers| Action::Decide(flight, answers)));
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.step(&mut next, action);
        self.begins_again(&mut next);
        self.acknowledge(&mut next);
        self.adopt_idle(&mut next);
        next.forget_maps();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no read is older than what was acknowledged or shown", {
                |ring: &Self, world: &World| !ring.has_stale_read(world)
            }),
            Property::always("the map and what follows from it are right", {
                |_: &Self, world: &World| world.wrong.is_none()
            }),
        ]
    }
}
