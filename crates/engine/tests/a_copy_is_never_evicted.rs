//! A cell that is the primary of some slices and keeps copies of others evicts items of the first
//! only, however full it is. Where the copies themselves take all memory, applying says so. After a
//! promotion the items can be evicted like any other.
#![cfg(not(any(loom, shuttle)))]

use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, NoSink, Now, Owner, Refused, SliceId,
    SliceRange, Space, Value, Version,
};
use engine::{
    Applied, Engine, EngineConfig, KeptForCopies, Local, Put, Read, Role, ValueSink, WriteStatus,
};
use std::sync::Arc;

const NOW: Now = Now { mono_ns: 0, expiry_s: 1_000 };
const LIMIT_BYTES: u64 = 2 << 20;
const VALUE: [u8; 700] = [b'v'; 700];
const COPIES: u32 = 1_000;

struct Cell {
    engine: Engine,
    budget: Arc<MemoryBudget>,
    local: Local,
    version: u64,
}

/// The slices of which the cell keeps copies.
fn copied() -> SliceRange {
    SliceRange::new(0..base::SLICES / 2)
}

impl Cell {
    fn new() -> Self {
        let budget = MemoryBudget::new(LIMIT_BYTES);
        let (engine, mut locals) =
            Engine::new(EngineConfig::new(LIMIT_BYTES), budget.clone()).expect("enough memory");
        let mut local = locals.pop().expect("a local");
        local.batch(|pin| engine.set_role(pin, copied(), Role::Copy));
        Self { engine, budget, local, version: 1 << 40 }
    }

    /// The first `count` keys from `from` on, in copied slices or in others.
    fn keys(from: u32, count: u32, in_copies: bool) -> impl Iterator<Item = [u8; 4]> {
        let keys = (from..).map(u32::to_be_bytes);
        keys.filter(move |key| copied().contains(SliceId::of(key)) == in_copies)
            .take(count as usize)
    }

    fn apply(&mut self, key: &[u8]) -> Applied {
        self.apply_beside(key, &mut NoSink)
    }

    /// Applies a change, where `sink` takes what is evicted for it.
    fn apply_beside(&mut self, key: &[u8], sink: &mut impl EffectSink) -> Applied {
        self.version += 1;
        let version = Version::from_raw(self.version);
        let change = Change::Put(Value::Parts([&VALUE, &[]]), Facts::default());
        let effect = Effect { key, change };
        self.local
            .batch(|pin| self.engine.apply(pin, SliceId::of(key), &effect, version, NOW, sink))
    }

    /// The primary says that the item has gone.
    fn drops(&mut self, key: &[u8]) {
        self.version += 1;
        let version = Version::from_raw(self.version);
        let effect = Effect { key, change: Change::Remove(base::Removal::Evicted) };
        let slice = SliceId::of(key);
        let applied = self
            .local
            .batch(|pin| self.engine.apply(pin, slice, &effect, version, NOW, &mut NoSink));
        assert_eq!(applied, Applied::Done);
    }

    fn tend(&mut self, rounds: usize) {
        for _ in 0..rounds {
            self.local.batch(|pin| self.engine.tend(pin, NOW, 512, &mut NoSink));
        }
    }

    fn store(&mut self, key: &[u8]) -> WriteStatus {
        self.store_beside(key, &mut NoSink)
    }

    fn store_beside(&mut self, key: &[u8], sink: &mut impl EffectSink) -> WriteStatus {
        let put = Put { value: &VALUE, client_flags: 0, expiry_s: 0 };
        let key = self.engine.key(key);
        self.local.batch(|pin| self.engine.set(pin, &key, put, NOW, sink))
    }

    fn has(&mut self, key: &[u8]) -> bool {
        let (key, mut sink) = (self.engine.key(key), ValueSink::default());
        self.local.batch(|pin| self.engine.get(pin, &key, NOW, &mut sink)) == Read::Hit
    }
}

#[test]
fn stores_of_a_primary_evict_no_copy_until_it_is_promoted() {
    let mut cell = Cell::new();
    for key in Cell::keys(0, COPIES, true) {
        assert_eq!(cell.apply(&key), Applied::Done);
    }
    for key in Cell::keys(0, 20_000, false) {
        assert_eq!(cell.store(&key), WriteStatus::Done);
    }
    assert!(cell.engine.counters().evicted > 10_000, "{:?}", cell.engine.counters());
    for key in Cell::keys(0, COPIES, true) {
        assert!(cell.has(&key), "a copy was evicted");
    }
    let held = cell.budget.used(Owner::Replica);
    assert!(held >= u64::from(COPIES) * 700, "{held} bytes are held for copies");

    cell.budget.resize(LIMIT_BYTES / 4);
    cell.tend(1_000);
    assert!(Cell::keys(0, COPIES, true).all(|key| cell.has(&key)), "a lower limit evicts no copy");
    cell.local.batch(|pin| cell.engine.set_role(pin, SliceRange::ALL, Role::Primary));
    cell.tend(1_000);
    let left = Cell::keys(0, COPIES, true).filter(|key| cell.has(key)).count();
    assert!(left < COPIES as usize / 2, "{left} items were not evicted after the promotion");
    assert!(cell.budget.used(Owner::Replica) < held / 2, "their segments have followed");
    assert!(!cell.budget.is_exceeded());
}

