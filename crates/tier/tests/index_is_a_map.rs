//! The dirty index against an ordered map, its memory, and threads that change it side by side.
#![cfg(not(any(loom, shuttle)))]

use base::{SliceId, Version};
use measure::rng::{Rng, mix};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use tier::{Cursor, ENTRY_BYTES, Entry, Index, KeyHash, KeyHasher, Kind, Place};

const SEED: u64 = 20_261;

fn key(number: u64) -> KeyHash {
    KeyHash::from_raw(u128::from(mix(number)) << 64 | u128::from(mix(number + (1 << 40))))
}

fn place(number: u64) -> Place {
    Place { segment: (number >> 10) as u32, offset: number as u32 & 1023, bytes: 64 }
}

fn entry(version: u64, kind: Kind) -> Entry {
    let version = Version::from_raw(version);
    Entry { place: place(version.raw()), version, expiry_s: 0, kind }
}

/// What the index promises, on a map.
#[derive(Default)]
struct Model(BTreeMap<KeyHash, Entry>);

impl Model {
    fn set(&mut self, hash: KeyHash, entry: Entry) -> bool {
        let is_newer = self.0.get(&hash).is_none_or(|old| old.version < entry.version);
        if is_newer {
            self.0.insert(hash, entry);
        }
        is_newer
    }

    fn touch(&mut self, hash: KeyHash, version: Version, expiry_s: u32, place: Place) -> bool {
        let new = Entry { place, version, expiry_s, kind: Kind::TouchOf };
        let Some(old) = self.0.get_mut(&hash) else {
            self.0.insert(hash, new);
            return true;
        };
        let changes = old.version < version && old.kind != Kind::Tombstone;
        if changes {
            // The place of a value stays.
            let place = if old.kind == Kind::TouchOf { place } else { old.place };
            *old = Entry { place, version, expiry_s, ..*old };
        }
        changes
    }

    fn remove_if(&mut self, hash: KeyHash, version: Version) -> bool {
        let is_same = self.0.get(&hash).is_some_and(|old| old.version == version);
        is_same && self.0.remove(&hash).is_some()
    }
}

fn check_all(index: &Index, model: &Model) {
    let mut seen = BTreeMap::new();
    index.for_each(|hash, entry| assert!(seen.insert(hash, *entry).is_none(), "seen twice"));
    assert_eq!(seen, model.0);
    assert_eq!(index.len(), model.0.len() as u64);
}

/// A walk that keeps about as many as `keep` says, of each eight.
fn walk(index: &Index, model: &mut Model, keep: u128) {
    let keeps = |hash: KeyHash| hash.raw() >> 20 & 7 < keep;
    let (mut cursor, mut shown) = (Some(Cursor::default()), 0);
    while let Some(at) = cursor {
        cursor = index.walk(at, |hash, entry| {
            assert_eq!(model.0.get(&hash), Some(entry));
            shown += 1;
            keeps(hash)
        });
    }
    assert_eq!(shown, model.0.len());
    model.0.retain(|hash, _| keeps(*hash));
}

/// Random operations on `keys` keys. The number of keys that are there rises and falls.
fn random_operations(seed: u64, keys: u64, steps: u64) {
    let (index, mut model, mut dice) = (Index::new(1 << 30), Model::default(), Rng::new(seed, 0));
    for step in 1..=steps {
        let hash = key(dice.below(keys));
        // Mostly rising, at times older than what is there.
        let version = Version::from_raw(step.saturating_sub(dice.below(2) * dice.below(2 * keys)));
        let kind = [Kind::Value, Kind::Value, Kind::Tombstone, Kind::TouchOf];
        let kind = kind[dice.below(4) as usize];
        let grows = (step / (2 * keys)).is_multiple_of(2);
        match dice.below(8) {
            0..=1 => {
                let expiry = dice.below(1000) as u32;
                let done = index.touch(hash, version, expiry, place(step));
                assert_eq!(done, model.touch(hash, version, expiry, place(step)), "step {step}");
            }
            2..=4 if grows => {
                let entry = Entry { place: place(step), version, expiry_s: 7, kind };
                assert_eq!(index.set(hash, entry), model.set(hash, entry), "step {step}");
            }
            2..=5 => {
                let present = model.0.get(&hash).map(|entry| entry.version);
                let version = present.filter(|_| dice.below(4) > 0).unwrap_or(version);
                assert_eq!(index.remove_if(hash, version), model.remove_if(hash, version));
            }
            _ => {
                let found = model.0.get(&hash).copied();
                assert_eq!(index.get(hash), found, "seed {seed}, step {step}");
                let place = found.map_or(place(step), |entry| entry.place);
                assert_eq!(index.names(hash, place), found.is_some());
                let other = Place { offset: place.offset ^ 1, ..place };
                assert!(!index.names(hash, other));
            }
        }
        if step.is_multiple_of(5 * keys) {
            check_all(&index, &model);
            walk(&index, &mut model, (step / keys % 9).into());
            check_all(&index, &model);
        }
    }
}

