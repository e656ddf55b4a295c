//! The cells of a ring, each with at most one process, and what they send each other.
//!
//! Links and clients have connections, in which nothing is lost but with the connection.
//! Heartbeats are messages, which may be lost, late, and in another order: as after a connection
//! that was opened again.

use crate::below::Below;
use crate::cell::Shape;
use crate::client::Client;
use crate::clock::Clock;
use crate::coordinator::{About, Coordinator};
use crate::driver::{Act, Arrived};
use crate::history::History;
use crate::machine::{KEEPER, Machine, RING, THREADS, TIER, machine_at, started};
use crate::net::{Chunk, Net, Party};
use crate::process::{Follows, Process};
use crate::scene::{CallId, Dial, Event, Life, PipeId, Scene, cell_id, index_of};
use crate::threads::TIER_THREADS;
use ring::{APART_S, CellId, Command, Effect, Heartbeat, Incarnation, Outcome};
use service::Finding;
use tier::TierError;

/// How long a connection is tried.
const DIAL_NS: u64 = 1_000_000_000;
/// Between two attempts while nothing answers.
const REDIAL_NS: u64 = 20_000_000;
/// How long a reset connection of the control plane is tried before it is broken.
const BROKEN_NS: u64 = 20_000_000;
/// Between two proposals of a cell that starts.
const START_NS: u64 = 100_000_000;
/// A message that cannot pass is tried again, or lost.
const RETRY_NS: u64 = 10_000_000;

/// How long it takes at most until a process that could not start is started again.
const RESTART_NS: u64 = 500_000_000;

/// Messages that a cell has sent to others, whether or not they have arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) heartbeats: u64,
    /// On links: requests, replies, changes and what acknowledges them.
    pub(crate) on_links: u64,
    /// Questions for a newer map, and answers to them.
    pub(crate) maps: u64,
}

/// All cells, and what lies between them.
pub(crate) struct Cells {
    pub(crate) machines: Vec<Machine>,
    pub(crate) net: Net,
    pub(crate) coordinator: Coordinator,
    /// Of 1,000 heartbeats, how many are lost, and how many are late.
    pub(crate) beats_lost: u64,
    pub(crate) beats_late: u64,
    /// In how many of 1,000 batches the process is stopped.
    pub(crate) stops: u64,
    /// A cell has taken another time than one that runs, which it could not hear.
    pub(crate) is_time_split: bool,
    /// Of 1,000 proposals, how many are late, and strike who proposes; and who that was.
    pub(crate) ambushes: u64,
    pub(crate) ambushed: Vec<usize>,
    /// Of 1,000 learners that are ready, for how many the primary goes off; and which those are.
    pub(crate) admissions: u64,
    pub(crate) admitted: Vec<(usize, usize)>,
    /// A worker stops of each primary that is replaced.
    pub(crate) stops_deposed: bool,
    /// The cell that was just stopped in a batch, and until when.
    pub(crate) stopped_in_batch: Option<(usize, u64)>,
    /// The life that begins on an empty disk, as long as the map may not know it: what was promised
    /// is in the other cells alone.
    pub(crate) fragile: Option<Life>,
    /// Disks are lost also where nobody else has what was promised.
    pub(crate) loses_all: bool,
    /// By cell, what it has sent to others.
    pub(crate) sent: Vec<Sent>,
    pub(crate) fault: Option<String>,
}

impl Cells {
    /// The cells of the ring of `coordinator`, all of which run.
    pub(crate) fn start(
        coordinator: Coordinator,
        net: Net,
        machines: Vec<(Shape, Clock, Option<Below>)>,
        scene: &mut Scene,
    ) -> Self {
        let known = coordinator.map().clone();
        let machine = |(cell, (shape, clock, below)): (usize, (Shape, Clock, Option<Below>))| {
            let life = Life { cell, number: 1 };
            let process =
                Process::start(life, known.clone(), (shape, clock), below.as_ref(), scene);
            let process = process.expect("invariant: nothing fails yet");
            Machine::new(process, (shape, clock, below), known.clone())
        };
        let machines: Vec<_> = machines.into_iter().enumerate().map(machine).collect();
        Self {
            sent: vec![Sent::default(); machines.len()],
            machines,
            net,
            coordinator,
            beats_lost: 0,
            beats_late: 0,
            stops: 0,
            ambushes: 0,
            ambushed: Vec::new(),
            admissions: 0,
            stops_deposed: false,
            admitted: Vec::new(),
            stopped_in_batch: None,
            fragile: None,
            loses_all: false,
            is_time_split: false,
            fault: None,
        }
    }

