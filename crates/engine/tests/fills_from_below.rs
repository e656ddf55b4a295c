//! An item that was loaded from below the memory is installed as it was stored: no effect, no
//! number, its own version. What is in memory is newer and stays; what a barrier or its expiry has
//! ended, or the caller does not admit, is not installed. Space is made for it as for a write.
#![cfg(not(any(loom, shuttle)))]

mod below;
mod distinct;

use base::{
    Change, Effect, Facts, MemoryBudget, NoSink, Now, Refused, Removal, SliceId, SliceRange, Value,
    Version,
};
use below::{Below, Event, Held, held};
use distinct::value;
use engine::{
    Action, Applied, Engine, EngineConfig, Filled, KeptForCopies, Loaded, Mode, Obstacle, Op, Pin,
    Put, Read, Role, ValueSink, WriteStatus,
};
use std::collections::HashSet;

const LIMIT_BYTES: u64 = 8 << 20;
const HALF_BYTES: usize = LIMIT_BYTES as usize / 2 - 64;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const KEY: &[u8] = b"key";
/// In no chunk, in one piece, in a few chunks, in many, and the longest.
const LENGTHS: [usize; 8] = [0, 1, 700, 8_192, 8_193, 20_000, 300_000, HALF_BYTES];
/// A version higher than all that an engine of these tests has given.
const LOADED: u64 = 1 << 40;

struct Cell {
    engine: Engine,
    pin: Pin,
    sink: Below,
    /// Times that a fill was to be admitted.
    asked: usize,
}

impl Cell {
    fn new(evict: bool) -> Self {
        let plan = EngineConfig::new(LIMIT_BYTES);
        let config = EngineConfig { locals: 1, evict, value_bytes_max: HALF_BYTES, ..plan };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(LIMIT_BYTES)).expect("enough memory");
        Self { engine, pin: locals.remove(0).pin(), sink: Below::new(true), asked: 0 }
    }

    fn fill(&mut self, item: &Held, admit: bool) -> Filled {
        let (first, rest) = item.value.split_at(item.value.len() / 3);
        let Held { facts, version, .. } = *item;
        let key = self.engine.key(&item.key);
        let loaded = Loaded { key, value: [first, rest], facts, version };
        let asked = &mut self.asked;
        let filled = self.engine.fill(&mut self.pin, &loaded, NOW, &mut self.sink, || {
            *asked += 1;
            admit
        });
        self.pin.renew();
        filled
    }

    fn set(&mut self, key: &[u8], value: &[u8], (expiry_s, now): (u32, Now)) -> WriteStatus {
        let put = Put { value, client_flags: 0, expiry_s };
        self.engine.set(&mut self.pin, &self.engine.key(key), put, now, &mut NoSink)
    }

    fn held(&mut self) -> Vec<Held> {
        held(&self.engine, &mut self.pin, NOW)
    }

    fn delete(&mut self, key: &[u8]) -> WriteStatus {
        let op = Op::new(self.engine.key(key), Action::Delete);
        self.engine.write(&mut self.pin, &op, NOW, &mut NoSink).status
    }

    /// Whether nothing is left, and not a word is counted as used.
    fn is_empty(&mut self) -> bool {
        let counters = self.engine.counters();
        counters.items == 0 && counters.item_words == 0 && self.held().is_empty()
    }
}

fn item(key: &[u8], bytes: usize) -> Held {
    let version = Version::from_raw(LOADED);
    Held { key: key.to_vec(), value: value(1, bytes), facts: Facts::default(), version }
}

