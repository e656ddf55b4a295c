//! One run: a ring, its clients, its faults, and what must be true of all of it.
//!
//! ```text
//! 0 s          0.3 s                  calm                    healthy
//! | all is well | faults, requests     | requests, no faults   | each key is read and written |
//! ```
//!
//! Must be true: the map has no fault and its epochs do not fall. No two cells may acknowledge
//! changes of a range at one time. No number of an item is given to two values,
//! but, in runs of minutes, where the range was lost in between. Each request ends
//! in time. The history of each key is linearizable, but for what the map reports as lost, and
//! where replies wait for no copy. Once
//! calm, the ring becomes healthy, each key can be read and written, and all cells in sync hold the
//! same. Above a tier the map reports no loss; a cell in sync may lack an item that lies below; and
//! when all is written back, the bucket has what was stored last. In some runs any disks are lost:
//! then ranges may wait for an operator, and nobody knows what the keys of those have afterwards.

use crate::below::{Below, Bucket};
use crate::cell::Shape;
use crate::cells::Cells;
use crate::checks;
use crate::client::{Client, Habits};
use crate::clock::Clock;
use crate::coordinator::Coordinator;
use crate::dice::Dice;
use crate::faults::{self, BELOW, Faults, KINDS, Kind};
use crate::history::{Answer, Ask, Entry, History};
use crate::interrupted::{Interrupted, Interrupting};
use crate::linear::{Found, search};
use crate::losing;
use crate::machine::{Machine, started};
use crate::net::Net;
use crate::operator::Operator;
use crate::ordinary;
use crate::process::Process;
use crate::scene::{Event, Life, Scene, cell_id, index_of};
use crate::trace::Trace;
use base::{Now, SliceId};
use ring::{Command, Consistency, Durability, Map, Range, RangeId, Reads};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tier::Ack;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
/// When faults begin.
const FAULTS_NS: u64 = 300 * MS;
/// How long a ring may take to become healthy once all faults have ended.
const HEALING_NS: u64 = 40 * SECOND;
/// How long an answer may take, apart from the time that processes are stopped, and that those to
/// earlier requests of its client take: a cell comes to a request after those.
const ANSWER_NS: u64 = 2500 * MS;
/// How often each key is read and written at most until all requests are served. A link of an
/// earlier life of a cell is found broken by the first request on it, whose answer is in doubt.
const ROUNDS_MAX: u32 = 3;
/// How long the last flush may take: four seconds by a slow clock, and a proposal that is late.
const FLUSHING_NS: u64 = 12 * SECOND;
/// How long it may take until all is written back.
const DRAINING_NS: u64 = 40 * SECOND;
/// Between two looks at the health of the ring.
const LOOK_NS: u64 = 200 * MS;
/// Steps after which a run of some seconds, and each minute of a longer one, is given up: more than
/// any takes.
const STEPS_MAX: u64 = 20_000_000;
/// By how much slower clients ask in a run of minutes: some 50 requests in a second, so that the
/// history of a key can be checked.
const LONG_PACE: u64 = 6;

/// How a run is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The steps as text.
    pub prints: bool,
    /// Minutes of simulated time in which faults come. `None`: some seconds.
    pub minutes: Option<u64>,
    /// Each cell is above a tier, and all share a bucket.
    pub tier: bool,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The first thing that was not true. `None`: all was.
    pub fault: Option<String>,
    /// A hash of all steps.
    pub hash: u64,
    /// The steps as text, if they were wanted.
    pub trace: String,
    /// Steps.
    pub steps: u64,
    /// Requests, and those of them with an answer.
    pub requests: u64,
    /// Of them, those whose answer came and was certain.
    pub answered: u64,
    /// Nanoseconds of simulated time.
    pub simulated_ns: u64,
    /// How often each kind of fault came.
    pub faults: BTreeMap<Kind, u64>,
    /// The same by the steps of operations that were under way.
    pub interrupted: Interrupted,
    /// Primaries that were replaced.
    pub promotions: u64,
    /// Copies that were left when a primary was replaced, and those of them that were still in sync
    /// when the next cell had learned.
    pub left: [u64; 2],
    /// Ranges that were handed over: those of the replaced primaries that had stopped before; and
    /// those of them to a cell that had learned for that.
    pub moves: [u64; 5],
    /// Ranges that were lost.
    pub losses: u64,
    /// Ranges that an operator has forgiven.
    pub forgiven: u64,
    /// Batches whose replies were dropped, since a lease had ended.
    pub drops: u64,
    /// Reads that copies have answered, and those that they have refused to, of the cells that ran
    /// in the end.
    pub copy_reads: [u64; 2],
}

