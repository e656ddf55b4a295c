//! The process of a cell: its worker, its keeper and its member, each a thread that the scheduler
//! stops between any two of its steps.
//!
//! ```text
//! worker   read the clock | one connection | one connection | ... | end the batch, send
//! keeper   one message or none, then a step of what takes long
//! ring     one event
//! ```
//!
//! A step is whole: nothing else of the process runs meanwhile. What two threads do to each other
//! inside a step is not modelled; the crates have tests under loom and shuttle for that.

use crate::clock::Clock;
use crate::dice::Dice;
use crate::driver::{Act, Arrived, Driver};
use crate::scene::{Event, Life, PipeId, Scene, cell_id};
use base::{ExpiryClock, MemoryBudget};
use engine::EngineConfig;
use peer::Secret;
use ring::{CellId, Effect, Map, Member, RangeId};
use service::{
    Cell, ConnectionReport, Connections, EffectLogOptions, Finding, Host, Keeper, Mail, Options,
    Reach, RingCell, RingHost, RingIdentity, RingService, Rusage, Service,
};
use session::{Bounds, ConnId, Handler, Reply, Resources, WorkerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Memory of a cell.
const LIMIT_BYTES: u64 = 8 << 20;
/// The longest value.
const VALUE_BYTES_MAX: u64 = 512;
/// The number of the listener of links.
const LINKS_AT: usize = 1;
/// What all cells know.
const SECRET: &[u8] = b"a secret of all simulated cells";
/// The longest rest of a keeper, and the time between two steps of what takes long.
const REST_NS: u64 = 20_000_000;
const STEP_NS: u64 = 200_000;
/// How often the member looks at the time.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// What the threads of a process leave for each other.
#[derive(Default)]
struct Outside {
    mail: VecDeque<Mail>,
    /// A mark has risen.
    is_released: bool,
    findings: Vec<Finding>,
}

/// A message to the keeper.
enum ToKeeper {
    Adopt(Arc<Map>, BTreeMap<RangeId, u64>),
    Ready(CellId, u64),
}

/// What a worker finds when it wakes.
enum Work {
    Accept(PipeId, usize, usize),
    Connected(PipeId, u64, usize),
    Unconnected(u64),
    Mail,
    Turn(ConnId),
    /// A socket takes more of what it is to send.
    Rest(PipeId),
}

/// Where the worker is.
enum Batch {
    Asleep,
    Turns(Vec<Work>),
}

/// What follows from a step for the rest of the world.
pub(crate) enum Follows {
    Act(Act),
    Member(Effect),
    /// The member wants the map of another cell.
    Fetch(CellId),
    Finding(Finding),
}

/// The process of one life of a cell.
pub(crate) struct Process {
    pub(crate) life: Life,
    me: CellId,
    clock: Clock,
    expiry: ExpiryClock,
    /// Its clock has jumped, or it has taken the second of one that has.
    pub(crate) is_time_wrong: bool,
    cell: Arc<Cell>,
    pub(crate) ring: Arc<RingCell>,
    keeper: Keeper,
    pub(crate) driver: Driver,
    pub(crate) member: Member,
    to_keeper: VecDeque<ToKeeper>,
    /// As the keeper has it, for the member.
    ready_version: u64,
    outside: Arc<Mutex<Outside>>,
    batch: Batch,
    /// What waits for the worker.
    new_work: Vec<Work>,
    /// What has arrived on connections that the worker does not have yet.
    arrived: BTreeMap<PipeId, Arrived>,
    worker_at_ns: Option<u64>,
    keeper_at_ns: Option<u64>,
}

impl Process {
    /// Starts a process whose coordinator shows `map` first. The first cell has founded the ring.
    pub(crate) fn start(life: Life, map: Arc<Map>, clock: Clock, scene: &mut Scene) -> Self {
        let me = cell_id(life.cell);
        let mono_ns = clock.mono_ns(scene.now_ns);
        let expiry = ExpiryClock::new(clock.wall_ns(scene.now_ns), mono_ns);
        let founds = life == Life { cell: 0, number: 1 };
        if founds {
            expiry.take(expiry.own_s(mono_ns), mono_ns);
        }
        let now = expiry.at(mono_ns);
        let outside = Arc::<Mutex<Outside>>::default();
        let budget = MemoryBudget::new(LIMIT_BYTES);
        // In their first lives all cells count from the same numbers: so one that lacks what
        // another one has counted gives a number twice.
        let version_seed = scene.dice.number();
        let version_seed = if life.number == 1 { 1 } else { version_seed };
        let cell = cell(&budget, version_seed, now);
        let identity = RingIdentity { ring: map.ring, cell: me, incarnation: life.number };
        let ring = ring_cell(cell.clone(), identity, &outside, scene.dice.number());
        let nothing = Arc::new(Map::new(map.ring, u32::MAX, 1));
        let keeper = Keeper::new(ring.clone(), nothing, now);
        let handler = RingService::new(ring.clone(), WorkerId(0), LINKS_AT);
        let resources = Resources { bounds: Bounds::default(), budget };
        let member = Member::new(me, map, founds, now);
        let mut process = Self {
            life,
            me,
            clock,
            expiry,
            is_time_wrong: false,
            cell,
            ring,
            keeper,
            driver: Driver::new(handler, now, resources),
            member,
            to_keeper: VecDeque::new(),
            ready_version: 0,
            outside,
            batch: Batch::Asleep,
            new_work: Vec::new(),
            arrived: BTreeMap::new(),
            worker_at_ns: None,
            keeper_at_ns: None,
        };
        process.adopt();
        process.wake_keeper(0, scene);
        scene.after(scene.now_ns % TICK_NS, Event::Tick(life));
        process
    }

    /// What its clock shows.
    pub(crate) fn now(&self, scene: &Scene) -> base::Now {
        self.expiry.at(self.clock.mono_ns(scene.now_ns))
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

    /// The worker wakes at `at_ns`, or earlier.
    fn wake_worker(&mut self, at_ns: u64, scene: &mut Scene) {
        if self.worker_at_ns.is_none_or(|known| known > at_ns) {
            self.worker_at_ns = Some(at_ns);
            scene.at(at_ns, Event::Worker(self.life));
        }
    }

    fn wake_worker_soon(&mut self, scene: &mut Scene) {
        if matches!(self.batch, Batch::Asleep) {
            let at_ns = scene.now_ns + scene.dice.duration(500, 30_000);
            self.wake_worker(at_ns, scene);
        }
    }

    fn wake_keeper(&mut self, delay_ns: u64, scene: &mut Scene) {
        let at_ns = scene.now_ns + delay_ns;
        if self.keeper_at_ns.is_none_or(|known| known > at_ns) {
            self.keeper_at_ns = Some(at_ns);
            scene.at(at_ns, Event::Keeper(self.life));
        }
    }

    /// Whether the event of this moment is the one that the worker waits for.
    pub(crate) fn is_workers(&self, scene: &Scene) -> bool {
        self.worker_at_ns == Some(scene.now_ns)
    }

    /// Puts off the next step of the worker or the keeper, which is stopped until `until_ns`.
    pub(crate) fn put_off(&mut self, is_worker: bool, until_ns: u64, scene: &mut Scene) {
        let (at, event) = match is_worker {
            true => (&mut self.worker_at_ns, Event::Worker(self.life)),
            false => (&mut self.keeper_at_ns, Event::Keeper(self.life)),
        };
        if *at == Some(scene.now_ns) {
            *at = Some(until_ns);
            scene.at(until_ns, event);
        }
    }

    /// A connection is accepted by the listener of clients, or by that of links.
    pub(crate) fn accept(&mut self, pipe: PipeId, is_link: bool, scene: &mut Scene) {
        let room = room(&mut scene.dice);
        self.arrived.insert(pipe, Arrived::default());
        self.new_work.push(Work::Accept(pipe, usize::from(is_link), room));
        self.wake_worker_soon(scene);
    }

    /// A connection that was ordered is open, or could not be opened.
    pub(crate) fn connected(&mut self, pipe: Option<PipeId>, purpose: u64, scene: &mut Scene) {
        let room = room(&mut scene.dice);
        self.arrived.extend(pipe.map(|pipe| (pipe, Arrived::default())));
        self.new_work.push(match pipe {
            Some(pipe) => Work::Connected(pipe, purpose, room),
            None => Work::Unconnected(purpose),
        });
        self.wake_worker_soon(scene);
    }

    /// Something arrives at a socket. False if there is none.
    pub(crate) fn arrives(&mut self, pipe: PipeId, what: Arrived, scene: &mut Scene) -> bool {
        if let Some(arrived) = self.arrived.get_mut(&pipe) {
            arrived.bytes.extend_from_slice(&what.bytes);
            arrived.has_end |= what.has_end;
            arrived.is_reset |= what.is_reset;
            return true;
        }
        let Some(socket) = self.driver.socket(pipe) else { return false };
        socket.arrived.extend_from_slice(&what.bytes);
        socket.has_end |= what.has_end;
        socket.is_reset |= what.is_reset;
        self.wake_worker_soon(scene);
        true
    }

    /// The other side of `pipe` has received `count` bytes.
    pub(crate) fn takes_more(&mut self, pipe: PipeId, count: usize, scene: &mut Scene) {
        let Some(socket) = self.driver.socket(pipe) else { return };
        socket.room += count;
        if !socket.outbox.is_empty() {
            self.new_work.push(Work::Rest(pipe));
            self.wake_worker_soon(scene);
        }
    }

    /// The worker takes a step. Returns what follows, and whether a batch has begun.
    pub(crate) fn step_worker(&mut self, scene: &mut Scene) -> (Vec<Follows>, bool) {
        self.worker_at_ns = None;
        let now = self.now(scene);
        let mut begins = false;
        match std::mem::replace(&mut self.batch, Batch::Asleep) {
            Batch::Asleep => {
                begins = true;
                self.driver.begin(now);
                let mut works = std::mem::take(&mut self.new_work);
                let mut outside = lock(&self.outside);
                if !outside.mail.is_empty() || std::mem::take(&mut outside.is_released) {
                    works.push(Work::Mail);
                }
                drop(outside);
                works.extend(self.driver.ready().into_iter().map(Work::Turn));
                scene.dice.shuffle(&mut works);
                self.batch = Batch::Turns(works);
            }
            Batch::Turns(mut works) => {
                self.driver.passes(now);
                if let Some(work) = works.pop() {
                    self.work(work);
                    self.batch = Batch::Turns(works);
                } else {
                    self.driver.flush();
                    self.driver.tend();
                    self.driver.settle();
                }
            }
        }
        self.go_on(scene);
        let acts = self.driver.take_acts().into_iter().map(Follows::Act);
        (acts.chain(self.found(scene)).collect(), begins)
    }

    fn go_on(&mut self, scene: &mut Scene) {
        if let Batch::Turns(_) = &self.batch {
            let gap_ns = scene.dice.between(200, 4000);
            return self.wake_worker(scene.now_ns + gap_ns, scene);
        }
        let is_mailed = |outside: &Outside| !outside.mail.is_empty() || outside.is_released;
        let is_busy = self.driver.is_busy() || !self.new_work.is_empty();
        if is_busy || is_mailed(&lock(&self.outside)) {
            return self.wake_worker_soon(scene);
        }
        let wakes_ns = self.driver.wakes_at_ns();
        if wakes_ns < u64::MAX {
            let at_ns = self.clock.when(wakes_ns).max(scene.now_ns + 1000);
            self.wake_worker(at_ns, scene);
        }
    }

    fn work(&mut self, work: Work) {
        match work {
            Work::Accept(pipe, listener, room) => {
                let arrived = self.arrived.remove(&pipe).unwrap_or_default();
                self.driver.accept(pipe, listener, arrived, room);
            }
            Work::Connected(pipe, purpose, room) => {
                let arrived = self.arrived.remove(&pipe).unwrap_or_default();
                self.driver.connected(pipe, purpose, arrived, room);
            }
            Work::Unconnected(purpose) => self.driver.unconnected(purpose),
            Work::Mail => {
                let mail = std::mem::take(&mut lock(&self.outside).mail);
                mail.into_iter().for_each(|mail| self.driver.deliver(mail));
            }
            Work::Turn(id) => self.driver.turn(id),
            Work::Rest(pipe) => self.driver.send_more(pipe),
        }
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
            None => {}
        }
        let is_busy = self.keeper.tend(now);
        self.ready_version = self.keeper.ready_version();
        let wake_ns = self.keeper.wakes_at_ns();
        let wake_ns = match wake_ns {
            u64::MAX => REST_NS,
            _ => self.clock.when(wake_ns).saturating_sub(scene.now_ns),
        };
        let rest_ns = if is_busy { STEP_NS } else { REST_NS.min(wake_ns) };
        let rest_ns = if self.to_keeper.is_empty() { rest_ns } else { 1000 };
        self.wake_keeper(rest_ns.max(1000), scene);
        self.found(scene).collect()
    }

    /// What was found, and whether the worker is to be woken.
    fn found(&mut self, scene: &mut Scene) -> impl Iterator<Item = Follows> + use<> {
        let (findings, wakes) = {
            let mut outside = lock(&self.outside);
            let wakes = !outside.mail.is_empty() || outside.is_released;
            (std::mem::take(&mut outside.findings), wakes)
        };
        if wakes {
            self.wake_worker_soon(scene);
        }
        findings.into_iter().map(Follows::Finding)
    }

    /// The member handles an event. Returns what follows.
    pub(crate) fn step_member(&mut self, event: ring::Event, scene: &mut Scene) -> Vec<Follows> {
        let mut effects = Vec::new();
        match event {
            ring::Event::Map(map) => {
                self.handle(ring::Event::Map(map), &mut effects, scene);
                self.adopt();
                self.handle(ring::Event::Tick, &mut effects, scene);
                self.wake_keeper(1000, scene);
            }
            event => {
                if let ring::Event::Heard { from, heartbeat, .. } = &event {
                    let ready = ToKeeper::Ready(*from, heartbeat.ready_version);
                    self.to_keeper.push_back(ready);
                    self.wake_keeper(1000, scene);
                }
                self.handle(event, &mut effects, scene);
            }
        }
        let asked = self.member.asks_for_map(self.now(scene));
        effects.into_iter().map(Follows::Member).chain(asked.map(Follows::Fetch)).collect()
    }

    /// What came of a flush that its worker has proposed.
    pub(crate) fn flushed(
        &mut self,
        flush: service::Flushing,
        outcome: ring::Outcome,
        scene: &mut Scene,
    ) {
        self.ring.flushed(flush, outcome);
        self.wake_worker_soon(scene);
    }

    /// The member looks at the time. `leads`: the cell leads the agreement.
    pub(crate) fn tick(&mut self, leads: bool, scene: &mut Scene) -> Vec<Follows> {
        scene.after(TICK_NS, Event::Tick(self.life));
        let mut follows = self.step_member(ring::Event::Ready(self.ready_version), scene);
        follows.extend(self.step_member(ring::Event::Leads(leads), scene));
        follows
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
                    self.expiry.take(*second, mono_ns);
                    self.adopt();
                }
                Effect::Beat { .. } | Effect::Propose { .. } => {}
            }
        }
        for range in self.member.map().ranges.iter().filter(|range| range.primary == self.me) {
            let until_ns = self.member.may_answer_until_ns(range.id);
            self.ring.extend(range.id, range.epoch, until_ns);
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

    /// What the engine of the cell holds for `key`, whatever the cell is to it.
    pub(crate) fn look_up(&self, key: &[u8], scene: &Scene) -> Vec<u8> {
        let now = self.now(scene);
        let mut service = Service::new(self.cell.clone(), false);
        let mut reply = Reply::new();
        if let Some(key) = memcache::Key::new(key) {
            service.get_now::<false>(now, key, &mut reply);
        }
        service.end_batch(now, || now);
        std::mem::take(reply.bytes_mut())
    }
}

