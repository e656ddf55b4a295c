//! A locked chain of buckets: the only way to change what the index says.
//!
//! [`First`] is the first bucket alone, which is enough for an overwrite in place. [`Chain`] is the
//! whole chain. Both hold the [`Lock`] until they are dropped. What a reader may have seen is
//! changed only after the change was noted in the lock, so that the version rises.

use super::bucket::{BUCKET_WORDS, Bucket, BucketId, SLOTS};
use super::buckets::Buckets;
use super::lock::{Lock, overflow, with_overflow};
use super::slot::{FREQ_MAX, Ghost, Slot};
use crate::segments::Addr;
use crate::sync::{AtomicU64, Ordering};

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    bucket: BucketId,
    slot: usize,
}

/// The first bucket of a chain that is held for change, where nearly every item is.
pub(crate) struct First<'i> {
    bucket: &'i Bucket,
    lock: Lock<'i>,
}

impl<'i> First<'i> {
    /// Waits for the lock of the chain that begins with `bucket`. The caller is pinned, so the
    /// bucket stays a bucket.
    #[inline(always)]
    pub(crate) fn lock(bucket: &'i Bucket) -> Self {
        Self { bucket, lock: Lock::take(&bucket[0]) }
    }

    /// The first slot of this bucket that may be the item with this hash, and its place.
    #[inline(always)]
    pub(crate) fn candidate(&self, hash: u64) -> Option<(usize, Slot)> {
        candidate(self.bucket, 1, hash)
    }

    /// Notes that something a reader may have seen is about to change.
    #[inline(always)]
    pub(crate) fn touch(&mut self) {
        self.lock.changed = true;
    }

    /// Counts a hit on the item of a slot, which readers need not notice.
    #[inline(always)]
    pub(crate) fn raise_freq(&self, at: usize, slot: Slot) {
        self.bucket[at].store(slot.with_freq(slot.freq() + 1).0, Ordering::Relaxed);
    }
}

/// The first word of a bucket, from word `from` on, that may be the slot of the item with this
/// hash, and what it says.
#[inline(always)]
pub(crate) fn candidate(bucket: &Bucket, from: usize, hash: u64) -> Option<(usize, Slot)> {
    (from..BUCKET_WORDS).find_map(|at| {
        let slot = Slot(bucket[at].load(Ordering::Relaxed));
        slot.may_be(hash).then_some((at, slot))
    })
}

/// A chain held for change.
pub(crate) struct Chain<'i> {
    buckets: &'i Buckets,
    first: BucketId,
    lock: Lock<'i>,
}

impl<'i> Chain<'i> {
    /// Waits for the lock of `first`. The caller is pinned, so the bucket stays a bucket.
    #[inline]
    pub(crate) fn lock(buckets: &'i Buckets, first: BucketId) -> Self {
        Self { buckets, first, lock: Lock::take(&buckets.bucket(first)[0]) }
    }

    /// Notes that something a reader may have seen is about to change: a slot, or an item.
    pub(crate) fn touch(&mut self) {
        self.lock.changed = true;
    }

    #[inline]
    fn word(&self, place: Place) -> &AtomicU64 {
        &self.buckets.bucket(place.bucket)[place.slot + 1]
    }

    #[inline]
    pub(crate) fn get(&self, place: Place) -> Slot {
        Slot(self.word(place).load(Ordering::Relaxed))
    }

    pub(crate) fn set(&mut self, place: Place, slot: Slot) {
        self.lock.changed = true;
        // Readers that follow the slot must find the item written.
        self.word(place).store(slot.0, Ordering::Release);
    }

    /// Counts a hit on an item, which readers need not notice.
    pub(crate) fn raise_freq(&self, place: Place) {
        let slot = self.get(place);
        let raised = slot.with_freq((slot.freq() + 1).min(FREQ_MAX));
        self.word(place).store(raised.0, Ordering::Relaxed);
    }

    fn next(&self, bucket: BucketId) -> Option<BucketId> {
        overflow(self.buckets.bucket(bucket)[0].load(Ordering::Relaxed))
    }

    /// How many buckets it has.
    pub(crate) fn buckets(&self) -> usize {
        std::iter::successors(Some(self.first), |bucket| self.next(*bucket)).count()
    }