    /// The process of a life, if it runs.
    pub(crate) fn process(&mut self, life: Life) -> Option<&mut Process> {
        let process = self.machines[life.cell].process.as_mut();
        process.filter(|process| process.life == life)
    }

    /// The threads of each process.
    pub(crate) fn threads(&self) -> usize {
        if self.machines[0].below.is_some() { THREADS } else { THREADS - TIER_THREADS }
    }

    /// Stops threads of a cell.
    pub(crate) fn stop(
        &mut self,
        cell: usize,
        threads: [bool; THREADS],
        for_ns: u64,
        scene: &mut Scene,
    ) {
        let machine = &mut self.machines[cell];
        scene.note("stop", &[cell as u64 + 1, for_ns]);
        scene.say(|| format!("fault: cell {} stops {threads:?} for {for_ns} ns", cell + 1));
        machine.stop(threads, for_ns, scene.now_ns);
    }

    /// Ends the process of a cell. `is_off`: its machine goes off, and nothing answers. Not while
    /// others must live, since a disk was lost.
    pub(crate) fn crash(&mut self, cell: usize, is_off: bool, scene: &mut Scene) {
        let is_fragile = |life: Life| !self.coordinator.has_started(life);
        if self.fragile.is_some_and(is_fragile) {
            return;
        }
        let Some(process) = self.machines[cell].process.take() else { return };
        let life = process.life;
        drop(process);
        if let Some(below) = &self.machines[cell].below {
            below.end(is_off, &mut scene.dice);
        }
        scene.note("crash", &[cell as u64 + 1, u64::from(is_off)]);
        scene.say(|| format!("fault: cell {} ends (off: {is_off})", cell + 1));
        self.coordinator.ends_ns.insert(life, scene.now_ns);
        self.machines[cell].is_off = is_off;
        let own = Party::Cell(life);
        let pipes: Vec<_> = self.net.pipes.keys().copied().collect();
        for pipe in pipes {
            let Some(side) = self.net.side(pipe, own) else { continue };
            let resets = scene.dice.per_mille(500);
            if is_off {
                self.net.vanish(pipe, side);
            } else {
                self.net.close(pipe, side, resets, scene);
            }
        }
        for other in (0..self.machines.len()).filter(|other| *other != cell && !is_off) {
            let from = Life { cell: other, number: self.machines[other].number };
            let delay_ns = BROKEN_NS + scene.dice.below(BROKEN_NS);
            scene.after(delay_ns, Event::Redial(from, life));
        }
    }

    /// Starts a process, if there is none.
    pub(crate) fn restart(&mut self, cell: usize, scene: &mut Scene) {
        let machine = &mut self.machines[cell];
        if machine.process.is_some() {
            return;
        }
        machine.is_off = false;
        machine.number += 1;
        let life = Life { cell, number: machine.number };
        scene.note("start", &[cell as u64 + 1, machine.number]);
        let (on, below) = ((machine.shape, machine.clock), machine.below.as_ref());
        match Process::start(life, machine.known.clone(), on, below, scene) {
            Ok(process) => {
                machine.process = Some(process);
                scene.after(0, Event::Start(life));
            }
            Err(error) => {
                scene.say(|| format!("  cell {} does not start: {error}", cell + 1));
                let has_stopped = below.is_some_and(|below| below.disk.is_stopped());
                if let Some(below) = below.filter(|_| has_stopped) {
                    let is_off = scene.dice.per_mille(500);
                    below.end(is_off, &mut scene.dice);
                } else if !matches!(error, TierError::Backend(_)) {
                    let fault = format!("cell {} does not start: {error}", cell + 1);
                    self.fault.get_or_insert(fault);
                }
                let delay_ns = scene.dice.between(RESTART_NS / 10, RESTART_NS);
                scene.after(delay_ns, Event::Restart(cell));
            }
        }
    }

