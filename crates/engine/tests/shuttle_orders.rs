//! The whole engine under shuttle: random orders of every atomic step, on pools of a few segments.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p engine --test shuttle_orders`
#![cfg(shuttle)]

mod beside;
mod crowd;

use base::{MemoryBudget, NoSink, Now, SliceId, SliceRange};
use beside::{CHANGES, Watch, fill};
use crowd::{Plan, run};
use engine::{
    Action, Cursor, Engine, EngineConfig, ItemSink, Local, Mode, More, Op, Pin, Put, Read,
    ValueSink, WalkedItem,
};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Stack of each thread: an engine is made on it, of atomics that are larger here than elsewhere.
const STACK_BYTES: usize = 1 << 18;

fn config() -> Config {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config
}

/// Runs `order` in `count` random orders.
fn check_random(order: impl Fn() + Send + Sync + 'static, count: usize) {
    Runner::new(RandomScheduler::new(count), config()).run(order);
}

/// Runs `order` in `count` orders with few changes of thread.
fn check_pct(order: impl Fn() + Send + Sync + 'static, count: usize, changes: usize) {
    Runner::new(PctScheduler::new(changes, count), config()).run(order);
}

/// Orders tried by each test: `SHUTTLE_ORDERS`, or enough for a few seconds.
fn orders() -> usize {
    std::env::var("SHUTTLE_ORDERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1_000)
}

fn plan() -> Plan {
    Plan {
        seed: 0,
        threads: 3,
        ops_per_thread: 12,
        batch_max: 4,
        keys: 3,
        kept_keys: 0,
        turn: 1,
        limit_bytes: 2 * engine::LIMIT_BYTES_MIN,
        lowered_bytes: u64::MAX,
        payload_bytes_max: 40,
    }
}

/// Runs `plan` in random orders, and in orders with few changes of thread, each with other dice.
fn try_orders(plan: Plan) {
    let seed = Arc::new(AtomicU64::new(1));
    let order = move || {
        let seed = seed.fetch_add(1, Ordering::Relaxed);
        run(&Plan { seed, ..plan.clone() });
    };
    check_random(order.clone(), orders() / 2);
    check_pct(order, orders() / 2, 4);
}

#[test]
fn on_few_hot_keys() {
    try_orders(plan());
}

#[test]
fn in_a_pool_that_evicts_all_the_time() {
    try_orders(Plan { keys: 24, ..plan() });
}

#[test]
fn while_the_limit_falls_and_rises() {
    let limit_bytes = 4 * engine::LIMIT_BYTES_MIN;
    let plan = Plan { limit_bytes, lowered_bytes: limit_bytes / 2, ..plan() };
    try_orders(Plan { keys: 24, ops_per_thread: 25, ..plan });
}

#[test]
fn on_values_in_chunks() {
    try_orders(Plan { limit_bytes: 4 << 10, keys: 4, payload_bytes_max: 250, ..plan() });
}

#[test]
fn while_groups_grow_and_shrink() {
    let plan = Plan { limit_bytes: 32 << 10, keys: 14, kept_keys: 3, turn: 10, ..plan() };
    try_orders(Plan { ops_per_thread: 25, payload_bytes_max: 16, ..plan });
}

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

/// How often an item of one key was received.
struct Hears<'a>(&'a [u8], u32);

impl ItemSink for Hears<'_> {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        self.1 += u32::from(item.key == self.0);
        true
    }
}

fn batch(engine: &Engine, local: &mut Local, key: &[u8], action: Action<'_>) {
    let op = Op::new(engine.key(key), action);
    local.batch(|pin| engine.write(pin, &op, NOW, &mut NoSink));
}

/// Walks the slice of `key`, a chain at a time, and returns how often it passed the item.
fn walk_emits(engine: &Engine, local: &mut Local, key: &[u8]) -> u32 {
    let slices = SliceRange::of(SliceId::of(key));
    let (mut at, mut hears) = (Cursor::default(), Hears(key, 0));
    loop {
        let more = local.batch(|pin| engine.scan(pin, slices, &mut at, 1, NOW, &mut hears));
        if more == More::No {
            return hears.1;
        }
    }
}

fn engine_of_two(limit_bytes: u64) -> (Arc<Engine>, Local, Local) {
    let (engine, mut locals) =
        Engine::new(EngineConfig::new(limit_bytes), MemoryBudget::new(limit_bytes))
            .expect("enough memory");
    let mut local = || locals.pop().expect("a local");
    (Arc::new(engine), local(), local())
}

