//! A cache that keeps items one by one, by a policy that libcachesim has too.
//!
//! ```text
//! LRU      [least recently used ........ most recently used]
//! FIFO     [first stored ............... last stored]
//! S3-FIFO  [small: a tenth] -- used twice --> [main] -- used --> back to its tail
//!              |                                 |
//!              v not used twice                  v not used
//!          [ghost: the key alone]              removed
//!              `-- stored again --> [main]
//! ```
//!
//! The policies follow the papers, with the sizes and thresholds that the library has by default.
//! The cache holds no values, only their lengths. Pure: the caller passes the time. Capacity and
//! charges are bytes, times are seconds.
//!
//! Invariants: every key stands in exactly one queue, the one its entry names; the charges of the
//! items never exceed the capacity; the charges of the ghosts never exceed the size of main.
//!
//! A key is any type with a hash: bytes for a server, a number for a bench in process.
//!
//! ```
//! use doubles::policy::{Items, Policy, charge};
//!
//! let mut cache: Items<u64> = Items::new(Policy::S3Fifo, 1 << 20);
//! let now_s = 0;
//! if cache.get(&7, now_s).is_none() {
//!     cache.set(7, 300, charge(20, 300, 0), 0, now_s);
//! }
//! assert_eq!(cache.get(&7, now_s), Some(300));
//! ```

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// What the engine charges for an item beside key and value, and for an expiry.
const HEADER_BYTES: u64 = 16;
const EXPIRY_BYTES: u64 = 4;
const WORD_BYTES: u64 = 8;
/// S3-FIFO: the small queue is the capacity divided by this.
const SMALL_PART: u64 = 10;
/// Uses that promote an item from the small queue to main, and the most uses that count in main.
const PROMOTED_AT: u8 = 2;
const USES_MAX: u8 = 3;

/// What an item takes of the capacity: what our engine charges, and what
/// `tests/hit_ratio/reference.py` charges.
pub fn charge(key_bytes: usize, value_bytes: usize, ttl_s: u64) -> u64 {
    let expiry_bytes = if ttl_s == 0 { 0 } else { EXPIRY_BYTES };
    let content_bytes = (key_bytes + value_bytes) as u64;
    (HEADER_BYTES + expiry_bytes + content_bytes).next_multiple_of(WORD_BYTES)
}

/// Which item is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The least recently used.
    Lru,
    /// The first stored.
    Fifo,
    /// The first stored that was not used again.
    S3Fifo,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Fifo, Self::S3Fifo];

    /// The library's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "LRU",
            Self::Fifo => "FIFO",
            Self::S3Fifo => "S3FIFO",
        }
    }
}

/// The queue that an entry stands in; a ghost is no item any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Main,
    Ghost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    place: Place,
    /// Its position in the queue: lower entered earlier.
    turn: u64,
    bytes: u64,
    value_bytes: usize,
    uses: u8,
    /// 0 never expires.
    expires_s: u64,
}

/// Keys in the order of their turns, and the sum of their charges.
#[derive(Debug)]
struct Queue<K> {
    keys: BTreeMap<u64, K>,
    bytes: u64,
}

/// A cache of a fixed number of bytes.
#[derive(Debug)]
pub struct Items<K> {
    policy: Policy,
    capacity_bytes: u64,
    entries: HashMap<K, Entry>,
    /// By [`Place`].
    queues: [Queue<K>; 3],
    turns: u64,
    has_evicted: bool,
}

impl<K: Clone + Eq + Hash> Items<K> {
    /// An empty cache.
    pub fn new(policy: Policy, capacity_bytes: u64) -> Self {
        let queues = [(); 3].map(|()| Queue { keys: BTreeMap::new(), bytes: 0 });
        let (entries, turns, has_evicted) = (HashMap::new(), 0, false);
        Self { policy, capacity_bytes, entries, queues, turns, has_evicted }
    }

    /// The number of items, and their charges.
    pub fn held(&self) -> (usize, u64) {
        let [small, main, _] = &self.queues;
        (small.keys.len() + main.keys.len(), small.bytes + main.bytes)
    }