fn lock(outside: &Mutex<Outside>) -> MutexGuard<'_, Outside> {
    outside.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that a socket takes before the other side has received any.
fn room(dice: &mut Dice) -> usize {
    if dice.per_mille(50) { 300 } else { 1 << 20 }
}

fn cell(budget: &Arc<MemoryBudget>, version_seed: u64, now: base::Now) -> Arc<Cell> {
    let config = EngineConfig {
        value_bytes_max: VALUE_BYTES_MAX as usize,
        version_seed: Some(version_seed),
        locals: 4,
        ..EngineConfig::new(LIMIT_BYTES)
    };
    let log = EffectLogOptions {
        lanes: 2,
        workers: 1,
        value_bytes_max: VALUE_BYTES_MAX,
        gates: true,
        in_ring: true,
    };
    let options = Options {
        version: "simulated".to_owned(),
        limits: memcache::Limits { value_bytes_max: VALUE_BYTES_MAX, ..Default::default() },
        allow_flush: true,
        allow_shutdown: false,
        allow_dump: false,
        authenticate: None,
        connections_part: 4,
        keep_leases: true,
        settings: Vec::new(),
        effect_log: Some(log),
    };
    let cell = Cell::new(config, budget.clone(), options, Box::new(NoHost), now);
    cell.expect("invariant: the memory of a simulated cell is enough")
}

