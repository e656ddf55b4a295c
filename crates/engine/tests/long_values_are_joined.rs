//! `append` and `prepend` to long values: what is joined is what a client expects, the item that it
//! is joined to is not evicted for it, and a value that is being read stays as it was found.
#![cfg(not(any(loom, shuttle)))]

mod parts;

use base::{MemoryBudget, NoSink, Now, Owner};
use engine::{
    Action, Engine, EngineConfig, HeldValue, LIMIT_BYTES_MIN, Mode, Op, Pin, Read, ValueSink,
    WriteStatus,
};
use parts::Parts;
use std::sync::Arc;

const LIMIT_BYTES: u64 = 8 << 20;
const HALF_BYTES: usize = LIMIT_BYTES as usize / 2 - 64;
/// A value that lies in one chunk for each segment is no longer than this.
const SPREAD_BYTES_MIN: usize = LIMIT_BYTES as usize / 8 * 3 / 100 * 95;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Times that a request is tried again which has to wait.
const TRIES_MAX: usize = 1_000_000;
const APPEND: Mode = Mode::Append { vivify: false };
const PREPEND: Mode = Mode::Prepend { vivify: false };

/// Numbers that look like chance.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A value of which no two places are alike.
    fn value(&mut self, bytes: usize) -> Vec<u8> {
        let words = (0..bytes.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(bytes).collect()
    }
}

struct Cell {
    engine: Engine,
    budget: Arc<MemoryBudget>,
    pin: Pin,
}

impl Cell {
    fn new(evict: bool) -> Self {
        Self::of(LIMIT_BYTES, HALF_BYTES, evict)
    }

    fn of(limit_bytes: u64, value_bytes_max: usize, evict: bool) -> Self {
        let budget = MemoryBudget::new(limit_bytes);
        budget.share(Owner::Connections, 0, limit_bytes / 4);
        let plan = EngineConfig::new(limit_bytes);
        let config = EngineConfig { locals: 1, evict, value_bytes_max, ..plan };
        let (engine, mut locals) = Engine::new(config, budget.clone()).expect("enough memory");
        Self { engine, budget, pin: locals.remove(0).pin() }
    }

    /// Carries out `op` until it need not be tried again.
    fn tried(&mut self, mut op: impl FnMut(&mut Self) -> WriteStatus) -> WriteStatus {
        for _ in 0..TRIES_MAX {
            let status = op(self);
            self.pin.renew();
            if !matches!(status, WriteStatus::Later(_)) {
                return status;
            }
        }
        panic!("a change found no space");
    }

    /// Stores `value` as a service would: in pieces if it is long.
    fn store(&mut self, key: &str, mode: Mode, value: &[u8]) -> WriteStatus {
        let key = self.engine.key(key.as_bytes());
        let is_long = value.len() > self.engine.whole_value_bytes_max();
        let given = if is_long { &[] } else { value };
        let action = Action::Store { mode, value: given, client_flags: 0, expiry_s: 0 };
        let op = Op::new(key, action);
        if !is_long {
            return self
                .tried(|cell| cell.engine.write(&mut cell.pin, &op, NOW, &mut NoSink).status);
        }
        let (engine, pin) = (&self.engine, &mut self.pin);
        let begun = engine.begin_value(pin, &key, (value.len(), 0), NOW, &mut NoSink);
        let mut arriving = begun.expect("little is pinned");
        let mut left = value;
        while !left.is_empty() {
            let piece = &left[..left.len().min(60_000)];
            let wrote = engine.write_piece(pin, &mut arriving, piece, NOW, &mut NoSink);
            let done = wrote.map_or_else(|(done, _)| done, |()| piece.len());
            left = &left[done..];
            pin.renew();
        }
        let status = self.tried(|cell| {
            let (engine, pin) = (&cell.engine, &mut cell.pin);
            engine.store_value(pin, &mut arriving, &op, NOW, &mut NoSink).status
        });
        self.engine.give_back_value(arriving);
        status
    }

    fn read(&mut self, key: &str) -> Option<Vec<u8>> {
        let mut sink = ValueSink::default();
        let read = self.engine.get(&self.pin, &self.engine.key(key.as_bytes()), NOW, &mut sink);
        (read == Read::Hit).then_some(sink.bytes)
    }