#[test]
fn copies_beyond_the_memory_are_refused_and_dead_space_is_used_again() {
    let mut cell = Cell::new();
    let keys: Vec<_> = Cell::keys(0, 10_000, true).collect();
    let fit = keys.iter().take_while(|key| cell.apply(&key[..]) == Applied::Done).count();
    assert!(fit > 1_500, "{fit} copies fit");
    for key in &keys[..fit] {
        assert!(cell.has(key), "nothing was evicted");
    }
    // Every other one goes, at the word of the primary.
    keys[..fit].iter().step_by(2).for_each(|key| cell.drops(key));
    let again = keys[fit..].iter().take_while(|key| cell.apply(&key[..]) == Applied::Done).count();
    assert!(again * 10 >= fit * 4, "{fit} fitted, half of them went, and {again} came");
}

/// Bytes of items that fit in what is kept for copies, at least: segments are not filled to their
/// ends, and one is open already.
const fn fits(kept: u64) -> usize {
    kept as usize / 2 / VALUE.len()
}

/// A log that takes no removals: nothing can be evicted.
struct NoRemovals;

impl EffectSink for NoRemovals {
    const ON: bool = true;

    fn reserve(&mut self, _: SliceId, space: Space<'_>) -> Result<(), Refused> {
        if matches!(space, Space::Removal) { Err(Refused::Full) } else { Ok(()) }
    }

    fn commit(
        &mut self,
        _: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        if matches!(effect.change, Change::Remove(_)) { Err(Refused::Full) } else { stamp() }
    }
}

#[test]
fn writes_leave_to_copies_what_was_promised_to_them() {
    let mut cell = Cell::new();
    let promised = LIMIT_BYTES / 8;
    cell.engine.keep_for_copies(KeptForCopies { promised, ..KeptForCopies::default() });
    let is_stored = |key: &[u8; 4]| cell.store_beside(key, &mut NoRemovals) == WriteStatus::Done;
    let stored = Cell::keys(0, 20_000, false).take_while(is_stored).count();
    assert!(stored > 1_500 && cell.engine.counters().evicted == 0, "{stored} fit");
    let keys: Vec<_> = Cell::keys(0, fits(promised) as u32, true).collect();
    for key in &keys {
        let applied = cell.apply_beside(key, &mut NoRemovals);
        assert_eq!(applied, Applied::Done, "{:?}", cell.engine.holdings());
    }
    let kept = KeptForCopies { promised, evict_aim: promised, compact_aim: promised };
    cell.engine.keep_for_copies(kept);
    cell.tend(100);
    assert!(cell.engine.holdings().free >= promised, "{:?}", cell.engine.holdings());
    assert!(keys.iter().all(|key| cell.has(key)), "items were evicted for that, not copies");
}

#[test]
fn space_for_copies_is_made_where_little_is_dead() {
    let mut cell = Cell::new();
    let keys: Vec<_> = Cell::keys(0, 10_000, true).collect();
    let fit = keys.iter().take_while(|key| cell.apply(&key[..]) == Applied::Done).count();
    // A fifth of each segment: nothing of that is used again without need.
    keys[..fit].iter().step_by(5).for_each(|key| cell.drops(key));
    cell.tend(100);
    let free = cell.engine.holdings().free;
    let compact_aim = LIMIT_BYTES / 16;
    assert!(free < compact_aim && cell.engine.holdings().compactable() > compact_aim, "{free}");
    cell.engine.keep_for_copies(KeptForCopies { compact_aim, ..KeptForCopies::default() });
    cell.tend(1_000);
    let held = cell.engine.holdings();
    assert!(held.free >= compact_aim, "{held:?}");
    for (at, key) in keys[..fit].iter().enumerate() {
        assert_eq!(cell.has(key), at % 5 != 0);
    }
}

#[test]
fn as_much_as_is_asked_for_is_evicted_although_there_is_space() {
    let mut cell = Cell::new();
    for key in Cell::keys(0, 1_500, false) {
        assert_eq!(cell.store(&key), WriteStatus::Done);
    }
    cell.tend(100);
    assert_eq!(cell.engine.counters().evicted, 0, "there is space");
    cell.engine.evict_more(200 * 700);
    cell.engine.evict_more(100 * 700);
    cell.tend(100);
    let evicted = cell.engine.counters().evicted;
    assert!((150..400).contains(&evicted), "{evicted}");
    assert_eq!(cell.engine.evicts_more(), 0);
}
