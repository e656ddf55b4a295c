//! A copy kept by effects holds what the original holds: every item, attribute and version,
//! whatever was stored, counted, touched, deleted, evicted and expired. A copy that begins late
//! catches up by walking every slice.
#![cfg(not(any(loom, shuttle)))]

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, NoSink, Now, Refused, Removal, SliceId,
    SliceRange, Space, Value, Version,
};
use engine::{
    Action, Applied, Cursor, Engine, EngineConfig, FetchOptions, ItemSink, Local, Mode, More, Op,
    Pin, ValueSink, WalkedItem,
};
use measure::rng::Rng;
use std::collections::{BTreeMap, BTreeSet};

const KEYS: u64 = 900;

/// An effect that owns its bytes: one entry of a log.
#[derive(Clone, Debug)]
struct Entry {
    slice: SliceId,
    key: Vec<u8>,
    change: Owned,
    version: Version,
}

#[derive(Clone, Debug)]
enum Owned {
    Put(Vec<u8>, Facts),
    Touch(u32, Option<(Vec<u8>, Facts)>),
    Remove(Removal),
}

fn owned(value: Value<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.append_to(&mut bytes);
    assert_eq!(bytes.len(), value.bytes());
    bytes
}

impl Entry {
    fn of(slice: SliceId, key: &[u8], change: &Change<'_>, version: Version) -> Self {
        let change = match *change {
            Change::Put(value, facts) => Owned::Put(owned(value), facts),
            Change::Touch(expiry_s, whole) => {
                Owned::Touch(expiry_s, whole.map(|(value, facts)| (owned(value), facts)))
            }
            Change::Remove(removal) => Owned::Remove(removal),
        };
        Self { slice, key: key.to_vec(), change, version }
    }

    fn change(&self) -> Change<'_> {
        // In two parts, as values may arrive.
        let parts = |value: &'_ Vec<u8>| value.len() / 3;
        match &self.change {
            Owned::Put(value, facts) => {
                let (first, rest) = value.split_at(parts(value));
                Change::Put(Value::Parts([first, rest]), *facts)
            }
            Owned::Touch(expiry_s, whole) => {
                let whole = whole.as_ref();
                let whole = whole.map(|(value, facts)| (Value::Parts([value, &[]]), *facts));
                Change::Touch(*expiry_s, whole)
            }
            Owned::Remove(removal) => Change::Remove(*removal),
        }
    }

    fn is_evicted(&self) -> bool {
        matches!(self.change, Owned::Remove(Removal::Evicted))
    }
}

/// Records effects in the order of the log.
#[derive(Default)]
struct Log(Vec<Entry>);

impl EffectSink for Log {
    const ON: bool = true;

    fn reserve(&mut self, _: SliceId, _: Space<'_>) -> Result<(), Refused> {
        Ok(())
    }

    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let version = stamp()?;
        self.0.push(Entry::of(key.slice, effect.key, &effect.change, version));
        Ok(version)
    }
}

impl ItemSink for Log {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let change = Change::Put(item.value, item.facts);
        self.0.push(Entry::of(item.id.slice, item.key, &change, item.version));
        true
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
                let effect = Effect { key: &entry.key, change: entry.change() };
                let applied =
                    engine.apply(pin, entry.slice, &effect, entry.version, now, &mut NoSink);
                engine.tend(pin, now, 16, &mut NoSink);
                applied
            });
            assert_ne!(applied, Applied::NoSpace, "{:?}", self.engine.usage());
        }
    }

    /// Every slice as a log, `items` at a time.
    fn walk(&mut self, items: u32, now: Now) -> Vec<Entry> {
        let mut log = Log::default();
        let mut at = Cursor::default();
        while self
            .batch(|engine, pin| engine.scan(pin, SliceRange::ALL, &mut at, items, now, &mut log))
            == More::Yes
        {}
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
        evicted += log.0.iter().filter(|entry| entry.is_evicted()).count();
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
    let mut at = Cursor::default();
    let slices = SliceRange::of(slice);
    while cell.batch(|engine, pin| engine.forget(pin, slices, &mut at)) == More::Yes {}
    expected.retain(|key, _| SliceId::of(&name(*key)) != slice);
    assert_eq!(cell.holds(now), expected);
}

/// A flush of a primary that was deposed reached nobody: what it learns of the next one is older.
#[test]
fn a_forgotten_slice_takes_items_that_are_older_than_its_barrier_was() {
    let mut cell = Cell::new(4 << 20, true, 1);
    let (mut dice, now) = (Rng::new(3, 0), Now { mono_ns: 0, expiry_s: 500 });
    for _ in 0..3_000 {
        change(&mut cell, &mut dice, now, &mut Log::default());
    }
    let before = cell.holds(now);
    let slice = SliceId::of(&name(*before.keys().next().expect("an item")));
    let slices = SliceRange::of(slice);
    let walked = cell.walk(5, now);
    let of_slice: Vec<_> = walked.into_iter().filter(|entry| entry.slice == slice).collect();
    cell.batch(|engine, _| engine.barrier(slice, engine.last_version(slice)));
    let mut at = Cursor::default();
    while cell.batch(|engine, pin| engine.forget(pin, slices, &mut at)) == More::Yes {}
    cell.apply(&of_slice, now);
    assert_eq!(cell.holds(now), before);
}