    /// Resets all connections between two cells.
    pub(crate) fn reset_links(&mut self, cells: [usize; 2], scene: &mut Scene) {
        let index = |party: Party| match party {
            Party::Cell(life) => life.cell,
            Party::Client(_) => usize::MAX,
        };
        let is_between = |(_, pipe): &(&PipeId, &crate::net::Pipe)| {
            let ends = pipe.parties.map(index);
            ends == cells || ends == [cells[1], cells[0]]
        };
        let pipes: Vec<_> = self.net.pipes.iter().filter(is_between).map(|(id, _)| *id).collect();
        for pipe in pipes {
            self.net.reset(pipe, 0, scene);
            self.net.reset(pipe, 1, scene);
        }
    }

    /// Puts off an event of a thread that is stopped. Returns it, if the thread runs.
    pub(crate) fn put_off(&mut self, event: Event, scene: &mut Scene) -> Option<Event> {
        let (life, thread) = match &event {
            Event::Worker(life, worker) => (*life, *worker),
            Event::Keeper(life) => (*life, KEEPER),
            Event::Tier(life, thread) => (*life, TIER + *thread),
            Event::Tick(life) | Event::Member(life, _) => (*life, RING),
            _ => return Some(event),
        };
        let until_ns = self.machines[life.cell].stopped_ns[thread];
        if until_ns <= scene.now_ns {
            return Some(event);
        }
        match thread {
            RING => scene.at(until_ns, event),
            TIER.. => {
                if let Some(process) = self.process(life) {
                    process.put_off_tier(thread - TIER, until_ns, scene);
                }
            }
            _ => {
                if let Some(process) = self.process(life) {
                    process.put_off(thread, until_ns, scene);
                }
            }
        }
        None
    }

    /// A worker of a cell takes a step.
    pub(crate) fn step_worker(&mut self, life: Life, worker: usize, scene: &mut Scene) {
        let stops = self.stops;
        let Some(process) = self.process(life) else { return };
        let Some((follows, begins)) = process.step_worker(worker, scene) else { return };
        scene.note("worker", &[life.cell as u64 + 1, worker as u64]);
        let serves = begins && stops > 0 && process.serves_clients();
        self.follow(life, follows, scene);
        // Only what a client is answered then can be wrong.
        if serves && scene.dice.per_mille(stops) {
            let shortest_ns = if scene.dice.per_mille(500) { 20_000_000 } else { 350_000_000 };
            let for_ns = scene.dice.duration(shortest_ns, 900_000_000);
            self.stop(life.cell, [true; THREADS], for_ns, scene);
            self.stopped_in_batch = Some((life.cell, for_ns));
        }
    }

    /// The keeper of a cell takes a step.
    pub(crate) fn step_keeper(&mut self, life: Life, scene: &mut Scene) {
        let Some(process) = self.process(life) else { return };
        let follows = process.step_keeper(scene);
        self.follow(life, follows, scene);
    }

    /// A thread of the tier of a cell takes a step.
    pub(crate) fn step_tier(&mut self, life: Life, thread: usize, scene: &mut Scene) {
        let Some(process) = self.process(life) else { return };
        let follows = process.step_tier(thread, scene);
        self.follow(life, follows, scene);
    }

    /// The member of a cell handles an event, or looks at the time.
    pub(crate) fn step_member(
        &mut self,
        life: Life,
        event: Option<ring::Event>,
        scene: &mut Scene,
    ) {
        let leads = self.leader() == Some(life.cell);
        let Some(process) = self.process(life) else { return };
        let follows = match event {
            Some(event) => process.step_member(event, leads, scene),
            None => process.tick(leads, scene),
        };
        self.follow(life, follows, scene);
    }

