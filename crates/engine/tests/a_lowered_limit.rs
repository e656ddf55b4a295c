//! A limit that is lowered while a cell is full: no store fails, each pays a bounded part, and soon
//! the memory is returned, that of the index too. A raised limit is used again.
#![cfg(not(any(loom, shuttle)))]

use base::{MemoryBudget, NoSink, Now, Owner, SliceId};
use engine::{
    Action, Engine, EngineConfig, Left, Local, Mode, Op, Pin, Read, ValueSink, WriteStatus,
};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const LIMIT_BYTES: u64 = 64 * MIB;
const LOWERED_BYTES: u64 = 12 * MIB;
const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
/// Stores in a batch, after which housekeeping runs once.
const BATCH: u64 = 16;
/// Items that one round of housekeeping may look at.
const TEND_ITEMS: u32 = 128;
/// Items that one payment may look at.
const PAID_ITEMS_MAX: u64 = 32;

struct Cell {
    engine: Engine,
    budget: Arc<MemoryBudget>,
    pin: Pin,
    value: Vec<u8>,
    /// The number of the next key.
    next: u64,
}

impl Cell {
    fn new(limit_bytes: u64, value_bytes: usize) -> Self {
        let budget = MemoryBudget::new(limit_bytes);
        let config = EngineConfig { locals: 1, ..EngineConfig::new(limit_bytes) };
        let (engine, mut locals) = Engine::new(config, budget.clone()).expect("enough memory");
        let pin = locals.remove(0).pin();
        Self { engine, budget, pin, value: vec![b'v'; value_bytes], next: 0 }
    }

    fn store(&mut self) {
        let name = self.next.to_be_bytes();
        if let Some(head) = self.value.first_chunk_mut::<2>() {
            *head = [name[6], name[7]];
        }
        let value = &self.value[..];
        let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s: 0 };
        let op = Op::new(self.engine.key(&name), action);
        let wrote = self.engine.write(&mut self.pin, &op, NOW, &mut NoSink);
        assert_eq!(wrote.status, WriteStatus::Done, "key {}: {:?}", self.next, self.usage());
        self.next += 1;
    }

    /// A batch of stores, and the housekeeping after it.
    fn batch(&mut self) -> Left {
        (0..BATCH).for_each(|_| self.store());
        self.tend()
    }

    fn tend(&mut self) -> Left {
        self.pin.renew();
        self.engine.tend(&mut self.pin, NOW, TEND_ITEMS, &mut NoSink)
    }

    /// Stores twice as much as the limit.
    fn fill(&mut self) {
        let bytes = self.budget.total();
        let until = self.next + 2 * bytes / (self.value.len() as u64 + 40);
        while self.next < until {
            self.batch();
        }
    }

    fn has(&self, key: u64) -> bool {
        let mut sink = ValueSink::default();
        let name = key.to_be_bytes();
        let read = self.engine.get(&self.pin, &self.engine.key(&name), NOW, &mut sink);
        if read == Read::Hit {
            assert_eq!(sink.bytes[..2], name[6..], "the value of another key");
        }
        read == Read::Hit
    }

    fn usage(&self) -> engine::Usage {
        self.engine.usage()
    }

    fn items(&self) -> u64 {
        self.engine.counters().items
    }
}

#[test]
fn no_store_fails_and_the_memory_is_returned() {
    for value_bytes in [2, 200, 4 << 10, 40 << 10] {
        let mut cell = Cell::new(LIMIT_BYTES, value_bytes);
        cell.fill();
        let full = cell.items();
        assert!(cell.engine.limit_bytes_min() <= LOWERED_BYTES);
        cell.budget.resize(LOWERED_BYTES);
        let rooms_before = cell.engine.counters().rooms_made;
        let (mut rounds, rounds_max) = (0, full / 40 + 2_000);
        while cell.budget.used_total() > LOWERED_BYTES {
            cell.batch();
            rounds += 1;
            assert!(rounds < rounds_max, "{value_bytes} B: {:?}", cell.usage());
        }
        let rooms = cell.engine.counters().rooms_made - rooms_before;
        assert!(rooms * 1_000 <= rounds * BATCH, "{rooms} stores of {} made space", rounds * BATCH);
        assert!(cell.usage().paid_items_max <= PAID_ITEMS_MAX);
        assert!(cell.has(cell.next - 1), "what was stored last is there");
        let found = (0..cell.next).filter(|key| cell.has(*key)).count() as u64;
        assert_eq!(found, cell.items());
        cell.fill();
        let fresh = {
            let mut fresh = Cell::new(LIMIT_BYTES, value_bytes);
            fresh.budget.resize(LOWERED_BYTES);
            fresh.fill();
            fresh.items()
        };
        assert!(cell.items() * 100 >= fresh * 80, "{value_bytes} B: {} of {fresh}", cell.items());
        assert!(cell.budget.used_total() <= LOWERED_BYTES);
        cell.budget.resize(LIMIT_BYTES);
        cell.fill();
        assert!(cell.items() * 100 >= full * 95, "{value_bytes} B: {} of {full}", cell.items());
    }
}

