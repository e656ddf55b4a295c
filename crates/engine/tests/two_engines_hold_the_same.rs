//! A copy kept by effects holds what the original holds: every item, attribute and version,
//! whatever was stored, counted, touched, deleted, evicted and expired. A copy that begins late
//! catches up by walking every slice.
#![cfg(not(any(loom, shuttle)))]

use base::{KeyId, MemoryBudget, Now, SliceId, Version};
use engine::{
    Action, Applied, Change, Cursor, Effect, EffectSink, Engine, EngineConfig, FetchOptions, Local,
    Mode, More, NoSink, Op, Pin, Removal, ValueSink,
};
use measure::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

const KEYS: u64 = 900;

/// An effect that owns its bytes: one entry of a log.
#[derive(Clone, Debug)]
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    change: Change<'static>,
    version: Version,
}

impl Entry {
    fn effect(&self) -> Effect<'_> {
        let change = match self.change {
            Change::Put { client_flags, expiry_s, client_cas, stale, .. } => {
                Change::Put { value: &self.value, client_flags, expiry_s, client_cas, stale }
            }
            other => other,
        };
        Effect { key: &self.key, change, version: self.version }
    }
}

/// Records effects in the order of the log.
#[derive(Default)]
struct Log(Vec<Entry>);

impl EffectSink for Log {
    const ON: bool = true;

    fn commit(&mut self, _key: KeyId, effect: &Effect<'_>) -> Version {
        let (value, change) = match effect.change {
            Change::Put { value, client_flags, expiry_s, client_cas, stale } => {
                let change = Change::Put { value: &[], client_flags, expiry_s, client_cas, stale };
                (value.to_vec(), change)
            }
            Change::Touch { expiry_s } => (Vec::new(), Change::Touch { expiry_s }),
            Change::Remove(gone) => (Vec::new(), Change::Remove(gone)),
        };
        self.0.push(Entry { key: effect.key.to_vec(), value, change, version: effect.version });
        effect.version
    }
}

/// What a client can know of an item.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    value: Vec<u8>,
    client_flags: u32,
    expiry_s: u32,
    cas: u64,
    stale: bool,
}

struct Cell {
    engine: Engine,
    local: Local,
}

impl Cell {
    fn new(limit_bytes: u64, evict: bool, hash_seed: u64) -> Self {
        let config = EngineConfig { evict, hash_seed, ..EngineConfig::new(limit_bytes) };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(limit_bytes)).expect("enough memory");
        let local = locals.pop().expect("a local");
        Self { engine, local }
    }

    fn batch<T>(&mut self, work: impl FnOnce(&Engine, &mut Pin) -> T) -> T {
        self.local.batch(|pin| work(&self.engine, pin))
    }

    fn apply(&mut self, log: &[Entry], now: Now) {
        for entry in log {
            let applied = self.batch(|engine, pin| {
                let applied = engine.apply(pin, &entry.effect(), now);
                engine.tend(pin, now, 16, &mut NoSink);
                applied
            });
            assert_ne!(applied, Applied::NoSpace, "{:?}", self.engine.usage());
        }
    }

    /// Every slice as a log, `items` at a time.
    fn walk(&mut self, items: u32, now: Now) -> Vec<Entry> {
        let mut log = Log::default();
        for slice in SliceId::all() {
            let mut at = Cursor::default();
            while self.batch(|engine, pin| engine.scan(pin, slice, &mut at, items, now, &mut log))
                == More::Yes
            {}
        }
        log.0
    }

    fn holds(&mut self, now: Now) -> BTreeMap<u64, Held> {
        let mut held = |key: u64| {
            self.batch(|engine, pin| {
                let (name, mut sink) = (name(key), ValueSink::default());
                let read = engine.get(pin, &engine.key(&name), now, &mut sink);
                let found = sink.found;
                (read == engine::Read::Hit).then_some(Held {
                    value: sink.bytes,
                    client_flags: found.client_flags,
                    expiry_s: found.expiry_s,
                    cas: found.cas,
                    stale: found.stale,
                })
            })
        };
        (0..KEYS).filter_map(|key| Some((key, held(key)?))).collect()
    }
}

fn name(key: u64) -> Vec<u8> {
    format!("item:{key}").into_bytes()
}