    /// Ends the process of a cell whose machine has stopped in a call of its disk or its bucket.
    /// Returns whether it has.
    fn ends_if_stopped(&mut self, cell: usize, scene: &mut Scene) -> bool {
        let below = self.machines[cell].below.as_ref();
        if !below.is_some_and(|below| below.disk.is_stopped()) {
            return false;
        }
        let is_off = scene.dice.per_mille(500);
        self.crash(cell, is_off, scene);
        let delay_ns = scene.dice.duration(1_000_000, 4 * RESTART_NS);
        scene.after(delay_ns, Event::Restart(cell));
        true
    }

    fn follow(&mut self, life: Life, follows: Vec<Follows>, scene: &mut Scene) {
        if self.ends_if_stopped(life.cell, scene) {
            return;
        }
        for one in follows {
            match one {
                Follows::Act(worker, act) => self.act((life, worker), act, scene),
                Follows::Member(Effect::Beat { to, heartbeat }) => {
                    self.send_beat(life, index_of(to), heartbeat, scene);
                }
                Follows::Member(Effect::Propose { range, command })
                    if self.ambushes > 0 && scene.dice.per_mille(self.ambushes) =>
                {
                    self.coordinator.call_late(life, range, command, scene);
                    self.ambushed.push(life.cell);
                }
                Follows::Member(Effect::Propose { range, command }) => {
                    self.coordinator.call(life, About::Range(range), command, scene);
                }
                // The process has done all of these.
                Follows::Member(Effect::Unseal { at }) => {
                    scene.say(|| format!("  cell {} serves again: {at:?}", life.cell + 1));
                }
                Follows::Member(Effect::Follow { second }) => self.follows(life, second, scene),
                Follows::Member(Effect::Take { second }) => {
                    let is_wrong = self.is_wrong(second, scene);
                    if let Some(process) = self.process(life) {
                        process.is_time_wrong |= is_wrong;
                    }
                    let others = self.machines.iter().filter_map(|it| it.process.as_ref());
                    let mut seconds = others.filter_map(|process| process.second(scene));
                    self.is_time_split |= seconds.any(|it| it.abs_diff(second) > APART_S);
                }
                Follows::Fetch(from) => self.fetch(life, index_of(from), scene),
                Follows::Finding(finding) => self.find(life, finding, scene),
                Follows::Fault(fault) => {
                    self.fault.get_or_insert(fault);
                }
            }
        }
    }

    fn act(&mut self, (life, worker): (Life, usize), act: Act, scene: &mut Scene) {
        let own = Party::Cell(life);
        match act {
            Act::Send(pipe, bytes) => {
                scene.say(|| {
                    format!("  cell {} sends {} bytes on {pipe}", life.cell + 1, bytes.len())
                });
                if let Some(side) = self.net.side(pipe, own) {
                    let to = self.net.pipes[&pipe].parties[1 - side];
                    self.sent[life.cell].on_links += u64::from(matches!(to, Party::Cell(_)));
                    self.net.send(pipe, side, Chunk::Data(bytes), scene);
                }
            }
            Act::Received(pipe, count) => {
                scene.say(|| format!("  cell {} receives {count} bytes on {pipe}", life.cell + 1));
                let Some(side) = self.net.side(pipe, own) else { return };
                let other = self.net.pipes[&pipe].parties[1 - side];
                if let Party::Cell(other) = other
                    && let Some(process) = self.process(other)
                {
                    process.takes_more(pipe, count, scene);
                }
            }
            Act::Close(pipe, resets) => {
                scene.say(|| format!("  cell {} closes {pipe}", life.cell + 1));
                if let Some(side) = self.net.side(pipe, own) {
                    self.net.close(pipe, side, resets, scene);
                }
            }
            Act::Connect(to, purpose) => {
                let to = machine_at(to);
                let until_ns = scene.now_ns + DIAL_NS;
                let delay_ns = self.net.delay_ns(life.cell, to, scene);
                let dial = Dial { from: life, worker, to, purpose, until_ns };
                scene.after(delay_ns, Event::Dial(dial));
            }
        }
    }

