//! A crowd of threads on few keys, and the promises that hold whatever they do to each other.
//!
//! Every value is made of records that name their key and writer and prove their own bytes, so a
//! torn value, or one of another key, is seen at once. For every key there is a floor: a version
//! that some thread has seen, or one more than a version that a delete or flush was sure to cut
//! off. A thread that begins a read after the floor rose must not see anything below it. At the end
//! the items found are the items counted, and after all are deleted not a word is counted as used.
//!
//! The same crowd runs on plain threads (also under sanitizers) and under shuttle.

use base::{MemoryBudget, NoSink, Now, SliceId, SliceRange};
use engine::{
    Action, Cursor, Engine, EngineConfig, FetchOptions, Found, ItemSink, Local, Mode, More, Op,
    Pin, Put, Read, ValueSink, WalkedItem, WriteResult, WriteStatus,
};
use measure::rng::Rng;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(not(shuttle))]
use std::thread;

#[cfg(shuttle)]
use shuttle::thread;

/// Bytes of a record before its payload: key, writer, length.
const RECORD_HEAD_BYTES: usize = 4;

/// Times that a change is tried again which cannot be made now.
const LATER_MAX: usize = 1_000;

/// One in this many keys holds a number.
const COUNTERS_EVERY: u64 = 5;

/// What a crowd does.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub threads: u64,
    pub ops_per_thread: u64,
    /// Operations between two ends of a batch, at most.
    pub batch_max: u64,
    pub keys: u64,
    /// The first keys, this many, are never removed, and there is room for everything: a
    /// read of one of them never misses.
    pub kept_keys: u64,
    /// Where keys are kept, the others are stored and deleted by turns of this many operations.
    pub turn: u64,
    pub limit_bytes: u64,
    /// If below the limit, the limit is lowered to this and raised again, over and over.
    pub lowered_bytes: u64,
    pub payload_bytes_max: u64,
}

/// What all threads of a crowd share.
struct Shared {
    plan: Plan,
    engine: Engine,
    budget: Arc<MemoryBudget>,
    floors: Vec<AtomicU64>,
    /// Increments that were made, per key.
    counted: Vec<AtomicU64>,
    now_s: AtomicU32,
}

fn key_name(key: u64) -> Vec<u8> {
    format!("key-{key}").into_bytes()
}

fn payload_byte(key: u8, writer: u8, at: usize) -> u8 {
    (at as u8).wrapping_mul(167) ^ key.wrapping_mul(31) ^ writer.wrapping_mul(101)
}

fn record(key: u64, writer: u8, payload_bytes: usize) -> Vec<u8> {
    let key = key as u8;
    let len = u16::try_from(payload_bytes).expect("payloads are short").to_le_bytes();
    let head = [key, writer, len[0], len[1]];
    let payload = (0..payload_bytes).map(|at| payload_byte(key, writer, at));
    head.into_iter().chain(payload).collect()
}

/// Panics unless `value` is a run of whole records of `key`.
fn check_records(key: u64, mut value: &[u8]) {
    let whole = value.len();
    assert!(!value.is_empty(), "key {key}: every value has a record");
    while !value.is_empty() {
        let at = whole - value.len();
        let (head, rest) = value.split_first_chunk::<RECORD_HEAD_BYTES>().expect("a whole head");
        let payload_bytes = usize::from(u16::from_le_bytes([head[2], head[3]]));
        assert_eq!(head[0], key as u8, "key {key}: a record of another key at {at} of {whole}");
        let (payload, rest) = rest.split_at_checked(payload_bytes).expect("a whole payload");
        for (index, byte) in payload.iter().enumerate() {
            let expected = payload_byte(head[0], head[1], index);
            assert_eq!(*byte, expected, "key {key}: torn at {} of {whole}", at + index);
        }
        value = rest;
    }
}

impl Shared {
    fn now(&self) -> Now {
        Now { mono_ns: 0, expiry_s: self.now_s.load(Ordering::SeqCst) }
    }

    fn holds_number(&self, key: u64) -> bool {
        key % COUNTERS_EVERY == COUNTERS_EVERY - 1
    }

    fn is_kept(&self, key: u64) -> bool {
        key < self.plan.kept_keys
    }

    /// Whether kept keys may be gone: nothing is evicted but where the limit is lowered.
    fn may_evict(&self) -> bool {
        let may = self.plan.lowered_bytes < self.plan.limit_bytes;
        assert!(may || self.engine.counters().evicted == 0, "there is room for all");
        may
    }

    fn raise_floor(&self, key: u64, version: u64) {
        self.floors[key as usize].fetch_max(version, Ordering::SeqCst);
    }