#[test]
fn random_operations_do_what_they_do_to_a_map() {
    for (seed, keys, steps) in [(1, 50, 20_000), (2, 3_000, 150_000), (3, 30_000, 400_000)] {
        random_operations(SEED + seed, keys, steps);
    }
}

#[test]
fn a_key_takes_56_bytes_at_most_while_the_index_grows() {
    let hasher = KeyHasher::new([9; 16]);
    let index = Index::new(u64::MAX);
    let fixed = index.bytes();
    assert_eq!(fixed, 32 << 10, "the shards themselves");
    let (mut worst, mut at) = (0.0_f64, 0);
    for number in 1..=1_000_000_u64 {
        let name = number.to_le_bytes();
        index.set(hasher.hash(SliceId::of(&name), &name), entry(number, Kind::Value));
        if number >= 10_000 && number.is_multiple_of(500) {
            let each = (index.bytes() - fixed) as f64 / number as f64;
            assert!(index.bytes() <= ENTRY_BYTES * number + fixed, "{each} each of {number}");
            if each > worst {
                (worst, at) = (each, number);
            }
        }
        if [10_000, 100_000, 1_000_000].contains(&number) {
            println!("{number} keys: {:.1} bytes each", index.bytes() as f64 / number as f64);
        }
    }
    println!("most: {worst:.1} bytes each of {at} keys, without the shards");
    assert!(worst <= 54.0);
}

#[test]
fn an_index_that_is_filled_to_its_capacity_keeps_within_its_bytes() {
    for bytes_max in [1 << 20, 8 << 20, 33 << 20] {
        let index = Index::new(bytes_max);
        let mut number = 0;
        while !index.is_full(1) {
            index.set(key(number), entry(1, Kind::Value));
            number += 1;
            assert!(index.bytes() <= bytes_max, "{} of {bytes_max}", index.bytes());
        }
        assert_eq!((index.len(), number), (index.capacity(), index.capacity()));
        assert!(index.is_full(1) && !index.is_full(0) && index.capacity() >= bytes_max / 58);
    }
}

#[test]
fn an_index_that_is_emptied_shrinks() {
    let index = Index::new(1 << 30);
    let fixed = index.bytes();
    let count = 200_000_u64;
    (0..count).for_each(|number| _ = index.set(key(number), entry(number + 1, Kind::Value)));
    for number in 0..count {
        assert!(index.remove_if(key(number), Version::from_raw(number + 1)));
        let left = index.len();
        // A slot has 40 bytes, and a shard uses six of ten at least, or has a few slots.
        assert!(index.bytes() - fixed <= left * 400 / 6 + 512 * 7 * 40, "{left} left");
    }
    assert!(index.is_empty() && index.bytes() - fixed <= 512 * 4 * 40);
}

#[test]
fn what_was_flushed_at_an_older_version_removes_nothing() {
    let (index, hash) = (Index::new(1 << 20), key(1));
    assert!(index.set(hash, entry(5, Kind::Value)));
    assert!(index.touch(hash, Version::from_raw(6), 90, place(6)));
    assert!(!index.remove_if(hash, Version::from_raw(5)), "touched since");
    assert!(index.names(hash, place(5)), "the touch has no value");
    assert!(index.remove_if(hash, Version::from_raw(6)));
    assert!(index.touch(hash, Version::from_raw(7), 91, place(7)), "the value lies below");
    let left = Entry { expiry_s: 91, ..entry(7, Kind::TouchOf) };
    assert_eq!(index.get(hash), Some(left));
    assert!(index.set(hash, entry(8, Kind::Tombstone)));
    assert!(!index.touch(hash, Version::from_raw(9), 92, place(9)), "it was removed");
    assert_eq!(index.get(hash), Some(entry(8, Kind::Tombstone)));
}