    /// A worker has found something that the member is to know.
    fn find(&mut self, life: Life, finding: Finding, scene: &mut Scene) {
        let cell = life.cell + 1;
        match finding {
            Finding::CaughtUp { at, cell: learner } => {
                scene.say(|| format!("  cell {cell}: learner {learner} is ready for {at:?}"));
                if self.admissions > 0 && scene.dice.per_mille(self.admissions) {
                    self.admitted.push((life.cell, index_of(learner)));
                }
                let cell = learner;
                let event = Box::new(ring::Event::CaughtUp { at, cell });
                scene.after(20_000, Event::Member(life, event));
            }
            Finding::Refuses { cell: copy, range } => {
                scene.say(|| format!("  cell {cell}: copy {copy} refuses"));
                let (me, map) = (cell_id(life.cell), self.machines[life.cell].known.clone());
                let is_meant = |of: &ring::Range| range.is_none_or(|range| range == of.id);
                let is_led = |range: &&ring::Range| {
                    range.primary == me && range.has(copy) && is_meant(range)
                };
                for range in map.ranges.iter().filter(is_led) {
                    let event = ring::Event::Refuses { at: range.stamp(), cell: copy };
                    scene.after(20_000, Event::Member(life, Box::new(event)));
                }
            }
            Finding::Flushes(flush) => {
                let command = Command::Flush { due_s: flush.due_s, at_s: flush.at_s };
                self.coordinator.call(life, About::Flush(flush), command, scene);
            }
            Finding::Sealed { at } => {
                let event = Box::new(ring::Event::Sealed { at });
                scene.after(20_000, Event::Member(life, event));
            }
            Finding::Begins => {
                scene.after(20_000, Event::Member(life, Box::new(ring::Event::Tick)));
            }
            Finding::Ordered(order) => {
                let event = Box::new(ring::Event::Ordered(order));
                scene.after(20_000, Event::Member(life, event));
            }
            // The operator of the simulator asks the coordinator.
            Finding::Wants(_) | Finding::Restarts { .. } => {}
            // The model of the coordinator loses no voters.
            Finding::Recovers { .. } => {}
            Finding::Broken { cell: other, what } => {
                scene.say(|| format!("  cell {cell}: the link to cell {other}: {what}"));
            }
        }
    }

    fn send_beat(&mut self, from: Life, to: usize, heartbeat: Heartbeat, scene: &mut Scene) {
        self.sent[from.cell].heartbeats += 1;
        if scene.dice.per_mille(self.beats_lost) {
            return;
        }
        let late_ns = match scene.dice.per_mille(self.beats_late) {
            true => scene.dice.duration(1_000_000, 400_000_000),
            false => 0,
        };
        let delay_ns = self.net.delay_ns(from.cell, to, scene) + late_ns;
        scene.after(delay_ns, Event::Beat(from, to, Box::new(heartbeat)));
    }

    /// A heartbeat arrives, if it can pass.
    pub(crate) fn arrive_beat(
        &mut self,
        from: Life,
        to: usize,
        heartbeat: Box<Heartbeat>,
        scene: &mut Scene,
    ) {
        if self.net.is_control_blocked(from.cell, to) {
            if scene.dice.per_mille(900) {
                scene.after(RETRY_NS, Event::Beat(from, to, heartbeat));
            }
            return;
        }
        let Some(process) = &self.machines[to].process else { return };
        let (from, incarnation) = (cell_id(from.cell), Incarnation(from.number));
        let event = ring::Event::Heard { from, incarnation, heartbeat: *heartbeat };
        scene.after(0, Event::Member(process.life, Box::new(event)));
    }

    /// A cell tries to reach another one whose life has ended.
    pub(crate) fn redial(&mut self, from: Life, life: Life, scene: &mut Scene) {
        let machine = &self.machines[life.cell];
        let is_silent = machine.is_off
            || self.net.is_control_blocked(from.cell, life.cell)
            || self.net.is_control_blocked(life.cell, from.cell);
        if machine.process.is_some() || is_silent {
            return;
        }
        self.breaks(from, cell_id(life.cell), scene);
    }

