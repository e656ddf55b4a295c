//! All shards of the dirty index, their locks, and what is counted over them.
//!
//! Each call locks one shard for as long as it takes to probe a few slots, or to copy one table
//! when its size changes. A caller may hold the lock of a bucket or of a log meanwhile; nothing is
//! called from here under the lock but the functions that walks are given.

use super::entry::{Entry, Kind, Place, Step};
use super::partly_below::PartlyBelow;
use super::slot::{SHARD_BITS_MIN, SLOT_BYTES};
use super::table::Table;
use crate::key::KeyHash;
use crate::sync::{AtomicU64, MODEL, Mutex, Ordering, lock};
use base::Version;

/// What [`Index::capacity`] counts for each entry, in bytes.
pub const ENTRY_BYTES: u64 = 56;

/// Bits of the hash that name a shard. 512 shards: a table of ten million entries has about a
/// megabyte, which is copied in a fraction of a millisecond.
const SHARD_BITS: u32 = 9;
const SHARDS: usize = 1 << SHARD_BITS;
const _: () = assert!(SHARD_BITS >= SHARD_BITS_MIN);

/// Bytes of the shards without their slots.
const FIXED_BYTES: u64 = (SHARDS * size_of::<Shard>()) as u64;
const _: () = assert!(MODEL || FIXED_BYTES == 32 << 10);

/// A shard, in a cache line of its own.
#[repr(align(64))]
struct Shard(Mutex<Table>);

/// How far a walk over the index has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor(u32);

/// For each key the newest record that is not written back yet. Shared by threads.
///
/// ```
/// use base::{SliceId, Version};
/// use tier::{Entry, Index, KeyHasher, Kind, Place};
///
/// let index = Index::new(8 << 20);
/// let hash = KeyHasher::new([7; 16]).hash(SliceId::of(b"key"), b"key");
/// let place = Place { segment: 1, offset: 4096, bytes: 120 };
/// let (first, second) = (Version::from_raw(1), Version::from_raw(2));
/// let entry = Entry { place, version: first, expiry_s: 0, kind: Kind::Value };
/// assert!(index.set(hash, entry) && index.names(hash, place));
///
/// let touch = Place { segment: 1, offset: 9000, bytes: 40 };
/// assert!(index.touch(hash, second, 60, touch));
/// assert_eq!(index.get(hash), Some(Entry { version: second, expiry_s: 60, ..entry }));
/// assert!(!index.remove_if(hash, first), "it was touched since");
/// assert!(index.remove_if(hash, second) && index.is_empty());
/// ```
pub struct Index {
    shards: Box<[Shard]>,
    capacity: u64,
    len: AtomicU64,
    /// Bytes of all slots.
    slot_bytes: AtomicU64,
    /// Of keys that another cell writes back.
    partly_below: PartlyBelow,
}