const STORE: Action<'_> =
    Action::Store { mode: Mode::Set, value: b"v", client_flags: 0, expiry_s: 0 };
/// Keys that are stored and stay, and keys that come and go.
const KEPT: [&[u8; 1]; 4] = [b"a", b"b", b"c", b"d"];
const OTHERS: &[u8] = b"efghijklmnopqr";

fn engine_that_keeps(keys: &[&[u8; 1]]) -> (Arc<Engine>, Local, Local) {
    let (engine, mut first, second) = engine_of_two(32 << 10);
    for key in keys {
        batch(&engine, &mut first, *key, STORE);
    }
    (engine, first, second)
}

const VALUE_BYTES: usize = 40;

/// Reads a key while `set` fills its value with one letter after the other.
fn reads_are_whole(set: fn(&Engine, &mut Pin, &[u8; VALUE_BYTES])) {
    let set = move |engine: &Engine, local: &mut Local, letter: u8| {
        local.batch(|pin| set(engine, pin, &[letter; VALUE_BYTES]));
    };
    let order = move || {
        let (engine, mut first, mut second) = engine_of_two(2 * engine::LIMIT_BYTES_MIN);
        set(&engine, &mut first, b'a');
        let writing = engine.clone();
        let thread = shuttle::thread::spawn(move || {
            (b'b'..b'e').for_each(|letter| set(&writing, &mut second, letter));
        });
        for _ in 0..3 {
            let mut sink = ValueSink::default();
            let read = first.batch(|pin| engine.get(pin, &engine.key(b"key"), NOW, &mut sink));
            assert_eq!((read, sink.bytes.len()), (Read::Hit, VALUE_BYTES));
            let value = sink.bytes.escape_ascii();
            assert!(sink.bytes.iter().all(|letter| *letter == sink.bytes[0]), "torn: {value}");
        }
        thread.join().expect("no panic");
    };
    check_random(order, orders() / 2);
    check_pct(order, orders() / 2, 3);
}

#[test]
fn a_read_beside_a_set_in_place_is_whole() {
    reads_are_whole(|engine, pin, value| {
        let put = Put { value, client_flags: 0, expiry_s: 0 };
        engine.set(pin, &engine.key(b"key"), put, NOW, &mut NoSink);
    });
}

#[test]
fn a_read_beside_any_write_in_place_is_whole() {
    reads_are_whole(|engine, pin, value| {
        let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
        let op = Op { report: true, ..Op::new(engine.key(b"key"), action) };
        engine.write(pin, &op, NOW, &mut NoSink);
    });
}

#[test]
fn a_walk_passes_each_item_once_while_groups_shrink() {
    let order = || {
        let (engine, mut first, mut second) = engine_that_keeps(&KEPT);
        for key in OTHERS {
            batch(&engine, &mut first, &[*key], STORE);
        }
        let shrinking = engine.clone();
        let thread = shuttle::thread::spawn(move || {
            for key in OTHERS {
                batch(&shrinking, &mut second, &[*key], Action::Delete);
            }
        });
        for key in KEPT {
            let emitted = walk_emits(&engine, &mut first, key);
            assert_eq!(emitted, 1, "{} is there all the time", key.escape_ascii());
        }
        thread.join().expect("no panic");
    };
    check_random(order, orders() / 2);
    check_pct(order, orders() / 2, 3);
}

#[test]
fn what_is_there_is_found_while_groups_grow_and_shrink() {
    const ROUNDS: usize = 3;
    let order = || {
        let (engine, mut first, mut second) = engine_that_keeps(&KEPT);
        let changing = engine.clone();
        let thread = shuttle::thread::spawn(move || {
            for action in [STORE, Action::Delete] {
                for key in OTHERS {
                    batch(&changing, &mut second, &[*key], action);
                }
            }
        });
        for key in KEPT.iter().cycle().take(ROUNDS * KEPT.len()) {
            let id = engine.key(*key);
            let read = first.batch(|pin| engine.get(pin, &id, NOW, ValueSink::default()));
            assert_eq!(read, Read::Hit, "{} is there all the time", key.escape_ascii());
        }
        thread.join().expect("no panic");
    };
    check_random(order, 2 * orders());
    check_pct(order, 2 * orders(), 3);
}