fn ring_cell(
    cell: Arc<Cell>,
    identity: RingIdentity,
    outside: &Arc<Mutex<Outside>>,
    seed: u64,
) -> Arc<RingCell> {
    let nonces = Mutex::new(Dice::new(seed, 0));
    let nonce = move || {
        let mut dice = nonces.lock().unwrap_or_else(PoisonError::into_inner);
        let words: [u64; 4] = std::array::from_fn(|_| dice.number());
        let mut nonce = peer::Nonce::default();
        let bytes = words.into_iter().flat_map(u64::to_le_bytes);
        nonce.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        nonce
    };
    let finds = outside.clone();
    let find = move |finding| lock(&finds).findings.push(finding);
    let host = RingHost { nonce: Box::new(nonce), find: Box::new(find) };
    let secret = Secret::new(SECRET).expect("invariant: the secret is long enough");
    let ring = RingCell::new(cell, identity, secret, host);
    let ring = ring.expect("invariant: the cell has a log");
    let (posts, releases) = (outside.clone(), outside.clone());
    ring.set_reach(Reach {
        workers: 1,
        post: Box::new(move |_, mail| lock(&posts).mail.push_back(mail)),
        release: Box::new(move |_| lock(&releases).is_released = true),
    });
    ring
}

/// A process without numbers of its own.
struct NoHost;

impl Host for NoHost {
    fn connections(&self) -> Connections {
        Connections::default()
    }

    fn reports(&self) -> Vec<ConnectionReport> {
        Vec::new()
    }

    fn rusage(&self) -> Rusage {
        Rusage::default()
    }

    fn shutdown(&self, _graceful: bool) {}

    fn set_verbosity(&self, _level: u32) {}
}