/// How far a run is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Faults,
    /// Since this time.
    Calm(u64),
    /// The ring is healthy, and clients finish, since this time.
    Finishing(u64),
    /// Each key is read and written, for the time with this number.
    Checking(u32),
    /// All is to be written back, since this time.
    Draining(u64),
    Over,
}

/// What the replies of the ring of `seed` mean. Of eight rings three read by fences, two take
/// changes only while there are two copies, and one waits for no copy.
fn consistency(seed: u64) -> Consistency {
    let (durability, reads) = match seed % 8 {
        1 | 4 | 5 => (Durability::D1, Reads::Fence),
        3 | 7 => (Durability::D2, Reads::Lease),
        6 => (Durability::D0, Reads::Lease),
        _ => (Durability::D1, Reads::Lease),
    };
    Consistency { durability, reads }
}

/// How old the answers of copies may be in the ring of `seed`, in milliseconds; 0: copies answer
/// nothing. They do in one half of the rings whose reads rest on leases.
fn age_ms(seed: u64) -> u16 {
    match seed % 16 {
        0 | 3 => 250,
        2 | 15 => 150,
        _ => 0,
    }
}

struct World {
    scene: Scene,
    cells: Cells,
    bucket: Option<Bucket>,
    clients: Vec<Client>,
    history: History,
    faults: Faults,
    interrupted: Interrupted,
    /// Of the operator's orders.
    interrupting: Interrupting,
    operator: Option<Operator>,
    names: Arc<[String]>,
    steps_max: u64,
    phase: Phase,
    /// The leaderships that have begun.
    begun: BTreeSet<(RangeId, u32)>,
    fault: Option<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, wanted: Wanted) -> Report {
    let mut world = World::new(seed, wanted);
    while world.phase != Phase::Over && world.fault.is_none() {
        world.step();
    }
    world.report(seed)
}

/// The clients of a cell that is stopped for a time read all keys there shortly before it goes on.
fn ask_while_stopped(clients: &mut [Client], cell: usize, for_ns: u64, scene: &mut Scene) {
    for client in clients.iter_mut() {
        if client.pipe.is_some_and(|(_, at)| at == cell) {
            let delay_ns = for_ns - scene.dice.between(for_ns / 20, for_ns / 8);
            client.goes_on_after(delay_ns, scene);
            client.reads_all = true;
        }
    }
}

/// The division of work and the clock of each machine, and what lies below it. Above a tier the
/// clocks on the wall are right: what a journal says of the time is read again after a start.
fn machines(
    count: usize,
    bucket: Option<&Bucket>,
    dice: &mut Dice,
) -> Vec<(Shape, Clock, Option<Below>)> {
    let drift = [0, 500, 20_000, 50_000][dice.index(4)];
    // In one half of the rings, cells have several workers and lanes.
    let has_several = dice.per_mille(500);
    let machine = |_| {
        let rate = dice.between(1_000_000 - drift, 1_000_000 + drift);
        let wrong_s = [0, 0, 3_600, -3_600][dice.index(4)];
        let wrong_s = if bucket.is_some() { 0 } else { wrong_s };
        let clock = Clock::new(dice.between(1, 1 << 31) * 1000, rate, wrong_s);
        let shape = if has_several { Shape::choose(dice) } else { Shape::ONE };
        (shape, clock, bucket.map(|bucket| bucket.below_one(dice)))
    };
    (0..count).map(machine).collect()
}