#[test]
fn an_idle_cell_returns_the_memory_too() {
    let mut cell = Cell::new(LIMIT_BYTES, 2);
    cell.fill();
    cell.budget.resize(LOWERED_BYTES);
    let rounds_max = cell.items() / u64::from(TEND_ITEMS) * 4;
    let rounds = (0..rounds_max).take_while(|_| cell.tend() == Left::Debt).count() as u64;
    assert!(rounds < rounds_max && cell.budget.used_total() <= LOWERED_BYTES, "{:?}", cell.usage());
    assert_eq!(cell.tend(), Left::Nothing);
}

#[test]
fn an_index_without_items_is_small_again() {
    let mut cell = Cell::new(LIMIT_BYTES, 2);
    cell.fill();
    let before = cell.usage().index_bytes;
    for key in 0..cell.next {
        let name = key.to_be_bytes();
        let op = Op::new(cell.engine.key(&name), Action::Delete);
        cell.engine.write(&mut cell.pin, &op, NOW, &mut NoSink);
        if key % BATCH == 0 {
            cell.tend();
        }
    }
    while cell.tend() == Left::Debt {}
    let after = cell.usage().index_bytes;
    assert_eq!(cell.items(), 0);
    assert!(after * 8 < before, "{after} of {before} bytes");
}

#[test]
fn an_index_with_holes_is_made_compact() {
    let mut cell = Cell::new(LIMIT_BYTES, 2);
    // Sixteen slices share a group: every other group is emptied.
    let stays = |key: u64| SliceId::of(&key.to_be_bytes()).index() / 16 % 2 == 1;
    (0..600_000).for_each(|_| cell.store());
    let before = cell.usage().index_bytes;
    for key in (0..600_000).filter(|key| !stays(*key)) {
        let name = key.to_be_bytes();
        let op = Op::new(cell.engine.key(&name), Action::Delete);
        cell.engine.write(&mut cell.pin, &op, NOW, &mut NoSink);
    }
    while cell.tend() == Left::Debt {}
    let after = cell.usage().index_bytes;
    assert!(after * 10 < before * 6, "{after} of {before} bytes");
    assert!((0..600_000).all(|key| cell.has(key) == stays(key)));
}

#[test]
fn large_values_use_the_memory_that_small_ones_had() {
    let mut cell = Cell::new(LIMIT_BYTES, 10);
    cell.fill();
    cell.value = vec![b'v'; 4 << 10];
    cell.fill();
    cell.fill();
    let mut fresh = Cell::new(LIMIT_BYTES, 4 << 10);
    fresh.fill();
    fresh.fill();
    let (now, then) = (cell.items(), fresh.items());
    assert!(now * 100 >= then * 97, "{now} of {then}: {:?}", cell.usage());
}

#[test]
fn buffers_of_connections_are_granted_while_memory_is_owed() {
    let mut cell = Cell::new(LIMIT_BYTES, 200);
    cell.budget.share(Owner::Connections, 0, MIB);
    cell.fill();
    cell.budget.resize(LOWERED_BYTES);
    let grant = cell.budget.take(Owner::Connections, MIB);
    assert!(grant.is_some_and(|grant| grant.bytes() == MIB));
    assert!(cell.budget.take(Owner::Connections, MIB + 1).is_none(), "beyond its share");
}

/// Lifetimes of all classes, in seconds.
const LIFETIMES_S: [u32; 8] = [0, 30, 300, 3_000, 20_000, 80_000, 600_000, 6_000_000];

/// Stores `count` values of all lifetimes by all `locals` in turn, and reads some of them. Returns
/// how many could not be stored at once.
fn store_all_lifetimes(engine: &Engine, locals: &mut [Local], next: &mut u64, count: u64) -> u64 {
    let mut later = 0;
    for number in *next..*next + count {
        let lifetime_s = LIFETIMES_S[number as usize / 2 % LIFETIMES_S.len()];
        let expiry_s = if lifetime_s == 0 { 0 } else { NOW.expiry_s + lifetime_s };
        let value = &[7; 3_000];
        let action = Action::Store { mode: Mode::Set, value, client_flags: 0, expiry_s };
        let at = number as usize % locals.len();
        locals[at].batch(|pin| {
            let name = number.to_be_bytes();
            let op = Op::new(engine.key(&name), action);
            let status = engine.write(pin, &op, NOW, &mut NoSink).status;
            later += u64::from(status != WriteStatus::Done);
            for back in [1, 9, 17, 100] {
                let name = number.saturating_sub(back).to_be_bytes();
                engine.get(pin, &engine.key(&name), NOW, &mut ValueSink::default());
            }
        });
    }
    *next += count;
    later
}

#[test]
fn at_the_least_limit_values_of_all_lifetimes_are_stored() {
    for threads in [1, 2] {
        let budget = MemoryBudget::new(LIMIT_BYTES);
        let config = EngineConfig { locals: threads, ..EngineConfig::new(LIMIT_BYTES) };
        let (engine, mut locals) = Engine::new(config, budget.clone()).expect("enough memory");
        let mut next = 0;
        store_all_lifetimes(&engine, &mut locals, &mut next, 40_000);
        let least = engine.limit_bytes_min();
        budget.resize(least);
        for _ in 0..20_000 {
            for local in &mut locals {
                local.batch(|pin| engine.tend(pin, NOW, TEND_ITEMS, &mut NoSink));
            }
        }
        let later = store_all_lifetimes(&engine, &mut locals, &mut next, 4_000);
        assert_eq!(later, 0, "{threads} threads: {:?}", engine.usage());
        assert!(budget.used_total() <= least + MIB);
    }
}