    /// The link of the control plane to `cell` is broken, as `from` sees it.
    pub(crate) fn breaks(&mut self, from: Life, cell: CellId, scene: &mut Scene) {
        scene.after(0, Event::Member(from, Box::new(ring::Event::Broken(cell))));
    }

    /// A connection is tried.
    pub(crate) fn dial(&mut self, dial: Dial, scene: &mut Scene) {
        let Dial { from, worker, to, purpose, until_ns } = dial;
        if self.process(from).is_none() {
            return;
        }
        let is_blocked = self.net.is_blocked(from.cell, to) || self.net.is_blocked(to, from.cell);
        let is_silent = is_blocked || self.machines[to].is_off;
        if is_silent && scene.now_ns < until_ns {
            let retry_ns = scene.dice.between(REDIAL_NS / 2, REDIAL_NS);
            return scene.after(retry_ns, Event::Dial(dial));
        }
        let accepts = self.machines[to].process.as_mut().filter(|_| !is_silent);
        let pipe = accepts.map(|process| {
            let pipe = self.net.open([Party::Cell(from), Party::Cell(process.life)]);
            process.accept(pipe, true, scene);
            pipe
        });
        scene.say(|| {
            format!("  cell {} dials cell {}: {pipe:?}, {purpose:x}", from.cell + 1, to + 1)
        });
        if let Some(process) = self.process(from) {
            process.connected(worker, pipe, purpose, scene);
        }
    }

    /// A client's connection arrives at a cell.
    pub(crate) fn accept_client(
        &mut self,
        client: &mut Client,
        number: usize,
        cell: usize,
        scene: &mut Scene,
    ) {
        let pipe = self.machines[cell].process.as_mut().map(|process| {
            let pipe = self.net.open([Party::Client(number), Party::Cell(process.life)]);
            process.accept(pipe, false, scene);
            pipe
        });
        client.connected(pipe, cell, scene);
    }

    /// A chunk arrives.
    pub(crate) fn deliver(
        &mut self,
        (id, side): (PipeId, usize),
        clients: &mut [Client],
        history: &mut History,
        scene: &mut Scene,
    ) {
        let Some(pipe) = self.net.pipes.get(&id) else { return };
        let from = pipe.parties[side];
        let can_pass = match (from, pipe.parties[1 - side]) {
            (Party::Cell(from), Party::Cell(to)) => {
                !self.net.is_blocked(from.cell, to.cell) && !self.machines[to.cell].is_off
            }
            (Party::Client(_), Party::Cell(to)) => !self.machines[to.cell].is_off,
            _ => true,
        };
        let Some((chunk, to)) = self.net.arrive(id, side, can_pass, scene) else { return };
        match to {
            Party::Client(client) => {
                if let (Chunk::Data(bytes), Party::Cell(life)) = (&chunk, from)
                    && let Some(process) = self.process(life)
                {
                    process.takes_more(id, bytes.len(), scene);
                }
                clients[client].arrives(id, chunk, history, scene);
            }
            Party::Cell(life) => {
                let is_data = matches!(chunk, Chunk::Data(_));
                let what = match chunk {
                    Chunk::Data(bytes) => Arrived { bytes, ..Default::default() },
                    Chunk::End => Arrived { has_end: true, ..Default::default() },
                    Chunk::Reset => Arrived { is_reset: true, ..Default::default() },
                };
                let process = self.process(life);
                let is_taken = process.is_some_and(|process| process.arrives(id, what, scene));
                if !is_taken && is_data {
                    self.net.reset(id, 1 - side, scene);
                }
            }
        }
    }