#[test]
fn it_is_what_it_was_when_it_was_stored() {
    let plain = Facts::default();
    let facts = [
        plain,
        Facts { client_flags: 3, expiry_s: 1_001, ..plain },
        Facts { expiry_s: 900_000, token: Some(77), ..plain },
        Facts { stale: true, ..plain },
        Facts { client_flags: 9, stale: true, token_sent: true, token: Some(0), ..plain },
    ];
    for (bytes, facts) in LENGTHS.iter().flat_map(|bytes| facts.map(|facts| (*bytes, facts))) {
        let mut cell = Cell::new(true);
        let version = Version::new(7, LOADED);
        let item = Held { facts, version, ..item(KEY, bytes) };
        assert_eq!(cell.fill(&item, true), Filled::Done, "{bytes} {facts:?}");
        assert_eq!((cell.asked, &cell.sink.events[..]), (1, &[][..]), "no effect");
        assert_eq!(cell.held(), std::slice::from_ref(&item), "{bytes} {facts:?}");
        let (key, mut out) = (cell.engine.key(KEY), ValueSink::default());
        assert_eq!(cell.engine.get(&cell.pin, &key, NOW, &mut out), Read::Hit);
        assert!(out.bytes == item.value, "{bytes} {facts:?}");
        let found = out.found;
        assert_eq!(found.cas, facts.token.unwrap_or(LOADED));
        assert_eq!((found.client_flags, found.expiry_s), (facts.client_flags, facts.expiry_s));
        assert_eq!((found.stale, found.token_sent), (facts.stale, facts.token_sent));
        assert!(!found.fetched, "a fill is no use of it");
        assert_eq!(cell.engine.last_version(key.id.slice), version, "no number is drawn");
        let compare = Some(found.cas);
        let action = Action::Store { mode: Mode::Set, value: b"n", client_flags: 0, expiry_s: 0 };
        let op = Op { compare, ..Op::new(cell.engine.key(KEY), action) };
        let wrote = cell.engine.write(&mut cell.pin, &op, NOW, &mut cell.sink);
        assert_eq!(wrote.status, WriteStatus::Done);
        assert_eq!(cell.held()[0].version, Version::new(7, LOADED + 1), "later ones exceed it");
        assert_eq!(cell.delete(KEY), WriteStatus::Done);
        assert!(cell.is_empty(), "{bytes} {facts:?}");
    }
}

#[test]
fn what_is_too_long_is_refused() {
    let mut cell = Cell::new(true);
    assert_eq!(cell.fill(&item(KEY, HALF_BYTES + 1), true), Filled::TooLarge);
    assert!(cell.asked == 0 && cell.is_empty());
}

#[test]
fn what_is_not_admitted_leaves_nothing() {
    for bytes in LENGTHS {
        let mut cell = Cell::new(true);
        assert_eq!(cell.fill(&item(KEY, bytes), false), Filled::Refused, "{bytes}");
        assert_eq!(cell.asked, 1);
        assert!(cell.is_empty() && cell.sink.events.is_empty(), "{bytes}");
    }
}

#[test]
fn what_is_in_memory_stays() {
    for bytes in LENGTHS {
        // The present item has a lower version, the same, or a higher one.
        for before in [None, Some(LOADED - 1), Some(LOADED)] {
            let mut cell = Cell::new(true);
            let slice = SliceId::of(KEY);
            before.inspect(|before| cell.engine.advance(slice, Version::from_raw(*before)));
            assert_eq!(cell.set(KEY, b"present", (0, NOW)), WriteStatus::Done);
            let (held, words) = (cell.held(), cell.engine.counters().item_words);
            assert_eq!(cell.fill(&item(KEY, bytes), true), Filled::Stale);
            assert_eq!((cell.asked, &cell.sink.events[..]), (0, &[][..]));
            assert_eq!((cell.held(), cell.engine.counters().item_words), (held, words));
        }
    }
}

#[test]
fn what_has_expired_or_was_flushed_is_refused() {
    let slice = SliceId::of(KEY);
    for bytes in LENGTHS {
        let mut cell = Cell::new(true);
        for expiry_s in [1, NOW.expiry_s] {
            let facts = Facts { expiry_s, ..Facts::default() };
            assert_eq!(cell.fill(&Held { facts, ..item(KEY, bytes) }, true), Filled::Refused);
        }
        let zero = Held { version: Version::ZERO, ..item(KEY, bytes) };
        assert_eq!(cell.fill(&zero, true), Filled::Refused);
        for barrier in [LOADED, LOADED + 1] {
            cell.engine.barrier(slice, Version::from_raw(barrier));
            assert_eq!(cell.fill(&item(KEY, bytes), true), Filled::Refused);
        }
        assert!(cell.asked == 0 && cell.is_empty());
        let above = Held { version: Version::from_raw(LOADED + 2), ..item(KEY, bytes) };
        assert_eq!(cell.fill(&above, true), Filled::Done);
    }
}

