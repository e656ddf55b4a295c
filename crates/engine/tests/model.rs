//! The engine against a plain map: every command that there is, at random, with lifetimes, flushes,
//! barriers, refusals of the sink and constant eviction; without a sink, with one that records, and
//! with a log; in one thread and in four.
//!
//! Each thread has keys of its own, and so a model of its own. What others do to its keys it learns
//! from the effects: an item was evicted or had expired, and the version of the removal says
//! before which changes. Without a sink, an item may be missing only if the counter of evictions
//! rose, or its expiry is near. Everything else is predicted: value, flags, expiry, token, marks,
//! versions, who wins a token, and at the end the counters.
#![cfg(not(any(loom, shuttle)))]

mod commands;
mod oracle;
mod witness;

use base::{
    Change, Effect, Facts, MemoryBudget, NoSink, Now, Refused, Removal, SliceId, Value, Version,
};
use commands::{Answer, Command, Draw, What};
use effects::{Lanes, LanesConfig, WorkerSink};
use engine::{Action, Applied, Engine, EngineConfig, Local, Op, Pin, Read, WriteStatus};
use measure::rng::Rng;
use oracle::{Entry, expect, remove_all, walk};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use witness::{At, Events, Gone, Spy, Stamps, Witness, name};

/// Times that a command is tried again which cannot be carried out now.
const LATER_MAX: usize = 20_000;

const PINNED: &str = "commands run in a batch";

/// What a test runs.
#[derive(Clone, Copy)]
struct Plan {
    limit_bytes: u64,
    value_bytes_max: u64,
    /// Of each thread.
    keys: u64,
    seed: u64,
    threads: usize,
    /// Commands of each thread.
    steps: u64,
}

/// What ends all items that have no later version, in one slice or in all.
#[derive(Clone, Copy)]
struct Cut(Option<(SliceId, Version)>);

struct World {
    plan: Plan,
    engine: Engine,
    events: Arc<Events>,
    clock_s: AtomicU32,
    /// Commands hold it to read. What ends items of all threads holds it to write.
    gate: RwLock<()>,
    cuts: Mutex<Vec<Cut>>,
    malformed: AtomicUsize,
}

impl World {
    fn now(&self) -> Now {
        Now { mono_ns: 0, expiry_s: self.clock_s.load(Ordering::SeqCst) }
    }

    /// Whether the counter of evictions rises above `before`: it does so after the item is gone.
    fn has_evicted(&self, before: u64) -> bool {
        (0..LATER_MAX).any(|_| {
            let has = self.engine.counters().evicted > before;
            if !has && self.plan.threads > 1 {
                std::thread::yield_now();
            }
            has || self.plan.threads == 1
        }) && self.engine.counters().evicted > before
    }
}

/// An item of the model, and what the counter of evictions was before it was last seen.
struct Kept {
    entry: Entry,
    evicted: u64,
}

/// A thread with its keys.
struct Member<S> {
    world: Arc<World>,
    owner: usize,
    /// One of the two: none is pinned while it waits for others, which may wait for its batch.
    local: Option<Local>,
    pin: Option<Pin>,
    sink: S,
    model: HashMap<Vec<u8>, Kept>,
    pending: Vec<Gone>,
    dice: Rng,
    now: Now,
    cuts: usize,
    /// The counter of evictions before the command.
    evicted: u64,
    /// Commands that had no space.
    no_space: u64,
}

impl<S: Spy> Member<S> {
    fn run(mut self) -> Self {
        let world = self.world.clone();
        for step in 0..world.plan.steps {
            if step % 16 == 0 {
                self.end();
            }
            let gate = match world.gate.try_read() {
                Ok(gate) => gate,
                Err(_) => {
                    self.end();
                    world.gate.read().expect("no thread has panicked")
                }
            };
            self.begin();
            self.catch_up();
            match self.dice.below(10_000) {
                0..300 => _ = world.clock_s.fetch_add(1, Ordering::SeqCst),
                300..500 => self.tend(),
                500..600 => self.malformed(),
                600..610 if world.plan.threads == 1 => self.apply(),
                610 => {
                    drop(gate);
                    self.cut();
                    continue;
                }
                _ => self.command(),
            }
            self.learn();
        }
        self.end();
        self
    }

    fn begin(&mut self) {
        self.pin = self.pin.take().or_else(|| self.local.take().map(Local::pin));
    }

    fn end(&mut self) {
        self.local = self.pin.take().map(Pin::unpin).or_else(|| self.local.take());
        self.sink.end_batch();
    }

