//! The engine under loom: every order of steps of two threads, within a bound on changes of
//! thread, and every value that the memory model lets a relaxed load return.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p engine --test loom_orders --release`
#![cfg(loom)]

mod beside;

use base::{MemoryBudget, NoSink, Now};
use beside::{CHANGES, Watch, fill};
use engine::{
    Action, Engine, EngineConfig, LIMIT_BYTES_MIN, Local, Mode, Op, Read, ValueSink, WriteStatus,
};
use loom::thread;
use std::sync::Arc;

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };

/// Changes of thread, not counting those where a thread waits, that an order has at most.
const CHANGES_MAX: usize = 2;

/// Orders tried by each test: `LOOM_MAX_PERMUTATIONS`, or enough for a few seconds.
const ORDERS_MAX: usize = 3_000;

/// Steps of one order.
const STEPS_MAX: usize = 100_000;

/// An engine, and the locals of two threads.
struct Cell {
    engine: Engine,
    watch: Watch,
}

impl Cell {
    fn write(&self, local: &mut Local, key: &[u8], action: Action<'_>) -> WriteStatus {
        let op = Op::new(self.engine.key(key), action);
        local.batch(|pin| self.engine.write(pin, &op, NOW, &mut NoSink)).status
    }

    fn set(&self, local: &mut Local, key: &[u8], value: &[u8]) {
        let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
        assert_eq!(self.write(local, key, action), WriteStatus::Done);
    }

    fn get(&self, local: &mut Local, key: &[u8]) -> Option<Vec<u8>> {
        let (id, mut sink) = (self.engine.key(key), ValueSink::default());
        let read = local.batch(|pin| self.engine.get(pin, &id, NOW, &mut sink));
        (read == Read::Hit).then_some(sink.bytes)
    }
}

/// Tries the orders in which `first` and `second` can run after `before`, then `after`.
fn orders(
    before: impl Fn(&Cell, &mut Local) + Send + Sync + 'static,
    first: impl Fn(&Cell, &mut Local) + Send + Sync + Copy + 'static,
    second: impl Fn(&Cell, &mut Local) + Send + Sync + Copy + 'static,
    after: impl Fn(&Cell, &mut Local) + Send + Sync + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(CHANGES_MAX);
    model.max_branches = STEPS_MAX;
    model.max_permutations = model.max_permutations.or(Some(ORDERS_MAX));
    model.expect_explicit_explore = true;
    model.check(move || {
        let limit_bytes = 2 * LIMIT_BYTES_MIN;
        let config = EngineConfig { locals: 2, ..EngineConfig::new(limit_bytes) };
        let (engine, mut locals) =
            Engine::new(config, MemoryBudget::new(limit_bytes)).expect("enough memory");
        let (mut one, mut two) = (locals.remove(0), locals.remove(0));
        let cell = Arc::new(Cell { engine, watch: Watch::default() });
        before(&cell, &mut one);
        loom::explore();
        let other = cell.clone();
        let thread = thread::spawn(move || second(&other, &mut two));
        first(&cell, &mut one);
        thread.join().expect("no promise was broken");
        loom::stop_exploring();
        after(&cell, &mut one);
    });
}

/// A value of three words that is all one letter.
fn letters(letter: u8) -> [u8; 24] {
    [letter; 24]
}

/// Stores a value and reads it until reads have nothing left to count on it. Loom lets a plain
/// store come before a compare-exchange that ran earlier and that cannot have seen it.
fn set_and_settle(cell: &Cell, local: &mut Local, key: &[u8]) {
    cell.set(local, key, &letters(b'a'));
    for _ in 0..4 {
        assert_whole(cell.get(local, key), b"a");
    }
}

fn assert_whole(value: Option<Vec<u8>>, letters: &[u8]) {
    let value = value.expect("the key is never removed");
    assert!(letters.contains(&value[0]), "{}", value.escape_ascii());
    assert!(value.iter().all(|byte| *byte == value[0]), "torn: {}", value.escape_ascii());
}

#[test]
fn a_read_beside_a_write_in_place_is_whole() {
    orders(
        |cell, local| cell.set(local, b"key", &letters(b'a')),
        |cell, local| cell.set(local, b"key", &letters(b'b')),
        |cell, local| assert_whole(cell.get(local, b"key"), b"ab"),
        |cell, local| assert_whole(cell.get(local, b"key"), b"b"),
    );
}