    /// Checks what a read that began when the floor was `floor` returned.
    fn check(&self, key: u64, floor: u64, read: Read, sink: &ValueSink) {
        if read != Read::Hit {
            let excused = !self.is_kept(key) || self.may_evict();
            assert!(excused, "key {key} is never removed, yet a read ended with {read:?}");
            return;
        }
        let version = sink.found.cas;
        assert!(version >= floor, "key {key}: version {version} was seen after {floor}");
        self.raise_floor(key, version);
        assert_eq!(sink.bytes.len(), sink.found.value_bytes, "key {key}");
        if self.holds_number(key) {
            let digits = std::str::from_utf8(&sink.bytes).expect("digits");
            let number: u64 = digits.trim_end().parse().expect("a number");
            assert!(number > 0, "key {key}: numbers start at one");
        } else {
            check_records(key, &sink.bytes);
        }
    }
}

/// One thread of the crowd.
struct Member {
    shared: Arc<Shared>,
    /// One of the two: a lease between batches, a pin within one.
    local: Option<Local>,
    pin: Option<Pin>,
    dice: Rng,
    number: u8,
}

impl Member {
    fn begin(&mut self) {
        self.pin = Some(self.local.take().expect("a local for each").pin());
    }

    fn end(&mut self) {
        self.local = self.pin.take().map(Pin::unpin);
    }

    fn run(&mut self) -> u64 {
        let shared = self.shared.clone();
        let mut left = shared.plan.ops_per_thread;
        while left > 0 {
            let batch = (1 + self.dice.below(shared.plan.batch_max)).min(left);
            self.begin();
            for op in 0..batch {
                self.step(left - op);
            }
            self.end();
            left -= batch;
        }
        shared.plan.ops_per_thread
    }

    fn step(&mut self, left: u64) {
        let key = self.dice.below(self.shared.plan.keys);
        let kept = self.shared.is_kept(key);
        if self.shared.plan.kept_keys > 0 && !kept && self.dice.below(4) > 0 {
            let stores = (left / self.shared.plan.turn).is_multiple_of(2);
            return if stores { self.store(key, Mode::Set) } else { self.delete(key) };
        }
        match self.dice.below(100) {
            0..40 => self.get(key),
            40..58 => self.store(key, Mode::Set),
            58..64 => self.store(key, Mode::Append { vivify: false }),
            64..68 => self.store(key, Mode::Prepend { vivify: true }),
            68..74 => self.fetch(key),
            74..80 => self.touch(key),
            80..86 => self.compare_and_set(key),
            86..88 => self.store(key, Mode::Add),
            88..90 => self.tend(),
            90 => self.resize(),
            _ if kept => self.get(key),
            91..97 => self.delete(key),
            97..99 => _ = self.shared.now_s.fetch_add(1, Ordering::SeqCst),
            _ if self.shared.plan.kept_keys == 0 => self.flush(),
            _ => self.get(key),
        }
    }

    fn write(&mut self, key: u64, action: Action<'_>, compare: Option<u64>) -> WriteResult {
        let name = key_name(key);
        let op = Op { compare, report: true, ..Op::new(self.shared.engine.key(&name), action) };
        let now = self.shared.now();
        let pin = self.pin.as_mut().expect("in a batch");
        let mut wrote = self.shared.engine.write(pin, &op, now, &mut NoSink);
        for _ in 0..LATER_MAX {
            if !matches!(wrote.status, WriteStatus::Later(_)) {
                break;
            }
            pin.renew();
            thread::yield_now();
            wrote = self.shared.engine.write(pin, &op, now, &mut NoSink);
        }
        if wrote.status == WriteStatus::Done
            && let Some(found) = wrote.found
            && found.cas != 0
        {
            self.shared.raise_floor(key, found.cas);
        }
        wrote
    }

    fn get(&mut self, key: u64) {
        let floor = self.shared.floors[key as usize].load(Ordering::SeqCst);
        let (name, mut sink) = (key_name(key), ValueSink::default());
        let engine = &self.shared.engine;
        let read = engine.get(
            self.pin.as_ref().expect("in a batch"),
            &engine.key(&name),
            self.shared.now(),
            &mut sink,
        );
        self.shared.check(key, floor, read, &sink);
    }

    /// An expiry: mostly far, sometimes near, for kept keys never.
    fn expiry_s(&mut self, key: u64) -> u32 {
        let now_s = self.shared.now().expiry_s;
        match self.dice.below(4) {
            _ if self.shared.is_kept(key) => self.dice.below(2) as u32 * u32::MAX,
            0 => now_s + 1 + self.dice.below(3) as u32,
            1 => now_s + 1_000_000,
            _ => 0,
        }
    }