/// The first `count` keys of two letters whose slices are of the lower or the upper half.
fn keys_of_half(upper: bool, count: usize) -> Vec<[u8; 2]> {
    let is_there = |key: &[u8; 2]| (SliceId::of(key).index() >= base::SLICES / 2) == upper;
    let pairs = (b'a'..=b'z').flat_map(|first| (b'a'..=b'z').map(move |second| [first, second]));
    pairs.filter(is_there).take(count).collect()
}

/// The slices of two groups had buckets in turns; those of one group are kept.
#[test]
fn what_is_there_is_found_while_the_index_is_made_compact() {
    const LIMIT_BYTES: u64 = 128 << 10;
    const VALUES: [&[u8]; 2] = [b"short", &[b'l'; 100]];
    let order = || {
        let (engine, mut first, mut second) = engine_of_two(LIMIT_BYTES);
        let (others, kept) = (keys_of_half(false, 10), keys_of_half(true, 10));
        for key in others.iter().zip(&kept).flat_map(|(other, kept)| [other, kept]) {
            batch(&engine, &mut first, key, STORE);
        }
        let changing = engine.clone();
        let thread = shuttle::thread::spawn(move || {
            for key in &others {
                batch(&changing, &mut second, key, Action::Delete);
            }
            (0..3).for_each(|_| {
                second.batch(|pin| changing.tend(pin, NOW, 64, &mut NoSink));
            });
        });
        for (key, value) in kept.iter().rev().zip(VALUES.into_iter().cycle()).cycle().take(20) {
            let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
            batch(&engine, &mut first, key, Action::Delete);
            batch(&engine, &mut first, key, action);
            let id = engine.key(key);
            let mut sink = ValueSink::default();
            let read = first.batch(|pin| engine.get(pin, &id, NOW, &mut sink));
            assert_eq!(read, Read::Hit, "{} is there all the time", key.escape_ascii());
            assert_eq!(sink.bytes, value);
        }
        thread.join().expect("no panic");
        assert_eq!(engine.counters().items, kept.len() as u64);
    };
    check_random(order, 2 * orders());
    check_pct(order, 2 * orders(), 3);
}

/// A store that needs an item comes before a flush, which ends it, or after, and finds none.
#[test]
fn a_store_that_needs_an_item_leaves_nothing_after_a_flush() {
    let store = |mode| Action::Store { mode, value: b"new", client_flags: 0, expiry_s: 0 };
    for (mode, compares) in [
        (Mode::Replace, false),
        (Mode::Set, true),
        (Mode::Append { vivify: false }, false),
        (Mode::Prepend { vivify: false }, true),
    ] {
        let order = move || {
            let (engine, mut first, mut second) = engine_of_two(2 * engine::LIMIT_BYTES_MIN);
            batch(&engine, &mut first, b"key", STORE);
            let found = first.batch(|pin| engine.peek(pin, &engine.key(b"key"), NOW));
            let token = found.expect("it was stored").cas;
            let storing = engine.clone();
            let thread = shuttle::thread::spawn(move || {
                let compare = compares.then_some(token);
                let op = Op { compare, ..Op::new(storing.key(b"key"), store(mode)) };
                second.batch(|pin| storing.write(pin, &op, NOW, &mut NoSink));
            });
            engine.flush();
            thread.join().expect("no panic");
            let found = first.batch(|pin| engine.peek(pin, &engine.key(b"key"), NOW));
            assert!(found.is_none(), "{mode:?}");
        };
        check_random(order, orders() / 4);
        check_pct(order, orders() / 4, 3);
    }
}

/// It comes before all of them, or not at all.
#[test]
fn a_fill_beside_changes_covers_none_of_them() {
    const VALUES: [&[u8]; 3] = [b"o", &[b'o'; 40], &[b'o'; 150]];
    for (changes, value) in CHANGES.iter().flat_map(|changes| VALUES.map(|value| (*changes, value)))
    {
        let order = move || {
            let (engine, mut first, mut second) = engine_of_two(4 * engine::LIMIT_BYTES_MIN);
            let watch = Watch::default();
            let (filling, watching) = (engine.clone(), watch.clone());
            let thread = shuttle::thread::spawn(move || {
                fill(&filling, &mut second, &watching, value);
            });
            changes.make(&engine, &mut first, &watch);
            thread.join().expect("no panic");
            changes.check(&engine, &mut first);
        };
        check_random(order, orders() / 4);
        check_pct(order, orders() / 4, 3);
    }
}