/// The names of keys. In one half of the rings most are of one range, so that one request shows
/// several lanes of it.
fn names(keys: usize, map: &Map, dice: &mut Dice) -> Arc<[String]> {
    let range_of = |name: &String| Some(map.range_of(SliceId::of(name.as_bytes()))?.id);
    let near = if dice.per_mille(500) { keys.div_ceil(3) * 2 } else { 0 };
    let mut names: Vec<String> = Vec::new();
    for number in 0.. {
        let name = format!("key-{number}");
        let is_near = names.first().is_none_or(|first| range_of(first) == range_of(&name));
        if is_near || names.len() >= near {
            names.push(name);
        }
        if names.len() == keys {
            break;
        }
    }
    names.into()
}

impl World {
    fn new(seed: u64, Wanted { prints, minutes, tier }: Wanted) -> Self {
        let mut scene = Scene::new(Dice::new(seed, 0), Trace::new(prints));
        let count = scene.dice.between(3, 5) as usize;
        let copies = if scene.dice.per_mille(700) { 2 } else { 3 };
        let map = Map::new(1 + scene.dice.below(1 << 30), count as u32, copies);
        let mut map = map.with_consistency(consistency(seed));
        for cell in 0..count {
            let started = started((cell, 1), tier, false);
            map.apply(&Command::Join { token: cell as u64 + 1, started });
        }
        let (keys_min, keys_max) = if minutes.is_some() { (8, 16) } else { (2, 6) };
        let keys = scene.dice.between(keys_min, keys_max) as usize;
        let names = names(keys, &map, &mut scene.dice);
        let slices = names.iter().map(|name| SliceId::of(name.as_bytes())).collect();
        let ack = if seed.is_multiple_of(3) { Ack::Os } else { Ack::Disk };
        let bucket = tier.then(|| Bucket::new(ack, &mut scene.dice));
        let mut machines = machines(count, bucket.as_ref(), &mut scene.dice);
        let age_ms = if tier { 0 } else { age_ms(seed) };
        machines.iter_mut().for_each(|(shape, ..)| shape.age_ms = age_ms);
        let net = Net::new(count, &mut scene);
        let coordinator = Coordinator::new(map, slices);
        let mut cells = Cells::start(coordinator, net, machines, &mut scene);
        cells.loses_all = tier && seed % 5 == 4;
        // Where many ask, requests of several meet in one batch.
        let clients = match minutes.is_none() && scene.dice.per_mille(150) {
            true => scene.dice.between(8, 14) as usize,
            false => scene.dice.between(2, 5) as usize,
        };
        let pace = if minutes.is_some() { LONG_PACE } else { 1 };
        // What has expired by a clock that has jumped may be there again after a failover: over
        // minutes that comes about.
        let jumps = minutes.is_none() || scene.dice.per_mille(500);
        let expires = minutes.is_none() || !jumps;
        let habits = Habits { pace, expires, ..Habits::choose(&mut scene.dice) };
        let mut clients: Vec<_> =
            (0..clients).map(|number| Client::new(number, names.clone(), habits)).collect();
        clients.iter_mut().for_each(|client| client.goes_on_after(5 * MS, &mut scene));
        let may_come = |kind: &Kind| *kind != Kind::Jump || jumps && !tier;
        let below: &[_] = if tier { &BELOW } else { &[] };
        let kinds = KINDS.iter().chain(below).copied().filter(may_come).collect();
        let mut faults = Faults::choose(FAULTS_NS, minutes.is_some(), kinds, &mut scene);
        if cells.loses_all {
            faults.come_too(Kind::DiskLost);
        }
        let last_ns = match minutes {
            Some(minutes) => minutes * 60 * SECOND,
            None => scene.dice.between(SECOND, 6 * SECOND),
        };
        let calm_ns = FAULTS_NS + last_ns;
        let steps_max = STEPS_MAX * minutes.unwrap_or(1);
        scene.at(calm_ns, Event::Calm);
        let history = History::new(minutes.is_some(), age_ms);
        let phase = Phase::Faults;
        let begun = BTreeSet::new();
        let fault = None;
        let operator = Operator::of(seed, FAULTS_NS, &mut scene);
        Self {
            scene,
            cells,
            bucket,
            clients,
            history,
            faults,
            interrupted: Interrupted::default(),
            interrupting: Interrupting::new(seed),
            operator,
            names,
            steps_max,
            phase,
            begun,
            fault,
        }
    }

