//! Rings of many cells without faults: what divisions take that come together, and what cells send
//! each other while nothing goes on.
//!
//! ```text
//! all cells begin --> the ring is healthy --> keys are stored --> divisions --> keys are read
//!                                       \--> nothing goes on, and messages are counted
//! ```
//!
//! Some cells lead one range each, with one copy; the others are spares, for which ranges are
//! divided. Work takes no time here but what a model of it takes: a message its way, a command its
//! turn. Commands are decided one after the other: who leads the agreement syncs its log for each.
//! Not modelled: the processors, what a network can carry at once, and the messages of the
//! agreement itself.

use crate::cell::Shape;
use crate::cells::{Cells, Sent};
use crate::checks;
use crate::client::{Client, Habits};
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::dice::Dice;
use crate::history::{Answer, Ask, History};
use crate::machine::started;
use crate::net::Net;
use crate::ordinary;
use crate::scene::{CallId, Event, Scene, cell_id, index_of};
use crate::trace::Trace;
use base::SliceId;
use ring::{Command, Division, Map, Order, RangeId};
use std::collections::BTreeSet;
use std::sync::Arc;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// How often it is looked how far the ring is.
const LOOK_NS: u64 = MS;
/// How long anything may take that a run waits for.
const WAIT_NS: u64 = 120 * SECOND;
/// How long nothing goes on before messages are counted, and how long they are counted.
const RESTS_NS: u64 = 2 * SECOND;
const COUNTED_NS: u64 = 5 * SECOND;
/// Keys that are stored, for each range.
const KEYS_OF_RANGE: usize = 5;
/// Keys that a client stores or reads.
const KEYS_OF_CLIENT: usize = 50;

/// A ring of many cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Many {
    /// Its cells, spares included.
    pub cells: usize,
    /// Cells that lead nothing in the beginning.
    pub spares: usize,
}

/// Divisions that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisions {
    /// How many, each of another range and for another spare.
    pub count: usize,
    /// Each is ordered once the ring is healthy with those before. Otherwise all are at once.
    pub in_sequence: bool,
    /// How long the agreement decides one command, in nanoseconds. The others wait meanwhile.
    pub decides_ns: u64,
}

/// What divisions have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divided {
    /// Nanoseconds of simulated time from the first order until the ring is healthy with all.
    pub took_ns: u64,
    /// Commands that were decided meanwhile.
    pub commands: u64,
    /// Keys that were stored before, and that each had its value afterwards.
    pub keys: usize,
}

/// Messages that cells send in one second while nothing goes on: by cell in the mean, and of the
/// cell that sends most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steady {
    /// Heartbeats.
    pub heartbeats: [f64; 2],
    /// Messages on links.
    pub on_links: [f64; 2],
    /// Questions for a newer map, and answers to them.
    pub maps: [f64; 2],
}

/// A run.
struct Run {
    scene: Scene,
    cells: Cells,
    clients: Vec<Client>,
    history: History,
    names: Arc<[String]>,
    /// How long one command is decided, and until when those are that have arrived.
    decides_ns: u64,
    decides_until_ns: u64,
    /// Commands that have arrived, and are decided in their turn.
    arrived: BTreeSet<CallId>,
    decided: u64,
}

/// Divides the ranges of the first cells of a ring, each for a spare: all at once, or each one once
/// the ring is healthy with those before.
///
/// # Errors
/// What was not as it should be.
pub fn divisions(seed: u64, many: Many, wanted: Divisions) -> Result<Divided, String> {
    let Divisions { count, in_sequence, decides_ns } = wanted;
    if count > many.spares || count + many.spares > many.cells {
        return Err(format!("{count} divisions need as many spares, and as many other cells"));
    }
    let mut run = Run::new(seed, many, decides_ns);
    run.until_healthy(|_| true)?;
    run.store()?;
    let (since_ns, decided) = (run.scene.now_ns, run.decided);
    let spare = |at: usize| many.cells - many.spares + at;
    let leads =
        |map: &Map, at: usize| map.ranges.iter().any(|it| index_of(it.primary) == spare(at));
    let ids: Vec<RangeId> = run.cells.coordinator.map().ranges.iter().map(|it| it.id).collect();
    for (at, id) in ids.into_iter().take(count).enumerate() {
        run.divide(id, spare(at))?;
        if in_sequence {
            run.until_healthy(|map| leads(map, at))?;
        }
    }
    run.until_healthy(|map| (0..count).all(|at| leads(map, at)))?;
    let (took_ns, commands) = (run.scene.now_ns - since_ns, run.decided - decided);
    run.read()?;
    Ok(Divided { took_ns, commands, keys: run.names.len() })
}

