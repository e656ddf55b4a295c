//! An engine with logs, threads that give it every command, and copies that follow the logs.
//!
//! ```text
//! writers --commands--> source --effects--> logs --batches--> copy, from the start
//! walker  --its items---------------------> logs --batches--> learner, from the middle on
//! ```
//!
//! Within a slice, versions rise in the order of the log, and a copy takes each change as it
//! comes. When the writers rest, all that was appended is applied, and the copies hold what the
//! source holds: every key with its value, facts and version. A copy's clock is ahead of the
//! source's by less than a touch allows for.

use crate::commands::{Answer, Draw};
use base::{Change, Effect, MemoryBudget, NoSink, Now, Refused, SliceId, SliceRange, Version};
use effects::{Batch, Entry, Joining, LaneId, Lanes, LanesConfig, Mark, ReaderId, Who, WorkerSink};
use engine::{
    Applied, Cursor, Engine, EngineConfig, ItemSink, Local, More, Obstacle, Read, WalkedItem,
    WriteStatus,
};
use measure::rng::Rng;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(not(shuttle))]
use std::thread;

#[cfg(shuttle)]
use shuttle::thread;

/// Bytes of the tables of slices, which logs pay for.
pub const TABLES: u64 = 16_384 * 17;
/// Slices that the engine distinguishes.
const KEPT: usize = if cfg!(shuttle) { 4 } else { base::SLICES };
/// Times that a command is tried again.
const TRIES_MAX: usize = 1_000_000;
/// Seconds by which the clock of a copy is ahead.
const AHEAD_S: u32 = 2;
/// Operations between two ends of a batch, at most.
const BATCH_MAX: u64 = 16;

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub threads: usize,
    /// Commands of each thread between two comparisons.
    pub round: u64,
    /// Entries of the logs after which it ends.
    pub effects: u64,
    pub limit_bytes: u64,
    pub copy_bytes: u64,
    pub value_bytes_max: u64,
    pub keys: u64,
    pub lanes: usize,
    pub log_bytes: u64,
    /// The readers read only when a writer found a log full, or all rest.
    pub slow: bool,
    /// One in this many commands is a barrier.
    pub barriers_every: u64,
}

/// What happened, for the tests that demand it.
#[derive(Debug)]
#[allow(dead_code)]
pub struct Happened {
    pub entries: u64,
    pub full: u64,
    pub later: u64,
    pub no_space: u64,
    pub barriers: u64,
    pub walked: u64,
    pub evicted: u64,
    pub expired: u64,
}

struct Shared {
    plan: Plan,
    engine: Engine,
    lanes: Arc<Lanes>,
    clock_s: AtomicU32,
    /// The second in which each writer is, or `u32::MAX`.
    seen: Vec<AtomicU32>,
    running: AtomicUsize,
    full: AtomicU64,
    later: AtomicU64,
    no_space: AtomicU64,
    barriers: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::SeqCst);
}

fn at(expiry_s: u32) -> Now {
    Now { mono_ns: 0, expiry_s }
}

fn name(key: u64) -> Vec<u8> {
    format!("k{key}").into_bytes()
}

impl Shared {
    fn lanes(&self) -> impl Iterator<Item = LaneId> {
        self.lanes.logs().map(|(lane, _)| lane)
    }

    fn entries(&self) -> u64 {
        self.lanes.logs().map(|(_, log)| log.end()).sum()
    }

    fn join(&self, who: Who) -> Vec<ReaderId> {
        let joining = Joining { who, from: None, holds: Some(Mark::Durable), grants: None };
        let logs = self.lanes.logs();
        logs.map(|(_, log)| log.join(&joining).expect("there is a place")).collect()
    }
}

/// One thread that gives commands.
struct Writer {
    shared: Arc<Shared>,
    local: Option<Local>,
    sink: WorkerSink,
    dice: Rng,
    number: usize,
    tokens: HashMap<u64, u64>,
}

