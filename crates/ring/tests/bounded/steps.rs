//! What each step of a model does.

use super::actions::{Action, Ring};
use super::cell::{
    Applied, Beat, CELLS, Cell, Entry, Flight, Learning, NOTHING, Open, Outcome, What,
};
use super::rules::{LEASE, Rule};
use super::world::{World, id, index, started};
use ring::{Command, Map, Range, RangeId, Stamp, Verdict, Why};
use std::sync::Arc;

impl Ring {
    /// Does `action`, which is possible.
    pub fn step(&self, world: &mut World, action: Action) {
        let at = usize::from;
        match action {
            Action::Tick(None) => {
                world.spent.ticks += 1;
                (0..CELLS as u8).for_each(|cell| tick(world, cell));
            }
            Action::Tick(Some(cell)) => {
                world.spent.deviations += 1;
                world.ahead[at(cell)] += 1;
                let least = world.ahead.into_iter().min().unwrap_or(0);
                world.ahead.iter_mut().for_each(|ahead| *ahead -= least);
                tick(world, cell);
            }
            Action::Beat { from, to, counts } => {
                if self.bounds.beats < u8::MAX {
                    world.spent.beats += 1;
                }
                world.spent.deaf_beats += u8::from(!counts);
                world.beats[at(from)][at(to)] = Some(self.beat(world, from, to, counts));
            }
            Action::Hear { from, to } => self.hear(world, from, to),
            Action::Write(cell) => {
                world.stamped += 1;
                let (change, own) = (world.stamped, &mut world.cells[at(cell)]);
                (own.version, own.item) = (change, if change % 2 == 1 { change } else { 0 });
                own.stamped |= 1 << change;
            }
            Action::Send { from, to } => {
                world.entries[at(from)][at(to)] = self.entry(world, from, to);
            }
            Action::Take { from, to } => self.take(world, from, to),
            Action::Acknowledge { from, to } => {
                if let Some(version) = self.acknowledges(world, from, to) {
                    world.cells[at(to)].acked[at(from)] = version;
                    self.learner_goes_on(&mut world.cells[at(to)], from);
                }
            }
            Action::Read(cell) => {
                world.floor = self.read(world, cell).unwrap_or(world.floor);
            }
            Action::BeginBatch(cell) => {
                world.cells[at(cell)].began_well = self.may_answer(world, cell);
            }
            Action::Propose(cell, what) => self.propose(world, cell, what),
            Action::Decide(flight, answers) => self.decide(world, flight, answers),
            Action::LoseOutcome(cell) => self.lose_outcome(world, cell),
            Action::Settle(cell) => {
                let Some(open) = &mut world.cells[at(cell)].open else { return };
                open.state = Outcome::Proposed;
                let flight = Flight { by: cell, what: What::Settle, at: open.at };
                fly(world, flight);
            }
            Action::ReadMap(cell) => world.cells[at(cell)].open = None,
            Action::Adopt(cell, version) => self.adopt(world, cell, version),
            Action::Walk(cell) => world.cells[at(cell)].learning = Learning::Walking,
            Action::Exchange { from, to } => exchange(world, from, to),
            Action::Crash(cell) => crash(world, cell),
            Action::Restart(cell) => {
                let life = world.cells[at(cell)].life + 1;
                world.cells[at(cell)] = Cell::new(life);
                fly(world, Flight { by: cell, what: What::Start(life), at: (0, 0) });
            }
        }
    }

    fn lose_outcome(&self, world: &mut World, cell: u8) {
        world.spent.unknowns += 1;
        let open = &mut world.cells[usize::from(cell)].open;
        match self.keeps(Rule::UnknownStaysOpen) {
            true => *open = open.map(|open| Open { state: Outcome::Unknown, ..open }),
            false => *open = None,
        }
    }

    /// The heartbeat that `from` sends to `to` now.
    pub fn beat(&self, world: &World, from: u8, to: u8, counts: bool) -> Beat {
        let own = &world.cells[usize::from(from)];
        let replaces = own.open.is_some_and(|open| open.replaces == Some(to));
        let stops = replaces && self.keeps(Rule::PrimaryStopsFirst);
        let echo = Some(own.counted[usize::from(to)]).filter(|echo| !stops && *echo < LEASE);
        Beat { sent: 0, echo, map: own.map, life: own.life, counts }
    }