impl Index {
    /// An empty index that takes at most `bytes_max` bytes, if the caller lets no more entries in
    /// than [`Index::capacity`].
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        let shards = (0..SHARDS).map(|_| Shard(Mutex::new(Table::new()))).collect();
        let capacity = bytes_max.saturating_sub(FIXED_BYTES) / ENTRY_BYTES;
        let [len, slot_bytes] = [0, 0].map(AtomicU64::new);
        Self { shards, capacity, len, slot_bytes, partly_below: PartlyBelow::new() }
    }

    /// Most entries that it should have. It does not refuse more: [`Index::is_full`] is asked
    /// before a change is made.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How many entries it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it would have more entries than its capacity after `slack` more.
    #[must_use]
    pub fn is_full(&self, slack: u64) -> bool {
        self.len().saturating_add(slack) > self.capacity
    }

    /// Bytes that it has allocated, without what the allocator adds.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        FIXED_BYTES + self.slot_bytes.load(Ordering::Relaxed)
    }

    /// Makes space for as many `more` entries, if it may have them: what is added then copies no
    /// table. A shard gets a little more than its share, since keys are not spread evenly.
    pub(crate) fn expect(&self, more: u64) {
        let all = self.len().saturating_add(more).min(self.capacity);
        let each = all / SHARDS as u64;
        let each = (each + each.isqrt() * 2) as usize;
        let most = (self.capacity * ENTRY_BYTES) as usize / SLOT_BYTES / SHARDS;
        let expect = |table: &mut Table| table.expect(each, most);
        self.shards.iter().for_each(|shard| self.change_shard(shard, expect));
    }

    /// Keeps `entry`, unless the key has one of the same version or a higher one. Returns whether
    /// it is kept.
    ///
    /// A value that comes after a touch of a higher version is ignored, too. So the changes of one
    /// key have to come in the order of their log.
    pub fn set(&self, hash: KeyHash, entry: Entry) -> bool {
        self.change(hash, |table| table.set(hash, &entry))
    }

    /// Gives the entry of a key another version and expiry, if this version is higher. The kind
    /// stays, and the place of a value. A key without an entry gets one of [`Kind::TouchOf`]; such
    /// a one has the `place` of the last touch. A removed key stays as it is. Returns whether
    /// anything was changed.
    pub fn touch(&self, hash: KeyHash, version: Version, expiry_s: u32, place: Place) -> bool {
        let entry = Entry { place, version, expiry_s, kind: Kind::TouchOf };
        self.change(hash, |table| table.touch(hash, &entry))
    }

    /// The entry of a key.
    #[must_use]
    pub fn get(&self, hash: KeyHash) -> Option<Entry> {
        lock(&self.shard(hash).0).get(hash)
    }

    /// Whether the entry of a key has this place: the record there is the newest with a value.
    #[must_use]
    pub fn names(&self, hash: KeyHash, place: Place) -> bool {
        self.get(hash).is_some_and(|entry| entry.place == place)
    }

    /// Removes the entry of a key that was written back at `version`, unless the key was changed
    /// since. Returns whether it was removed.
    pub fn remove_if(&self, hash: KeyHash, version: Version) -> bool {
        self.change(hash, |table| table.remove_if(hash, version))
    }

    /// The record at `place` was written back as of `version`. Removes the entry of the key, and
    /// returns `true`, unless the key was changed since. If it was only touched since, the entry
    /// says from now on that the value lies below.
    pub fn written_back(&self, hash: KeyHash, place: Place, version: Version) -> bool {
        self.change(hash, |table| table.written_back(hash, place, version))
    }

    /// The record at `from` lies at `to` now: the entry of the key names that, if it named `from`.
    /// Returns whether it did.
    pub fn relocate(&self, hash: KeyHash, from: Place, to: Place) -> bool {
        self.change(hash, |table| table.relocate(hash, from, to))
    }

    /// One step of a walk: shows the entries of the next shard to `keep`, under its lock, and
    /// removes those for which `keep` returns `false`. Returns how to continue, or `None` after the
    /// last shard. A walk begins with `Cursor::default()`. It shows each entry once that is there
    /// for the whole time. `keep` calls nothing of this index.
    pub fn walk(
        &self,
        cursor: Cursor,
        keep: impl FnMut(KeyHash, &Entry) -> bool,
    ) -> Option<Cursor> {
        let number = cursor.0 as usize;
        let shard = self.shards.get(number)?;
        self.change_shard(shard, |table| table.retain(top(number), keep));
        (number + 1 < SHARDS).then_some(Cursor(cursor.0 + 1))
    }

    /// Shows all entries to `see`, one shard after the other, each under its lock. `see` calls
    /// nothing of this index.
    pub fn for_each(&self, mut see: impl FnMut(KeyHash, &Entry)) {
        for (number, shard) in self.shards.iter().enumerate() {
            lock(&shard.0).for_each(top(number), &mut see);
        }
    }

    /// Whether `is` says so of an entry, one shard after the other, each under its lock. `is` calls
    /// nothing of this index.
    #[must_use]
    pub fn has_any(&self, is: impl Fn(KeyHash, &Entry) -> bool) -> bool {
        self.shards.iter().enumerate().any(|(number, shard)| {
            let mut found = false;
            let mut see = |hash, entry: &Entry| found = found || is(hash, entry);
            lock(&shard.0).for_each(top(number), &mut see);
            found
        })
    }

    /// Removes all entries.
    pub fn clear(&self) {
        let mut at = Some(Cursor::default());
        while let Some(cursor) = at {
            at = self.walk(cursor, |_, _| false);
        }
    }

    /// Removes the entry of a key if it has this version or an older one: that is below. Where a
    /// newer one has a value, [`Index::is_below`] finds whether that is below.
    pub fn superseded(&self, hash: KeyHash, version: Version) {
        let left = self.change(hash, |table| {
            table.supersede(hash, version);
            table.get(hash)
        });
        if left.is_some_and(|entry| entry.kind == Kind::Value) {
            self.partly_below.note(hash, version);
        }
    }

    /// Whether a key that was changed since is known to be below as of some version.
    pub fn is_partly_below(&self, hash: KeyHash) -> bool {
        self.partly_below.has(hash)
    }

    /// The record at `place`, which the entry of a key names, has the value as of `version`. If it
    /// is known to be below as of that version or a later one, only touches are left: the entry
    /// says so from now on. Returns whether that is so.
    pub fn is_below(&self, hash: KeyHash, place: Place, version: Version) -> bool {
        let below = self.partly_below.take(hash, version);
        below.inspect(|below| _ = self.written_back(hash, place, *below)).is_some()
    }

    /// Carries out steps, those of a key in their order. One shard comes after the other: so the
    /// processor waits for the memory of many slots at once, where a lock for each step would have
    /// it wait for one after the other.
    pub(crate) fn carry_out(&self, steps: &[(KeyHash, Step)]) {
        let of = |step: &(KeyHash, Step)| step.0.top(SHARD_BITS);
        let mut begins = vec![0; SHARDS + 1];
        steps.iter().for_each(|step| begins[of(step) + 1] += 1);
        for shard in 0..SHARDS {
            begins[shard + 1] += begins[shard];
        }
        let (mut order, mut next) = (vec![0; steps.len()], begins.clone());
        for (number, step) in steps.iter().enumerate() {
            let at = &mut next[of(step)];
            order[*at] = number;
            *at += 1;
        }
        for (shard, range) in self.shards.iter().zip(begins.windows(2)) {
            let own = order[range[0]..range[1]].iter().map(|number| &steps[*number]);
            self.change_shard(shard, |table| {
                own.for_each(|(hash, step)| table.carry_out(*hash, step));
            });
        }
    }

    fn shard(&self, hash: KeyHash) -> &Shard {
        &self.shards[hash.top(SHARD_BITS)]
    }

    fn change<T>(&self, hash: KeyHash, change: impl FnOnce(&mut Table) -> T) -> T {
        self.change_shard(self.shard(hash), change)
    }

    /// Changes a table under its lock, and counts what that added and removed.
    fn change_shard<T>(&self, shard: &Shard, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = lock(&shard.0);
        let before = (table.len(), table.bytes());
        let done = change(&mut table);
        count(&self.len, before.0, table.len());
        count(&self.slot_bytes, before.1, table.bytes());
        done
    }
}