impl Writer {
    fn run(mut self) -> Self {
        let shared = self.shared.clone();
        let mut left = shared.plan.round;
        while left > 0 {
            let batch = (1 + self.dice.below(BATCH_MAX)).min(left);
            for _ in 0..batch {
                if self.dice.below(shared.plan.barriers_every) == 0 {
                    self.barrier();
                } else {
                    self.command();
                }
            }
            self.sink.end_batch();
            left -= batch;
        }
        shared.seen[self.number].store(u32::MAX, Ordering::SeqCst);
        shared.running.fetch_sub(1, Ordering::SeqCst);
        self
    }

    fn now(&self) -> Now {
        let now = self.shared.clock_s.load(Ordering::SeqCst);
        self.shared.seen[self.number].store(now, Ordering::SeqCst);
        at(now)
    }

    /// Waits a little: the batch ends, and others run.
    fn rest(&mut self) {
        self.sink.end_batch();
        thread::yield_now();
    }

    fn command(&mut self) {
        let shared = self.shared.clone();
        let key = self.dice.below(shared.plan.keys);
        // Half of all commands are about a few keys.
        let key = if self.dice.below(2) == 0 { key } else { key % 8 };
        let (token, now) = (self.tokens.get(&key).copied(), self.now());
        let (dice, value_bytes_max) = (&mut self.dice, shared.plan.value_bytes_max);
        let command = Draw { dice, now, value_bytes_max, token }.command(name(key));
        let tends = self.dice.below(50) == 0;
        for _ in 0..TRIES_MAX {
            let now = self.now();
            let mut pin = self.local.take().expect("a local").pin();
            let answer = command.run(&shared.engine, &mut pin, now, &mut self.sink);
            if tends {
                shared.engine.tend(&mut pin, now, 8, &mut self.sink);
            }
            self.local = Some(pin.unpin());
            let obstacle = match &answer {
                Answer::Read(Read::Later(obstacle), _) => *obstacle,
                Answer::Wrote(wrote) => match wrote.status {
                    WriteStatus::Later(obstacle) => obstacle,
                    _ => return self.note(key, &answer),
                },
                Answer::Read(..) => return self.note(key, &answer),
            };
            match obstacle {
                Obstacle::Memory => count(&shared.later),
                Obstacle::Sink(Refused::Full) => count(&shared.full),
                why => panic!("{command:?}: {why:?}"),
            }
            self.rest();
        }
        panic!("{command:?} can never be carried out: {:?}", shared.engine.usage())
    }

    fn note(&mut self, key: u64, answer: &Answer) {
        if answer.is_no_space() {
            count(&self.shared.no_space);
        }
        let cas = match answer {
            Answer::Read(_, seen) => Some(seen.found.cas),
            Answer::Wrote(wrote) => wrote.found.map(|found| found.cas),
        };
        cas.map(|cas| self.tokens.insert(key, cas));
    }

    /// A flush of everything, or of the slice of one key.
    fn barrier(&mut self) {
        let shared = self.shared.clone();
        let key = name(self.dice.below(shared.plan.keys));
        let run = match self.dice.below(20) {
            0 => SliceRange::ALL,
            _ => SliceRange::of(SliceId::of(&key)),
        };
        let set = |slice| shared.engine.barrier(slice, shared.engine.last_version(slice));
        for _ in 0..TRIES_MAX {
            self.now();
            match self.sink.barrier(run, set, &mut Vec::new()) {
                Ok(()) => return count(&shared.barriers),
                Err(why) => assert_eq!(why, Refused::Full),
            }
            count(&shared.full);
            self.rest();
        }
        panic!("the log has never room for a barrier");
    }
}

/// A walk that emits the items of the source for a learner.
struct Walk {
    shared: Arc<Shared>,
    local: Option<Local>,
    sink: WorkerSink,
    readers: Vec<ReaderId>,
    walked: u64,
}

impl ItemSink for Walk {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let reader = self.readers[self.shared.lanes.lane_of(item.id.slice).index()];
        let carried = (item.value, item.facts);
        let emitted = self.sink.emit(reader, item.id.slice, item.key, carried, item.version);
        assert!(matches!(emitted, Ok(_) | Err(Refused::Full)), "{emitted:?}");
        self.walked += u64::from(emitted.is_ok());
        emitted.is_ok()
    }
}