    fn step(&mut self) {
        let Some(event) = self.scene.take() else {
            return self.fails("nothing happens any more".to_owned());
        };
        if self.scene.steps > self.steps_max {
            return self.fails(format!("there is no end after {} steps", self.steps_max));
        }
        if let Some(event) = self.cells.put_off(event, &mut self.scene) {
            self.happens(event);
        }
        self.faults.ambush(&mut self.cells, &mut self.scene);
        if self.operator.is_some() && self.phase == Phase::Faults {
            self.interrupting.look(self.cells.coordinator.map(), &mut self.scene);
        }
        let found = [&self.cells.fault, &self.cells.coordinator.fault, &self.history.repeated];
        let found = found.into_iter().flatten().next().cloned();
        if let Some(fault) = found {
            self.fails(fault);
        }
    }

    fn happens(&mut self, event: Event) {
        let Self { scene, cells, clients, history, faults, .. } = self;
        let Some(event) = ordinary::happens(event, cells, (clients, history), scene) else {
            return;
        };
        match event {
            Event::Worker(life, worker) => {
                cells.step_worker(life, worker, scene);
                if let Some((cell, for_ns)) = cells.stopped_in_batch.take() {
                    ask_while_stopped(clients, cell, for_ns, scene);
                }
            }
            Event::Keeper(life) => {
                cells.step_keeper(life, scene);
                checks::leases(cells, life, scene);
                self.check_new_primary(life);
            }
            Event::Tick(life) => {
                cells.step_member(life, None, scene);
                checks::leases(cells, life, scene);
            }
            Event::Member(life, event) => {
                cells.step_member(life, Some(*event), scene);
                checks::leases(cells, life, scene);
            }
            Event::Propose(call, command) => {
                checks::stopped(cells, &command, scene);
                faults::stop_deposed(cells, &command, scene);
                cells.coordinator.apply(call, *command, history, scene);
            }
            Event::Fault | Event::Interrupt => {
                let map = cells.coordinator.map().clone();
                let came = match event {
                    Event::Fault => faults.begin(cells, scene),
                    _ => faults.interrupt(cells, scene),
                };
                came.into_iter().for_each(|kind| self.interrupted.add(kind, &map));
            }
            Event::Mend(number) => faults.mend(number, cells, scene),
            Event::Order => {
                let is_over = self.phase != Phase::Faults;
                match &mut self.operator {
                    Some(operator) if is_over => operator.ends(cells, scene),
                    Some(operator) => operator.order(cells, scene),
                    None => {}
                }
            }
            Event::GoesOff(cell) => faults.goes_off(cell, cells, scene),
            Event::Restart(cell) => cells.restart(cell, scene),
            Event::Calm => {
                faults.end(cells, scene);
                scene.note("calm", &[]);
                scene.say(|| "calm".to_owned());
                self.phase = Phase::Calm(scene.now_ns);
                scene.after(SECOND, Event::Look);
            }
            Event::Look => self.look(),
            // The others have happened.
            _ => {}
        }
    }

    /// Looks how far the ring has healed, and goes on.
    fn look(&mut self) {
        let is_idle = self.clients.iter().all(|client| client.waiting.is_empty());
        if matches!(self.phase, Phase::Calm(_)) {
            losing::forgive(&self.cells, true, &mut self.scene);
        }
        match self.phase {
            Phase::Calm(since_ns) => match checks::illness(&self.cells, &self.scene) {
                None => {
                    self.phase = Phase::Finishing(self.scene.now_ns);
                    self.clients.iter_mut().for_each(|client| client.is_done = true);
                }
                Some(illness) if self.scene.now_ns > since_ns + HEALING_NS => {
                    return self.fails(format!("{HEALING_NS} ns after the last fault: {illness}"));
                }
                Some(_) => {}
            },
            Phase::Finishing(since_ns) if is_idle && self.has_flushed(since_ns) => {
                self.history.ends_flushes(self.scene.now_ns);
                self.check_keys(1);
            }
            Phase::Checking(round) if is_idle => match self.unserved() {
                Some(_) if round < ROUNDS_MAX => self.check_keys(round + 1),
                None if self.copies_may_lag() && self.differing().is_some() => {}
                unserved => self.finish(unserved),
            },
            Phase::Draining(since_ns) => self.look_below(since_ns),
            Phase::Faults | Phase::Finishing(_) | Phase::Checking(_) | Phase::Over => {}
        }
        self.scene.after(LOOK_NS, Event::Look);
    }

