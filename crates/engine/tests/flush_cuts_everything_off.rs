//! flush_all against everything that writes into old space: overwriting in place, appending,
//! counting, touching, compaction, eviction, and segments that are open when it comes.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now, SliceId, SliceRange};
use engine::{
    Action, Cursor, Engine, EngineConfig, FetchOptions, ItemSink, Local, Mode, More, Op, Pin, Read,
    ValueSink, WalkedItem, WriteStatus,
};

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

struct Cell {
    engine: Engine,
    local: Local,
}

impl Cell {
    fn new(limit_bytes: u64) -> Self {
        let (engine, mut locals) =
            Engine::new(EngineConfig::new(limit_bytes), MemoryBudget::new(limit_bytes))
                .expect("enough memory");
        let local = locals.pop().expect("a local");
        Self { engine, local }
    }

    fn write(&mut self, key: &[u8], action: Action<'_>) -> WriteStatus {
        let op = Op::new(self.engine.key(key), action);
        self.local.batch(|pin| self.engine.write(pin, &op, NOW, &mut NoSink)).status
    }

    fn store(&mut self, key: &[u8], mode: Mode, value: &[u8]) -> WriteStatus {
        self.write(key, Action::Store { mode, value, client_flags: 0, expiry_s: 0 })
    }

    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let (id, mut sink) = (self.engine.key(key), ValueSink::default());
        let read = self.local.batch(|pin| self.engine.get(pin, &id, NOW, &mut sink));
        (read == Read::Hit).then_some(sink.bytes)
    }

    fn fetch(&mut self, key: &[u8], ask: &FetchOptions) -> Read {
        let (id, mut sink) = (self.engine.key(key), ValueSink::default());
        let fetch = |pin: &mut Pin| self.engine.fetch(pin, &id, ask, NOW, &mut NoSink, &mut sink);
        self.local.batch(fetch)
    }
}