    /// Forgets what was cut off since the last command.
    fn catch_up(&mut self) {
        self.now = self.world.now();
        let cuts = self.world.cuts.lock().expect("no thread has panicked");
        for cut in &cuts[self.cuts..] {
            let Some((slice, barrier)) = cut.0 else {
                self.model.clear();
                continue;
            };
            self.model
                .retain(|key, kept| SliceId::of(key) != slice || kept.entry.version > barrier);
        }
        self.cuts = cuts.len();
    }

    /// A flush of everything, or a barrier in one slice at the version of an item.
    fn cut(&mut self) {
        let world = self.world.clone();
        self.end();
        let _gate = world.gate.write().expect("no thread has panicked");
        let some = self.model.iter().next();
        let cut = match some.map(|(key, kept)| (SliceId::of(key), kept.entry.version)) {
            Some((slice, version)) if self.dice.below(8) > 0 => {
                world.engine.barrier(slice, version);
                Cut(Some((slice, version)))
            }
            _ => {
                world.engine.flush();
                Cut(None)
            }
        };
        world.cuts.lock().expect("no thread has panicked").push(cut);
    }

    fn tend(&mut self) {
        self.sink.begin(b"", None);
        self.world.engine.tend(self.pin.as_mut().expect(PINNED), self.now, 32, &mut self.sink);
    }

