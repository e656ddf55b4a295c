//! The engine against a plain map: random operations of every kind, with lifetimes, flushes and
//! constant eviction. Evictions are learnt from the effects, everything else is predicted.

use base::{
    Change, Effect, EffectSink, KeyId, MemoryBudget, Now, Refused, Removal, SliceId, Space, Version,
};
use engine::{
    Action, Engine, EngineConfig, FetchOptions, Mode, Op, Pin, Read, ValueSink, WriteStatus,
};
use measure::rng::Rng;
use std::collections::HashMap;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    value: Vec<u8>,
    client_flags: u32,
    expiry_s: u32,
}

/// Learns of evictions, and checks that versions rise.
#[derive(Default)]
struct Witness {
    gone: Vec<Vec<u8>>,
    /// The key of the operation, and how many were gone when its effect was emitted.
    key: Vec<u8>,
    emitted_at: Option<usize>,
    last: HashMap<u16, Version>,
}

impl EffectSink for Witness {
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
        let last = self.last.entry(key.slice.index() as u16).or_default();
        assert!(version > *last, "versions of a slice rise");
        *last = version;
        if let Change::Remove(Removal::Evicted) = effect.change {
            self.gone.push(effect.key.to_vec());
        } else if effect.key == self.key {
            self.emitted_at = Some(self.gone.len());
        }
        Ok(version)
    }
}

struct Run {
    engine: Engine,
    pin: Pin,
    model: HashMap<Vec<u8>, Entry>,
    witness: Witness,
    dice: Rng,
    now: Now,
    limit_bytes: u64,
    value_bytes_max: u64,
    evicted: u64,
}