    fn store(&mut self, key: u64, mode: Mode) {
        if self.shared.holds_number(key) {
            return self.count(key);
        }
        let payload_bytes = match self.dice.below(3) {
            0 => self.dice.below(self.shared.plan.payload_bytes_max),
            _ => self.dice.below(self.shared.plan.payload_bytes_max / 8 + 1),
        };
        let value = record(key, self.number, payload_bytes as usize);
        let expiry_s = self.expiry_s(key);
        if mode == Mode::Set && self.dice.below(3) == 0 {
            return self.set(key, Put { value: &value, client_flags: 0, expiry_s });
        }
        let action = Action::Store { mode, value: &value, client_flags: 0, expiry_s };
        let wrote = self.write(key, action, None);
        match wrote.status {
            WriteStatus::TooLarge => self.store(key, Mode::Set),
            WriteStatus::NoSpace | WriteStatus::Later(_) => {
                assert_eq!(self.shared.plan.kept_keys, 0, "there is room for all")
            }
            WriteStatus::NotStored => assert_ne!(mode, Mode::Set),
            outcome => assert_eq!(outcome, WriteStatus::Done),
        }
    }

    /// A set that asks for nothing, as most do: it must have a later version than any before it.
    fn set(&mut self, key: u64, put: Put<'_>) {
        let name = key_name(key);
        let (shared, now) = (self.shared.clone(), self.shared.now());
        let last = shared.engine.last_version(SliceId::of(&name)).raw();
        let id = shared.engine.key(&name);
        match shared.engine.set(self.pin.as_mut().expect("in a batch"), &id, put, now, &mut NoSink)
        {
            WriteStatus::Done => shared.raise_floor(key, last + 1),
            WriteStatus::NoSpace | WriteStatus::Later(_) => {
                assert_eq!(shared.plan.kept_keys, 0, "there is room for all");
            }
            outcome => panic!("a set ended with {outcome:?}"),
        }
    }

    fn count(&mut self, key: u64) {
        let action = Action::Count { delta: 1, down: false, initial: Some((1, 0)), expiry_s: None };
        let wrote = self.write(key, action, None);
        if wrote.status == WriteStatus::Done {
            assert!(wrote.number > 0, "numbers start at one");
            self.shared.counted[key as usize].fetch_add(1, Ordering::SeqCst);
        }
    }

    fn fetch(&mut self, key: u64) {
        let floor = self.shared.floors[key as usize].load(Ordering::SeqCst);
        let ask = FetchOptions { touch: Some(self.expiry_s(key)), ..FetchOptions::default() };
        let (name, mut sink) = (key_name(key), ValueSink::default());
        let (shared, now) = (&self.shared, self.shared.now());
        let id = shared.engine.key(&name);
        let read = shared.engine.fetch(
            self.pin.as_mut().expect("in a batch"),
            &id,
            &ask,
            now,
            &mut NoSink,
            &mut sink,
        );
        shared.check(key, floor, read, &sink);
    }

    fn touch(&mut self, key: u64) {
        let expiry_s = self.expiry_s(key);
        let wrote = self.write(key, Action::Touch { expiry_s }, None);
        let is_missing = wrote.status == WriteStatus::NotFound && self.shared.is_kept(key);
        assert!(!is_missing || self.shared.may_evict(), "key {key} is never removed");
    }

    fn compare_and_set(&mut self, key: u64) {
        if self.shared.holds_number(key) {
            return self.get(key);
        }
        let name = key_name(key);
        let Some(found) = self.peek(&name) else { return };
        let value = record(key, self.number, self.dice.below(16) as usize);
        let action = Action::Store { mode: Mode::Set, value: &value, client_flags: 0, expiry_s: 0 };
        let wrote = self.write(key, action, Some(found.cas));
        if let (WriteStatus::Done, Some(now)) = (wrote.status, wrote.found) {
            // Where a flush came between, the new item has the old version and is dead too.
            let left = self.peek(&name).map(|left| left.cas);
            let raised = now.cas > found.cas || left != Some(found.cas);
            assert!(raised, "key {key}: a change raises the version");
        }
    }

    fn peek(&self, name: &[u8]) -> Option<Found> {
        let pin = self.pin.as_ref().expect("in a batch");
        self.shared.engine.peek(pin, &self.shared.engine.key(name), self.shared.now())
    }

