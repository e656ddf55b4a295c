//! The process of a cell: its workers, its keeper and its member, each a thread that the scheduler
//! stops between any two of its steps.
//!
//! ```text
//! workers  what `worker` draws
//! keeper   one message or none, then a step of what takes long
//! ring     one event
//! ```
//!
//! Above a tier there are those of `threads`.
//!
//! A step is whole: nothing else of the process runs meanwhile. What two threads do to each other
//! inside a step is not modelled; the crates have tests under loom and shuttle for that.

use crate::below::Below;
use crate::cell::{LIMIT_BYTES, Shape, VALUE_BYTES_MAX, cell, ring_cell};
use crate::clock::Clock;
use crate::driver::{Act, Arrived, Driver};
use crate::outside::{Outside, lock};
use crate::scene::{Event, Life, PipeId, Scene, cell_id};
use crate::threads::Threads;
use crate::worker::Worker;
use base::{ExpiryClock, MemoryBudget};
use ring::{CellId, Effect, Incarnation, Map, Member, RangeId, Stamp};
use service::{Cell, Finding, Keeper, RingCell, RingIdentity, RingService, Service};
use session::{Bounds, Conn, ConnId, Handler, Reply, Resources, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tier::{Recovered, TierError};

/// The number of the listener of links.
const LINKS_AT: usize = 1;
/// The longest rest of a keeper, and the time between two steps of what takes long.
const REST_NS: u64 = 1_000_000_000;
const STEP_NS: u64 = 200_000;

/// A message to the keeper.
enum ToKeeper {
    Adopt(Arc<Map>, BTreeMap<RangeId, u64>),
    Ready(CellId, u64),
    Unseal(Stamp),
}

/// What follows from a step for the rest of the world.
pub(crate) enum Follows {
    /// What this worker does to its sockets.
    Act(usize, Act),
    Member(Effect),
    /// The member wants the map of another cell.
    Fetch(CellId),
    Finding(Finding),
    /// Something is not as it should be.
    Fault(String),
}

/// The process of one life of a cell.
pub(crate) struct Process {
    pub(crate) life: Life,
    me: CellId,
    clock: Clock,
    expiry: Arc<ExpiryClock>,
    /// Its clock has jumped, or it has taken the second of one that has.
    pub(crate) is_time_wrong: bool,
    cell: Arc<Cell>,
    pub(crate) ring: Arc<RingCell>,
    keeper: Keeper,
    shape: Shape,
    pub(crate) workers: Vec<Worker>,
    pub(crate) member: Member,
    to_keeper: VecDeque<ToKeeper>,
    /// By cell, what it is ready for, as the keeper has it.
    ready: BTreeMap<CellId, u64>,
    /// As the keeper has it, for the member.
    ready_version: u64,
    /// What the member has of that, and of leading the agreement.
    known: (u64, bool),
    /// When the member looks at the time next.
    ticks_at_ns: Option<u64>,
    outside: Arc<Mutex<Outside>>,
    /// What has arrived on connections that no worker has yet.
    arrived: BTreeMap<PipeId, Arrived>,
    keeper_at_ns: Option<u64>,
    /// Those of its tier, if it has one.
    threads: Option<Threads>,
    /// It has the journal of its earlier life, whole.
    pub(crate) has_journal: bool,
}

impl Process {
    /// Starts a process whose coordinator shows `map` first. The first cell has founded the ring.
    ///
    /// # Errors
    /// When what lies below it cannot be used now.
    pub(crate) fn start(
        life: Life,
        map: Arc<Map>,
        (shape, clock): (Shape, Clock),
        below: Option<&Below>,
        scene: &mut Scene,
    ) -> Result<Self, TierError> {
        let me = cell_id(life.cell);
        let mono_ns = clock.mono_ns(scene.now_ns);
        let expiry = Arc::new(ExpiryClock::new(clock.wall_ns(scene.now_ns), mono_ns));
        let founds = life == Life { cell: 0, number: 1 };
        if founds {
            expiry.take(expiry.own_s(mono_ns), mono_ns);
        }
        let lanes = (shape.lanes, VALUE_BYTES_MAX);
        let recovered = below.map(|below| below.recover(lanes, &mut scene.dice)).transpose()?;
        let clock_s = recovered.as_ref().map_or(0, Recovered::clock_s);
        if clock_s > expiry.at(mono_ns).expiry_s {
            expiry.set(clock_s, mono_ns);
        }
        let owner = recovered.as_ref().and_then(Recovered::owner);
        let has_journal = owner == Some((map.ring, me.0));
        let now = expiry.at(mono_ns);
        let outside = Arc::new(Mutex::new(Outside::new(shape.workers)));
        let budget = MemoryBudget::new(LIMIT_BYTES);
        // In their first lives all cells count from the same numbers: so one that lacks what
        // another one has counted gives a number twice.
        let version_seed = scene.dice.number();
        let version_seed = if life.number == 1 { 1 } else { version_seed };
        let cell = cell((shape, recovered.is_some()), &budget, version_seed, now);
        let tiered = recovered.map(|recovered| cell.put_above(recovered, now)).transpose()?;
        if let Some(member) = tiered.as_ref().and_then(|tiered| tiered.member()) {
            member.claim(&map.ring.to_le_bytes())?;
        }
        let identity = RingIdentity { ring: map.ring, cell: me, incarnation: life.number };
        let seed = scene.dice.number();
        let ring = ring_cell(shape, cell.clone(), identity, &outside, expiry.clone(), seed);
        let threads = tiered.and_then(|tiered| Threads::new(life, (&cell, tiered), &ring, now));
        let nothing = Arc::new(Map::new(map.ring, u32::MAX, 1));
        let keeper = Keeper::new(ring.clone(), nothing, now);
        let worker = |number: usize| {
            let id = WorkerId(number as u16);
            let handler = RingService::new(ring.clone(), id, LINKS_AT);
            let resources = Resources { bounds: Bounds::default(), budget: budget.clone() };
            Worker::new(life, number, Driver::new(handler, id, now, resources))
        };
        let workers = (0..shape.workers).map(worker).collect();
        let member = Member::new(me, map, founds, now).of_life(Incarnation(life.number));
        let mut process = Self {
            life,
            me,
            clock,
            expiry,
            is_time_wrong: false,
            cell,
            ring,
            keeper,
            shape,
            workers,
            member,
            to_keeper: VecDeque::new(),
            ready: BTreeMap::new(),
            ready_version: 0,
            known: (0, false),
            ticks_at_ns: None,
            outside,
            arrived: BTreeMap::new(),
            keeper_at_ns: None,
            threads,
            has_journal,
        };
        process.adopt();
        process.wake_keeper(0, scene);
        process.wake_member(scene);
        if let Some(threads) = &mut process.threads {
            threads.begin(scene);
        }
        Ok(process)
    }

    /// What its clock shows.
    pub(crate) fn now(&self, scene: &Scene) -> base::Now {
        self.expiry.at(self.clock.mono_ns(scene.now_ns))
    }

    /// Whether it leads something of which it shows nothing new yet.
    pub(crate) fn holds_back(&self, scene: &Scene) -> bool {
        let now_ns = self.now(scene).mono_ns;
        let mut led = self.member.map().ranges.iter().filter(|range| range.primary == self.me);
        led.any(|range| self.member.hold_until_ns(range.id) > now_ns)
    }

    /// Its monotonic clock jumps.
    pub(crate) fn jump(&mut self) {
        self.clock.jump();
        self.is_time_wrong = true;
    }

    /// The second of the ring here, if it is known.
    pub(crate) fn second(&self, scene: &Scene) -> Option<u32> {
        let mono_ns = self.clock.mono_ns(scene.now_ns);
        self.member.knows_time().then(|| self.expiry.own_s(mono_ns))
    }

    fn wake_keeper(&mut self, delay_ns: u64, scene: &mut Scene) {
        let at_ns = scene.now_ns + delay_ns;
        if self.keeper_at_ns.is_none_or(|known| known > at_ns) {
            self.keeper_at_ns = Some(at_ns);
            scene.at(at_ns, Event::Keeper(self.life));
        }
    }

    /// Puts off the next step of a worker or the keeper, which is stopped until `until_ns`.
    pub(crate) fn put_off(&mut self, thread: usize, until_ns: u64, scene: &mut Scene) {
        if let Some(worker) = self.workers.get_mut(thread) {
            worker.put_off(until_ns, scene);
        } else if self.keeper_at_ns == Some(scene.now_ns) {
            self.keeper_at_ns = Some(until_ns);
            scene.at(until_ns, Event::Keeper(self.life));
        }
    }

    /// The same for a thread of its tier.
    pub(crate) fn put_off_tier(&mut self, thread: usize, until_ns: u64, scene: &mut Scene) {
        if let Some(threads) = &mut self.threads {
            threads.put_off(thread, until_ns, scene);
        }
    }

    /// A thread of the tier takes a step. Returns what follows.
    pub(crate) fn step_tier(&mut self, thread: usize, scene: &mut Scene) -> Vec<Follows> {
        let now = self.now(scene);
        let Some(threads) = &mut self.threads else { return Vec::new() };
        if !threads.step(thread, now, scene) {
            return Vec::new();
        }
        let cell = self.life.cell + 1;
        let failure =
            threads.report().failure.map(|why| Follows::Fault(format!("cell {cell}: {why}")));
        failure.into_iter().chain(self.found(scene)).collect()
    }

    /// What its tier says of itself, if it has one.
    pub(crate) fn report(&self) -> Option<tier::TierReport> {
        self.threads.as_ref().map(Threads::report)
    }

    /// Keys that its tier has not written back.
    pub(crate) fn dirty(&self) -> u64 {
        self.threads.as_ref().map_or(0, Threads::dirty)
    }

    /// A connection is accepted by the listener of clients, or by that of links.
    pub(crate) fn accept(&mut self, pipe: PipeId, is_link: bool, scene: &mut Scene) {
        let count = if is_link { self.shape.linked } else { self.shape.workers };
        let worker = if count > 1 { scene.dice.index(count) } else { 0 };
        self.arrived.insert(pipe, Arrived::default());
        let listener = if is_link { LINKS_AT } else { 0 };
        self.workers[worker].accept(pipe, listener, scene);
    }

    /// A connection that a worker has ordered is open, or could not be opened.
    pub(crate) fn connected(
        &mut self,
        worker: usize,
        pipe: Option<PipeId>,
        purpose: u64,
        scene: &mut Scene,
    ) {
        self.arrived.extend(pipe.map(|pipe| (pipe, Arrived::default())));
        self.workers[worker].connected(pipe, purpose, scene);
    }

    /// Something arrives at a socket. False if there is none.
    pub(crate) fn arrives(&mut self, pipe: PipeId, what: Arrived, scene: &mut Scene) -> bool {
        if let Some(arrived) = self.arrived.get_mut(&pipe) {
            arrived.bytes.extend_from_slice(&what.bytes);
            arrived.has_end |= what.has_end;
            arrived.is_reset |= what.is_reset;
            return true;
        }
        self.workers.iter_mut().any(|worker| worker.arrives(pipe, &what, scene))
    }

    /// The other side of `pipe` has received `count` bytes.
    pub(crate) fn takes_more(&mut self, pipe: PipeId, count: usize, scene: &mut Scene) {
        self.workers.iter_mut().for_each(|worker| worker.takes_more(pipe, count, scene));
    }

    /// A worker takes a step. `None` if that was planned for another time; else what follows, and
    /// whether a batch has begun.
    pub(crate) fn step_worker(
        &mut self,
        number: usize,
        scene: &mut Scene,
    ) -> Option<(Vec<Follows>, bool)> {
        let now = self.now(scene);
        let Self { workers, arrived, outside, clock, .. } = self;
        let worker = workers.get_mut(number).filter(|worker| worker.is_next(scene))?;
        let begins = worker.step(now, arrived, outside, scene);
        worker.go_on(clock, outside, scene);
        let acts = worker.driver.take_acts().into_iter().map(move |act| Follows::Act(number, act));
        let found = self.found(scene);
        Some((acts.chain(found).collect(), begins))
    }

    /// Whether a client has sent something that a worker has not received.
    pub(crate) fn serves_clients(&self) -> bool {
        self.workers.iter().any(|worker| worker.driver.serves_clients())
    }

    /// The batches whose replies were dropped.
    pub(crate) fn drops(&self) -> u64 {
        self.workers.iter().map(|worker| worker.driver.drops).sum()
    }

    /// Reads that it has answered as a copy, and those that it has refused to.
    pub(crate) fn copy_reads(&self) -> [u64; 2] {
        let counters = self.cell.counters();
        [counters.copy_reads, counters.copy_reads_refused]
    }

    /// The keeper takes a step. Returns what follows.
    pub(crate) fn step_keeper(&mut self, scene: &mut Scene) -> Vec<Follows> {
        if self.keeper_at_ns != Some(scene.now_ns) {
            return Vec::new();
        }
        self.keeper_at_ns = None;
        let now = self.now(scene);
        match self.to_keeper.pop_front() {
            Some(ToKeeper::Adopt(map, holds)) => self.keeper.adopt(map, holds, now),
            Some(ToKeeper::Ready(cell, version)) => self.keeper.hear_ready(cell, version),
            Some(ToKeeper::Unseal(at)) => self.keeper.unseal(at, now),
            None => {}
        }
        let is_busy = self.keeper.tend(now);
        self.ready_version = self.keeper.ready_version();
        let wake_ns = self.keeper.wakes_at_ns(now);
        let wake_ns = match wake_ns {
            u64::MAX => REST_NS,
            _ => self.clock.when(wake_ns).saturating_sub(scene.now_ns),
        };
        let rest_ns = if is_busy { STEP_NS } else { REST_NS.min(wake_ns) };
        let rest_ns = if self.to_keeper.is_empty() { rest_ns } else { 1000 };
        self.wake_keeper(rest_ns.max(1000), scene);
        self.found(scene)
    }

    /// What was found. Wakes the workers to whom something has come.
    fn found(&mut self, scene: &mut Scene) -> Vec<Follows> {
        let mut outside = lock(&self.outside);
        let findings = std::mem::take(&mut outside.findings);
        let mut found: Vec<_> = findings.into_iter().map(Follows::Finding).collect();
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let has_come = outside.has_come(number);
            if has_come {
                worker.wake_soon(scene);
            }
            if worker.is_forgotten(has_come, scene) {
                let cell = self.life.cell + 1;
                let fault = format!("nobody wakes worker {number} of cell {cell} for a reply");
                found.push(Follows::Fault(fault));
            }
        }
        drop(outside);
        if let Some(threads) = &mut self.threads {
            threads.wake_pressed(scene);
        }
        found
    }

    /// The member handles an event. `leads`: the cell leads the agreement. Returns what follows.
    pub(crate) fn step_member(
        &mut self,
        event: ring::Event,
        leads: bool,
        scene: &mut Scene,
    ) -> Vec<Follows> {
        let mut effects = Vec::new();
        if self.known != (self.ready_version, leads) {
            self.known = (self.ready_version, leads);
            self.handle(ring::Event::Ready(self.ready_version), &mut effects, scene);
            self.handle(ring::Event::Leads(leads), &mut effects, scene);
        }
        match event {
            ring::Event::Map(map) => {
                self.handle(ring::Event::Map(map), &mut effects, scene);
                self.adopt();
                self.handle(ring::Event::Tick, &mut effects, scene);
                self.wake_keeper(1000, scene);
            }
            event => {
                if let ring::Event::Heard { from, heartbeat, .. } = &event {
                    self.hear_ready(*from, heartbeat.ready_version, scene);
                }
                self.handle(event, &mut effects, scene);
            }
        }
        let asked = self.member.asks_for_map(self.now(scene));
        self.wake_member(scene);
        effects.into_iter().map(Follows::Member).chain(asked.map(Follows::Fetch)).collect()
    }

    /// What came of a flush that its worker has proposed.
    pub(crate) fn flushed(
        &mut self,
        flush: service::Flushing,
        outcome: ring::Outcome,
        scene: &mut Scene,
    ) {
        let worker = usize::from(flush.worker.0);
        self.ring.flushed(flush, outcome);
        self.workers[worker].wake_soon(scene);
    }

    /// The member looks at the time, if it is due. `leads`: the cell leads the agreement.
    pub(crate) fn tick(&mut self, leads: bool, scene: &mut Scene) -> Vec<Follows> {
        if self.ticks_at_ns.is_none_or(|at_ns| scene.now_ns < at_ns) {
            return Vec::new();
        }
        self.ticks_at_ns = None;
        if self.member.wakes_at_ns() <= self.clock.mono_ns(scene.now_ns) {
            return self.step_member(ring::Event::Tick, leads, scene);
        }
        self.wake_member(scene);
        Vec::new()
    }

    /// The member looks at the time when it has asked for that.
    fn wake_member(&mut self, scene: &mut Scene) {
        let at_ns = self.clock.when(self.member.wakes_at_ns()).max(scene.now_ns + 1);
        if self.ticks_at_ns.is_none_or(|known| known > at_ns) {
            self.ticks_at_ns = Some(at_ns);
            scene.at(at_ns, Event::Tick(self.life));
        }
    }

    /// Says to the keeper what `cell` is ready for, if that is new.
    fn hear_ready(&mut self, cell: CellId, version: u64, scene: &mut Scene) {
        if self.ready.insert(cell, version) != Some(version) {
            self.to_keeper.push_back(ToKeeper::Ready(cell, version));
            self.wake_keeper(1000, scene);
        }
    }

    fn handle(&mut self, event: ring::Event, effects: &mut Vec<Effect>, scene: &mut Scene) {
        let mono_ns = self.clock.mono_ns(scene.now_ns);
        let now = base::Now { mono_ns, expiry_s: self.expiry.own_s(mono_ns) };
        let start = effects.len();
        self.member.handle(event, now, effects);
        if self.member.knows_time() {
            self.expiry.raise(self.member.ceiling_s());
        }
        for effect in &effects[start..] {
            match effect {
                Effect::Follow { second } => self.expiry.follow(*second, mono_ns),
                Effect::Take { second } => {
                    scene.say(|| format!("  cell {} takes second {second}", self.life.cell + 1));
                    scene.takes_ns.push(scene.now_ns);
                    self.expiry.take(*second, mono_ns);
                    self.adopt();
                }
                Effect::Unseal { at } => self.to_keeper.push_back(ToKeeper::Unseal(*at)),
                Effect::Beat { .. } | Effect::Propose { .. } => {}
            }
        }
        for range in self.member.map().ranges.iter().filter(|range| range.primary == self.me) {
            let until_ns = self.member.may_answer_until_ns(range.id, now);
            self.ring.extend(range.id, range.epoch, until_ns);
        }
        for effect in &mut effects[start..] {
            if let Effect::Beat { to, heartbeat } = effect {
                let map = self.member.map();
                let led = map.ranges.iter().filter(|range| range.primary == self.me);
                let mut copied = led.filter(|range| range.copies.contains(to));
                heartbeat.serves = copied.all(|range| self.ring.may_answer(range, now));
            }
        }
        for primary in self.member.map().primaries_copied_by(self.me) {
            self.ring.granted(primary, self.member.granted_by(primary));
        }
    }

    /// Goes by the map of the member, if this life of the cell is in it, and the time is known.
    fn adopt(&mut self) {
        let map = self.member.map().clone();
        let is_mine = |cell: &ring::Cell| cell.started.incarnation.0 == self.life.number;
        if self.member.knows_time() && map.cells.get(&self.me).is_some_and(is_mine) {
            let holds = map.ranges.iter();
            let holds = holds.map(|range| (range.id, self.member.hold_until_ns(range.id)));
            let holds = holds.collect();
            self.to_keeper.push_back(ToKeeper::Adopt(map, holds));
        }
    }

    /// Whether it may answer now as the primary of `range` in its epoch.
    pub(crate) fn may_answer(&self, range: &ring::Range, scene: &Scene) -> bool {
        self.ring.may_answer(range, self.now(scene))
    }

    /// The epoch of `range` in which it may answer now.
    pub(crate) fn answers_in(&self, range: &ring::Range, scene: &Scene) -> Option<u32> {
        self.ring.answers_in(range, self.now(scene))
    }

    /// Whether it leads `range` in its epoch, and has begun to.
    pub(crate) fn leads(&self, range: &ring::Range) -> bool {
        self.ring.leads(range)
    }

    /// What the engine of the cell holds for `key`, whatever the cell is to it.
    pub(crate) fn look_up(&self, key: &[u8], scene: &Scene) -> Vec<u8> {
        self.look_up_at(key, self.now(scene))
    }

    /// The same, as its clock would show `now`.
    pub(crate) fn look_up_at(&self, key: &[u8], now: base::Now) -> Vec<u8> {
        let mut service = Service::new(self.cell.clone(), false);
        let mut reply = Reply::new();
        let conn = Conn::new(ConnId { worker: WorkerId(0), index: 0, generation: 0 });
        if let Some(key) = memcache::Key::new(key) {
            service.get_now::<false>(now, &conn, key, &mut reply);
        }
        service.end_batch(now, || now);
        std::mem::take(reply.bytes_mut())
    }
}
