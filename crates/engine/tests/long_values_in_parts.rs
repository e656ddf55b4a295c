//! Values of up to half of the memory are stored as they arrive and read in parts. What is pinned
//! for them is bounded and given back; a value that is being read stays as it was found.
#![cfg(not(any(loom, shuttle)))]

mod distinct;
mod parts;

use base::{MemoryBudget, NoSink, Now, Owner};
use distinct::value;
use engine::{
    Action, Arriving, Engine, EngineConfig, FetchOptions, HeldValue, ItemView, LongValues, Mode,
    Obstacle, Op, Pin, Read, ReadSink, ValueSink, WriteStatus,
};
use parts::Parts;
use std::sync::Arc;

const LIMIT_BYTES: u64 = 8 << 20;
/// Half of the memory, less what memcached counts for a header and a short key.
const HALF_BYTES: usize = LIMIT_BYTES as usize / 2 - 64;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Pieces as a worker receives them.
const PIECE_BYTES: usize = 64 << 10;
/// Times that a request is tried again which has to wait for the batch of another thread.
const TRIES_MAX: usize = 1_000_000;

struct Cell {
    engine: Arc<Engine>,
    budget: Arc<MemoryBudget>,
    pin: Pin,
    next: u64,
}

impl Cell {
    fn new(evict: bool) -> Self {
        Self::several(evict, 1).remove(0)()
    }

    /// Users of one engine, whose first batch has not begun.
    fn several(evict: bool, users: usize) -> Vec<impl FnOnce() -> Self + Send> {
        let budget = MemoryBudget::new(LIMIT_BYTES);
        budget.share(Owner::Connections, 0, LIMIT_BYTES / 4);
        let plan = EngineConfig::new(LIMIT_BYTES);
        let config = EngineConfig { locals: users, evict, value_bytes_max: HALF_BYTES, ..plan };
        let (engine, locals) = Engine::new(config, budget.clone()).expect("enough memory");
        let engine = Arc::new(engine);
        let user = |local: engine::Local| {
            let (engine, budget) = (engine.clone(), budget.clone());
            move || Self { engine, budget, pin: local.pin(), next: 0 }
        };
        locals.into_iter().map(user).collect()
    }

    fn begin(&mut self, key: &str, bytes: usize) -> Result<Arriving, bool> {
        let key = self.engine.key(key.as_bytes());
        self.engine.begin_value(&mut self.pin, &key, (bytes, 0), NOW, &mut NoSink)
    }

    /// Writes a piece, in later batches if it must.
    fn write(&mut self, arriving: &mut Arriving, mut piece: &[u8]) {
        for _ in 0..TRIES_MAX {
            let wrote = self.engine.write_piece(&mut self.pin, arriving, piece, NOW, &mut NoSink);
            self.pin.renew();
            match wrote {
                Ok(()) => return,
                Err((done, later)) => {
                    assert!(later, "there is memory");
                    piece = &piece[done..];
                }
            }
        }
        panic!("a piece found no space");
    }

    fn finish(&mut self, key: &str, mode: Mode, mut arriving: Arriving) -> WriteStatus {
        let key = self.engine.key(key.as_bytes());
        let action = Action::Store { mode, value: &[], client_flags: 0, expiry_s: 0 };
        let op = Op::new(key, action);
        let mut status = WriteStatus::NoSpace;
        for _ in 0..TRIES_MAX {
            let wrote =
                self.engine.store_value(&mut self.pin, &mut arriving, &op, NOW, &mut NoSink);
            self.pin.renew();
            status = wrote.status;
            if !matches!(status, WriteStatus::Later(_)) {
                break;
            }
        }
        self.engine.give_back_value(arriving);
        status
    }

    fn store_long(&mut self, key: &str, mode: Mode, bytes: &[u8]) -> WriteStatus {
        let mut arriving = self.begin(key, bytes.len()).expect("little is pinned");
        bytes.chunks(PIECE_BYTES).for_each(|piece| self.write(&mut arriving, piece));
        self.finish(key, mode, arriving)
    }

    fn run(&mut self, key: &str, action: Action<'_>) -> WriteStatus {
        let op = Op::new(self.engine.key(key.as_bytes()), action);
        for _ in 0..TRIES_MAX {
            let wrote = self.engine.write(&mut self.pin, &op, NOW, &mut NoSink);
            self.pin.renew();
            if !matches!(wrote.status, WriteStatus::Later(_)) {
                return wrote.status;
            }
        }
        panic!("a change found no space");
    }

    /// Stores as many short values as fill `bytes`.
    fn churn(&mut self, bytes: usize) {
        let short = [7; 1000];
        for _ in 0..bytes / short.len() {
            self.next += 1;
            let (key, mode) = (format!("short {}", self.next), Mode::Set);
            let action = Action::Store { mode, value: &short, client_flags: 0, expiry_s: 0 };
            assert_eq!(self.run(&key, action), WriteStatus::Done, "beside {:?}", self.usage());
        }
    }

