//! What is kept, item by item, by a policy that libcachesim has too.
//!
//! ```text
//! LRU      [oldest use ........ newest use]
//! FIFO     [oldest set ........ newest set]
//! S3-FIFO  [small: a tenth] --used twice--> [main] --used--> its end again; else gone
//!              `--- less: gone, and its key a ghost --> set again, it goes to main
//! ```
//!
//! Written from the papers, with the sizes and thresholds that the library has by default. Values
//! are not kept, only their lengths; an item is charged what our engine charges and what
//! `tests/hit_ratio/reference.py` charges. Capacity and charges are bytes, times seconds. Pure: the
//! caller says what time it is.

use std::collections::{BTreeMap, HashMap};

/// What an item is charged besides key and value, and for an expiry.
const HEADER_BYTES: u64 = 16;
const EXPIRY_BYTES: u64 = 4;
const WORD_BYTES: u64 = 8;
/// S3-FIFO: the part of the small queue, as a divisor.
const SMALL_PART: u64 = 10;
/// Uses that take an item from the small queue to main, and uses that are remembered.
const PROMOTED_AT: u8 = 2;
const USES_MAX: u8 = 3;

type Key = Box<[u8]>;

/// Who leaves when room is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Who was not used for longest.
    Lru,
    /// Who came first.
    Fifo,
    /// Who came first and was not used again.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Small,
    Main,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    place: Place,
    turn: u64,
    bytes: u64,
    value_bytes: usize,
    uses: u8,
    /// 0 is for ever.
    expires_s: u64,
}

/// Keys in the order of their turns.
#[derive(Debug, Default)]
struct Queue {
    keys: BTreeMap<u64, Key>,
    bytes: u64,
}

impl Queue {
    fn put(&mut self, turn: u64, key: Key, bytes: u64) {
        self.bytes += bytes;
        self.keys.insert(turn, key);
    }

    fn take(&mut self, turn: u64, bytes: u64) -> Option<Key> {
        let key = self.keys.remove(&turn)?;
        self.bytes -= bytes;
        Some(key)
    }
}

/// A cache of so many bytes.
#[derive(Debug)]
pub struct Items {
    policy: Policy,
    capacity_bytes: u64,
    items: HashMap<Key, Item>,
    small: Queue,
    main: Queue,
    /// Turns and bytes of keys that left the small queue.
    ghosts: HashMap<Key, (u64, u64)>,
    ghost_queue: Queue,
    turns: u64,
    has_evicted: bool,
}

impl Items {
    /// An empty one.
    pub fn new(policy: Policy, capacity_bytes: u64) -> Self {
        Self {
            policy,
            capacity_bytes,
            items: HashMap::new(),
            small: Queue::default(),
            main: Queue::default(),
            ghosts: HashMap::new(),
            ghost_queue: Queue::default(),
            turns: 0,
            has_evicted: false,
        }
    }

    /// Items held, and their bytes.
    pub fn held(&self) -> (usize, u64) {
        (self.items.len(), self.small.bytes + self.main.bytes)
    }

    /// The length of the value, if it is held; this is a use.
    pub fn get(&mut self, key: &[u8], now_s: u64) -> Option<usize> {
        let item = self.items.get(key)?;
        if item.expires_s != 0 && item.expires_s <= now_s {
            self.remove(key);
            return None;
        }
        self.use_once(key)
    }

    /// Stores a value of so many bytes; where one of the same charge is held, this is a use.
    pub fn set(&mut self, key: &[u8], value_bytes: usize, ttl_s: u64, now_s: u64) {
        let expiry_bytes = if ttl_s == 0 { 0 } else { EXPIRY_BYTES };
        let content_bytes = (key.len() + value_bytes) as u64;
        let bytes = (HEADER_BYTES + expiry_bytes + content_bytes).next_multiple_of(WORD_BYTES);
        let expires_s = if ttl_s == 0 { 0 } else { now_s + ttl_s };
        let is_same = self.get(key, now_s).is_some() && self.items[key].bytes == bytes;
        if !is_same {
            self.remove(key);
            self.insert(key, bytes, value_bytes);
        }
        if let Some(item) = self.items.get_mut(key) {
            (item.expires_s, item.value_bytes) = (expires_s, value_bytes);
        }
    }

    fn queue(&mut self, place: Place) -> &mut Queue {
        match place {
            Place::Small => &mut self.small,
            Place::Main => &mut self.main,
        }
    }

    fn remove(&mut self, key: &[u8]) {
        if let Some(Item { place, turn, bytes, .. }) = self.items.remove(key) {
            self.queue(place).take(turn, bytes);
        }
    }

    fn use_once(&mut self, key: &[u8]) -> Option<usize> {
        let item = self.items.get_mut(key)?;
        item.uses = item.uses.saturating_add(1);
        let item = *item;
        if self.policy == Policy::Lru {
            self.requeue(item, Place::Main, item.uses);
        }
        Some(item.value_bytes)
    }

    /// Moves an item to the end of a queue.
    fn requeue(&mut self, item: Item, place: Place, uses: u8) {
        let Some(key) = self.queue(item.place).take(item.turn, item.bytes) else { return };
        self.turns += 1;
        let turn = self.turns;
        self.items.insert(key.clone(), Item { place, turn, uses, ..item });
        self.queue(place).put(turn, key, item.bytes);
    }