/// What the cells of a ring send each other while nothing goes on.
///
/// # Errors
/// What was not as it should be.
pub fn steady(seed: u64, many: Many) -> Result<Steady, String> {
    let mut run = Run::new(seed, many, 0);
    run.until_healthy(|_| true)?;
    run.passes(RESTS_NS)?;
    let before = run.cells.sent.clone();
    run.passes(COUNTED_NS)?;
    let seconds = COUNTED_NS as f64 / SECOND as f64;
    let rates = |of: fn(&Sent) -> u64| {
        let counts = run.cells.sent.iter().zip(&before).map(|(now, before)| of(now) - of(before));
        let (sum, most) = counts.fold((0, 0), |(sum, most), it| (sum + it, most.max(it)));
        [sum as f64 / many.cells as f64 / seconds, most as f64 / seconds]
    };
    Ok(Steady {
        heartbeats: rates(|sent| sent.heartbeats),
        on_links: rates(|sent| sent.on_links),
        maps: rates(|sent| sent.maps),
    })
}

/// The map of a ring of which all cells have joined.
fn map(Many { cells, spares }: Many, dice: &mut Dice) -> Map {
    let mut map = Map::new(1 + dice.below(1 << 30), (cells - spares) as u32, 2);
    for cell in 0..cells {
        let started = started((cell, 1), false, false);
        map.apply(&Command::Join { token: cell as u64 + 1, started });
    }
    map
}

/// As many names of keys in each range.
fn names(map: &Map) -> Arc<[String]> {
    let (mut names, mut counts) = (Vec::new(), vec![0; map.ranges.len()]);
    for number in 0.. {
        let name = format!("key-{number}");
        let slice = SliceId::of(name.as_bytes());
        let at = map.ranges.iter().position(|range| range.slices().contains(slice));
        let Some(count) = at.and_then(|at| counts.get_mut(at)) else { break };
        if *count < KEYS_OF_RANGE {
            *count += 1;
            names.push(name);
        }
        if names.len() == KEYS_OF_RANGE * counts.len() {
            break;
        }
    }
    names.into()
}

impl Run {
    fn new(seed: u64, many: Many, decides_ns: u64) -> Self {
        let mut scene = Scene::new(Dice::new(seed, 0), Trace::new(false));
        let map = map(many, &mut scene.dice);
        let names = names(&map);
        let machine = |_| {
            // Clocks as they are: a few seconds in a week.
            let rate = scene.dice.between(SECOND / 1000 - 20, SECOND / 1000 + 20);
            (Shape::ONE, Clock::new(scene.dice.between(1, 1 << 31) * 1000, rate, 0), None)
        };
        let machines = (0..many.cells).map(machine).collect();
        let net = Net::new(many.cells, &mut scene);
        let slices = names.iter().map(|name| SliceId::of(name.as_bytes())).collect();
        let cells = Cells::start(Coordinator::new(map, slices), net, machines, &mut scene);
        let (clients, history) = (Vec::new(), History::new(false, 0));
        Self {
            scene,
            cells,
            clients,
            history,
            names,
            decides_ns,
            decides_until_ns: 0,
            arrived: BTreeSet::new(),
            decided: 0,
        }
    }

