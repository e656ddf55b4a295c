//! The slots of one shard: open addressing, linear probing, robin hood.
//!
//! ```text
//! home       0  1  2  3  4            distance: how far a slot's entry is from its home
//! entry of   -  1  1  1  4            a key is searched from its home until an empty slot, or one
//! distance      0  1  2  0            whose entry is nearer to its home than the key would be
//! ```
//!
//! Invariants: at least one slot is empty if there are any; between the home of an entry and its
//! slot no slot is empty; an entry is never nearer to its home than one that follows it could be in
//! its place. Removal closes the gap, so there are no marks of removed entries.
//!
//! Homes rise with the hash, and so does the order of entries: when a table changes its size, both
//! tables are passed over from front to back.

use super::entry::{Entry, Kind, Place, Step};
use super::slot::{SLOT_BYTES, Slot};
use crate::key::{KeyHash, place_of};
use base::Version;

/// The smallest table that is not empty, in slots.
const SLOTS_MIN: usize = 4;
/// Slots of ten that are used at most.
const USED_MAX: usize = 9;
/// Slots of ten below which a table shrinks.
const USED_MIN: usize = 6;

/// The entries of one shard.
pub(super) struct Table {
    slots: Box<[Slot]>,
    len: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Self { slots: Box::default(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of its slots.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    pub(super) fn get(&self, hash: KeyHash) -> Option<Entry> {
        self.slots[self.find(hash)?].entry()
    }

    /// Keeps the entry, unless there is one that is not older. Returns whether it is kept.
    pub(super) fn set(&mut self, hash: KeyHash, entry: &Entry) -> bool {
        let slot = Slot::new(hash, entry);
        match self.find(hash) {
            Some(at) if self.slots[at].version() >= entry.version => return false,
            Some(at) => self.slots[at] = slot,
            None => self.add(slot),
        }
        true
    }

    /// Changes version and expiry of the entry of a key that was not removed, and where its value
    /// lies below the place, or adds `entry`. Returns whether it did either.
    pub(super) fn touch(&mut self, hash: KeyHash, entry: &Entry) -> bool {
        let Some(at) = self.find(hash) else {
            self.add(Slot::new(hash, entry));
            return true;
        };
        let found = self.slots[at].entry();
        let Some(found) =
            found.filter(|found| found.version < entry.version && found.kind != Kind::Tombstone)
        else {
            return false;
        };
        self.slots[at].touch(entry.version, entry.expiry_s);
        if found.kind == Kind::TouchOf {
            self.slots[at].relocate(entry.place);
        }
        true
    }

    /// Removes the entry of a key if it has this version. Returns whether it did.
    pub(super) fn remove_if(&mut self, hash: KeyHash, version: Version) -> bool {
        let at = self.find(hash).filter(|at| self.slots[*at].version() == version);
        if let Some(at) = at {
            self.remove_at(at);
            self.shrink();
        }
        at.is_some()
    }

    /// Removes the entry of a key if it has this version or an older one.
    pub(super) fn supersede(&mut self, hash: KeyHash, version: Version) {
        if let Some(entry) = self.get(hash).filter(|entry| entry.version <= version) {
            self.remove_if(hash, entry.version);
        }
    }

    /// Carries out what a record says.
    pub(super) fn carry_out(&mut self, hash: KeyHash, step: &Step) {
        match step {
            Step::Set(entry) => drop(self.set(hash, entry)),
            Step::Touch(entry) => drop(self.touch(hash, entry)),
            Step::Raise(entry) if self.find(hash).is_none() => {}
            Step::Raise(entry) => drop(self.touch(hash, entry)),
            Step::Supersede(version) => self.supersede(hash, *version),
        }
    }

    /// The record at `place` was written back as of `version`: removes the entry of the key, or
    /// notes that only a touch is left, if the key was touched since. Does nothing if the key was
    /// changed otherwise.
    pub(super) fn written_back(&mut self, hash: KeyHash, place: Place, version: Version) -> bool {
        if self.remove_if(hash, version) {
            return true;
        }
        let Some(at) = self.find(hash) else { return false };
        let entry = self.slots[at].entry();
        if entry.is_some_and(|entry| entry.place == place && entry.kind == Kind::Value) {
            self.slots[at].becomes_touch();
        }
        false
    }

    /// The record at `from` lies at `to` now. Returns whether the key has an entry that named it.
    pub(super) fn relocate(&mut self, hash: KeyHash, from: Place, to: Place) -> bool {
        let Some(at) = self.find(hash) else { return false };
        let names = self.slots[at].entry().is_some_and(|entry| entry.place == from);
        if names {
            self.slots[at].relocate(to);
        }
        names
    }

    /// Shows every entry to `keep`, and removes those for which it returns `false`. `top`: the top
    /// bits of the hashes.
    pub(super) fn retain(&mut self, top: u64, mut keep: impl FnMut(KeyHash, &Entry) -> bool) {
        // From an empty slot on: no removal moves an entry past it.
        let Some(gap) = self.slots.iter().position(Slot::is_empty) else { return };
        let mut at = self.next(gap);
        while at != gap {
            let slot = &self.slots[at];
            match slot.entry() {
                // After that the next entry is here, if it was not in its home slot.
                Some(entry) if !keep(slot.hash(top), &entry) => self.remove_at(at),
                _ => at = self.next(at),
            }
        }
        self.shrink();
    }

    /// Shows every entry to `see`.
    pub(super) fn for_each(&self, top: u64, mut see: impl FnMut(KeyHash, &Entry)) {
        for slot in &self.slots {
            if let Some(entry) = slot.entry() {
                see(slot.hash(top), &entry);
            }
        }
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() { 0 } else { at + 1 }
    }

    /// How far the entry at `at` is from its home.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        let first = place_of(self.slots[at].low(), self.slots.len());
        if at >= first { at - first } else { at + self.slots.len() - first }
    }

    fn find(&self, hash: KeyHash) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let (mut at, mut distance) = (place_of(hash.low(), self.slots.len()), 0);
        loop {
            let slot = &self.slots[at];
            if slot.is_of(hash) {
                return Some(at);
            }
            if slot.is_empty() || self.distance(at) < distance {
                return None;
            }
            (at, distance) = (self.next(at), distance + 1);
        }
    }