impl Walk {
    /// Walks all slices, while the writers go on.
    fn run(mut self) -> Self {
        let shared = self.shared.clone();
        let mut at_slice = Cursor::default();
        for _ in 0..TRIES_MAX {
            let now = at(shared.clock_s.load(Ordering::SeqCst));
            let mut pin = self.local.take().expect("a local").pin();
            let engine = &shared.engine;
            let more = engine.scan(&mut pin, SliceRange::ALL, &mut at_slice, 3, now, &mut self);
            self.local = Some(pin.unpin());
            self.sink.end_batch();
            if more == More::No {
                shared.running.fetch_sub(1, Ordering::SeqCst);
                return self;
            }
            count(&shared.full);
            thread::yield_now();
        }
        panic!("the walk does not end");
    }
}

/// An engine that follows the logs.
struct Follower {
    engine: Engine,
    local: Option<Local>,
    readers: Vec<ReaderId>,
    next: Vec<u64>,
    /// The last versions that the logs show.
    lasts: HashMap<usize, Version>,
    batch: Batch,
    /// Whether it began in the middle, and takes the items of a walk.
    learns: bool,
    applied: u64,
}

impl Follower {
    fn new(shared: &Shared, lasts: HashMap<usize, Version>, learns: bool) -> Self {
        let Plan { copy_bytes, seed, .. } = shared.plan;
        let value_bytes_max = shared.engine.value_bytes_max();
        let config = EngineConfig {
            evict: false,
            hash_seed: seed + 1 + u64::from(learns),
            value_bytes_max,
            locals: 1,
            ..EngineConfig::new(copy_bytes)
        };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(copy_bytes)).expect("enough memory");
        let readers = shared.join(if learns { Who::Learner(1) } else { Who::Copy(1) });
        let next = shared.lanes.logs().map(|(_, log)| log.end() + 1).collect();
        let (local, batch) = (locals.pop(), Batch::new(4_000));
        Self { engine, local, readers, next, lasts, batch, learns, applied: 0 }
    }

    /// Reads a batch of each log, and applies it.
    fn read(&mut self, shared: &Shared, now: Now) {
        for lane in shared.lanes() {
            let (at, log) = (lane.index(), shared.lanes.log(lane));
            if self.next[at] > log.end() {
                continue;
            }
            let mut batch = std::mem::take(&mut self.batch);
            log.read(self.readers[at], self.next[at], &mut batch).expect("they are held");
            assert!(!batch.is_empty() && batch.first() == self.next[at]);
            for record in batch.records() {
                self.take(shared, lane, record.entry, now);
            }
            self.next[at] = batch.next();
            log.pass(self.readers[at], Mark::Durable, self.next[at] - 1);
            self.batch = if cfg!(shuttle) { Batch::new(400) } else { batch };
        }
    }

    fn take(&mut self, shared: &Shared, lane: LaneId, entry: Entry<'_>, now: Now) {
        match entry {
            Entry::Change { slice, version, effect, .. } => {
                assert_eq!((slice, lane), (SliceId::of(effect.key), shared.lanes.lane_of(slice)));
                let last = self.lasts.entry(slice.index() % KEPT).or_default();
                assert!(version > *last, "{version:?} after {last:?} in slice {}", slice.index());
                *last = version;
                let applied = self.apply(slice, &effect, version, now);
                assert_eq!(applied, Applied::Done, "{effect:?}: {:?}", self.engine.usage());
                assert_eq!(self.engine.last_version(slice), version);
            }
            Entry::Item { slice, version, key, value, facts, .. } => {
                assert!(self.learns, "it is for the learner");
                let effect = Effect { key, change: Change::Put(value, facts) };
                let applied = self.apply(slice, &effect, version, now);
                assert!(matches!(applied, Applied::Done | Applied::Stale), "{applied:?}");
            }
            Entry::Barrier(run, _) => {
                let is_here = |slice: &SliceId| shared.lanes.lane_of(*slice) == lane;
                for slice in run.iter().take(KEPT).filter(is_here) {
                    let last = self.lasts.get(&(slice.index() % KEPT)).copied();
                    self.engine.barrier(slice, last.unwrap_or_default());
                }
            }
            Entry::Skipped => assert!(!self.learns, "only the learner is walked for"),
            Entry::Other { .. } => panic!("nobody appends such"),
        }
    }

    fn apply(
        &mut self,
        slice: SliceId,
        effect: &Effect<'_>,
        version: Version,
        now: Now,
    ) -> Applied {
        self.applied += 1;
        let mut pin = self.local.take().expect("a local").pin();
        let applied = self.engine.apply(&mut pin, slice, effect, version, now, &mut NoSink);
        if self.applied.is_multiple_of(32) {
            self.engine.tend(&mut pin, now, 16, &mut NoSink);
        }
        self.local = Some(pin.unpin());
        applied
    }

    fn has_all(&self, ends: &[u64]) -> bool {
        self.next.iter().zip(ends).all(|(next, end)| next > end)
    }
}