    /// Every slot of the chain, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        std::iter::successors(Some(self.first), |bucket| self.next(*bucket))
            .flat_map(|bucket| (0..SLOTS).map(move |slot| Place { bucket, slot }))
    }

    /// The slot of the item with this hash that `is` the one looked for.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(Addr) -> bool) -> Option<Place> {
        let mut next = Some(self.first);
        while let Some(id) = next {
            let words = self.buckets.bucket(id);
            for (index, word) in words[1..].iter().enumerate() {
                let slot = Slot(word.load(Ordering::Relaxed));
                if slot.may_be(hash) && is(slot.addr()) {
                    return Some(Place { bucket: id, slot: index });
                }
            }
            next = overflow(words[0].load(Ordering::Relaxed));
        }
        None
    }

    /// The ghost of this hash, and where it is.
    pub(crate) fn find_ghost(&self, hash: u64) -> Option<(Place, Ghost)> {
        self.places().find_map(|place| Some((place, self.get(place).ghost_of(hash)?)))
    }

    /// Takes a ghost out of its slot.
    pub(crate) fn forget(&mut self, place: Place, ghost: Ghost) {
        let left = self.get(place).ghosts().map(|held| held.filter(|held| *held != ghost));
        self.set(place, Slot::of_ghosts(left));
    }

    /// Keeps a ghost: beside a lone one, else in an empty slot, else not at all.
    pub(crate) fn remember(&mut self, ghost: Ghost) {
        let lone = self.places().find(|place| self.get(*place).is_lone_ghost());
        let free = lone.or_else(|| self.places().find(|place| self.get(*place).is_empty()));
        if let Some(place) = free {
            let [held, _] = self.get(place).ghosts();
            self.set(place, Slot::of_ghosts([held, Some(ghost)]));
        }
    }

    /// A slot for a new item: an empty one, else that of the oldest ghosts, else one of a new
    /// overflow bucket; `None` when there is no memory for that.
    pub(crate) fn room(&mut self, tick: u64) -> Option<Place> {
        let mut oldest = None;
        for place in self.places() {
            let slot = self.get(place);
            if slot.is_empty() {
                return Some(place);
            }
            let Some(age) = slot.ghosts_age(tick) else { continue };
            if oldest.is_none_or(|(most, _)| age > most) {
                oldest = Some((age, place));
            }
        }
        if let Some((_, place)) = oldest {
            return Some(place);
        }
        let bucket = self.buckets.take_overflow()?;
        let last = self.last();
        let word = &self.buckets.bucket(last)[0];
        let header = word.load(Ordering::Relaxed);
        self.lock.changed = true;
        word.store(with_overflow(header, Some(bucket)), Ordering::Release);
        Some(Place { bucket, slot: 0 })
    }

    /// Moves the overflow buckets from `bound` on to places below it, as far as there are any.
    /// Returns whether one moved.
    pub(super) fn move_below(&mut self, bound: BucketId) -> bool {
        let mut moved = false;
        let mut at = self.first;
        while let Some(next) = self.next(at) {
            let target = (next.0 >= bound.0).then(|| self.buckets.take_overflow_below(bound));
            if let Some(target) = target.flatten() {
                self.buckets.copy(next, target);
                let word = &self.buckets.bucket(at)[0];
                let header = word.load(Ordering::Relaxed);
                self.lock.changed = true;
                word.store(with_overflow(header, Some(target)), Ordering::Release);
                self.buckets.give_overflow(next);
                moved = true;
            }
            at = target.flatten().unwrap_or(next);
        }
        moved
    }

    fn last(&self) -> BucketId {
        let mut last = self.first;
        while let Some(next) = self.next(last) {
            last = next;
        }
        last
    }

    /// Unlinks the overflow buckets that hold no item.
    pub(crate) fn trim(&mut self) {
        let mut at = self.first;
        while let Some(next) = self.next(at) {
            let holds_item =
                (0..SLOTS).any(|slot| self.get(Place { bucket: next, slot }).is_item());
            if holds_item {
                at = next;
                continue;
            }
            let word = &self.buckets.bucket(at)[0];
            let header = word.load(Ordering::Relaxed);
            self.lock.changed = true;
            word.store(with_overflow(header, self.next(next)), Ordering::Relaxed);
            self.buckets.give_overflow(next);
        }
    }
}