    /// Makes space for as many entries in all, in `slots_max` slots at most. A quarter stays empty:
    /// in a fuller table what comes last lies far from its home. One that grows does so by a fifth
    /// at least.
    pub(super) fn expect(&mut self, entries: usize, slots_max: usize) {
        let (now, wanted) = (self.slots.len(), entries * 4 / 3 + 1);
        let count = wanted.max(now + now / 5).min(slots_max);
        if wanted > now.max(SLOTS_MIN) && count > now {
            self.resize(count);
        }
    }

    /// Adds an entry that is not there, and makes space for it first.
    fn add(&mut self, slot: Slot) {
        let count = self.slots.len();
        if (self.len + 1) * 10 > count * USED_MAX {
            self.resize((count + (count / 5).max(2)).max(SLOTS_MIN));
        }
        self.place(slot);
    }

    /// Puts an entry that is not there into its place. There is space for it.
    fn place(&mut self, mut slot: Slot) {
        let (mut at, mut distance) = (place_of(slot.low(), self.slots.len()), 0);
        while !self.slots[at].is_empty() {
            let other = self.distance(at);
            if other < distance {
                std::mem::swap(&mut self.slots[at], &mut slot);
                distance = other;
            }
            (at, distance) = (self.next(at), distance + 1);
        }
        self.slots[at] = slot;
        self.len += 1;
    }

    /// Removes the entry at `at`: those that follow move one slot towards their homes.
    fn remove_at(&mut self, mut at: usize) {
        loop {
            let next = self.next(at);
            if self.slots[next].is_empty() || self.distance(next) == 0 {
                break;
            }
            self.slots[at] = self.slots[next];
            at = next;
        }
        self.slots[at] = Slot::EMPTY;
        self.len -= 1;
    }

    fn shrink(&mut self) {
        let count = self.slots.len();
        let fewer = (self.len * 4).div_ceil(3).max(SLOTS_MIN);
        if self.len * 10 < count * USED_MIN && fewer < count {
            self.resize(fewer);
        }
    }

    fn resize(&mut self, count: usize) {
        let slots = std::mem::replace(&mut self.slots, vec![Slot::EMPTY; count].into());
        self.len = 0;
        for slot in slots.iter().filter(|slot| !slot.is_empty()) {
            self.place(*slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Place;

    fn entry(number: u32) -> Entry {
        let place = Place { segment: number, offset: 0, bytes: 1 };
        let version = Version::from_raw(number.into());
        Entry { place, version, expiry_s: 0, kind: Kind::Value }
    }

    /// A hash whose home is slot `home` of 256.
    fn hash(home: u8, number: u32) -> KeyHash {
        KeyHash::from_raw(u128::from(home) << 56 | u128::from(number))
    }

    fn keys(table: &Table) -> Vec<u32> {
        let mut keys = Vec::new();
        table.for_each(0, |_, entry| keys.push(entry.place.segment));
        keys.sort_unstable();
        keys
    }

    #[test]
    fn entries_of_one_home_are_found_around_the_end_of_the_table() {
        let mut table = Table::new();
        (0..40).for_each(|number| assert!(table.set(hash(250, number), &entry(number))));
        (40..50).for_each(|number| assert!(table.set(hash(0, number), &entry(number))));
        let found = (0..50).map(|number| {
            table.get(hash(if number < 40 { 250 } else { 0 }, number)).expect("it was set")
        });
        assert!(found.map(|entry| entry.place.segment).eq(0..50));
        assert_eq!(table.get(hash(250, 40)), None);
    }

    #[test]
    fn what_is_retained_was_shown_once() {
        for seed in 0..50 {
            let mut table = Table::new();
            for number in 0..40 {
                // Few homes, mostly at the end: long runs around it.
                let home = [255, 254, 128, 3][(number as usize * 7 + seed) % 4];
                table.set(hash(home, number), &entry(number));
            }
            let mut shown = Vec::new();
            table.retain(0, |_, entry| {
                shown.push(entry.place.segment);
                !(entry.place.segment as usize + seed).is_multiple_of(3)
            });
            shown.sort_unstable();
            assert!(shown.into_iter().eq(0..40), "seed {seed}");
            let kept = (0..40).filter(|number| !(*number as usize + seed).is_multiple_of(3));
            assert!(keys(&table).into_iter().eq(kept), "seed {seed}");
        }
    }

    #[test]
    fn a_table_grows_by_a_fifth_and_shrinks_when_it_is_empty() {
        let mut table = Table::new();
        let mut before = 0;
        for number in 0..10_000_u32 {
            table.set(hash(0, number.reverse_bits()), &entry(number));
            let count = table.slots.len();
            let most = before + (before / 5).max(2);
            assert!(count <= most.max(SLOTS_MIN) && table.len * 10 <= count * USED_MAX);
            before = count;
        }
        table.retain(0, |_, entry| entry.place.segment < 5);
        assert_eq!((table.len, table.slots.len()), (5, 7));
        table.retain(0, |_, _| false);
        assert_eq!((table.len, table.slots.len()), (0, SLOTS_MIN));
    }
}