/// A flush after a fill ends it like any other item.
#[test]
fn a_flush_ends_it() {
    let mut cell = Cell::new(true);
    assert_eq!(cell.fill(&item(KEY, 700), true), Filled::Done);
    cell.engine.flush();
    assert!(cell.held().is_empty());
    assert_eq!(cell.fill(&item(KEY, 700), true), Filled::Refused);
}

#[test]
fn a_dead_item_makes_way() {
    let removed = [Event::Removed(KEY.to_vec(), Removal::Expired)];
    for bytes in LENGTHS {
        for is_flushed in [false, true] {
            let mut cell = Cell::new(true);
            let expiry_s = if is_flushed { 0 } else { NOW.expiry_s };
            let before = Now { mono_ns: 0, expiry_s: NOW.expiry_s - 1 };
            assert_eq!(cell.set(KEY, &[b'd'; 900], (expiry_s, before)), WriteStatus::Done);
            if is_flushed {
                cell.engine.flush();
            }
            cell.sink.is_full = true;
            let full = Filled::Later(Obstacle::Sink(Refused::Full));
            assert_eq!(cell.fill(&item(KEY, bytes), true), full, "its removal is an effect");
            assert!(cell.asked == 0 && cell.sink.events.is_empty());
            cell.sink.is_full = false;
            // What removed it is known to the caller when it is to admit the fill.
            assert_eq!(cell.fill(&item(KEY, bytes), false), Filled::Refused);
            assert_eq!(cell.sink.events, removed);
            assert!(cell.is_empty());
            assert_eq!(cell.fill(&item(KEY, bytes), true), Filled::Done);
            assert_eq!((cell.asked, &cell.sink.events[..]), (2, &removed[..]));
            assert_eq!(cell.held(), [item(KEY, bytes)]);
            assert_eq!(cell.engine.counters().items, 1);
            assert_eq!(cell.delete(KEY), WriteStatus::Done);
            assert!(cell.is_empty());
        }
    }
}

#[test]
fn without_a_sink_a_dead_item_makes_way_too() {
    let mut cell = Cell::new(true);
    assert_eq!(cell.set(KEY, b"present", (0, NOW)), WriteStatus::Done);
    cell.engine.flush();
    let held = item(KEY, 700);
    let key = cell.engine.key(KEY);
    let (value, facts, version) = ([&held.value[..], &[]], held.facts, held.version);
    let loaded = Loaded { key, value, facts, version };
    let filled = cell.engine.fill(&mut cell.pin, &loaded, NOW, &mut NoSink, || true);
    assert_eq!((filled, cell.engine.counters().items), (Filled::Done, 1));
    assert_eq!(cell.held(), [held]);
}

/// The key of an item that was evicted, as was nothing but items.
fn evicted(event: &Event) -> &[u8] {
    match event {
        Event::Removed(key, Removal::Evicted) => key,
        other => panic!("{other:?}"),
    }
}

/// A full memory evicts for fills, and says so; of the fills themselves nobody hears.
#[test]
fn others_are_evicted_for_it() {
    for bytes in LENGTHS {
        let mut cell = Cell::new(true);
        let count = 2 * LIMIT_BYTES / (bytes as u64 + 60);
        for number in 0..count {
            let item = item(&number.to_be_bytes(), bytes);
            assert_eq!(cell.fill(&item, true), Filled::Done, "{number} of {count}, {bytes}");
            assert_eq!(cell.asked as u64, number + 1, "asked once");
        }
        let gone: HashSet<&[u8]> = cell.sink.events.iter().map(evicted).collect();
        assert_eq!(gone.len(), cell.sink.events.len(), "none was evicted twice");
        assert!(gone.len() as u64 > count / 4, "{bytes}: {} were evicted", gone.len());
        let held = held(&cell.engine, &mut cell.pin, NOW);
        assert_eq!(held.len() + gone.len(), count as usize, "{bytes}: it is here or was evicted");
        assert!(held.iter().all(|left| !gone.contains(&left.key[..])));
        for left in held {
            assert_eq!(left, item(&left.key, bytes));
            assert_eq!(cell.delete(&left.key), WriteStatus::Done);
        }
        assert!(cell.is_empty(), "{bytes}");
    }
}

