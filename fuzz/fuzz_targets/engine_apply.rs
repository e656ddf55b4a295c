//! Random effects, slices, versions and marks into `Engine::apply`, mixed with reads and writes, on
//! an engine that evicts and on one that does not: no panic, no item that nobody stored, and what
//! is malformed changes nothing.
#![no_main]

use base::{
    Change, Effect, Facts, MemoryBudget, NoSink, Now, Removal, SliceId, SliceRange, Value, Version,
};
use engine::{
    Action, Applied, Cursor, Engine, EngineConfig, FetchOptions, ItemSink, KEY_BYTES_MAX, Local,
    Mode, More, Op, Pin, Read, ValueSink, WalkedItem,
};
use libfuzzer_sys::fuzz_target;

const LIMIT_BYTES: u64 = 256 << 10;
const VALUE_BYTES_MAX: usize = 30_000;
/// The most steps of one input.
const STEPS_MAX: usize = 400;

/// Effects of one input, at least: what it lacks follows from its bytes.
const EFFECTS_MIN: usize = 10;

/// The bytes of an input, and after them bytes that follow from these.
struct Input<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        const FACTOR: u64 = 0x5851_F42D_4C95_7F2D;
        let (first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.state = (self.state ^ u64::from(*first)).wrapping_mul(FACTOR).wrapping_add(1);
        let byte = if self.bytes.is_empty() { (self.state >> 56) as u8 } else { *first };
        self.bytes = rest;
        byte
    }

    fn number(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Mostly a small number.
    fn expiry_s(&mut self) -> u32 {
        match self.byte() {
            byte @ 0..200 => u32::from(byte % 32),
            _ => self.number() as u32,
        }
    }

    fn facts(&mut self) -> Facts {
        let marks = self.byte();
        Facts {
            client_flags: u32::from(self.byte()),
            expiry_s: if marks & 1 != 0 { self.expiry_s() } else { 0 },
            token: (marks & 2 != 0).then(|| self.number()),
            stale: marks & 4 != 0,
            token_sent: marks & 8 != 0,
            vivified: marks & 16 != 0,
        }
    }

    /// A key: one of a few, or of a length that is not legal.
    fn key(&mut self) -> Vec<u8> {
        match self.byte() {
            byte @ 0..250 => vec![b'k', byte % 32],
            250 => Vec::new(),
            251 => vec![b'k'; KEY_BYTES_MAX],
            byte => vec![byte; KEY_BYTES_MAX + 1 + usize::from(byte)],
        }
    }

    /// A value that proves whose it is: every byte is that of its key.
    fn value(&mut self, key: &[u8]) -> Vec<u8> {
        let bytes = match self.byte() {
            byte @ 0..244 => usize::from(byte),
            byte @ 244..250 => usize::from(byte - 243) * 4_500,
            byte => VALUE_BYTES_MAX + usize::from(byte) - 252,
        };
        vec![mark(key); bytes]
    }
}

fn mark(key: &[u8]) -> u8 {
    key.iter().fold(7, |mark: u8, byte| mark.wrapping_mul(31) ^ byte)
}

/// Every item of an engine, as a walk shows it.
#[derive(Default, PartialEq, Debug)]
struct Items(Vec<(Vec<u8>, Vec<u8>, Facts, Version)>);

impl ItemSink for Items {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let mut value = Vec::new();
        item.value.append_to(&mut value);
        assert_eq!(value.len(), item.value.bytes());
        let wrong = value.iter().any(|byte| *byte != mark(item.key));
        assert!(!wrong, "an item of another key");
        assert_eq!(SliceId::of(item.key), item.id.slice);
        self.0.push((item.key.to_vec(), value, item.facts, item.version));
        true
    }
}

struct Cell {
    engine: Engine,
    local: Option<Local>,
}

impl Cell {
    fn new(evict: bool) -> Self {
        let value_bytes_max = VALUE_BYTES_MAX;
        let config =
            EngineConfig { evict, value_bytes_max, locals: 1, ..EngineConfig::new(LIMIT_BYTES) };
        let budget = MemoryBudget::new(LIMIT_BYTES);
        let (engine, mut locals) = Engine::new(config, budget).expect("enough memory");
        Self { engine, local: locals.pop() }
    }

    fn batch<T>(&mut self, work: impl FnOnce(&Engine, &mut Pin) -> T) -> T {
        let mut pin = self.local.take().expect("a local").pin();
        let done = work(&self.engine, &mut pin);
        self.local = Some(pin.unpin());
        done
    }

    fn items(&mut self, now: Now) -> Items {
        let (mut items, mut at) = (Items::default(), Cursor::default());
        self.batch(|engine, pin| {
            while engine.scan(pin, SliceRange::ALL, &mut at, 64, now, &mut items) == More::Yes {}
        });
        items
    }