/// Reads for all followers until the writers rest and nothing is left. Time passes when each
/// writer is in the present second, and all from before that is applied.
fn follow(shared: &Shared, mut followers: Vec<Follower>) -> Vec<Follower> {
    let ends = || -> Vec<u64> { shared.lanes.logs().map(|(_, log)| log.end()).collect() };
    let mut awaited: Option<Vec<u64>> = None;
    let mut full = 0;
    loop {
        let rests = shared.running.load(Ordering::SeqCst) == 0;
        let last = ends();
        let now_s = shared.clock_s.load(Ordering::SeqCst);
        let refused = shared.full.load(Ordering::SeqCst);
        if rests || !shared.plan.slow || refused > full {
            full = refused;
            followers.iter_mut().for_each(|follower| follower.read(shared, at(now_s + AHEAD_S)));
        }
        let all_have = |ends: &[u64]| followers.iter().all(|follower| follower.has_all(ends));
        if rests && all_have(&last) {
            return followers;
        }
        match &awaited {
            Some(before) if all_have(before) => {
                shared.clock_s.fetch_add(1, Ordering::SeqCst);
                awaited = None;
            }
            Some(_) => {}
            None => {
                let is_now = |seen: &AtomicU32| seen.load(Ordering::SeqCst) >= now_s;
                awaited = shared.seen.iter().all(is_now).then(ends);
            }
        }
        thread::yield_now();
    }
}

/// What an engine holds: by key, the value, what it carries, and its version.
#[derive(Default, Debug, PartialEq)]
struct Held(BTreeMap<Vec<u8>, (Vec<u8>, base::Facts, Version)>);

impl ItemSink for Held {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let mut value = Vec::new();
        item.value.append_to(&mut value);
        let held = self.0.insert(item.key.to_vec(), (value, item.facts, item.version));
        assert!(held.is_none(), "{} is passed twice", item.key.escape_ascii());
        true
    }
}

fn held(engine: &Engine, local: &mut Option<Local>, now: Now) -> Held {
    let (mut held, mut at) = (Held::default(), Cursor::default());
    let mut pin = local.take().expect("a local").pin();
    while engine.scan(&mut pin, SliceRange::ALL, &mut at, 100, now, &mut held) == More::Yes {}
    *local = Some(pin.unpin());
    held
}

/// Panics unless each follower holds what the source holds.
fn compare(shared: &Shared, local: &mut Option<Local>, followers: &mut [Follower]) {
    // What has expired by the clock of a copy is gone at the source too.
    let now = at(shared.clock_s.fetch_add(AHEAD_S + 1, Ordering::SeqCst) + AHEAD_S + 1);
    let source = held(&shared.engine, local, now);
    for follower in followers {
        let copy = held(&follower.engine, &mut follower.local, now);
        let learns = follower.learns;
        for (key, item) in &source.0 {
            let other =
                copy.0.get(key).map(|(value, facts, version)| (value.len(), facts, version));
            let same = copy.0.get(key) == Some(item);
            let (value, facts, version) = (item.0.len(), item.1, item.2);
            let key = key.escape_ascii();
            assert!(same, "{key}: {value}, {facts:?}, {version:?}; {learns}: {other:?}");
        }
        let more = copy.0.keys().find(|key| !source.0.contains_key(*key));
        assert_eq!(more, None, "only at the copy: {learns}");
        for (slice, last) in follower.lasts.iter().filter(|_| !learns) {
            let slice = SliceId::new(*slice).expect("a slice");
            assert_eq!(follower.engine.last_version(slice), *last);
            assert!(shared.engine.last_version(slice) >= *last);
        }
    }
}