    fn usage(&self) -> engine::Usage {
        self.engine.usage()
    }

    fn hold(&mut self, key: &str) -> Result<Option<HeldValue>, Read> {
        let mut parts = Parts::default();
        let key = self.engine.key(key.as_bytes());
        match self.engine.get(&self.pin, &key, NOW, &mut parts) {
            Read::Hit => Ok(parts.held),
            Read::Miss => Ok(None),
            other => Err(other),
        }
    }

    /// Reads what is left of a held value.
    fn read_rest(&mut self, mut held: HeldValue, bytes: &mut Vec<u8>) {
        while held.left() > 0 {
            self.engine.append_part(&mut held, bytes);
            self.pin.renew();
        }
        self.engine.release(held);
    }

    fn read_long(&mut self, key: &str) -> Option<Vec<u8>> {
        let held = self.hold(key).expect("little is pinned")?;
        let mut bytes = Vec::new();
        self.read_rest(held, &mut bytes);
        Some(bytes)
    }

    fn read_whole(&mut self, key: &str) -> Option<Vec<u8>> {
        let mut sink = ValueSink::default();
        let key = self.engine.key(key.as_bytes());
        let read = self.engine.get(&self.pin, &key, NOW, &mut sink);
        (read == Read::Hit).then_some(sink.bytes)
    }

    /// Nothing is left behind: without items, no word is in use.
    fn assert_nothing_is_pinned(&mut self) {
        let least = Cell::new(true).engine.limit_bytes_min();
        let now = self.engine.limit_bytes_min();
        assert!(now <= least + (1 << 20), "{now} of {least}");
        let keys = ["a", "b", "c", "d"];
        keys.iter().for_each(|key| {
            self.run(key, Action::Delete);
        });
        if self.next == 0 {
            assert_eq!(self.engine.counters().item_words, 0);
        }
        // All memory is of use again.
        let bytes = value(99, HALF_BYTES);
        assert_eq!(self.store_long("a", Mode::Set, &bytes), WriteStatus::Done);
        assert!(self.read_long("a") == Some(bytes));
    }
}

#[test]
fn half_of_the_memory_is_stored_in_pieces_and_read_in_parts() {
    let mut cell = Cell::new(true);
    let whole_max = cell.engine.whole_value_bytes_max();
    let chunk_bytes = 16 * 1024 / 2;
    for (round, len) in
        [HALF_BYTES, whole_max + 1, HALF_BYTES - chunk_bytes, HALF_BYTES].into_iter().enumerate()
    {
        let bytes = value(round as u64, len);
        let mut arriving = cell.begin("a", len).expect("nothing is pinned");
        let (mut at, mut piece) = (0, 1);
        while at < len {
            let end = len.min(at + piece);
            cell.write(&mut arriving, &bytes[at..end]);
            (at, piece) = (end, (piece * 7 + 3) % 100_000);
        }
        assert_eq!(cell.finish("a", Mode::Set, arriving), WriteStatus::Done);
        assert!(cell.read_long("a").as_ref() == Some(&bytes), "in parts, {len}");
        assert!(cell.read_whole("a") == Some(bytes), "as a whole, {len}");
        cell.churn(1 << 20);
    }
    cell.assert_nothing_is_pinned();
}

#[test]
fn a_value_that_is_read_stays_as_it_was_found() {
    let deletes = |cell: &mut Cell| {
        cell.run("a", Action::Delete);
    };
    let flushes = |cell: &mut Cell| cell.engine.flush();
    let replaces = |cell: &mut Cell| {
        let short = [1; 100];
        let (mode, value) = (Mode::Set, &short[..]);
        let action = Action::Store { mode, value, client_flags: 0, expiry_s: 0 };
        assert_eq!(cell.run("a", action), WriteStatus::Done);
    };
    let replaces_long = |cell: &mut Cell| {
        let other = value(2, cell.engine.whole_value_bytes_max() + 9);
        assert_eq!(cell.store_long("a", Mode::Set, &other), WriteStatus::Done);
    };
    let touches = |cell: &mut Cell| {
        cell.run("a", Action::Touch { expiry_s: 2_000 });
    };
    let nothing = |_: &mut Cell| {};
    let changes: [fn(&mut Cell); 6] = [deletes, flushes, replaces, replaces_long, touches, nothing];
    for (number, change) in changes.into_iter().enumerate() {
        let mut cell = Cell::new(true);
        let bytes = value(1, HALF_BYTES);
        assert_eq!(cell.store_long("a", Mode::Set, &bytes), WriteStatus::Done);
        let mut held = cell.hold("a").expect("nothing is pinned").expect("it is there");
        let mut read = Vec::new();
        cell.engine.append_part(&mut held, &mut read);
        cell.pin.renew();
        change(&mut cell);
        cell.engine.append_part(&mut held, &mut read);
        // More than the memory: every segment that is not held is used again.
        cell.churn(2 * LIMIT_BYTES as usize);
        cell.engine.append_part(&mut held, &mut read);
        cell.budget.resize(LIMIT_BYTES * 3 / 4);
        cell.churn(LIMIT_BYTES as usize);
        cell.budget.resize(LIMIT_BYTES);
        cell.read_rest(held, &mut read);
        assert!(read == bytes, "after change {number}");
        cell.assert_nothing_is_pinned();
    }
}