/// The first number for which `store` fails, and how.
fn failure(mut store: impl FnMut(&[u8]) -> Filled) -> (u64, Filled) {
    let mut ends = (0_u64..).map(|number| (number, store(&number.to_be_bytes())));
    ends.find(|(_, filled)| *filled != Filled::Done).expect("memory ends")
}

#[test]
fn without_space_nothing_changes() {
    for (bytes, evict) in LENGTHS.iter().flat_map(|bytes| [(*bytes, false), (*bytes, true)]) {
        let mut cell = Cell::new(evict);
        cell.sink.is_full = true;
        let (number, filled) = failure(|key| cell.fill(&item(key, bytes), true));
        assert!(number > 0 && cell.asked as u64 == number && cell.sink.events.is_empty());
        assert_eq!(cell.held().len() as u64, number);
        let mut other = Cell::new(evict);
        other.sink.is_full = true;
        let value = value(1, bytes);
        let (set, status) = failure(|key| {
            let put = Put { value: &value, client_flags: 0, expiry_s: 0 };
            let (engine, pin) = (&other.engine, &mut other.pin);
            let status = engine.set(pin, &engine.key(key), put, NOW, &mut other.sink);
            pin.renew();
            match status {
                WriteStatus::Done => Filled::Done,
                WriteStatus::NoSpace => Filled::NoSpace,
                WriteStatus::Later(obstacle) => Filled::Later(obstacle),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!((number, filled), (set, status), "{bytes}, {evict}: as a set");
        (0..number).for_each(|number| {
            assert_eq!(cell.delete(&number.to_be_bytes()), WriteStatus::Done);
        });
        assert!(cell.is_empty(), "{bytes}, {evict}");
    }
}

/// Keys of slices of which the cell keeps copies, or of others.
fn keys(in_copies: bool) -> impl Iterator<Item = [u8; 4]> {
    let keys = (0..).map(u32::to_be_bytes);
    keys.filter(move |key| copied().contains(SliceId::of(key)) == in_copies)
}

fn copied() -> SliceRange {
    SliceRange::new(0..base::SLICES / 2)
}

#[test]
fn copies_are_not_filled_and_keep_what_was_promised_to_them() {
    for bytes in [700, 20_000] {
        let mut cell = Cell::new(true);
        cell.engine.set_role(&cell.pin, copied(), Role::Copy);
        let promised = LIMIT_BYTES / 8;
        cell.engine.keep_for_copies(KeptForCopies { promised, ..KeptForCopies::default() });
        let of_copy = keys(true).next().expect("a key");
        assert_eq!(cell.fill(&item(&of_copy, bytes), true), Filled::Refused);
        assert_eq!(cell.asked, 0);
        cell.sink.is_full = true;
        let filled = keys(false)
            .take_while(|key| cell.fill(&item(key, bytes), true) == Filled::Done)
            .count();
        assert!(filled * bytes > LIMIT_BYTES as usize / 2, "{filled} fit");
        // Segments are not filled to their ends.
        for key in keys(true).take(promised as usize / 2 / bytes) {
            let copy = item(&key, bytes);
            let change = Change::Put(Value::Parts([&copy.value, &[]]), copy.facts);
            let effect = Effect { key: &key, change };
            let (slice, pin) = (SliceId::of(&key), &mut cell.pin);
            let version = copy.version;
            let applied = cell.engine.apply(pin, slice, &effect, version, NOW, &mut cell.sink);
            assert_eq!(applied, Applied::Done);
            cell.pin.renew();
        }
    }
}