/// One random change of the original.
fn change(cell: &mut Cell, dice: &mut Rng, now: Now, log: &mut Log) {
    let name = name(dice.below(KEYS));
    let value_bytes = if dice.below(40) == 0 { dice.below(40_000) } else { dice.below(700) };
    let value: Vec<u8> = (0..value_bytes).map(|at| (at * 7 + value_bytes) as u8).collect();
    let near = now.expiry_s + 1 + dice.below(20) as u32;
    let expiry_s = [0, near, near + 10_000][dice.below(3) as usize];
    let mode = match dice.below(6) {
        0 => Mode::Append { vivify: false },
        1 => Mode::Prepend { vivify: true },
        2 => Mode::Add,
        _ => Mode::Set,
    };
    let client_flags = dice.below(3) as u32;
    let action = match dice.below(10) {
        0..5 => Action::Store { mode, value: &value, client_flags, expiry_s },
        5 => Action::Count { delta: 3, down: false, initial: Some((9, 0)), expiry_s: None },
        6 => Action::Touch { expiry_s },
        7 => Action::Delete,
        8 => Action::Invalidate { expiry_s: Some(near) },
        _ => Action::Clear { client_flags, expiry_s: Some(expiry_s), stale: client_flags == 2 },
    };
    let cas = (dice.below(10) == 0).then_some(77 + value_bytes);
    cell.batch(|engine, pin| {
        let op = Op { cas, ..Op::new(engine.key(&name), action) };
        engine.write(pin, &op, now, log);
        if value_bytes % 16 == 0 {
            let ask = FetchOptions { touch: Some(expiry_s), ..FetchOptions::default() };
            let _ = engine.fetch(pin, &op.key, &ask, now, log, &mut ValueSink::default());
        }
        engine.tend(pin, now, 8, log);
    });
}

#[test]
fn by_effects_and_by_catching_up() {
    let mut original = Cell::new(768 << 10, true, 1);
    // A copy has another hash, other segments, and never evicts.
    let mut copy = Cell::new(4 << 20, false, 2);
    let (mut dice, mut now) = (Rng::new(5, 0), Now { mono_ns: 0, expiry_s: 500 });
    let mut evicted = 0;
    for round in 0..60 {
        let mut log = Log::default();
        for _ in 0..500 {
            change(&mut original, &mut dice, now, &mut log);
        }
        let is_evicted = |entry: &&Entry| entry.change == Change::Remove(Removal::Evicted);
        evicted += log.0.iter().filter(is_evicted).count();
        copy.apply(&log.0, now);
        assert_eq!(original.holds(now), copy.holds(now), "round {round}");
        now.expiry_s += 1;
    }
    assert!(evicted > 1_000, "{evicted} evictions are too few to prove anything");

    let mut late = Cell::new(4 << 20, false, 3);
    let walked = original.walk(7, now);
    late.apply(&walked, now);
    assert_eq!(original.holds(now), late.holds(now));
}

#[test]
fn a_stale_copy_catches_up_and_drops_what_was_not_named() {
    let mut original = Cell::new(2 << 20, true, 1);
    let mut copy = Cell::new(8 << 20, false, 2);
    let (mut dice, now) = (Rng::new(9, 0), Now { mono_ns: 0, expiry_s: 500 });
    let mut log = Log::default();
    for _ in 0..3_000 {
        change(&mut original, &mut dice, now, &mut log);
    }
    copy.apply(&log.0, now);
    // From here on the copy hears nothing: not of changes, nor of deletions, nor of touches.
    for _ in 0..3_000 {
        change(&mut original, &mut dice, now, &mut Log::default());
    }
    let walked = original.walk(5, now);
    let named: BTreeSet<&[u8]> = walked.iter().map(|entry| entry.key.as_slice()).collect();
    let had = copy.walk(5, now);
    copy.apply(&walked, now);
    let unnamed = had.iter().filter(|entry| !named.contains(entry.key.as_slice()));
    for entry in unnamed {
        copy.batch(|engine, pin| {
            let op = Op::new(engine.key(&entry.key), Action::Delete);
            engine.write(pin, &op, now, &mut NoSink);
        });
    }
    assert_eq!(original.holds(now), copy.holds(now));
}

#[test]
fn a_forgotten_slice_is_empty_and_others_stay() {
    let mut cell = Cell::new(4 << 20, true, 1);
    let (mut dice, now) = (Rng::new(3, 0), Now { mono_ns: 0, expiry_s: 500 });
    for _ in 0..3_000 {
        change(&mut cell, &mut dice, now, &mut Log::default());
    }
    let mut expected = cell.holds(now);
    let slice = SliceId::of(&name(*expected.keys().next().expect("an item")));
    cell.batch(|engine, pin| engine.forget(pin, slice));
    expected.retain(|key, _| SliceId::of(&name(*key)) != slice);
    assert_eq!(cell.holds(now), expected);
}