#[test]
fn hashes_that_differ_in_one_bit_are_those_of_different_keys() {
    let index = Index::new(1 << 20);
    let hashes = (0..128).map(|bit| KeyHash::from_raw(1 << bit ^ 0xA5 << 60));
    let hashes: Vec<_> = hashes.collect();
    for (version, hash) in hashes.iter().enumerate() {
        assert!(index.set(*hash, entry(version as u64 + 1, Kind::TouchOf)));
    }
    let mut shown = BTreeMap::new();
    index.for_each(|hash, entry| _ = shown.insert(hash, entry.version.raw()));
    assert_eq!(shown.len(), 128);
    for (version, hash) in hashes.iter().enumerate() {
        let found = index.get(*hash).map(|entry| entry.version.raw());
        assert_eq!((found, shown.get(hash)), (Some(version as u64 + 1), found.as_ref()));
    }
}

#[test]
fn threads_that_set_the_same_keys_leave_the_highest_version() {
    const KEYS: u64 = 500;
    const THREADS: u64 = 4;
    let (index, begin) = (Index::new(1 << 30), Barrier::new(THREADS as usize));
    let set = |lane: u64| {
        let mut dice = Rng::new(SEED, lane);
        let (mut highest, mut own) = ([0; KEYS as usize], 0);
        begin.wait();
        for step in 0..60_000 {
            let number = dice.below(KEYS);
            // No two threads give the same version.
            let version = (dice.below(1 << 30) << 2 | lane) + 1;
            index.set(key(number), entry(version, Kind::Value));
            highest[number as usize] = version.max(highest[number as usize]);
            let found = index.get(key(number)).expect("never removed").version.raw();
            assert!(found >= highest[number as usize], "thread {lane}, step {step}");
            // Keys of this thread alone.
            let apart = key(((lane + 1) << 32) + step % 1000);
            if step / 1000 % 2 == 0 {
                assert!(index.set(apart, entry(step + 1, Kind::Tombstone)));
                own += 1;
            } else {
                assert!(index.remove_if(apart, Version::from_raw(step - 1000 + 1)));
                own -= 1;
            }
        }
        assert_eq!(own, 0);
        highest
    };
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|lane| scope.spawn(move || set(lane))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert_eq!(index.len(), KEYS);
    for number in 0..KEYS {
        let highest = all.iter().map(|of| of[number as usize]).max();
        let found = index.get(key(number)).map(|entry| entry.version.raw());
        assert_eq!(found, highest, "key {number}");
    }
}

#[test]
fn a_flush_that_races_a_change_never_removes_the_change() {
    const KEYS: u64 = 20_000;
    let (index, begin) = (Index::new(1 << 30), Barrier::new(2));
    for round in 0..4 {
        let (old, new) = (round * 2 + 1, round * 2 + 2);
        (0..KEYS).for_each(|number| assert!(index.set(key(number), entry(old, Kind::Value))));
        thread::scope(|scope| {
            scope.spawn(|| {
                begin.wait();
                for number in 0..KEYS {
                    if number % 2 == 0 {
                        assert!(index.set(key(number), entry(new, Kind::Value)));
                    } else {
                        let version = Version::from_raw(new);
                        assert!(index.touch(key(number), version, 5, place(new)));
                    }
                    let found = index.get(key(number)).expect("the flush was of the old one");
                    assert_eq!(found.version.raw(), new);
                }
            });
            scope.spawn(|| {
                begin.wait();
                for number in 0..KEYS {
                    index.remove_if(key(number), Version::from_raw(old));
                }
            });
        });
        assert_eq!(index.len(), KEYS);
        (0..KEYS).for_each(|number| {
            let found = index.get(key(number)).expect("it was changed after what was flushed");
            assert_eq!(found.version.raw(), new, "key {number}");
            assert!(matches!(found.kind, Kind::Value | Kind::TouchOf));
        });
    }
}