    fn insert(&mut self, key: &[u8], bytes: u64, value_bytes: usize) {
        let was_ghost = self.forget(key);
        if bytes > self.capacity_bytes {
            return;
        }
        while self.held().1 + bytes > self.capacity_bytes {
            self.evict();
        }
        // Until something had to leave, main takes what the small queue has no room for.
        let is_filling = !self.has_evicted && self.small.bytes >= self.small_max();
        let is_small = self.policy == Policy::S3Fifo && !was_ghost && !is_filling;
        let place = if is_small { Place::Small } else { Place::Main };
        self.turns += 1;
        let turn = self.turns;
        let item = Item { place, turn, bytes, value_bytes, uses: 0, expires_s: 0 };
        self.items.insert(key.into(), item);
        self.queue(place).put(turn, key.into(), bytes);
    }

    fn small_max(&self) -> u64 {
        self.capacity_bytes / SMALL_PART
    }

    /// Moves the first of a queue on, or out.
    fn evict(&mut self) {
        self.has_evicted = true;
        let main_max = self.capacity_bytes - self.small_max();
        let is_main = self.small.bytes == 0 || self.main.bytes > main_max;
        let place = if is_main { Place::Main } else { Place::Small };
        let Some(key) = self.queue(place).keys.values().next().cloned() else { return };
        let item = self.items[&key];
        let stays = match (self.policy, place) {
            (Policy::Lru | Policy::Fifo, _) => false,
            (Policy::S3Fifo, Place::Small) => item.uses >= PROMOTED_AT,
            (Policy::S3Fifo, Place::Main) => item.uses > 0,
        };
        if stays {
            let uses = if is_main { item.uses.min(USES_MAX) - 1 } else { 0 };
            return self.requeue(item, Place::Main, uses);
        }
        self.remove(&key);
        if place == Place::Small {
            self.remember(key, item.bytes);
        }
    }

    /// Makes a ghost of a key; as many bytes of ghosts are kept as main may hold.
    fn remember(&mut self, key: Key, bytes: u64) {
        self.turns += 1;
        self.ghosts.insert(key.clone(), (self.turns, bytes));
        self.ghost_queue.put(self.turns, key, bytes);
        while self.ghost_queue.bytes > self.capacity_bytes - self.small_max() {
            let Some(oldest) = self.ghost_queue.keys.values().next().cloned() else { return };
            self.forget(&oldest);
        }
    }

    /// Whether the key was a ghost; it is none any more.
    fn forget(&mut self, key: &[u8]) -> bool {
        let ghost = self.ghosts.remove(key);
        ghost.is_some_and(|(turn, bytes)| self.ghost_queue.take(turn, bytes).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that an item of a one-letter key and seven bytes of value is charged.
    const EACH: u64 = 24;

    fn cache(policy: Policy, items: u64) -> Items {
        Items::new(policy, items * EACH)
    }

    fn set(cache: &mut Items, key: char) {
        cache.set(key.to_string().as_bytes(), 7, 0, 0);
    }

    fn get(cache: &mut Items, key: char) -> bool {
        cache.get(key.to_string().as_bytes(), 0).is_some()
    }

    fn kept(cache: &Items) -> String {
        let mut keys: Vec<char> = cache.items.keys().map(|key| char::from(key[0])).collect();
        keys.sort_unstable();
        keys.into_iter().collect()
    }

    #[test]
    fn who_was_used_stays_by_lru_and_who_came_last_by_fifo() {
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
        // The first filled the small queue, the others went to main.
        assert_eq!(cache.items[&b"a"[..]].place, Place::Small);
        assert_eq!(cache.items[&b"b"[..]].place, Place::Main);
        "xyz".chars().for_each(|key| set(&mut cache, key));
        assert_eq!(kept(&cache), "bcdefghijz");
        set(&mut cache, 'x');
        assert_eq!(cache.items[&b"x"[..]].place, Place::Main, "it was a ghost");
        assert_eq!(cache.held(), (10, 10 * EACH));
    }

    #[test]
    fn used_twice_in_the_small_queue_an_item_goes_to_main() {
        let mut cache = cache(Policy::S3Fifo, 10);
        "abcdefghij".chars().for_each(|key| set(&mut cache, key));
        assert!(get(&mut cache, 'a') && get(&mut cache, 'a'));
        // Room is needed twice: the small queue gives up its one item, then main its oldest.
        "xy".chars().for_each(|key| set(&mut cache, key));
        assert_eq!(cache.items[&b"a"[..]].place, Place::Main);
    }

    #[test]
    fn what_expired_or_grew_is_another_item() {
        let mut cache = Items::new(Policy::Fifo, 1_000);
        cache.set(b"k", 7, 2, 10);
        assert_eq!(cache.held(), (1, 32));
        assert_eq!(cache.get(b"k", 11), Some(7));
        assert_eq!(cache.get(b"k", 12), None);
        assert_eq!(cache.held(), (0, 0));
        cache.set(b"k", 7, 0, 12);
        cache.set(b"k", 100, 0, 12);
        assert_eq!((cache.get(b"k", 12), cache.held()), (Some(100), (1, 120)));
        cache.set(b"large", 5_000, 0, 12);
        assert_eq!(cache.held().0, 1, "what never fits takes no room");
    }
}