    fn hold(&mut self, key: &str) -> HeldValue {
        // The list of its chunks needs memory too.
        assert!(self.engine.give_back(&mut self.pin, 64 << 10, NOW, &mut NoSink));
        let mut parts = Parts::default();
        let read = self.engine.get(&self.pin, &self.engine.key(key.as_bytes()), NOW, &mut parts);
        assert_eq!(read, Read::Hit);
        parts.held.expect("it is long")
    }

    fn read_rest(&mut self, mut held: HeldValue) -> Vec<u8> {
        let mut bytes = Vec::new();
        while held.left() > 0 {
            self.engine.append_part(&mut held, &mut bytes);
            self.pin.renew();
        }
        self.engine.release(held);
        bytes
    }

    fn delete(&mut self, key: &str) {
        let op = Op::new(self.engine.key(key.as_bytes()), Action::Delete);
        self.tried(|cell| cell.engine.write(&mut cell.pin, &op, NOW, &mut NoSink).status);
    }

    /// Whether there is an item, without a hit for it.
    fn has(&self, key: &str) -> bool {
        self.engine.peek(&self.pin, &self.engine.key(key.as_bytes()), NOW).is_some()
    }

    /// Stores short values of `bytes` in all.
    fn churn(&mut self, next: &mut usize, bytes: usize) {
        for _ in 0..bytes / 1000 {
            *next += 1;
            assert_eq!(self.store(&format!("s{next}"), Mode::Set, &[7; 1000]), WriteStatus::Done);
        }
    }
}

/// What `value` becomes.
fn join(present: &mut Vec<u8>, mode: Mode, value: &[u8]) {
    match mode {
        PREPEND => present.splice(..0, value.iter().copied()).for_each(drop),
        _ => present.extend_from_slice(value),
    }
}

#[test]
fn what_is_joined_is_both_values_in_their_order() {
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let mut cell = Cell::new(true);
    for round in 0..60 {
        let longest = [200, 20_000, 200_000, 1_500_000][round % 4];
        let len = chance.below(longest);
        let mut expected = chance.value(len);
        assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
        for _ in 0..20 {
            let longest = [10, 9_000, 70_000, 900_000][chance.below(4)];
            let len = chance.below(longest);
            let value = chance.value(len);
            let mode = if chance.below(2) == 0 { APPEND } else { PREPEND };
            let status = cell.store("a", mode, &value);
            match status {
                WriteStatus::Done => join(&mut expected, mode, &value),
                status if expected.len() + value.len() > HALF_BYTES => {
                    assert_eq!(status, WriteStatus::NotStored);
                }
                status => {
                    assert_eq!(status, WriteStatus::NoSpace);
                    assert!(expected.len() + value.len() > SPREAD_BYTES_MIN);
                }
            }
            assert!(cell.read("a").as_ref() == Some(&expected), "round {round}");
        }
        if expected.len() > cell.engine.whole_value_bytes_max() {
            let held = cell.hold("a");
            let other = chance.value(9_000);
            let status = cell.store("a", PREPEND, &other);
            assert!(cell.read_rest(held) == expected, "as it was found");
            if status == WriteStatus::Done {
                join(&mut expected, PREPEND, &other);
            }
        }
        assert!(cell.read("a") == Some(expected));
        if round % 8 == 7 {
            let mut next = 0;
            cell.churn(&mut next, LIMIT_BYTES as usize / 4);
            (1..=next).for_each(|number| cell.delete(&format!("s{number}")));
        }
        cell.delete("a");
        assert_eq!(cell.engine.counters().item_words, 0, "nothing is left of it");
    }
}

/// A short chunk at the seam is filled, so that a value of many small pieces has no more chunks
/// than it needs.
#[test]
fn a_value_of_small_pieces_can_be_long() {
    let mut cell = Cell::new(true);
    for (mode, piece) in [(APPEND, 9_001), (PREPEND, 9_001), (APPEND, 5_000), (PREPEND, 700)] {
        let mut expected = vec![1];
        assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
        let mut chance = Chance(piece as u64);
        loop {
            let value = chance.value(piece);
            let status = cell.store("a", mode, &value);
            if status != WriteStatus::Done {
                assert!(expected.len() + piece > SPREAD_BYTES_MIN, "{status:?}");
                break;
            }
            join(&mut expected, mode, &value);
        }
        let held = cell.hold("a");
        assert!(cell.read_rest(held) == expected);
        assert!(cell.read("a") == Some(expected));
    }
}