    /// Whether each flush that was asked for before `since_ns` is due everywhere, and carried out.
    fn has_flushed(&self, since_ns: u64) -> bool {
        let flushes = &self.cells.coordinator.map().flushes;
        flushes.latest().is_none() || self.scene.now_ns >= since_ns + FLUSHING_NS
    }

    /// A new client reads, writes and reads each key.
    fn check_keys(&mut self, round: u32) {
        let Self { scene, cells, clients, history, .. } = self;
        let number = clients.len();
        let mut client = Client::new(number, self.names.clone(), Habits::default());
        client.is_done = true;
        let cell = scene.dice.index(cells.machines.len());
        cells.accept_client(&mut client, number, cell, scene);
        for key in 0..self.names.len() {
            for ask in [Ask::Get, Ask::Set(history.new_value()), Ask::Gets] {
                client.ask(key, ask, history, &mut cells.net, scene);
            }
            if self.bucket.is_some() && scene.dice.per_mille(400) {
                client.ask(key, Ask::Delete, history, &mut cells.net, scene);
                client.ask(key, Ask::Get, history, &mut cells.net, scene);
            }
        }
        clients.push(client);
        self.phase = Phase::Checking(round);
    }

    /// A request of the last client that was not served.
    fn unserved(&self) -> Option<String> {
        let last = self.clients.len() - 1;
        let is_wrong = |entry: &&Entry| {
            entry.client == last && matches!(entry.answer, Answer::Open | Answer::Refused)
        };
        let wrong = self.history.entries.iter().find(is_wrong);
        wrong.map(|entry| format!("a healthy ring does not serve: {entry:?}"))
    }

    /// All is answered: checks what can be checked only now.
    fn finish(&mut self, unserved: Option<String>) {
        self.phase = match self.bucket {
            None => Phase::Over,
            Some(_) => Phase::Draining(self.scene.now_ns),
        };
        if let Some(unserved) = unserved {
            return self.fails(unserved);
        }
        self.check_answers();
        self.check_copies();
        self.check_losses();
        self.check_order();
    }

    /// Each range has a copy, or a journal, that has all of it; unless all their disks were lost,
    /// and an operator has forgiven that.
    fn check_losses(&mut self) {
        let (losses, forgiven) = (self.cells.coordinator.losses, self.cells.coordinator.forgiven);
        let forgiven = if self.cells.loses_all { 0 } else { forgiven };
        if self.bucket.is_some() && losses + forgiven > 0 {
            self.fails(format!("{losses} ranges were lost above a tier, {forgiven} forgiven"));
        }
    }

    /// Once all is written back, the bucket has what was stored last.
    fn look_below(&mut self, since_ns: u64) {
        let of = |(cell, machine): (usize, &Machine)| {
            let dirty = machine.process.as_ref().map_or(0, Process::dirty);
            (dirty > 0).then_some((cell + 1, dirty))
        };
        let dirty: Vec<_> = self.cells.machines.iter().enumerate().filter_map(of).collect();
        if !dirty.is_empty() {
            if self.scene.now_ns > since_ns + DRAINING_NS {
                self.fails(format!("{DRAINING_NS} ns later cells have dirty keys: {dirty:?}"));
            }
            return;
        }
        self.phase = Phase::Over;
        if let Some(fault) = self.wrong_below() {
            self.fails(fault);
        }
    }