#[test]
fn a_value_that_arrives_stays_while_others_are_stored_and_flushed() {
    let mut cell = Cell::new(true);
    let bytes = value(3, HALF_BYTES);
    let mut arriving = cell.begin("a", bytes.len()).expect("nothing is pinned");
    let (first, second) = bytes.split_at(HALF_BYTES / 2);
    cell.write(&mut arriving, first);
    cell.churn(2 * LIMIT_BYTES as usize);
    cell.engine.flush();
    cell.write(&mut arriving, second);
    cell.churn(2 * LIMIT_BYTES as usize);
    assert_eq!(cell.finish("a", Mode::Set, arriving), WriteStatus::Done);
    assert!(cell.read_long("a") == Some(bytes));
    cell.assert_nothing_is_pinned();
}

#[test]
fn a_value_that_is_not_stored_gives_its_memory_back() {
    let mut cell = Cell::new(true);
    let bytes = value(4, HALF_BYTES);
    for round in 0..50 {
        let mut arriving = cell.begin("a", bytes.len()).expect("nothing is pinned");
        cell.write(&mut arriving, &bytes[..HALF_BYTES / 50 * round]);
        cell.engine.give_back_value(arriving);
    }
    assert_eq!(cell.store_long("a", Mode::Replace, &bytes), WriteStatus::NotStored);
    let short = Action::Store { mode: Mode::Set, value: b"x", client_flags: 0, expiry_s: 0 };
    assert_eq!(cell.run("a", short), WriteStatus::Done);
    assert_eq!(cell.store_long("a", Mode::Add, &bytes), WriteStatus::NotStored);
    assert_eq!(cell.read_whole("a"), Some(b"x".to_vec()));
    assert_eq!(cell.store_long("b", Mode::Add, &bytes), WriteStatus::Done);
    assert!(cell.read_long("b") == Some(bytes));
    cell.assert_nothing_is_pinned();
}

#[test]
fn what_is_pinned_is_bounded_and_shown_to_who_lowers_the_limit() {
    let mut cell = Cell::new(true);
    let before = cell.engine.limit_bytes_min();
    let quarter = LIMIT_BYTES as usize / 4;
    let first = cell.begin("a", quarter).expect("nothing is pinned");
    let second = cell.begin("b", quarter).expect("together half of the memory");
    assert!(cell.engine.limit_bytes_min() >= before + 2 * quarter as u64);
    assert_eq!(cell.begin("c", quarter / 2).err(), Some(true), "beyond half, until one is done");
    let whole = LIMIT_BYTES as usize;
    assert_eq!(cell.begin("c", whole).err(), Some(false), "longer than any may be");
    cell.engine.give_back_value(first);
    let third = cell.begin("c", quarter).expect("one is done");
    [second, third].into_iter().for_each(|value| cell.engine.give_back_value(value));
    assert!(cell.engine.limit_bytes_min() <= before);

    // Three eighths each: two can be held, and only one beside a value of half that arrives.
    let bytes = value(5, LIMIT_BYTES as usize / 8 * 2);
    for key in ["a", "b", "c"] {
        assert_eq!(cell.store_long(key, Mode::Set, &bytes), WriteStatus::Done);
    }
    let arriving = cell.begin("d", quarter).expect("nothing is pinned");
    let held = cell.hold("c").expect("half is pinned").expect("it is there");
    let again = cell.hold("c").expect("it is held already").expect("it is there");
    assert_eq!(cell.hold("b").err(), Some(Read::Later(Obstacle::Memory)), "beyond the bound");
    let touch = FetchOptions { touch: Some(5_000), ..FetchOptions::default() };
    let key = cell.engine.key(b"b");
    let mut parts = Parts::default();
    let fetched = cell.engine.fetch(&mut cell.pin, &key, &touch, NOW, &mut NoSink, &mut parts);
    assert_eq!(fetched, Read::Later(Obstacle::Memory));
    cell.engine.give_back_value(arriving);
    let other = cell.hold("b").expect("less is pinned").expect("it is there");
    for held in [held, again, other] {
        let mut read = Vec::new();
        cell.read_rest(held, &mut read);
        assert!(read == bytes);
    }
    cell.assert_nothing_is_pinned();
}