impl Run {
    fn new(limit_bytes: u64, value_bytes_max: u64, seed: u64) -> Self {
        let config = EngineConfig { hash_seed: seed, ..EngineConfig::new(limit_bytes) };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(limit_bytes)).expect("enough memory");
        Self {
            engine,
            pin: locals.pop().expect("a local").pin(),
            model: HashMap::new(),
            witness: Witness::default(),
            dice: Rng::new(seed, 0),
            now: Now { mono_ns: 0, expiry_s: 1_000 },
            limit_bytes,
            value_bytes_max,
            evicted: 0,
        }
    }

    fn learn(&mut self) {
        for key in self.witness.gone.drain(..) {
            assert!(self.model.remove(&key).is_some(), "only what is there is evicted");
            self.evicted += 1;
        }
    }

    fn expect(&self, key: &[u8]) -> Option<&Entry> {
        let alive = |entry: &&Entry| entry.expiry_s == 0 || entry.expiry_s > self.now.expiry_s;
        self.model.get(key).filter(alive)
    }

    fn value(&mut self) -> Vec<u8> {
        let len = match self.dice.below(10) {
            0 => self.dice.below(self.value_bytes_max),
            1 => 0,
            _ => self.dice.below(400.min(self.value_bytes_max)),
        };
        let salt = self.dice.below(256) as u8;
        (0..len).map(|at| (at as u8).wrapping_mul(31) ^ salt).collect()
    }

    fn expiry(&mut self) -> u32 {
        match self.dice.below(4) {
            0 => self.now.expiry_s + 1 + self.dice.below(2_000) as u32,
            1 => self.now.expiry_s + 1 + self.dice.below(5) as u32,
            _ => 0,
        }
    }

    fn write(&mut self, key: &[u8], action: Action<'_>) -> engine::WriteResult {
        (self.witness.key, self.witness.emitted_at) = (key.to_vec(), None);
        let op = Op::new(self.engine.key(key), action);
        self.engine.write(&mut self.pin, &op, self.now, &mut self.witness)
    }

    fn step(&mut self, keys: u64) {
        let key = format!("key-{}", self.dice.below(keys)).into_bytes();
        match self.dice.below(100) {
            0..40 => self.get(&key),
            40..70 => self.store(&key),
            70..78 => self.count(&key),
            78..84 => self.touch(&key),
            84..90 => self.delete(&key),
            90..95 => self.fetch(&key),
            95..99 => self.now.expiry_s += self.dice.below(2) as u32,
            _ if self.dice.below(200) == 0 => {
                self.engine.flush();
                self.model.clear();
            }
            _ => {
                self.engine.tend(&mut self.pin, self.now, 32, &mut self.witness);
            }
        }
        self.learn();
    }

    fn get(&mut self, key: &[u8]) {
        let mut sink = ValueSink::default();
        let read = self.engine.get(&self.pin, &self.engine.key(key), self.now, &mut sink);
        self.check(key, read, &sink);
    }

    fn check(&self, key: &[u8], read: Read, sink: &ValueSink) {
        let expected = self.expect(key);
        match (read, expected) {
            (Read::Hit, Some(entry)) => {
                let found = sink.found;
                assert!(sink.bytes == entry.value, "value of {}", key.escape_ascii());
                assert_eq!(found.client_flags, entry.client_flags);
                assert_eq!(found.expiry_s, entry.expiry_s);
                assert_eq!(found.value_bytes, entry.value.len());
            }
            (Read::Miss, None) => {}
            _ => panic!("{}: {read:?}, but present {}", key.escape_ascii(), expected.is_some()),
        }
    }

    fn fetch(&mut self, key: &[u8]) {
        let touch = (self.dice.below(2) == 0).then(|| self.expiry());
        let ask = FetchOptions { touch, ..FetchOptions::default() };
        let id = self.engine.key(key);
        let mut sink = ValueSink::default();
        if let (Some(expiry_s), true) = (touch, self.expect(key).is_some())
            && let Some(entry) = self.model.get_mut(key)
        {
            entry.expiry_s = expiry_s;
        }
        let witness = &mut self.witness;
        let read = self.engine.fetch(&mut self.pin, &id, &ask, self.now, witness, &mut sink);
        if self.witness.gone.iter().any(|gone| gone == key) {
            self.learn();
            return;
        }
        self.check(key, read, &sink);
    }

    fn store(&mut self, key: &[u8]) {
        let mode = match self.dice.below(8) {
            0 => Mode::Add,
            1 => Mode::Replace,
            2 => Mode::Append { vivify: false },
            3 => Mode::Prepend { vivify: true },
            _ => Mode::Set,
        };
        let value = self.value();
        let (client_flags, expiry_s) = (self.dice.below(3) as u32, self.expiry());
        let action = Action::Store { mode, value: &value, client_flags, expiry_s };
        let wrote = self.write(key, action);
        self.learn_before(mode == Mode::Add && wrote.status == WriteStatus::NotStored);
        let old = self.expect(key).cloned();
        let fresh = Entry { value: value.clone(), client_flags, expiry_s };
        let new = match (mode, old) {
            (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => Some(fresh),
            (Mode::Prepend { .. }, None) => Some(fresh),
            (Mode::Append { .. }, Some(old)) => {
                Some(Entry { value: [old.value.clone(), value].concat(), ..old })
            }
            (Mode::Prepend { .. }, Some(old)) => {
                Some(Entry { value: [value, old.value.clone()].concat(), ..old })
            }
            _ => None,
        };
        match (wrote.status, new) {
            (WriteStatus::Done, Some(new)) => {
                self.model.insert(key.to_vec(), new);
            }
            (WriteStatus::NotStored, None) => {}
            (WriteStatus::TooLarge, Some(new)) => {
                assert!(new.value.len() > self.engine.value_bytes_max());
            }
            (WriteStatus::NoSpace, Some(new)) => {
                assert!(
                    new.value.len() as u64 > self.limit_bytes / 4,
                    "no room for {} bytes, {:?}",
                    new.value.len(),
                    self.engine.usage()
                );
            }
            (outcome, new) => panic!("{mode:?}: {outcome:?}, but stored {}", new.is_some()),
        }
    }

    /// Learns what room was made before the operation, so that what was there counts only if it
    /// was not evicted. What it paid for comes after its effect or, where it had none, after it had
    /// `found` the item; this is learnt at the end of the step.
    fn learn_before(&mut self, found: bool) {
        let gone = self.witness.gone.len();
        let before = self.witness.emitted_at.unwrap_or(if found { 0 } else { gone });
        let after = self.witness.gone.split_off(before);
        self.learn();
        self.witness.gone = after;
    }

    fn count(&mut self, key: &[u8]) {
        let (delta, down) = (self.dice.below(1000), self.dice.below(2) == 0);
        let initial = (self.dice.below(2) == 0).then_some((7, 0));
        let wrote = self.write(key, Action::Count { delta, down, initial, expiry_s: None });
        self.learn_before(wrote.status == WriteStatus::NotNumber);
        let old = self.expect(key).cloned();
        match (wrote.status, old) {
            (WriteStatus::Done, None) => {
                assert_eq!(wrote.number, 7);
                let entry = Entry { value: b"7".to_vec(), client_flags: 0, expiry_s: 0 };
                self.model.insert(key.to_vec(), entry);
            }
            (WriteStatus::Done, Some(mut entry)) => {
                let text = String::from_utf8(entry.value.clone()).expect("digits");
                let before: u64 = text.trim_end().parse().expect("a number");
                let after =
                    if down { before.saturating_sub(delta) } else { before.wrapping_add(delta) };
                assert_eq!(wrote.number, after);
                entry.value = format!("{after:<width$}", width = entry.value.len()).into_bytes();
                self.model.insert(key.to_vec(), entry);
            }
            (WriteStatus::NotFound, None) => assert_eq!(initial, None),
            (WriteStatus::NotNumber, Some(entry)) => {
                assert!(entry.value.is_empty() || !entry.value.iter().all(u8::is_ascii_digit));
            }
            (outcome, old) => panic!("count: {outcome:?}, but present {}", old.is_some()),
        }
    }

    fn touch(&mut self, key: &[u8]) {
        let expiry_s = self.expiry();
        let wrote = self.write(key, Action::Touch { expiry_s });
        self.learn_before(false);
        let present = self.expect(key).is_some();
        assert_eq!(wrote.status, if present { WriteStatus::Done } else { WriteStatus::NotFound });
        if present && let Some(entry) = self.model.get_mut(key) {
            entry.expiry_s = expiry_s;
        }
    }

    fn delete(&mut self, key: &[u8]) {
        let present = self.expect(key).is_some();
        let wrote = self.write(key, Action::Delete);
        assert_eq!(wrote.status, if present { WriteStatus::Done } else { WriteStatus::NotFound });
        self.model.remove(key);
    }

    /// At the end, every live entry is there, and the counters agree.
    fn finish(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        for key in &keys {
            self.get(key);
        }
    }
}

fn steps() -> u64 {
    std::env::var("MODEL_STEPS").ok().and_then(|text| text.parse().ok()).unwrap_or(150_000)
}

fn run(limit_bytes: u64, value_bytes_max: u64, keys: u64, seed: u64) {
    let mut run = Run::new(limit_bytes, value_bytes_max, seed);
    for step in 0..steps() {
        if step % 16 == 0 {
            run.pin.renew();
        }
        run.step(keys);
    }
    run.finish();
    println!("limit {limit_bytes}: {} evictions, {:?}", run.evicted, run.engine.counters());
}

#[test]
fn tiny_pools_that_evict_all_the_time() {
    for seed in 1..=4 {
        run(engine::LIMIT_BYTES_MIN, 1_000, 2_000, seed);
    }
}

#[test]
fn pools_with_values_in_chunks() {
    for seed in 10..=12 {
        run(2 << 20, 60_000, 500, seed);
    }
}

#[test]
fn pools_with_room_for_everything() {
    run(64 << 20, 2_000, 5_000, 20);
}

#[test]
fn pools_with_lifetime_classes() {
    run(8 << 20, 3_000, 20_000, 30);
}