    /// What the bucket has that is not what was stored last.
    fn wrong_below(&self) -> Option<String> {
        let bucket = self.bucket.as_ref()?;
        let values = match bucket.values(&self.names) {
            Err(error) => return Some(format!("the bucket cannot be read: {error}")),
            Ok(values) => values,
        };
        let last = self.clients.len() - 1;
        // What was decided after all was asked for may have ended it.
        let asked = self.history.entries.iter().find(|it| it.client == last)?;
        if self.cells.coordinator.flushed_ns >= asked.asked_ns {
            return None;
        }
        values.iter().enumerate().find_map(|(key, value)| {
            let mut entries = self.history.entries.iter().rev();
            let shown = entries.find(|it| it.client == last && it.key == key)?.answer;
            let value = value.as_deref().map(String::from_utf8_lossy);
            let number = value.as_ref().and_then(|value| value.trim().parse().ok());
            let is_right = Answer::Value(number) == shown && number.is_some() == value.is_some();
            (!is_right).then(|| format!("the bucket has {value:?} for key {key}, not {shown:?}"))
        })
    }

    fn check_answers(&mut self) {
        if let Some(fault) = self.clients.iter().find_map(|client| client.fault.clone()) {
            self.fails(fault);
        }
        let stopped_ns: u64 =
            self.cells.machines.iter().map(|machine| machine.stopped_sum_ns).sum();
        let late = self.history.waits().find(|(entry, wait_ns)| {
            entry.client != usize::MAX && *wait_ns > ANSWER_NS + stopped_ns
        });
        if let Some((entry, _)) = late {
            let fault = format!("an answer was late: {entry:?}");
            self.fails(fault);
        }
    }

    /// Whether copies may be on their way to what was asked last: at d0 no reply waits for them.
    fn copies_may_lag(&self) -> bool {
        let is_d0 = self.cells.coordinator.map().consistency.durability == Durability::D0;
        let asked_ns = self.history.entries.last().map_or(0, |entry| entry.asked_ns);
        is_d0 && self.scene.now_ns < asked_ns + HEALING_NS
    }

    /// A cell that begins to lead a range holds what the other cells in sync hold.
    fn check_new_primary(&mut self, life: Life) {
        let map = self.cells.coordinator.map().clone();
        let me = cell_id(life.cell);
        for range in map.ranges.iter().filter(|range| range.primary == me) {
            let process = self.cells.machines[life.cell].process.as_ref();
            if process.is_some_and(|process| process.leads(range))
                && self.begun.insert((range.id, range.epoch))
                && let Some(fault) = self.differing_in(range)
            {
                self.fails(format!("a new primary begins too early: {fault}"));
            }
        }
    }

    /// What the cells in sync of `range` hold that is not the same.
    fn differing_in(&self, range: &Range) -> Option<String> {
        let map = self.cells.coordinator.map();
        let processes = range.in_sync().filter_map(|cell| {
            let process = self.cells.machines[index_of(cell)].process.as_ref()?;
            // One that has started again is in sync no more, which the map does not know yet.
            let is_known = map.cells[&cell].started.incarnation.0 == process.life.number;
            is_known.then(|| (cell, process, process.now(&self.scene)))
        });
        let processes: Vec<_> = processes.collect();
        // What has expired by one clock and not by the other is the same, and so is what may have
        // expired for the primary before: its walks did not copy that.
        let shown_s = |process: &Process| process.member.shows_from_s(range.id);
        let earlier_s = processes.iter().map(|(_, process, _)| shown_s(process)).max()?;
        let expiry_s = processes.iter().map(|(.., now)| now.expiry_s).min()?.max(earlier_s);
        // A delayed flush that is due is carried out as soon as it begins to lead.
        if self.cells.coordinator.map().flushes.due_at(u32::MAX).is_some() {
            return None;
        }
        let of =
            self.names.iter().filter(|name| range.slices().contains(SliceId::of(name.as_bytes())));
        of.into_iter().find_map(|name| {
            let held = processes.iter().filter_map(|(cell, process, now)| {
                let now = Now { expiry_s, ..*now };
                let held = process.look_up_at(name.as_bytes(), now);
                // By a clock that has jumped it may have expired, and be removed, or not be copied.
                let counts = !self.may_lack() || held.starts_with(b"VALUE");
                counts.then(|| (cell.0, String::from_utf8_lossy(&held).into_owned()))
            });
            let held: Vec<_> = held.collect();
            let differ = held.iter().any(|(_, item)| *item != held[0].1);
            differ.then(|| format!("cells in sync hold different things for {name}: {held:?}"))
        })
    }