    fn step(&mut self) -> Result<(), String> {
        let event = self.scene.take().ok_or("nothing happens any more")?;
        let Self { scene, cells, clients, history, .. } = self;
        match ordinary::happens(event, cells, (clients, history), scene) {
            Some(Event::Worker(life, worker)) => cells.step_worker(life, worker, scene),
            Some(Event::Keeper(life)) => cells.step_keeper(life, scene),
            Some(Event::Member(life, event)) => cells.step_member(life, Some(*event), scene),
            Some(Event::Tick(life)) => {
                cells.step_member(life, None, scene);
                checks::leases(cells, life, scene);
            }
            Some(Event::Propose(call, command)) if self.arrived.insert(call) => {
                self.decides_until_ns = self.decides_until_ns.max(scene.now_ns) + self.decides_ns;
                scene.at(self.decides_until_ns, Event::Propose(call, command));
            }
            Some(Event::Propose(call, command)) => {
                self.decided += 1;
                cells.coordinator.apply(call, *command, history, scene);
            }
            // There are no faults and no other orders.
            _ => {}
        }
        let fault = self.cells.fault.as_ref().or(self.cells.coordinator.fault.as_ref());
        fault.map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Goes on for a time.
    fn passes(&mut self, time_ns: u64) -> Result<(), String> {
        let until_ns = self.scene.now_ns + time_ns;
        while self.scene.now_ns < until_ns {
            self.step()?;
        }
        Ok(())
    }

    /// Goes on until `lacks` finds nothing any more.
    fn until(&mut self, lacks: impl Fn(&Self) -> Option<String>) -> Result<(), String> {
        let since_ns = self.scene.now_ns;
        while let Some(lacking) = lacks(self) {
            if self.scene.now_ns > since_ns + WAIT_NS {
                return Err(format!("after {WAIT_NS} ns: {lacking}"));
            }
            self.passes(LOOK_NS)?;
        }
        Ok(())
    }

    /// Goes on until the ring is healthy with a map that `is_wanted`.
    fn until_healthy(&mut self, is_wanted: impl Fn(&Map) -> bool) -> Result<(), String> {
        self.until(|it| {
            let lacks = (!is_wanted(it.cells.coordinator.map())).then(|| "a division".to_owned());
            lacks.or_else(|| checks::illness(&it.cells, &it.scene))
        })
    }

    /// An operator has the range `id` divided in its middle, for the cell `spare`.
    fn divide(&mut self, id: RangeId, spare: usize) -> Result<(), String> {
        let range = self.cells.coordinator.map().range(id).ok_or("the range is gone")?;
        let (slice, cell) = (range.start.midpoint(range.end), cell_id(spare));
        let order = Order::Divide { at: range.stamp(), into: Division { slice, cell } };
        let primary = self.cells.machines[index_of(range.primary)].process.as_ref();
        let life = primary.ok_or("its primary does not run")?.life;
        self.scene.after(0, Event::Member(life, Box::new(ring::Event::Ordered(order))));
        Ok(())
    }

    /// Each key is stored.
    fn store(&mut self) -> Result<(), String> {
        self.ask_all(|history| Ask::Set(history.new_value()))?;
        let is_stored = self.history.entries.iter().all(|it| it.answer == Answer::Done);
        is_stored.then_some(()).ok_or_else(|| "a key was not stored".to_owned())
    }

    /// Each key has the value that was stored.
    fn read(&mut self) -> Result<(), String> {
        let stored = self.history.entries.len();
        self.ask_all(|_| Ask::Get)?;
        let (stored, read) = self.history.entries.split_at(stored);
        let wrong = stored.iter().zip(read).find(|(stored, read)| match stored.ask {
            Ask::Set(value) => read.answer != Answer::Value(Some(value)),
            _ => true,
        });
        wrong.map_or(Ok(()), |(_, read)| Err(format!("what was stored is not there: {read:?}")))
    }

    /// New clients ask for all keys, in their order, and wait for the answers.
    fn ask_all(&mut self, mut ask: impl FnMut(&mut History) -> Ask) -> Result<(), String> {
        let Self { scene, cells, clients, history, names, .. } = self;
        for first in (0..names.len()).step_by(KEYS_OF_CLIENT) {
            let number = clients.len();
            let mut client = Client::new(number, names.clone(), Habits::default());
            client.is_done = true;
            let cell = scene.dice.index(cells.machines.len());
            cells.accept_client(&mut client, number, cell, scene);
            for key in (first..names.len()).take(KEYS_OF_CLIENT) {
                let ask = ask(history);
                client.ask(key, ask, history, &mut cells.net, scene);
            }
            clients.push(client);
        }
        self.until(|it| {
            let waits = it.clients.iter().any(|client| !client.waiting.is_empty());
            waits.then(|| "a client waits for an answer".to_owned())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_at_once_take_less_than_in_sequence_and_keep_all_keys() {
        let many = Many { cells: 9, spares: 3 };
        let wanted = |count, in_sequence| Divisions { count, in_sequence, decides_ns: MS };
        let [at_once, in_sequence] =
            [false, true].map(|it| divisions(7, many, wanted(3, it)).expect("it ends"));
        assert!(at_once.took_ns < in_sequence.took_ns, "{at_once:?} {in_sequence:?}");
        assert_eq!([at_once.keys, in_sequence.keys], [6 * KEYS_OF_RANGE; 2]);
        assert_eq!(
            divisions(7, many, wanted(3, false)),
            Ok(at_once),
            "the same seed, the same run"
        );
        assert!(divisions(7, many, wanted(4, false)).is_err(), "there are three spares");
    }

    #[test]
    fn cells_send_heartbeats_while_nothing_goes_on() {
        let steady = steady(7, Many { cells: 3, spares: 0 }).expect("it ends");
        let [mean, most] = steady.heartbeats;
        // To both others, each 25 to 50 ms.
        assert!((40.0..=80.0).contains(&mean) && most >= mean, "{steady:?}");
        let many = |cells| super::steady(7, Many { cells, spares: 0 }).expect("it ends");
        let [of_few, of_many] = [9, 27].map(|cells| many(cells).heartbeats[0]);
        assert!(of_many <= 1.1 * of_few, "no more in a larger ring: {of_few} {of_many}");
    }
}