    /// A cell asks another for its map, and gets it, if the question and the answer can pass.
    fn fetch(&mut self, life: Life, from: usize, scene: &mut Scene) {
        let is_whole = !self.net.is_control_blocked(life.cell, from)
            && !self.net.is_control_blocked(from, life.cell);
        let version = self.machines[from].known.version;
        scene.say(|| format!("  cell {} asks cell {} for map {version}", life.cell + 1, from + 1));
        self.sent[life.cell].maps += 1;
        if is_whole && self.machines[from].process.is_some() {
            self.sent[from].maps += 1;
            let there_ns = self.net.delay_ns(life.cell, from, scene);
            let back_ns = self.net.delay_ns(from, life.cell, scene);
            scene.after(there_ns + back_ns, Event::MapFetched(life.cell, version));
        }
    }

    /// The monotonic clock of a machine jumps. Not while it counts by that clock how long leases of
    /// others last: clocks are trusted for their speed.
    pub(crate) fn jump(&mut self, cell: usize, scene: &mut Scene) {
        let process = self.machines[cell].process.as_ref();
        if process.is_some_and(|process| process.holds_back(scene)) {
            return;
        }
        scene.say(|| format!("  the clock of cell {} jumps", cell + 1));
        self.machines[cell].clock.jump();
        self.is_time_split = true;
        if let Some(process) = &mut self.machines[cell].process {
            process.jump();
        }
    }

    /// Whether `second` is later than any clock that is right can make it.
    fn is_wrong(&self, second: u32, scene: &Scene) -> bool {
        u64::from(second) > Clock::latest_s(&self.machines[0].clock, scene.now_ns)
    }

    /// A cell follows a later second. No clock that has jumped may have made it do so.
    fn follows(&mut self, life: Life, second: u32, scene: &Scene) {
        let is_wrong = self.is_wrong(second, scene);
        if self.process(life).is_some_and(|process| !process.is_time_wrong) && is_wrong {
            let cell = life.cell + 1;
            self.fault.get_or_insert(format!("cell {cell} follows the wrong second {second}"));
        }
    }

    /// Who leads the agreement: a cell that reaches more than half of all that there are.
    fn leader(&self) -> Option<usize> {
        let runs = |cell: usize| self.machines[cell].process.is_some();
        let can = |cell: usize| runs(cell) && self.coordinator.cuts[cell] == 0;
        let cells = 0..self.machines.len();
        cells.clone().find(|from| {
            let reaches = |to: &usize| {
                let is_blocked = self.net.is_blocked(*from, *to) || self.net.is_blocked(*to, *from);
                *to == *from || runs(*to) && !is_blocked
            };
            can(*from) && cells.clone().filter(reaches).count() * 2 > self.machines.len()
        })
    }

    /// A call of the coordinator ends.
    pub(crate) fn answer(&mut self, call: CallId, outcome: Outcome, scene: &mut Scene) {
        if let Some((life, flush)) = self.coordinator.answer(call, outcome, scene)
            && let Some(process) = self.process(life)
        {
            process.flushed(flush, outcome, scene);
        }
    }

    /// A map arrives at a cell.
    pub(crate) fn take_map(&mut self, cell: usize, version: u64, scene: &mut Scene) {
        if self.coordinator.cuts[cell] == 0 {
            self.take_any_map(cell, version, scene);
        }
    }

    /// A map arrives at a cell.
    pub(crate) fn take_any_map(&mut self, cell: usize, version: u64, scene: &mut Scene) {
        let machine = &mut self.machines[cell];
        if machine.known.version >= version {
            return;
        }
        let Some(map) = self.coordinator.map_of(version) else { return };
        machine.known = map.clone();
        if let Some(process) = &machine.process {
            scene.after(0, Event::Member(process.life, Box::new(ring::Event::Map(map.clone()))));
        }
    }

    /// A cell says that it has started, until the map has it.
    pub(crate) fn say_started(&mut self, life: Life, scene: &mut Scene) {
        let Some(has_journal) = self.process(life).map(|process| process.has_journal) else {
            return;
        };
        if self.coordinator.has_started(life) {
            return;
        }
        let has_tier = self.machines[life.cell].below.is_some();
        let started = started((life.cell, life.number), has_tier, has_journal);
        let command = Command::Start { cell: cell_id(life.cell), started };
        self.coordinator.call(life, About::Start, command, scene);
        scene.after(START_NS, Event::Start(life));
    }
}