    /// Whether a cell in sync may lack an item: by a clock that has jumped it has expired, or what
    /// lies below the others has it.
    fn may_lack(&self) -> bool {
        self.cells.is_time_split || self.bucket.is_some()
    }

    /// All cells in sync hold the same.
    fn check_copies(&mut self) {
        if let Some(fault) = self.differing() {
            self.fails(fault);
        }
    }

    /// What cells in sync hold that is not the same.
    fn differing(&self) -> Option<String> {
        let map = self.cells.coordinator.map();
        self.names.iter().find_map(|name| {
            let range = map.range_of(SliceId::of(name.as_bytes()))?;
            let held = range.in_sync().filter_map(|cell| {
                let process = self.cells.machines[index_of(cell)].process.as_ref()?;
                Some((cell, process.look_up(name.as_bytes(), &self.scene)))
            });
            let counts = |bytes: &[u8]| self.bucket.is_none() || bytes.starts_with(b"VALUE");
            let held: Vec<_> = held.filter(|(_, bytes)| counts(bytes)).collect();
            let differ = held.iter().any(|(_, bytes)| *bytes != held[0].1);
            let shown: Vec<_> = held
                .iter()
                .map(|(cell, bytes)| (cell.0, String::from_utf8_lossy(bytes).into_owned()))
                .collect();
            differ.then(|| format!("cells in sync hold different things for {name}: {shown:?}"))
        })
    }

    fn check_order(&mut self) {
        self.history.takes_ns.clone_from(&self.scene.takes_ns);
        // What has waited for no copy may be lost with its primary.
        if self.cells.coordinator.map().consistency.durability == Durability::D0 {
            return;
        }
        self.history.is_time_split = self.cells.is_time_split;
        let is_known = |key: &usize| !self.history.unknown.contains(key);
        for key in (0..self.names.len()).filter(is_known) {
            let entries = self.history.of_key(key);
            let fault = match search(&entries, &self.history.ends_of_key(key)) {
                Found::Order => continue,
                Found::None(entry) => {
                    format!("the history of key {key} has no order that explains {entry:?}")
                }
                Found::TooMany(entry) => {
                    format!("the history of key {key} is too long to be checked: {entry:?}")
                }
            };
            if self.scene.trace.prints() {
                for entry in &entries {
                    self.scene.say(|| format!("  history: {entry:?}"));
                }
            }
            return self.fails(fault);
        }
    }

    fn fails(&mut self, fault: String) {
        let machines = &self.cells.machines;
        for report in machines.iter().filter_map(|it| it.process.as_ref()?.report()) {
            self.scene.say(|| format!("  {report:?}"));
        }
        self.scene.say(|| format!("NOT TRUE: {fault}"));
        self.fault.get_or_insert(fault);
    }

    fn report(self, seed: u64) -> Report {
        let asked = self.history.entries.iter().filter(|entry| entry.client != usize::MAX);
        let answered = asked.clone().filter(|entry| entry.answered_ns.is_some()).count();
        let processes = self.cells.machines.iter().filter_map(|machine| machine.process.as_ref());
        Report {
            seed,
            fault: self.fault,
            hash: self.scene.trace.hash(),
            steps: self.scene.steps,
            requests: asked.count() as u64,
            answered: answered as u64,
            simulated_ns: self.scene.now_ns,
            faults: self.faults.counts,
            interrupted: self.interrupted,
            promotions: self.cells.coordinator.promotions,
            left: self.cells.coordinator.left,
            moves: self.cells.coordinator.moves,
            losses: self.cells.coordinator.losses,
            forgiven: self.cells.coordinator.forgiven,
            drops: processes.clone().map(Process::drops).sum(),
            copy_reads: processes
                .map(Process::copy_reads)
                .fold([0; 2], |sum, of| [sum[0] + of[0], sum[1] + of[1]]),
            trace: self.scene.trace.into_text(),
        }
    }
}