    /// The length of the value if the item is held; this is a use.
    pub fn get<Q>(&mut self, key: &Q, now_s: u64) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entry = self.entries.get_mut(key).filter(|entry| entry.place != Place::Ghost)?;
        if entry.expires_s != 0 && entry.expires_s <= now_s {
            self.remove(key);
            return None;
        }
        entry.uses = entry.uses.saturating_add(1);
        let entry = *entry;
        if self.policy == Policy::Lru {
            self.requeue(entry, Place::Main, entry.uses);
        }
        Some(entry.value_bytes)
    }

    /// Stores a value that takes `bytes` of the capacity and expires at `expires_s`, 0 for never.
    /// Where an item of the same charge is held, this is a use.
    pub fn set(&mut self, key: K, value_bytes: usize, bytes: u64, expires_s: u64, now_s: u64) {
        let is_same = self.get(&key, now_s).is_some() && self.entries[&key].bytes == bytes;
        if !is_same {
            let was_ghost = self.remove(&key).is_some_and(|entry| entry.place == Place::Ghost);
            self.insert(key.clone(), bytes, was_ghost);
        }
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.expires_s, entry.value_bytes) = (expires_s, value_bytes);
        }
    }

    fn queue(&mut self, place: Place) -> &mut Queue<K> {
        &mut self.queues[place as usize]
    }

    fn remove<Q>(&mut self, key: &Q) -> Option<Entry>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entry = self.entries.remove(key)?;
        self.leave(entry);
        Some(entry)
    }

    /// Takes the key of an entry out of its queue.
    fn leave(&mut self, entry: Entry) -> Option<K> {
        let queue = self.queue(entry.place);
        let key = queue.keys.remove(&entry.turn)?;
        queue.bytes -= entry.bytes;
        Some(key)
    }

    /// Puts a key that is in no queue at the tail of the queue that its entry names.
    fn enter(&mut self, key: K, entry: Entry) {
        self.turns += 1;
        let turn = self.turns;
        self.entries.insert(key.clone(), Entry { turn, ..entry });
        let queue = self.queue(entry.place);
        queue.keys.insert(turn, key);
        queue.bytes += entry.bytes;
    }

    /// Moves an entry to the tail of a queue.
    fn requeue(&mut self, entry: Entry, place: Place, uses: u8) {
        if let Some(key) = self.leave(entry) {
            self.enter(key, Entry { place, uses, ..entry });
        }
    }

    fn insert(&mut self, key: K, bytes: u64, was_ghost: bool) {
        if bytes > self.capacity_bytes {
            return;
        }
        while self.held().1 + bytes > self.capacity_bytes {
            self.evict();
        }
        // Before the first eviction, main takes what the small queue has no space for.
        let is_filling = !self.has_evicted && self.queue(Place::Small).bytes >= self.small_max();
        let is_small = self.policy == Policy::S3Fifo && !was_ghost && !is_filling;
        let place = if is_small { Place::Small } else { Place::Main };
        self.enter(key, Entry { place, turn: 0, bytes, value_bytes: 0, uses: 0, expires_s: 0 });
    }

    fn small_max(&self) -> u64 {
        self.capacity_bytes / SMALL_PART
    }

    /// The entry at the head of a queue.
    fn head(&mut self, place: Place) -> Option<Entry> {
        let key = self.queue(place).keys.values().next().cloned()?;
        self.entries.get(&key).copied()
    }

    /// Requeues the head of a queue, or takes it out of the cache.
    fn evict(&mut self) {
        self.has_evicted = true;
        let main_max = self.capacity_bytes - self.small_max();
        let [small, main, _] = &self.queues;
        let is_main = small.bytes == 0 || main.bytes > main_max;
        let place = if is_main { Place::Main } else { Place::Small };
        let Some(entry) = self.head(place) else { return };
        let stays = match (self.policy, place) {
            (Policy::S3Fifo, Place::Small) => entry.uses >= PROMOTED_AT,
            (Policy::S3Fifo, _) => entry.uses > 0,
            (Policy::Lru | Policy::Fifo, _) => false,
        };
        if stays {
            let uses = if is_main { entry.uses.min(USES_MAX) - 1 } else { 0 };
            self.requeue(entry, Place::Main, uses);
        } else if is_main {
            self.drop_head(place);
        } else {
            self.requeue(entry, Place::Ghost, 0);
            while self.queue(Place::Ghost).bytes > main_max && self.drop_head(Place::Ghost) {}
        }
    }

    /// Forgets the head of a queue; false if the queue is empty.
    fn drop_head(&mut self, place: Place) -> bool {
        let key = self.head(place).and_then(|entry| self.leave(entry));
        key.is_some_and(|key| self.entries.remove(&key).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The charge of an item with a one-letter key and seven bytes of value.
    const EACH: u64 = 24;

    fn cache(policy: Policy, items: u64) -> Items<char> {
        Items::new(policy, items * EACH)
    }

    fn set(cache: &mut Items<char>, key: char) {
        cache.set(key, 7, charge(1, 7, 0), 0, 0);
    }

    fn get(cache: &mut Items<char>, key: char) -> bool {
        cache.get(&key, 0).is_some()
    }

    fn place(cache: &Items<char>, key: char) -> Place {
        cache.entries[&key].place
    }

    fn kept(cache: &Items<char>) -> String {
        let items = cache.entries.iter().filter(|(_, entry)| entry.place != Place::Ghost);
        let mut keys: Vec<char> = items.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().collect()
    }

    #[test]
    fn lru_keeps_what_was_used_and_fifo_what_was_stored_last() {
        for (policy, expected) in [(Policy::Lru, "acd"), (Policy::Fifo, "bcd")] {
            let mut cache = cache(policy, 3);
            "abc".chars().for_each(|key| set(&mut cache, key));
            assert!(get(&mut cache, 'a'));
            set(&mut cache, 'd');
            assert_eq!(kept(&cache), expected, "{policy:?}");
            assert_eq!(cache.held(), (3, 3 * EACH));
        }
    }

    #[test]
    fn a_scan_passes_the_small_queue_and_a_ghost_returns_to_main() {
        let mut cache = cache(Policy::S3Fifo, 10);
        "abcdefghij".chars().for_each(|key| set(&mut cache, key));
        // The first item filled the small queue, the others went to main.
        assert_eq!((place(&cache, 'a'), place(&cache, 'b')), (Place::Small, Place::Main));
        "xyz".chars().for_each(|key| set(&mut cache, key));
        assert_eq!(kept(&cache), "bcdefghijz");
        set(&mut cache, 'x');
        assert_eq!(place(&cache, 'x'), Place::Main, "it was a ghost");
        assert_eq!(cache.held(), (10, 10 * EACH));
    }

    #[test]
    fn used_twice_in_the_small_queue_an_item_goes_to_main() {
        let mut cache = cache(Policy::S3Fifo, 10);
        "abcdefghij".chars().for_each(|key| set(&mut cache, key));
        assert!(get(&mut cache, 'a') && get(&mut cache, 'a'));
        // Two evictions: the small queue gives up its one item, then main its oldest.
        "xy".chars().for_each(|key| set(&mut cache, key));
        assert_eq!(place(&cache, 'a'), Place::Main);
    }

    #[test]
    fn an_item_that_expired_or_grew_is_another_item() {
        let mut cache: Items<&str> = Items::new(Policy::Fifo, 1_000);
        let set = |cache: &mut Items<&'static str>, key, value_bytes, ttl_s, now_s| {
            let expires_s = if ttl_s == 0 { 0 } else { now_s + ttl_s };
            cache.set(key, value_bytes, charge(1, value_bytes, ttl_s), expires_s, now_s);
        };
        set(&mut cache, "k", 7, 2, 10);
        assert_eq!(cache.held(), (1, 32));
        assert_eq!(cache.get("k", 11), Some(7));
        assert_eq!(cache.get("k", 12), None);
        assert_eq!(cache.held(), (0, 0));
        set(&mut cache, "k", 7, 0, 12);
        set(&mut cache, "k", 100, 0, 12);
        assert_eq!((cache.get("k", 12), cache.held()), (Some(100), (1, 120)));
        set(&mut cache, "l", 5_000, 0, 12);
        assert_eq!(cache.held().0, 1, "an item larger than the cache is not stored");
    }
}