    fn apply(&mut self, input: &mut Input<'_>, now: Now) {
        let key = input.key();
        let value = input.value(&key);
        let (first, rest) = value.split_at(value.len() / 3);
        let whole = (Value::Parts([first, rest]), input.facts());
        let change = match input.byte() % 8 {
            0 => Change::Remove(Removal::Evicted),
            1 => Change::Remove(Removal::Deleted),
            2 => Change::Touch(input.expiry_s(), None),
            3 => Change::Touch(input.expiry_s(), Some(whole)),
            _ => Change::Put(whole.0, whole.1),
        };
        let is_right = input.byte() < 240;
        let of_key = SliceId::of(&key);
        let other = SliceId::new(usize::from(input.byte()) << 6).expect("a slice");
        let slice = if is_right { of_key } else { other };
        let last = self.engine.last_version(slice).raw();
        let version = Version::from_raw(match input.byte() {
            0..128 => last + 1,
            128..200 => last.saturating_sub(u64::from(input.byte() % 4)),
            // Half of all numbers: later ones would leave no more to give.
            _ => input.number() >> 1,
        });
        let is_legal = (1..=KEY_BYTES_MAX).contains(&key.len())
            && change.value_bytes() <= VALUE_BYTES_MAX
            && version != Version::ZERO
            && slice == of_key;
        let before = (!is_legal).then(|| self.items(now));
        let malformed = self.engine.counters().malformed;
        let effect = Effect { key: &key, change };
        let applied = self
            .batch(|engine, pin| engine.apply(pin, slice, &effect, version, now, &mut NoSink));
        assert_eq!(applied == Applied::Malformed, !is_legal, "{effect:?} ended as {applied:?}");
        if let Some(before) = before {
            assert_eq!(before, self.items(now), "what is malformed changes nothing");
            assert_eq!(self.engine.last_version(slice).raw(), last);
            assert_eq!(self.engine.counters().malformed, malformed + 1);
        } else if applied == Applied::Done {
            assert!(self.engine.last_version(slice) >= version);
            self.check_applied(&effect, version, now);
        }
    }

    /// An effect that was applied is what a walk of the slice shows.
    fn check_applied(&mut self, effect: &Effect<'_>, version: Version, now: Now) {
        let (mut items, mut at) = (Items::default(), Cursor::default());
        let slices = SliceRange::of(SliceId::of(effect.key));
        self.batch(
            |engine, pin| {
                while engine.scan(pin, slices, &mut at, 64, now, &mut items) == More::Yes {}
            },
        );
        let item = items.0.into_iter().find(|item| item.0 == effect.key);
        match (effect.change, item) {
            (Change::Remove(_), item) => assert!(item.is_none()),
            (Change::Put(value, facts) | Change::Touch(_, Some((value, facts))), Some(item)) => {
                let mut bytes = Vec::new();
                value.append_to(&mut bytes);
                assert_eq!((item.1, item.2, item.3), (bytes, facts, version));
            }
            (Change::Touch(expiry_s, None), Some(item)) => {
                assert_eq!((item.2.expiry_s, item.3), (expiry_s, version));
            }
            // It has expired, or a barrier lies above it, or there was nothing to touch.
            (_, None) => {}
        }
    }

    fn use_it(&mut self, input: &mut Input<'_>, now: Now) {
        let key = vec![b'k', input.byte() % 32];
        let value = input.value(&key);
        let action = match input.byte() % 8 {
            0 => Action::Delete,
            1 => Action::Touch { expiry_s: input.expiry_s() },
            2 => Action::Invalidate { expiry_s: None },
            3 => Action::Clear { client_flags: 0, expiry_s: None, stale: true },
            kind => {
                let mode = match kind {
                    4 => Mode::Append { vivify: true },
                    5 => Mode::Prepend { vivify: false },
                    _ => Mode::Set,
                };
                let expiry_s = input.expiry_s();
                Action::Store { mode, value: &value, client_flags: 3, expiry_s }
            }
        };
        let options = FetchOptions { vivify: Some(0), ..FetchOptions::default() };
        self.batch(|engine, pin| {
            engine.write(pin, &Op::new(engine.key(&key), action), now, &mut NoSink);
            let mut out = ValueSink::default();
            let read = engine.fetch(pin, &engine.key(&key), &options, now, &mut NoSink, &mut out);
            if read == Read::Hit {
                assert!(out.bytes.iter().all(|byte| *byte == mark(&key)), "another value");
            }
            engine.tend(pin, now, 16, &mut NoSink);
        });
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input { bytes, state: 1 };
    let mut effects = 0;
    let mut cell = Cell::new(input.byte() & 1 == 0);
    let mut now = Now { mono_ns: 0, expiry_s: 1 };
    for _ in 0..STEPS_MAX {
        if input.bytes.is_empty() && effects >= EFFECTS_MIN {
            break;
        }
        match input.byte() {
            0..150 => {
                cell.apply(&mut input, now);
                effects += 1;
            }
            150..240 => cell.use_it(&mut input, now),
            240..248 => now.expiry_s += u32::from(input.byte() % 8),
            248..250 => cell.engine.flush(),
            250..252 => {
                let slice = SliceId::of(&input.key());
                let last = cell.engine.last_version(slice).raw();
                cell.engine.barrier(slice, Version::from_raw(last.saturating_sub(1)));
            }
            _ => _ = cell.items(now),
        }
    }
    cell.items(now);
    let mut at = Cursor::default();
    cell.batch(|engine, pin| while engine.forget(pin, SliceRange::ALL, &mut at) == More::Yes {});
    let counters = cell.engine.counters();
    assert_eq!((counters.items, counters.item_words), (0, 0), "{counters:?}");
});