/// To add to a value makes all of it as new as a value that was stored then.
#[test]
fn a_value_that_is_added_to_stays() {
    for mode in [APPEND, PREPEND] {
        let mut cell = Cell::new(true);
        let mut chance = Chance(3);
        let mut expected = chance.value(LIMIT_BYTES as usize / 8);
        assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
        let mut next = 0;
        for round in 0..200 {
            cell.churn(&mut next, LIMIT_BYTES as usize / 64);
            let value = chance.value(100);
            assert_eq!(cell.store("a", mode, &value), WriteStatus::Done, "round {round}");
            join(&mut expected, mode, &value);
        }
        assert!(cell.read("a") == Some(expected));
    }
}

/// A full cell evicts others for it, also where the item is the next to go.
#[test]
fn the_item_that_a_value_is_joined_to_is_not_evicted_for_it() {
    for tenths in [1, 2, 3, 4] {
        let len = LIMIT_BYTES as usize / 10 * tenths;
        for mode in [APPEND, PREPEND] {
            let mut cell = Cell::new(true);
            let mut chance = Chance(tenths as u64);
            for number in 0..40 / tenths {
                let other = chance.value(len);
                assert_eq!(cell.store(&format!("o{number}"), Mode::Set, &other), WriteStatus::Done);
            }
            let mut expected = chance.value(len);
            assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
            let mut next = 0;
            for round in 0..400 {
                // It comes ever nearer to the end of its queue.
                cell.churn(&mut next, 40_000);
                if !cell.has("a") {
                    expected = chance.value(len);
                    assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
                }
                let added = chance.below(if round % 7 == 0 { 300_000 } else { 3 });
                let added = chance.value(added);
                let is_there = cell.has("a");
                let status = cell.store("a", mode, &added);
                match status {
                    WriteStatus::Done => join(&mut expected, mode, &added),
                    WriteStatus::NoSpace => {}
                    WriteStatus::NotStored if expected.len() + added.len() > HALF_BYTES => {}
                    other => panic!("{other:?} in round {round}, {tenths} tenths: {is_there}"),
                }
                // Others may have come to evict it, after it was stored.
                if let Some(read) = cell.read("a") {
                    assert!(read == expected, "round {round}");
                }
            }
        }
    }
}

/// At the least limit nothing can be pinned, so the item cannot be kept; it can be changed all the
/// same.
#[test]
fn at_the_least_limit_values_are_joined() {
    let mut cell = Cell::of(LIMIT_BYTES_MIN, 20_000, true);
    let mut chance = Chance(7);
    let mut joined = 0;
    for number in 0..2_000 {
        let len = 4_000 + chance.below(4_000);
        let value = chance.value(len);
        assert_eq!(cell.store(&format!("s{}", number % 40), Mode::Set, &value), WriteStatus::Done);
        let mode = if number % 2 == 0 { APPEND } else { PREPEND };
        let status = cell.store(&format!("s{}", chance.below(40)), mode, &value);
        joined += usize::from(status == WriteStatus::Done);
    }
    assert!(joined > 100, "{joined} joined");
}

/// Where nothing may be evicted, the value that was there stays.
#[test]
fn a_value_that_is_not_joined_for_lack_of_space_leaves_the_old_one() {
    let mut cell = Cell::new(false);
    let mut chance = Chance(5);
    let expected = chance.value(HALF_BYTES / 2);
    assert_eq!(cell.store("a", Mode::Set, &expected), WriteStatus::Done);
    let mut number = 0;
    while cell.store(&format!("s{number}"), Mode::Set, &[7; 5000]) == WriteStatus::Done {
        number += 1;
    }
    let words = cell.engine.counters().item_words;
    for mode in [APPEND, PREPEND] {
        assert_eq!(cell.store("a", mode, &[1; 300_000]), WriteStatus::NoSpace);
        assert!(cell.read("a").as_ref() == Some(&expected));
    }
    assert_eq!(cell.engine.counters().item_words, words);
    assert_eq!(cell.budget.used(Owner::Connections), 0);
    let held = cell.engine.limit_bytes_min();
    cell.delete("a");
    assert!(cell.engine.limit_bytes_min() <= held, "nothing is pinned");
}
