//! A locked chain of buckets: the only way to change what the index says.
//!
//! The lock is the lowest bit of the version in the first bucket's header. Taking it makes the
//! version odd, which sends optimistic readers back; letting go makes it even again, and higher
//! if anything changed. It guards the slots of the whole chain and everything the slots point at.

use super::slot::{Ghost, Slot};
use super::store::{BUCKET_WORDS, Bucket, BucketId, SLOTS, Store};
use crate::segment::Addr;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// The header of a bucket that is locked, apart from its version and its overflow.
pub(super) const LOCKED: u64 = 1;
const VERSION_MASK: u64 = u32::MAX as u64;
const OVERFLOW_SHIFT: u32 = 32;

/// Spins on a held lock before the thread lets others run.
const SPINS_MAX: u32 = 64;

/// Whether a bucket with this header is locked.
#[inline]
pub(crate) fn is_locked(header: u64) -> bool {
    header & LOCKED != 0
}

/// The next bucket of the chain.
#[inline]
pub(crate) fn overflow(header: u64) -> Option<BucketId> {
    let link = (header >> OVERFLOW_SHIFT) as u32;
    (link != 0).then(|| BucketId(link - 1))
}

fn with_overflow(header: u64, next: Option<BucketId>) -> u64 {
    header & VERSION_MASK | next.map_or(0, |id| u64::from(id.0) + 1) << OVERFLOW_SHIFT
}

/// Where a slot is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    bucket: BucketId,
    slot: usize,
}

/// The lock of a chain, held for change. Dropping it lets go.
struct Lock<'i> {
    header: &'i AtomicU64,
    changed: bool,
}

impl<'i> Lock<'i> {
    /// Waits for the lock in this header.
    #[inline(always)]
    fn take(header: &'i AtomicU64) -> Self {
        if !Self::try_take(header) {
            Self::wait(header);
        }
        // Readers that see any later store must see the odd version too.
        fence(Ordering::Release);
        Self { header, changed: false }
    }

    #[inline(always)]
    fn try_take(word: &AtomicU64) -> bool {
        let header = word.load(Ordering::Relaxed);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        !is_locked(header)
            && word.compare_exchange_weak(header, header | LOCKED, acquire, relaxed).is_ok()
    }

    #[cold]
    fn wait(header: &AtomicU64) {
        let mut spins = 0;
        while !Self::try_take(header) {
            spins += 1;
            if spins % SPINS_MAX == 0 { yield_now() } else { spin_loop() }
        }
    }
}

impl Drop for Lock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let header = self.header.load(Ordering::Relaxed);
        let version = header & VERSION_MASK;
        let version = if self.changed { version.wrapping_add(1) } else { version - LOCKED };
        self.header.store(header & !VERSION_MASK | version & VERSION_MASK, Ordering::Release);
    }
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
    store: &'i Store,
    first: BucketId,
    lock: Lock<'i>,
}

impl<'i> Chain<'i> {
    /// Waits for the lock of `first`. The caller is pinned, so the bucket stays a bucket.
    #[inline]
    pub(crate) fn lock(store: &'i Store, first: BucketId) -> Self {
        Self { store, first, lock: Lock::take(&store.bucket(first)[0]) }
    }

    /// Notes that something a reader may have seen is about to change: a slot, or an item.
    pub(crate) fn touch(&mut self) {
        self.lock.changed = true;
    }

    #[inline]
    fn word(&self, place: Place) -> &AtomicU64 {
        &self.store.bucket(place.bucket)[place.slot + 1]
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
        let raised = slot.with_freq((slot.freq() + 1).min(super::slot::FREQ_MAX));
        self.word(place).store(raised.0, Ordering::Relaxed);
    }

    fn next(&self, bucket: BucketId) -> Option<BucketId> {
        overflow(self.store.bucket(bucket)[0].load(Ordering::Relaxed))
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
            let words = self.store.bucket(id);
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
        let bucket = self.store.take_overflow()?;
        let last = self.last();
        let word = &self.store.bucket(last)[0];
        let header = word.load(Ordering::Relaxed);
        self.lock.changed = true;
        word.store(with_overflow(header, Some(bucket)), Ordering::Release);
        Some(Place { bucket, slot: 0 })
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
            let word = &self.store.bucket(at)[0];
            let header = word.load(Ordering::Relaxed);
            self.lock.changed = true;
            word.store(with_overflow(header, self.next(next)), Ordering::Relaxed);
            self.store.give_overflow(next);
        }
    }
}