    fn hear(&self, world: &mut World, from: u8, to: u8) {
        let Some(beat) = world.beats[usize::from(from)][usize::from(to)].take() else { return };
        let own_map = world.cells[usize::from(to)].map;
        let life = world.map_of(own_map).map(|map| map.cells[&id(from)].started.incarnation.0);
        if life != Some(u64::from(beat.life)) {
            return;
        }
        let (own, at) = (&mut world.cells[usize::from(to)], usize::from(from));
        if beat.counts || !self.keeps(Rule::EchoesWhatCounts) {
            own.counted[at] = beat.sent;
        }
        if beat.counts {
            own.silence[at] = 0;
            if let Some(echo) = beat.echo.filter(|_| beat.map <= own_map) {
                let from_sending = self.keeps(Rule::CountsFromSending);
                own.lease[at] = own.lease[at].min(if from_sending { echo } else { 0 });
            }
        }
    }

    /// What `from`, which leads, would send to `to` now. `None` if `to` has it all.
    pub fn entry(&self, world: &World, from: u8, to: u8) -> Option<Entry> {
        let range = world.led(from)?;
        let (own, at) = (&world.cells[usize::from(from)], usize::from(to));
        let learns = range.learner == Some(id(to));
        let is_sent = !matches!(own.learning, Learning::None | Learning::Waiting);
        let receives = range.copies.contains(&id(to)) || learns && is_sent;
        let lacks = own.acked[at] == NOTHING || own.acked[at] < own.version;
        (receives && lacks && self.has_exchanged(world, from)).then_some(Entry {
            epoch: range.epoch,
            map: own.map,
            reading: own.reading[at],
            version: own.version,
            item: own.item,
            walks: learns && own.acked[at] == NOTHING,
        })
    }

    fn take(&self, world: &mut World, from: u8, to: u8) {
        let Some(entry) = world.entries[usize::from(from)][usize::from(to)].take() else { return };
        let Some(range) = world.range(to) else { return };
        let follows = range.has(id(to))
            && range.primary == id(from)
            && range.epoch == entry.epoch
            && entry.map >= world.cells[usize::from(to)].since;
        if !follows && self.keeps(Rule::EntriesOfTheEpoch) {
            return;
        }
        let own = &mut world.cells[usize::from(to)];
        // What follows a walk are changes: they say what was removed.
        let has_walked = own.applied.is_some_and(|applied| {
            (applied.of, applied.epoch, applied.reading) == (from, entry.epoch, entry.reading)
        });
        let walks = entry.walks && !has_walked;
        let brings_item = entry.item > own.item && walks;
        if brings_item || !walks && entry.version > own.version {
            own.item = entry.item;
        }
        own.version = own.version.max(entry.version);
        let Entry { epoch, reading, version, .. } = entry;
        own.applied = Some(Applied { of: from, epoch, reading, version });
    }

    /// The learner has acknowledged something.
    fn learner_goes_on(&self, own: &mut Cell, from: u8) {
        let acked = own.acked[usize::from(from)];
        if own.learning == Learning::Walking {
            own.learning = match self.keeps(Rule::CountsBeforeJoining) {
                true => Learning::Counted(own.version),
                false => Learning::Ready,
            };
        }
        if matches!(own.learning, Learning::Counted(version) if acked >= version) {
            own.learning = Learning::Ready;
        }
    }

    fn propose(&self, world: &mut World, cell: u8, what: What) {
        let Some(range) = world.range(cell) else { return };
        let (at, primary) = ((range.epoch, range.config), index(range.primary));
        let replaces = (what == What::Promote).then_some(primary);
        match what {
            What::Drop(_) => world.spent.drops += 1,
            What::Learn(_) => world.spent.learns += 1,
            What::Promote => {
                let silence = world.cells[usize::from(cell)].silence[usize::from(primary)];
                world.spent.suspicions += u8::from(silence < self.silence());
            }
            _ => {}
        }
        let state = Outcome::Proposed;
        world.cells[usize::from(cell)].open = Some(Open { what, at, replaces, state });
        fly(world, Flight { by: cell, what, at });
    }

