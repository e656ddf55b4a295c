//! The missing keys of one shard: sets of eight places, allocated once.
//!
//! ```text
//! hash ---> set: | key, until | key, until | ... |    8 places, or fewer in a small table
//! ```
//!
//! A key lies in its set or nowhere. So nothing is searched beyond eight places, and no list refers
//! to keys that are forgotten.

use crate::key::{KeyHash, place_of};

/// How long a key is known to be missing.
pub const MISSING_NS: u64 = 2_000_000_000;

/// Places of a set.
const WAYS: usize = 8;

/// A key that is missing until a time; 0: an empty place.
#[derive(Clone, Copy)]
struct Known {
    hash: KeyHash,
    until_ns: u64,
}

/// Missing keys, at most one place for each key.
pub(super) struct Missing {
    places: Box<[Known]>,
    /// Places of each set.
    ways: usize,
    len: usize,
}

impl Missing {
    /// A table for `count` keys, rounded up.
    pub(super) fn new(count: usize) -> Self {
        let ways = count.clamp(1, WAYS);
        let empty = Known { hash: KeyHash::from_raw(0), until_ns: 0 };
        let places = vec![empty; count.div_ceil(ways) * ways].into();
        Self { places, ways, len: 0 }
    }

    /// How many keys it has, old ones included.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of its places.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.places)
    }

    /// Whether a key is known to be missing now.
    pub(super) fn has(&self, hash: KeyHash, now_ns: u64) -> bool {
        let set = &self.places[self.set(hash)];
        set.iter().any(|known| known.hash == hash && now_ns < known.until_ns)
    }

    /// Remembers a key, in the place of the oldest one of its set if the set is full.
    pub(super) fn add(&mut self, hash: KeyHash, now_ns: u64) {
        let set = self.set(hash);
        let until_ns = now_ns.saturating_add(MISSING_NS);
        let is_it = |known: &&mut Known| known.until_ns != 0 && known.hash == hash;
        let own = self.places[set.clone()].iter_mut().find(is_it);
        let place = match own {
            Some(own) => Some(own),
            // An empty one is the oldest.
            None => self.places[set].iter_mut().min_by_key(|known| known.until_ns),
        };
        if let Some(place) = place {
            self.len += usize::from(place.until_ns == 0);
            *place = Known { hash, until_ns };
        }
    }

    /// Forgets a key.
    pub(super) fn forget(&mut self, hash: KeyHash) {
        let set = self.set(hash);
        for known in &mut self.places[set] {
            if known.hash == hash && known.until_ns != 0 {
                known.until_ns = 0;
                self.len -= 1;
            }
        }
    }

    /// Forgets the keys whose time was over at `now_ns`.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        if self.len == 0 {
            return;
        }
        for known in &mut self.places {
            if known.until_ns != 0 && known.until_ns <= now_ns {
                known.until_ns = 0;
                self.len -= 1;
            }
        }
    }

    /// Forgets all keys.
    pub(super) fn clear(&mut self) {
        self.forget_old(u64::MAX);
    }

    /// The places of the set of a key. None if the table has no place.
    fn set(&self, hash: KeyHash) -> std::ops::Range<usize> {
        let begin = place_of(hash.low(), self.places.len() / self.ways) * self.ways;
        begin..(begin + self.ways).min(self.places.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> KeyHash {
        KeyHash::from_raw(number.into())
    }

    #[test]
    fn a_full_set_forgets_its_oldest_key() {
        let mut missing = Missing::new(8);
        (0..8).for_each(|number| missing.add(hash(number), 10 + number));
        missing.add(hash(0), 100);
        missing.add(hash(8), 101);
        assert_eq!(missing.len(), 8);
        let has = (0..9).map(|number| missing.has(hash(number), 102));
        assert!(has.eq([true, false, true, true, true, true, true, true, true]));
    }

    #[test]
    fn a_key_is_missing_for_two_seconds() {
        let mut missing = Missing::new(20);
        assert_eq!(missing.bytes(), 24 * size_of::<Known>());
        missing.add(hash(0), 5);
        assert!(missing.has(hash(0), 5 + MISSING_NS - 1));
        assert!(!missing.has(hash(0), 5 + MISSING_NS));
        missing.forget_old(5 + MISSING_NS - 1);
        assert_eq!(missing.len(), 1);
        missing.forget_old(5 + MISSING_NS);
        assert_eq!(missing.len(), 0);
        missing.add(hash(1), u64::MAX);
        missing.clear();
        assert_eq!(missing.len(), 0, "whatever the time");
    }

    #[test]
    fn a_table_without_places_remembers_nothing() {
        let mut missing = Missing::new(0);
        missing.add(hash(7), 1);
        missing.forget(hash(7));
        assert!(!missing.has(hash(7), 1) && missing.len() == 0 && missing.bytes() == 0);
    }
}