    /// A malformed effect changes nothing.
    fn malformed(&mut self) {
        let key = self.any_key();
        let slice = SliceId::of(&key);
        let other = SliceId::new((slice.index() + 1) % base::SLICES).expect("a slice");
        let long = vec![b'k'; engine::KEY_BYTES_MAX + 1];
        let value = vec![7; self.world.engine.value_bytes_max() + 1];
        let put = |value| Change::Put(Value::Parts([value, &[]]), Facts::default());
        let version = Version::from_raw(u64::MAX >> 1);
        let empty: &[u8] = b"";
        let (key, slice, change, version) = match self.dice.below(6) {
            0 => (&key[..], other, put(b"wrong"), version),
            1 => (&key[..], other, Change::Remove(Removal::Deleted), version),
            2 => (&key[..], slice, put(b"wrong"), Version::ZERO),
            3 => (&key[..], slice, put(&value), version),
            4 => (&long[..], SliceId::of(&long), put(b"wrong"), version),
            _ => (empty, SliceId::of(empty), Change::Touch(1, None), version),
        };
        let effect = Effect { key, change };
        let applied = self.world.engine.apply(
            self.pin.as_mut().expect(PINNED),
            slice,
            &effect,
            version,
            self.now,
            &mut self.sink,
        );
        assert_eq!(applied, Applied::Malformed);
        self.world.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// An effect with a version that is not newer changes nothing; with a newer one it is applied.
    fn apply(&mut self) {
        let Some((key, kept)) = self.model.iter_mut().next() else { return };
        let pin = self.pin.as_mut().expect(PINNED);
        let (slice, entry) = (SliceId::of(key), &mut kept.entry);
        let id = self.world.engine.key(key);
        if entry.is_dead(self.now) || self.world.engine.peek(pin, &id, self.now).is_none() {
            return;
        }
        let facts = Facts { client_flags: 5, token: Some(4), stale: true, ..Facts::default() };
        let change = Change::Put(Value::Parts([b"app", b"lied"]), facts);
        let effect = Effect { key, change };
        let engine = &self.world.engine;
        let applied = engine.apply(pin, slice, &effect, entry.version, self.now, &mut self.sink);
        assert!(matches!(applied, Applied::Stale | Applied::NoSpace), "{applied:?}");
        let version = Version::from_raw(engine.last_version(slice).raw() + 3);
        match engine.apply(pin, slice, &effect, version, self.now, &mut self.sink) {
            Applied::Done => {
                assert_eq!(engine.last_version(slice), version);
                let value = b"applied".to_vec();
                *entry = Entry {
                    value,
                    client_flags: 5,
                    expiry_s: 0,
                    token: Some(4),
                    stale: true,
                    token_sent: false,
                    vivified: false,
                    version,
                };
            }
            applied => assert_eq!(applied, Applied::NoSpace),
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        name(self.owner, self.dice.below(self.world.plan.keys))
    }

    fn refusal(&mut self) -> Option<(At, Refused)> {
        if !S::ON || self.dice.below(40) > 0 {
            return None;
        }
        let at = if self.dice.below(2) == 0 { At::Reserve } else { At::Commit };
        let why = [Refused::Full, Refused::TooLarge, Refused::Flushed, Refused::Sealed];
        Some((at, why[self.dice.below(4) as usize]))
    }

    fn command(&mut self) {
        let key = self.any_key();
        let token = self.model.get(&key).map(|kept| kept.entry.cas());
        let value_bytes_max = self.world.plan.value_bytes_max;
        let dice = &mut self.dice;
        let command = Draw { dice, now: self.now, value_bytes_max, token }.command(key);
        let refusal = self.refusal();
        if !S::ON {
            self.evicted = self.world.engine.counters().evicted;
        }
        let answer = self.carry_out(&command, refusal);
        self.drain(&command.key);
        let before = self.before(&command.key);
        if answer.is_later() || answer.is_no_space() || self.is_refused(&answer) {
            assert_eq!(self.sink.own(), None, "{command:?}: {answer:?}, yet it was changed");
            self.check_no_space(&command, &answer);
            return;
        }
        let limit = self.world.engine.value_bytes_max();
        let all = before.iter().map(|entry| expect(&command, entry.as_ref(), self.now, limit));
        let fits: Vec<_> = all.filter(|expected| expected.is(&answer)).collect();
        assert!(!fits.is_empty(), "{command:?} of {before:?} ended as {answer:?}");
        let is_changed = fits[0].is_changed;
        assert!(!S::ON || is_changed == self.sink.own().is_some(), "{command:?}: {answer:?}");
        let after: Vec<_> = fits.into_iter().map(|expected| expected.after).collect();
        if S::ON {
            self.set_after(&command, &answer, after.into_iter().next().flatten());
        } else {
            self.look(&command.key, after);
        }
    }

    fn is_refused(&self, answer: &Answer) -> bool {
        let is_too_large =
            matches!(answer, Answer::Wrote(wrote) if wrote.status == WriteStatus::TooLarge);
        self.sink.has_refused() && is_too_large
    }

    fn check_no_space(&mut self, command: &Command, answer: &Answer) {
        if self.sink.has_refused() {
            return;
        }
        let old = self.model.get(&command.key).map_or(0, |kept| kept.entry.value.len());
        let bytes = (command.value.len() + old) as u64;
        self.no_space += 1;
        assert!(
            self.world.plan.threads > 1 || bytes > self.world.plan.limit_bytes / 4,
            "no room for {bytes} bytes: {answer:?}, {:?}",
            self.world.engine.usage()
        );
    }

    /// Carries a command out, and again if it cannot be carried out now and the sink is not why.
    fn carry_out(&mut self, command: &Command, refusal: Option<(At, Refused)>) -> Answer {
        let world = self.world.clone();
        let mut last = None;
        for _ in 0..LATER_MAX {
            self.sink.begin(&command.key, refusal);
            let answer = command.run(
                &world.engine,
                self.pin.as_mut().expect(PINNED),
                self.now,
                &mut self.sink,
            );
            if !answer.is_later() || self.sink.has_refused() {
                return answer;
            }
            last = Some(answer);
            self.end();
            self.begin();
            std::thread::yield_now();
        }
        panic!("{command:?} can never be carried out: {last:?}, {:?}", world.engine.usage())
    }

    /// What the item may have been when the command found it.
    fn before(&self, key: &[u8]) -> Vec<Option<Entry>> {
        let Some(kept) = self.model.get(key).filter(|kept| !kept.entry.is_dead(self.now)) else {
            return vec![None];
        };
        let entry = kept.entry.clone();
        if !S::ON {
            let may_be_dead = entry.is_dead(self.world.now());
            let is_gone = may_be_dead || self.world.engine.counters().evicted > kept.evicted;
            // The counter rises after the item is gone.
            let may_be_gone = is_gone || self.world.plan.threads > 1;
            return if may_be_gone { vec![Some(entry), None] } else { vec![Some(entry)] };
        }
        let later = |gone: &&Gone| gone.key == key && gone.version > entry.version;
        let gone = self.pending.iter().filter(later).map(|gone| gone.version).min();
        match (gone, self.sink.own()) {
            (None, _) => vec![Some(entry)],
            (Some(gone), Some(own)) if gone < own => vec![None],
            (Some(_), Some(_)) => vec![Some(entry)],
            (Some(_), None) => vec![Some(entry), None],
        }
    }

    fn set_after(&mut self, command: &Command, answer: &Answer, after: Option<Entry>) {
        let Some(mut entry) = after else {
            self.model.remove(&command.key);
            return;
        };
        if let Some(own) = self.sink.own() {
            entry.version = own;
        }
        match answer {
            Answer::Wrote(wrote) => {
                let cas = wrote.found.map_or(entry.cas(), |found| found.cas);
                assert_eq!(cas, entry.cas(), "{command:?}: {answer:?}");
            }
            Answer::Read(_, seen) => {
                assert_eq!(seen.found.cas, entry.cas(), "{command:?}: {answer:?}");
                // A get may be older than an eviction, not than a change of this thread.
                assert_eq!(seen.version, entry.version, "{command:?}: {answer:?}");
            }
        }
        self.model.insert(command.key.clone(), Kept { entry, evicted: 0 });
    }

    /// Looks at an item that must be one of `after`, where no sink says what happened to it.
    fn look(&mut self, key: &[u8], after: Vec<Option<Entry>>) {
        let look = Command::new(key.to_vec(), What::Get);
        let Answer::Read(read, seen) = self.carry_out(&look, None) else { panic!("a read") };
        let mut stored = after.iter().flatten();
        let may_be_none = after.iter().all(Option::is_none)
            || stored.any(|entry| entry.is_dead(self.world.now()));
        match read {
            Read::Hit => {
                let entry = after.iter().flatten().find_map(|entry| entry.learnt(&seen));
                let Some(entry) = entry else {
                    panic!("{} is {seen:?}, not {after:?}", key.escape_ascii());
                };
                let kept = Kept { entry, evicted: self.evicted };
                self.model.insert(key.to_vec(), kept);
            }
            Read::Miss => {
                let old = self.model.remove(key);
                let evicted = old.map_or(self.evicted, |kept| kept.evicted.min(self.evicted));
                let is_excused = may_be_none || self.world.has_evicted(evicted);
                assert!(is_excused, "{} is missing: {after:?}", key.escape_ascii());
            }
            other => panic!("{} cannot be read: {other:?}", key.escape_ascii()),
        }
    }

    /// Takes what is gone from the other threads. `key` is that of the command.
    fn drain(&mut self, key: &[u8]) {
        let gone = self.world.events.take(self.owner);
        if self.world.plan.threads == 1 {
            for gone in gone.iter().filter(|gone| gone.removal == Removal::Evicted) {
                let is_there = self.model.contains_key(&gone.key) || gone.key == key;
                assert!(is_there, "only what is there is evicted");
            }
        }
        self.pending.extend(gone);
    }

    /// Forgets what is gone.
    fn learn(&mut self) {
        self.drain(b"");
        for gone in self.pending.drain(..) {
            let Some(kept) = self.model.get(&gone.key) else { continue };
            if kept.entry.version < gone.version {
                let is_due = kept.entry.is_dead(self.world.now());
                assert!(gone.removal == Removal::Evicted || is_due, "{gone:?}: {:?}", kept.entry);
                self.model.remove(&gone.key);
            }
        }
    }
}

/// At the end, a walk passes what the models hold, and the counters agree with it.
fn finish(world: &World, local: Local, model: &HashMap<Vec<u8>, Kept>) {
    let (engine, now) = (&world.engine, world.now());
    let mut pin = local.pin();
    let alive = |entry: &Entry| !entry.is_dead(now);
    for owner in 0..world.plan.threads {
        for number in 0..world.plan.keys {
            // Nothing has this token; but what is dead is removed.
            let name = name(owner, number);
            let other = Some(u64::MAX);
            let op = Op { compare: other, ..Op::new(engine.key(&name), Action::Delete) };
            engine.write(&mut pin, &op, now, &mut NoSink);
        }
    }
    let passed = walk(engine, &mut pin, now);
    for (key, found) in &passed {
        let entry = &model.get(key).expect("what is passed is in a model").entry;
        let entry = Entry { token: Some(entry.cas()), ..entry.clone() };
        assert_eq!(*found, entry, "{}", key.escape_ascii());
    }
    let counters = engine.counters();
    assert_eq!(counters.items, passed.len() as u64);
    assert_eq!(counters.malformed, world.malformed.load(Ordering::Relaxed) as u64);
    for (key, kept) in model.iter().filter(|(_, kept)| alive(&kept.entry)) {
        let is_there = passed.contains_key(key);
        let is_gone =
            world.events.evicted.load(Ordering::Relaxed) == 0 && counters.evicted > kept.evicted;
        assert!(is_there || is_gone, "{} is missing", key.escape_ascii());
    }
    remove_all(engine, &mut pin, passed.keys(), now);
    let counters = engine.counters();
    assert_eq!((counters.items, counters.item_words), (0, 0), "all are deleted: {counters:?}");
}

fn world(plan: Plan) -> (Arc<World>, Vec<Local>) {
    let config = EngineConfig {
        hash_seed: plan.seed,
        locals: plan.threads + 1,
        value_bytes_max: plan.value_bytes_max as usize * 3,
        ..EngineConfig::new(plan.limit_bytes)
    };
    let (engine, locals) =
        Engine::new(config, MemoryBudget::new(plan.limit_bytes)).expect("enough memory");
    let world = World {
        plan,
        engine,
        events: Events::new(plan.threads),
        clock_s: AtomicU32::new(1_000),
        gate: RwLock::default(),
        cuts: Mutex::default(),
        malformed: AtomicUsize::new(0),
    };
    (Arc::new(world), locals)
}

fn run<S: Spy + Send + 'static>(
    plan: Plan,
    (world, mut locals): (Arc<World>, Vec<Local>),
    mut sink: impl FnMut(&Arc<Events>) -> S,
) {
    let mut members = Vec::new();
    for owner in 0..plan.threads {
        let member = Member {
            world: world.clone(),
            owner,
            local: locals.pop(),
            pin: None,
            sink: sink(&world.events),
            model: HashMap::new(),
            pending: Vec::new(),
            dice: Rng::new(plan.seed, owner as u64),
            now: world.now(),
            cuts: 0,
            evicted: 0,
            no_space: 0,
        };
        members.push(std::thread::spawn(move || member.run()));
    }
    let members: Vec<_> =
        members.into_iter().map(|member| member.join().expect("no promise was broken")).collect();
    let (mut model, mut no_space) = (HashMap::new(), 0);
    for mut member in members {
        // What others have done since its last command.
        member.catch_up();
        member.learn();
        model.extend(member.model);
        no_space += member.no_space;
    }
    let counters = world.engine.counters();
    if S::ON {
        let learnt = [&world.events.evicted, &world.events.expired];
        let learnt = learnt.map(|count| count.load(Ordering::Relaxed));
        assert_eq!([counters.evicted, counters.expired], learnt);
    }
    let most = plan.steps * plan.threads as u64 / 20;
    assert!(no_space <= most, "{no_space} commands found no space");
    finish(&world, locals.pop().expect("a local"), &model);
}

/// Runs a plan without a sink, with one that takes everything, and with a log.
fn run_all(plan: Plan) {
    for threads in [1, 4] {
        let steps = steps() / threads as u64;
        let plan = Plan { threads, keys: plan.keys / threads as u64, steps, ..plan };
        run(plan, world(plan), |_| NoSink);
        run(plan, world(plan), |events| Witness::new(Stamps, events.clone()));
        let config = LanesConfig {
            lanes: 4,
            sinks: threads,
            bytes: 8 << 20,
            value_bytes_max: plan.value_bytes_max * 3,
            follows: false,
        };
        let lanes = Lanes::new(&config, &MemoryBudget::new(1 << 30)).expect("enough memory");
        let sink = || WorkerSink::new(lanes.clone());
        run(plan, world(plan), |events| Witness::new(sink(), events.clone()));
    }
}

/// Commands of a test for each sink and number of threads: `MODEL_STEPS`, or enough for a second.
fn steps() -> u64 {
    std::env::var("MODEL_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(25_000)
}

fn plan(limit_bytes: u64, value_bytes_max: u64, keys: u64, seed: u64) -> Plan {
    Plan { limit_bytes, value_bytes_max, keys, seed, threads: 1, steps: 0 }
}

#[test]
fn tiny_pools_that_evict_all_the_time() {
    for seed in 1..=3 {
        run_all(plan(engine::LIMIT_BYTES_MIN, 1_000, 2_000, seed));
    }
}

#[test]
fn pools_with_values_in_chunks() {
    for seed in 10..=12 {
        run_all(plan(2 << 20, 60_000, 500, seed));
    }
}

#[test]
fn pools_with_room_for_everything() {
    run_all(plan(64 << 20, 2_000, 5_000, 20));
}

#[test]
fn pools_with_lifetime_classes() {
    run_all(plan(8 << 20, 3_000, 20_000, 30));
}