#[test]
fn what_was_cut_off_is_not_brought_back_by_a_write_into_it() {
    let count = |initial| Action::Count { delta: 1, down: false, initial, expiry_s: None };
    let store = |mode| Action::Store { mode, value: b"new", client_flags: 0, expiry_s: 0 };
    let vivified = Some(&b"new"[..]);
    let cases: [(&str, Action<'_>, WriteStatus, Option<&[u8]>); 11] = [
        ("set", store(Mode::Set), WriteStatus::Done, vivified),
        ("add", store(Mode::Add), WriteStatus::Done, vivified),
        ("replace", store(Mode::Replace), WriteStatus::NotStored, None),
        ("append", store(Mode::Append { vivify: false }), WriteStatus::NotStored, None),
        ("append or create", store(Mode::Append { vivify: true }), WriteStatus::Done, vivified),
        ("prepend", store(Mode::Prepend { vivify: false }), WriteStatus::NotStored, None),
        ("incr", count(None), WriteStatus::NotFound, None),
        ("incr or create", count(Some((5, 0))), WriteStatus::Done, Some(b"5")),
        ("touch", Action::Touch { expiry_s: 5_000 }, WriteStatus::NotFound, None),
        ("invalidate", Action::Invalidate { expiry_s: None }, WriteStatus::NotFound, None),
        ("delete", Action::Delete, WriteStatus::NotFound, None),
    ];
    for (what, action, outcome, left) in cases {
        let mut cell = Cell::new(1 << 20);
        assert_eq!(cell.store(b"key", Mode::Set, b"123"), WriteStatus::Done);
        cell.engine.flush();
        assert_eq!(cell.write(b"key", action), outcome, "{what}");
        assert_eq!(cell.get(b"key").as_deref(), left, "{what}");
    }
    let mut cell = Cell::new(1 << 20);
    cell.store(b"key", Mode::Set, b"123");
    cell.engine.flush();
    assert_eq!(
        cell.fetch(b"key", &FetchOptions { touch: Some(0), ..FetchOptions::default() }),
        Read::Miss
    );
    assert_eq!(cell.get(b"key"), None);
}

#[test]
fn items_created_by_reads_grow_the_index_and_are_paid_for() {
    const KEYS: u32 = 100_000;
    let limit_bytes = 16 << 20;
    let mut indexes = [true, false].map(|reads| {
        let mut cell = Cell::new(limit_bytes);
        for key in 0..KEYS {
            let name = key.to_be_bytes();
            if reads {
                let create = FetchOptions { vivify: Some(0), ..FetchOptions::default() };
                assert_eq!(cell.fetch(&name, &create), Read::Hit);
            } else {
                assert_eq!(cell.store(&name, Mode::Set, b""), WriteStatus::Done);
            }
        }
        assert_eq!(cell.engine.counters().items, u64::from(KEYS));
        cell.engine.usage().index_bytes
    });
    indexes.sort_unstable();
    let [less, more] = indexes;
    assert!(more - less <= more / 20, "{less} and {more} bytes");
    let mut cell = Cell::new(1 << 20);
    for key in 0..KEYS {
        let create = FetchOptions { vivify: Some(0), ..FetchOptions::default() };
        assert_eq!(cell.fetch(&key.to_be_bytes(), &create), Read::Hit);
    }
    assert!(cell.engine.usage().paid_items_max > 0);
    let rooms = cell.engine.counters().rooms_made;
    assert!(rooms * 1_000 < u64::from(KEYS), "{rooms} reads had to make space");
}

#[test]
fn an_overwrite_in_place_after_a_flush_lives_and_one_before_it_dies() {
    let mut cell = Cell::new(1 << 20);
    cell.store(b"key", Mode::Set, b"one");
    cell.store(b"key", Mode::Set, b"two");
    cell.engine.flush();
    assert_eq!(cell.get(b"key"), None);
    cell.store(b"key", Mode::Set, b"six");
    cell.store(b"key", Mode::Append { vivify: false }, b"ty");
    assert_eq!(cell.get(b"key").as_deref(), Some(&b"sixty"[..]));
    cell.engine.flush();
    assert_eq!(cell.get(b"key"), None);
}

/// Items are stored, and some changed, on both sides of a flush that finds segments open, full and
/// half drained; then so much is stored that every segment is compacted or evicted many times.
#[test]
fn compaction_and_eviction_carry_nothing_over_a_flush() {
    for limit_bytes in [engine::LIMIT_BYTES_MIN, 1 << 20] {
        let mut cell = Cell::new(limit_bytes);
        let name = |number: u64| format!("item-{number}").into_bytes();
        // What is cut off is let go as expired; nothing here expires otherwise.
        let mut let_go = 0;
        for round in 0..40_u64 {
            let old = format!("old {round} {}", "x".repeat(300)).into_bytes();
            for number in 0..400 {
                cell.store(&name(number), Mode::Set, &old);
                if number % 3 == 0 {
                    cell.store(&name(number), Mode::Append { vivify: false }, b"more");
                    cell.get(&name(number));
                }
            }
            cell.engine.flush();
            for number in 0..400 {
                assert_eq!(cell.get(&name(number)), None, "round {round}");
            }
            let before = cell.engine.counters().expired;
            for number in 0..400 {
                cell.store(&name(1_000 * (round + 1) + number), Mode::Set, &old);
                cell.local.batch(|pin| cell.engine.tend(pin, NOW, 64, &mut NoSink));
            }
            let_go += cell.engine.counters().expired - before;
            for number in 0..400 {
                assert_eq!(cell.get(&name(number)), None, "round {round}: brought back");
            }
        }
        assert!(let_go > 400, "{let_go} of {limit_bytes} bytes: {:?}", cell.engine.counters());
    }
}

/// Counts the items that a walk passes.
#[derive(Default)]
struct Passed(usize);

impl ItemSink for Passed {
    fn take(&mut self, _: &WalkedItem<'_>) -> bool {
        self.0 += 1;
        true
    }
}

#[test]
fn a_walk_over_what_was_flushed_is_done_in_steps() {
    const SLICES_FILLED: usize = 16;
    const BUCKETS_PER_STEP: u64 = 1 << 10;
    /// Buckets of the longest chain, which a step ends with.
    const CHAIN_BUCKETS: u64 = 8;
    let limit_bytes = 16 << 20;
    let mut cell = Cell::new(limit_bytes);
    // Few slices hold all keys, so that their groups are large.
    let is_in = |name: &[u8]| SliceId::of(name).index() < SLICES_FILLED;
    let keys: Vec<_> =
        (0..40_000_000_u64).map(u64::to_be_bytes).filter(|name| is_in(name)).take(30_000).collect();
    let slices = SliceRange::of(SliceId::of(&keys[0]));
    let walk = |cell: &mut Cell, passed: &mut Passed| {
        let (mut at, first) = (Cursor::default(), cell.engine.counters().walked_buckets);
        loop {
            let before = cell.engine.counters().walked_buckets;
            let more = cell
                .local
                .batch(|pin| cell.engine.scan(pin, slices, &mut at, u32::MAX, NOW, passed));
            let walked = cell.engine.counters().walked_buckets;
            assert!(walked - before <= BUCKETS_PER_STEP + CHAIN_BUCKETS);
            if more == More::No {
                return walked - first;
            }
        }
    };
    for key in &keys {
        cell.store(key, Mode::Set, b"value");
    }
    let in_slice = keys.iter().filter(|key| SliceId::of(*key) == SliceId::of(&keys[0])).count();
    let mut passed = Passed::default();
    let buckets = walk(&mut cell, &mut passed);
    assert!(buckets > 2 * BUCKETS_PER_STEP, "{buckets} buckets");
    assert_eq!(passed.0, in_slice);
    cell.engine.flush();
    let mut passed = Passed::default();
    assert_eq!(walk(&mut cell, &mut passed), buckets);
    assert_eq!(passed.0, 0);
}

/// Items held after keys with long values were stored, as many as fill the memory.
fn filled(cell: &mut Cell, value_bytes: usize, limit_bytes: u64) -> u64 {
    let value = vec![b'v'; value_bytes];
    for number in 0..limit_bytes / value_bytes as u64 {
        cell.store(format!("long-{number}").as_bytes(), Mode::Set, &value);
        cell.local.batch(|pin| cell.engine.tend(pin, NOW, 128, &mut NoSink));
    }
    let held = |number: &u64| cell.get(format!("long-{number}").as_bytes()).is_some();
    (0..limit_bytes / value_bytes as u64).filter(held).count() as u64
}

#[test]
fn what_was_flushed_makes_way_for_what_comes() {
    const LONG_BYTES: usize = 4 << 10;
    let limit_bytes = 16 << 20;
    let fresh = filled(&mut Cell::new(limit_bytes), LONG_BYTES, limit_bytes);
    let mut cell = Cell::new(limit_bytes);
    for number in 0..limit_bytes / 40 {
        cell.store(format!("short-{number}").as_bytes(), Mode::Set, b"0123456789");
    }
    cell.engine.flush();
    let after = filled(&mut cell, LONG_BYTES, limit_bytes);
    assert!(after * 100 >= fresh * 97, "{after} of {fresh} items");
}