#[test]
fn a_read_that_touches_holds_too_and_a_sink_may_decline() {
    let mut cell = Cell::new(true);
    let bytes = value(6, HALF_BYTES);
    assert_eq!(cell.store_long("a", Mode::Set, &bytes), WriteStatus::Done);
    let key = cell.engine.key(b"a");
    for touch in [Some(2_000), Some(0), None] {
        let options = FetchOptions { touch, ..FetchOptions::default() };
        let mut parts = Parts::default();
        let read = cell.engine.fetch(&mut cell.pin, &key, &options, NOW, &mut NoSink, &mut parts);
        assert_eq!(read, Read::Hit);
        let mut read = Vec::new();
        cell.read_rest(parts.held.expect("it is long"), &mut read);
        assert!(read == bytes);
    }

    struct Declines;
    impl ReadSink for Declines {
        const LONG: LongValues = LongValues::Declined;
        fn open(&mut self, _: &ItemView<'_>) -> Option<&mut Vec<u8>> {
            panic!("it is not shown what it declines")
        }
        fn rewind(&mut self) {}
    }
    let read = cell.engine.get(&cell.pin, &key, NOW, Declines);
    assert_eq!(read, Read::Later(Obstacle::Memory));
    cell.assert_nothing_is_pinned();
}

/// A value with a few hits is not moved chunk by chunk when memory is needed.
#[test]
fn a_long_value_that_was_read_makes_way() {
    let mut cell = Cell::new(true);
    for key in ["a", "b", "c"] {
        let bytes = value(8, HALF_BYTES);
        assert_eq!(cell.store_long(key, Mode::Set, &bytes), WriteStatus::Done);
        (0..5).for_each(|_| assert!(cell.read_long(key).as_ref() == Some(&bytes)));
    }
    let kept = cell.engine.counters().kept;
    assert!(kept < 20, "{kept} chunks were moved");
}

#[test]
fn without_eviction_a_full_cell_refuses_at_once() {
    let mut cell = Cell::new(false);
    let bytes = value(7, HALF_BYTES);
    assert_eq!(cell.store_long("a", Mode::Set, &bytes), WriteStatus::Done);
    let mut arriving = cell.begin("b", bytes.len()).expect("nothing is pinned");
    let wrote = cell.engine.write_piece(&mut cell.pin, &mut arriving, &bytes, NOW, &mut NoSink);
    assert!(matches!(wrote, Err((_, false))), "{wrote:?}");
    cell.engine.give_back_value(arriving);
    assert!(cell.read_long("a") == Some(bytes));
}

/// Two threads store, read in parts and delete the same few keys, and evict each other's.
#[test]
fn threads_never_mix_values() {
    const ROUNDS: u64 = 300;
    let mut users = Cell::several(true, 3);
    let last = users.remove(0);
    std::thread::scope(|scope| {
        for (user, begin) in (0..).zip(users) {
            scope.spawn(move || work(user, begin(), ROUNDS));
        }
    });
    let mut cell = last();
    cell.next = 1;
    cell.assert_nothing_is_pinned();
}

/// The batch of a user ends with its work.
fn work(user: u64, mut cell: Cell, rounds: u64) {
    let keys = ["a", "b", "c"];
    for round in 0..rounds {
        let key = keys[(round as usize + user as usize) % keys.len()];
        let len = (1 << 20) + (round as usize * 977 + user as usize) % (1 << 20);
        let seed = round * 2 + user;
        // Every value says in its first word how it goes on.
        let mut bytes = value(seed, len);
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        if let Ok(mut arriving) = cell.begin(key, len) {
            bytes.chunks(PIECE_BYTES).for_each(|piece| cell.write(&mut arriving, piece));
            let status = cell.finish(key, Mode::Set, arriving);
            assert_eq!(status, WriteStatus::Done);
        }
        for key in keys {
            let Ok(Some(mut held)) = cell.hold(key) else { continue };
            cell.pin.renew();
            let mut read = Vec::new();
            cell.engine.append_part(&mut held, &mut read);
            cell.churn(64 << 10);
            cell.read_rest(held, &mut read);
            let seed = u64::from_le_bytes(*read.first_chunk().expect("it is long"));
            let mut wanted = value(seed, read.len());
            wanted[..8].copy_from_slice(&seed.to_le_bytes());
            assert!(read == wanted, "the value of seed {seed}");
        }
        if round % 5 == 0 {
            cell.run(key, Action::Delete);
        }
    }
}