/// The top bits of the hashes of a shard, in their places.
fn top(shard: usize) -> u64 {
    (shard as u64) << (u64::BITS - SHARD_BITS)
}

/// Adds to a sum what one part of it has grown by.
#[inline]
fn count(sum: &AtomicU64, before: usize, after: usize) {
    if after != before {
        // Wraps around where the part is smaller than it was: so does the addition.
        sum.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Place;
    use std::collections::BTreeMap;

    fn entries(index: &Index) -> BTreeMap<u128, Entry> {
        let mut entries = BTreeMap::new();
        index.for_each(|hash, entry| entries.extend([(hash.raw(), *entry)]));
        entries
    }

    /// A few keys, each with many steps, whose versions mostly rise.
    fn steps() -> Vec<(KeyHash, Step)> {
        let mut state = 1_u64;
        let mut drawn = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(11);
            (state >> 33) % below
        };
        let one = |number: u64| {
            let hash = KeyHash::from_raw((u128::from(drawn(3_000)) * 0x9E37_79B9_7F4A_7C15) << 50);
            let version = Version::from_raw(number + drawn(40));
            let place = Place { segment: number as u32, offset: 0, bytes: 1 };
            let entry = |kind| Entry { place, version, expiry_s: 7, kind };
            let step = match drawn(8) {
                0 => Step::Supersede(Version::from_raw(number / 2)),
                1 => Step::Supersede(version),
                2 => Step::Touch(entry(Kind::TouchOf)),
                3 => Step::Raise(entry(Kind::TouchOf)),
                4 => Step::Set(entry(Kind::Tombstone)),
                _ => Step::Set(entry(Kind::Value)),
            };
            (hash, step)
        };
        (1..30_000).map(one).collect()
    }

    #[test]
    fn steps_by_shard_do_what_they_do_one_by_one() {
        let (ordered, plain) = (Index::new(8 << 20), Index::new(8 << 20));
        for some in steps().chunks(5_000) {
            ordered.expect(5_000);
            ordered.carry_out(some);
            for (hash, step) in some {
                plain.change(*hash, |table| table.carry_out(*hash, step));
            }
            assert_eq!(entries(&ordered), entries(&plain));
            assert_eq!(ordered.len(), plain.len());
        }
        assert!(plain.len() > 1_000, "{}", plain.len());
    }
}