#[test]
fn a_read_beside_a_write_in_new_space_is_whole() {
    orders(
        |cell, local| set_and_settle(cell, local, b"key"),
        |cell, local| cell.set(local, b"key", &[b'b'; 40]),
        |cell, local| assert_whole(cell.get(local, b"key"), b"ab"),
        |cell, local| assert_whole(cell.get(local, b"key"), b"b"),
    );
}

#[test]
fn a_first_write_is_seen_whole_or_not_at_all() {
    orders(
        |cell, local| cell.set(local, b"other", b"v"),
        |cell, local| cell.set(local, b"key", &letters(b'a')),
        |cell, local| {
            if let Some(value) = cell.get(local, b"key") {
                assert_whole(Some(value), b"a");
            }
        },
        |cell, local| assert_whole(cell.get(local, b"key"), b"a"),
    );
}

/// The reader's key lies in the oldest segment, and one more write makes that segment drained,
/// freed and used again.
#[test]
fn a_read_beside_eviction_and_reuse_is_whole_or_a_miss() {
    const FILLERS: u8 = 80;
    orders(
        |cell, local| {
            cell.set(local, b"key", &letters(b'a'));
            for filler in 0..FILLERS {
                cell.set(local, &[filler], &letters(b'f'));
                cell.get(local, b"key");
            }
        },
        |cell, local| {
            for filler in FILLERS..FILLERS + 12 {
                cell.set(local, &[filler], &letters(b'f'));
            }
        },
        |cell, local| {
            if let Some(value) = cell.get(local, b"key") {
                assert_whole(Some(value), b"a");
            }
        },
        |_, _| (),
    );
}

/// Both carve off the end of the same segment, which has room for neither.
#[test]
fn two_writers_that_fill_a_segment_both_store() {
    orders(
        |cell, local| {
            for filler in 0..4 {
                cell.set(local, &[filler], &letters(b'f'));
            }
        },
        |cell, local| cell.set(local, b"one", &[b'a'; 60]),
        |cell, local| cell.set(local, b"two", &[b'b'; 60]),
        |cell, local| {
            assert_whole(cell.get(local, b"one"), b"a");
            assert_whole(cell.get(local, b"two"), b"b");
        },
    );
}

#[test]
fn increments_are_not_lost() {
    const ADD: Action<'_> =
        Action::Count { delta: 1, down: false, initial: Some((1, 0)), expiry_s: None };
    orders(
        |cell, local| _ = cell.write(local, b"key", ADD),
        |cell, local| _ = cell.write(local, b"key", ADD),
        |cell, local| _ = cell.write(local, b"key", ADD),
        |cell, local| assert_eq!(cell.get(local, b"key").as_deref(), Some(&b"3"[..])),
    );
}

/// A write in place that is not cut off by the flush leaves the new value, never the old.
#[test]
fn a_flush_beside_a_write_in_place_leaves_the_new_value_or_none() {
    orders(
        |cell, local| cell.set(local, b"key", &letters(b'a')),
        |cell, _| cell.engine.flush(),
        |cell, local| cell.set(local, b"key", &letters(b'b')),
        |cell, local| {
            if let Some(value) = cell.get(local, b"key") {
                assert_whole(Some(value), b"b");
            }
        },
    );
}

/// What is made from a value that the flush cuts off goes with it, whichever comes first.
#[test]
fn a_flush_beside_an_append_leaves_nothing() {
    orders(
        |cell, local| cell.set(local, b"key", b"1"),
        |cell, _| cell.engine.flush(),
        |cell, local| {
            let (mode, value) = (Mode::Append { vivify: false }, b"2");
            let action = Action::Store { mode, value, client_flags: 0, expiry_s: 0 };
            cell.write(local, b"key", action);
        },
        |cell, local| assert_eq!(cell.get(local, b"key"), None),
    );
}

/// It comes before all of them, or not at all.
#[test]
fn a_fill_beside_changes_covers_none_of_them() {
    for changes in CHANGES {
        orders(
            |cell, local| cell.set(local, b"other", b"v"),
            |cell, local| fill(&cell.engine, local, &cell.watch, &letters(b'o')),
            move |cell, local| changes.make(&cell.engine, local, &cell.watch),
            move |cell, local| changes.check(&cell.engine, local),
        );
    }
}