    fn delete(&mut self, key: u64) {
        let name = key_name(key);
        // A writer with this version or an older one had the lock before the delete gets it.
        let last = self.shared.engine.last_version(SliceId::of(&name)).raw();
        let wrote = self.write(key, Action::Delete, None);
        assert!(matches!(wrote.status, WriteStatus::Done | WriteStatus::NotFound), "{wrote:?}");
        self.shared.raise_floor(key, last + 1);
    }

    fn flush(&mut self) {
        let engine = &self.shared.engine;
        let last = |key| engine.last_version(SliceId::of(&key_name(key))).raw();
        let lasts: Vec<u64> = (0..self.shared.plan.keys).map(last).collect();
        engine.flush();
        for (key, last) in lasts.into_iter().enumerate() {
            self.shared.raise_floor(key as u64, last + 1);
        }
    }

    fn resize(&mut self) {
        let Plan { limit_bytes, lowered_bytes, .. } = self.shared.plan;
        let limits = [limit_bytes, lowered_bytes.min(limit_bytes)];
        self.shared.budget.resize(limits[self.dice.below(2) as usize]);
    }

    fn tend(&mut self) {
        let now = self.shared.now();
        self.shared.engine.tend(self.pin.as_mut().expect("in a batch"), now, 8, &mut NoSink);
    }

    /// What must be so once the others are gone.
    fn settle(&mut self) {
        let shared = self.shared.clone();
        self.begin();
        self.check_numbers();
        let scanned = self.scan();
        let mut found = 0;
        for key in 0..shared.plan.keys {
            let name = key_name(key);
            let id = shared.engine.key(&name);
            found += u64::from(
                shared
                    .engine
                    .peek(self.pin.as_ref().expect("in a batch"), &id, shared.now())
                    .is_some(),
            );
            self.get(key);
        }
        assert_eq!(scanned, found, "a walk tells what a read finds");
        let counters = shared.engine.counters();
        assert!(shared.plan.kept_keys == 0 || counters.evicted == 0 || shared.may_evict());
        assert!(counters.items >= found, "{found} found, {counters:?}");
        for key in 0..shared.plan.keys {
            self.delete(key);
            self.end();
            self.begin();
        }
        let counters = shared.engine.counters();
        let used = (counters.items, counters.item_words);
        assert_eq!(used, (0, 0), "all items are deleted: {counters:?}");
        self.end();
    }

    fn check_numbers(&mut self) {
        for key in 0..self.shared.plan.kept_keys {
            let counted = self.shared.counted[key as usize].load(Ordering::SeqCst);
            if counted == 0 || self.shared.may_evict() {
                continue;
            }
            let action = Action::Count { delta: 0, down: false, initial: None, expiry_s: None };
            let wrote = self.write(key, action, None);
            assert_eq!(wrote.number, counted, "key {key}: no increment is lost");
        }
    }

    fn scan(&mut self) -> u64 {
        let shared = self.shared.clone();
        let (mut counted, mut at) = (Counted(0), Cursor::default());
        let pin = self.pin.as_mut().expect("in a batch");
        let (engine, now) = (&shared.engine, shared.now());
        while engine.scan(pin, SliceRange::ALL, &mut at, 3, now, &mut counted) == More::Yes {}
        counted.0
    }
}

/// Counts the items that it receives.
struct Counted(u64);

impl ItemSink for Counted {
    fn take(&mut self, _: &WalkedItem<'_>) -> bool {
        self.0 += 1;
        true
    }
}

/// Runs a crowd to its end and checks every promise.
pub fn run(plan: &Plan) {
    let locals = plan.threads as usize + 1;
    let config = EngineConfig { locals, ..EngineConfig::new(plan.limit_bytes) };
    let budget = MemoryBudget::new(plan.limit_bytes);
    let (engine, mut locals) = Engine::new(config, budget.clone()).expect("enough memory");
    let zeroes = || (0..plan.keys).map(|_| AtomicU64::new(0)).collect();
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        engine,
        budget,
        floors: zeroes(),
        counted: zeroes(),
        now_s: AtomicU32::new(1_000),
    });
    let mut member = |number: u64| Member {
        shared: shared.clone(),
        local: locals.pop(),
        pin: None,
        dice: Rng::new(plan.seed, number),
        number: number as u8,
    };
    let mut host = member(plan.threads);
    host.begin();
    for key in 0..plan.kept_keys {
        host.store(key, Mode::Set);
    }
    host.end();
    let threads: Vec<_> = (0..plan.threads)
        .map(|number| {
            let mut member = member(number);
            thread::spawn(move || member.run())
        })
        .collect();
    for thread in threads {
        let done = thread.join().expect("no promise was broken");
        assert_eq!(done, plan.ops_per_thread);
    }
    host.settle();
}