    /// The coordinator compares a proposal with the map, and applies or refuses it.
    fn decide(&self, world: &mut World, flight: usize, answers: bool) {
        let flight = world.flights.remove(flight);
        let before = world.map().clone();
        let mut map = Map::clone(&before);
        let at = Stamp { range: RangeId(1), epoch: flight.at.0, config: flight.at.1 };
        let (cell, why) = (id(flight.by), Why::Silent);
        let lets_learners = !self.keeps(Rule::OnlyInSyncIsPromoted);
        let range = &mut map.ranges[0];
        if flight.what == What::Promote && lets_learners && range.learner == Some(cell) {
            range.copies.push(cell);
        }
        let verdict = map.apply(&match flight.what {
            What::Promote => Command::Promote { at, cell, why },
            What::Drop(copy) => Command::Drop { at, cell: id(copy), why },
            What::Learn(learner) => Command::Learn { at, cell: id(learner) },
            What::Admit(learner) => Command::Admit { at, cell: id(learner) },
            What::Settle => Command::Settle { at },
            What::Forgive => Command::Forgive { at, cell },
            What::Start(life) => Command::Start { cell, started: started(life) },
        });
        let applied = matches!(verdict, Verdict::Applied { .. });
        if applied {
            self.changes(world, &before, map);
        }
        let own = &mut world.cells[usize::from(flight.by)];
        let is_open = own.open.is_some_and(|open| open.at == flight.at);
        if answers && is_open && !matches!(flight.what, What::Start(_)) {
            let version = world.maps.last().map_or(0, |map| map.version);
            let state = Outcome::Applied(version);
            // Where it was refused, the map has changed too.
            let ends =
                |_: &Open| own.map >= version || !applied && !self.keeps(Rule::ChangedStaysOpen);
            own.open = own.open.filter(|open| !ends(open));
            own.open = own.open.map(|open| Open { state, ..open });
        }
    }

    /// There is a new map.
    fn changes(&self, world: &mut World, before: &Map, mut map: Map) {
        let (old, new) = (&before.ranges[0], &mut map.ranges[0]);
        if self.bounds.tails && new.epoch > old.epoch && new.losses == old.losses {
            // Those that were in sync stay so, but for a primary that is replaced.
            let stays = |cell: &ring::CellId| *cell != new.primary;
            new.copies = old.copies.iter().copied().filter(stays).collect();
        }
        if new.losses > old.losses {
            let had = &world.cells[usize::from(index(old.primary))];
            let life = before.cells[&old.primary].started.incarnation.0;
            if had.is_up && u64::from(had.life) == life {
                world.wrong = Some("a range is emptied while its last copy lives");
            }
            world.lost = Some(new.epoch);
        }
        let rises = new.epoch >= old.epoch && new.config >= old.config;
        if !rises || new.primary != old.primary && new.epoch == old.epoch {
            world.wrong = Some("an epoch falls, or has two primaries");
        }
        if map.fault().is_some() {
            world.wrong = Some("the map has a fault");
        }
        world.spent.changes += 1;
        world.maps.push(Arc::new(map));
    }
}

/// A clock ticks: all that is counted by it grows older.
fn tick(world: &mut World, cell: u8) {
    let at = usize::from(cell);
    let older = |age: &mut u8| *age = (*age + 1).min(LEASE);
    world.cells[at].tick();
    for other in (0..CELLS).filter(|other| *other != at) {
        older(&mut world.cells[other].counted[at]);
        if let Some(beat) = &mut world.beats[at][other] {
            older(&mut beat.sent);
        }
        if let Some(beat) = &mut world.beats[other][at] {
            beat.echo.iter_mut().for_each(older);
        }
    }
}

/// A process ends: what was on its way to it is lost, not what it has sent.
fn crash(world: &mut World, cell: u8) {
    let at = usize::from(cell);
    world.spent.crashes += 1;
    let life = world.cells[at].life;
    world.cells[at] = Cell { is_up: false, ..Cell::new(life) };
    world.beats.iter_mut().for_each(|to| to[at] = None);
    world.entries.iter_mut().for_each(|to| to[at] = None);
}

fn fly(world: &mut World, flight: Flight) {
    world.flights.push(flight);
    world.flights.sort_unstable();
}

/// In each lane the longer log sends what the other one lacks. There is one lane.
fn exchange(world: &mut World, from: u8, to: u8) {
    let (at, of) = (usize::from(from), usize::from(to));
    let newest = if world.cells[at].version >= world.cells[of].version { at } else { of };
    let (version, item) = (world.cells[newest].version, world.cells[newest].item);
    for cell in [at, of] {
        (world.cells[cell].version, world.cells[cell].item) = (version, item);
    }
    let own = &mut world.cells[at];
    own.exchanged |= 1 << to;
    own.acked[of] = version;
    own.before = version;
}

/// Whether a cell with this part in the range before has all that was acknowledged.
pub fn was_in_sync(old: &Range, new: &Range, cell: u8, tails: bool) -> bool {
    let had = old.copies.contains(&id(cell)) || old.learner == Some(id(cell));
    let follows = new.epoch == old.epoch + 1 || tails && new.epoch > old.epoch;
    had && follows && old.losses == new.losses
}