/// Logs with the memory of the plan, or with the least that is enough: a model checker's tables of
/// slices are longer.
fn lanes(plan: &Plan) -> Arc<Lanes> {
    const STEP_BYTES: u64 = 4 << 10;
    let (sinks, value_bytes_max, follows) = (plan.threads + 1, 0, false);
    let made = |step: u64| {
        let bytes = plan.log_bytes + step * STEP_BYTES;
        let config = LanesConfig { lanes: plan.lanes, sinks, bytes, value_bytes_max, follows };
        let lanes = Lanes::new(&config, &MemoryBudget::new(32 * bytes))?;
        (lanes.logs().count() == plan.lanes).then_some(lanes)
    };
    (0..10_000).find_map(made).expect("enough memory")
}

fn source(plan: &Plan) -> (Arc<Shared>, Vec<Local>) {
    let lanes = lanes(plan);
    let value_bytes_max = (3 * plan.value_bytes_max).min(lanes.value_bytes_max()) as usize;
    let config = EngineConfig {
        locals: plan.threads + 2,
        hash_seed: plan.seed,
        value_bytes_max,
        ..EngineConfig::new(plan.limit_bytes)
    };
    let (engine, locals) =
        Engine::new(config, MemoryBudget::new(plan.limit_bytes)).expect("enough memory");
    let zero = || AtomicU64::new(0);
    let shared = Shared {
        plan: plan.clone(),
        engine,
        lanes,
        clock_s: AtomicU32::new(1_000),
        seen: (0..plan.threads).map(|_| AtomicU32::new(0)).collect(),
        running: AtomicUsize::new(0),
        full: zero(),
        later: zero(),
        no_space: zero(),
        barriers: zero(),
    };
    (Arc::new(shared), locals)
}

/// Runs a plan to its end. The learner joins after the first round.
pub fn run(plan: &Plan) -> Happened {
    let (shared, mut locals) = source(plan);
    let mut host = locals.pop();
    let mut walk_local = locals.pop();
    let mut writers: Vec<_> = (0..plan.threads)
        .map(|number| Writer {
            shared: shared.clone(),
            local: locals.pop(),
            sink: WorkerSink::new(shared.lanes.clone()),
            dice: Rng::new(plan.seed, number as u64),
            number,
            tokens: HashMap::new(),
        })
        .collect();
    let mut followers = vec![Follower::new(&shared, HashMap::new(), false)];
    let mut walked = 0;
    for round in 0.. {
        let mut walk = None;
        if round == 1 {
            let learner = Follower::new(&shared, followers[0].lasts.clone(), true);
            walk = Some(Walk {
                shared: shared.clone(),
                local: walk_local.take(),
                sink: WorkerSink::new(shared.lanes.clone()),
                readers: learner.readers.clone(),
                walked: 0,
            });
            followers.push(learner);
        }
        let threads = plan.threads + usize::from(walk.is_some());
        shared.running.store(threads, Ordering::SeqCst);
        let walk = walk.map(|walk| thread::spawn(move || walk.run()));
        let running: Vec<_> =
            writers.drain(..).map(|writer| thread::spawn(move || writer.run())).collect();
        followers = follow(&shared, followers);
        for thread in running {
            writers.push(thread.join().expect("no promise was broken"));
        }
        if let Some(walk) = walk {
            walked = walk.join().expect("no promise was broken").walked;
        }
        // The learner has everything when the round is over in which the walk ends.
        compare(&shared, &mut host, &mut followers);
        if round > 0 && shared.entries() >= plan.effects {
            break;
        }
    }
    let load = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    let counters = shared.engine.counters();
    Happened {
        entries: shared.entries(),
        full: load(&shared.full),
        later: load(&shared.later),
        no_space: load(&shared.no_space),
        barriers: load(&shared.barriers),
        walked,
        evicted: counters.evicted,
        expired: counters.expired,
    }
}
