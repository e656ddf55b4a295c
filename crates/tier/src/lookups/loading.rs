//! The lookups of one shard: few, so they are searched one by one.

use super::waiters::Waiters;
use crate::key::KeyHash;

/// A lookup, from its beginning to the end of its ticket or the beginning of its successor.
struct Lookup {
    hash: KeyHash,
    generation: u64,
    is_cancelled: bool,
    waiters: Waiters,
}

/// How a lookup ended.
pub(super) struct Ended {
    pub(super) waiters: Waiters,
    pub(super) is_cancelled: bool,
}

/// The lookups of one shard, at most one for each key.
#[derive(Default)]
pub(super) struct Loading {
    lookups: Vec<Lookup>,
    /// The generation of the last lookup that began here.
    generation: u64,
}

impl Loading {
    pub(super) fn len(&self) -> usize {
        self.lookups.len()
    }

    /// Adds a waiter to the lookup of a key, if there is one that is not cancelled. Returns whether
    /// there is.
    pub(super) fn join(&mut self, hash: KeyHash, waiter: u16) -> bool {
        let found = self.find(hash).filter(|lookup| !lookup.is_cancelled);
        found.map(|lookup| lookup.waiters.add(waiter)).is_some()
    }

    /// Begins a lookup, in the place of a cancelled one if there is one. Returns its generation.
    pub(super) fn start(&mut self, hash: KeyHash, waiter: u16) -> u64 {
        self.generation += 1;
        let generation = self.generation;
        if let Some(lookup) = self.find(hash) {
            (lookup.generation, lookup.is_cancelled) = (generation, false);
            lookup.waiters.add(waiter);
        } else {
            let mut waiters = Waiters::default();
            waiters.add(waiter);
            self.lookups.push(Lookup { hash, generation, is_cancelled: false, waiters });
        }
        generation
    }

    /// Cancels the lookup of a key.
    pub(super) fn cancel(&mut self, hash: KeyHash) {
        if let Some(lookup) = self.find(hash) {
            lookup.is_cancelled = true;
        }
    }

    /// Cancels all lookups.
    pub(super) fn cancel_all(&mut self) {
        self.lookups.iter_mut().for_each(|lookup| lookup.is_cancelled = true);
    }

    /// Whether the lookup of this generation is not cancelled.
    pub(super) fn is_current(&self, hash: KeyHash, generation: u64) -> bool {
        self.lookups.iter().any(|lookup| {
            lookup.hash == hash && lookup.generation == generation && !lookup.is_cancelled
        })
    }

    /// Removes the lookup of this generation. One that was replaced has no waiters any more.
    pub(super) fn end(&mut self, hash: KeyHash, generation: u64) -> Ended {
        let is_it = |lookup: &Lookup| lookup.hash == hash && lookup.generation == generation;
        match self.lookups.iter().position(is_it) {
            Some(at) => {
                let Lookup { waiters, is_cancelled, .. } = self.lookups.swap_remove(at);
                Ended { waiters, is_cancelled }
            }
            None => Ended { waiters: Waiters::default(), is_cancelled: true },
        }
    }

    fn find(&mut self, hash: KeyHash) -> Option<&mut Lookup> {
        self.lookups.iter_mut().find(|lookup| lookup.hash == hash)
    }
}
