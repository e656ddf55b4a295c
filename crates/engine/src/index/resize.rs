//! Growing and shrinking a group, a bucket at a time, while others read and write.
//!
//! The lock of a group is tried, and a thread that does not get it leaves the step to its holder.
//! Only the first bucket of a group is waited for. Bucket locks are taken inside the lock of the
//! group, the lower number first.

use super::chain::{Chain, Place};
use super::group::{BUCKETS_MAX, Group, buddy};
use super::slot::{Ghost, Slot};
use crate::grace::GracePeriods;
use crate::sync::{AtomicU64, MODEL, Ordering, spin_loop, yield_now};
use std::hint::black_box;

const RESIZING: u64 = 1 << 63;
const ITEMS_MASK: u64 = u32::MAX as u64;

/// Items per bucket, in sixteenths, above which a group grows and below which it shrinks.
const GROW_ITEMS_X16: u64 = if MODEL { 32 } else { 80 };
const SHRINK_ITEMS_X16: u64 = if MODEL { 20 } else { 64 };

/// Steps that one insertion or removal pays for at most.
const STEPS_MAX: u32 = 2;

/// The step that a group should take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    None,
    Grow,
    Shrink,
}

/// A group, and the word that counts its items and holds its lock.
///
/// ```text
/// 63        62......32  31....0
/// resizing  unused      items
/// ```
#[derive(Clone, Copy)]
pub(crate) struct Resizing<'i> {
    pub(super) group: Group<'i>,
    pub(super) meta: &'i AtomicU64,
}

impl<'i> Resizing<'i> {
    pub(super) fn try_lock(self) -> bool {
        self.meta.fetch_or(RESIZING, Ordering::Acquire) & RESIZING == 0
    }

    pub(super) fn unlock(self) {
        self.meta.fetch_and(!RESIZING, Ordering::Release);
    }

    /// Gives an empty group its first bucket. False when there is no memory for it.
    #[cold]
    pub(super) fn add_first(self, grace: &GracePeriods) -> bool {
        let group = self.group;
        while !self.try_lock() {
            if group.bucket_count() > 0 {
                return true;
            }
            yield_now();
            spin_loop();
        }
        let added = group.bucket_count() > 0 || self.add_chunk(grace, 0);
        if added && group.bucket_count() == 0 {
            group.set_buckets(1);
        }
        self.unlock();
        added
    }

    fn add_chunk(self, grace: &GracePeriods, number: u64) -> bool {
        let Self { group, .. } = self;
        if group.chunk(number).is_some() {
            return true;
        }
        let Some(chunk) = group.buckets.take_chunk(grace) else { return false };
        let listed = group.set_chunk(number, Some(chunk), || group.buckets.take_chunk(grace));
        if !listed {
            group.buckets.give_chunk(grace, chunk);
        }
        listed
    }

    /// Counts an item added to the group.
    pub(crate) fn count_added(self) {
        self.meta.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an item removed from the group.
    pub(crate) fn count_removed(self) {
        self.meta.fetch_sub(1, Ordering::Relaxed);
    }

    /// Grows a crowded group, shrinks a sparse one: a step or two, or none while another thread
    /// resizes it. The caller holds no chain.
    pub(crate) fn adjust(self, grace: &GracePeriods) {
        if self.need() == Need::None || !self.try_lock() {
            return;
        }
        for _ in 0..STEPS_MAX {
            let stepped = match self.need() {
                Need::None => false,
                Need::Grow => self.grow(grace),
                Need::Shrink => self.shrink(grace),
            };
            if !stepped {
                break;
            }
        }
        self.unlock();
    }

    /// Which step a group with its items should take.
    #[inline]
    fn need(self) -> Need {
        let items = self.meta.load(Ordering::Relaxed) & ITEMS_MASK;
        let buckets = self.group.bucket_count();
        if items * 16 > buckets * GROW_ITEMS_X16 {
            Need::Grow
        } else if buckets > 1 && items * 16 < (buckets - 1) * SHRINK_ITEMS_X16 {
            Need::Shrink
        } else {
            Need::None
        }
    }

    /// Looks at the buckets that shrinking would change, if the group is sparse.
    pub(super) fn fetch(self) {
        let last = self.group.bucket_count().saturating_sub(1);
        // Others may resize the group meanwhile.
        if last > 0 && self.need() == Need::Shrink {
            for number in [buddy(last), last] {
                let first = self.group.near_bucket(number).map(|id| self.group.buckets.bucket(id));
                black_box(first.map(|bucket| bucket[0].load(Ordering::Relaxed)));
            }
        }
    }

    /// Locks a bucket of a group whose resizing lock the caller holds.
    pub(super) fn lock_own(self, number: u64) -> Chain<'i> {
        let first = self.group.bucket(number);
        let first = first.expect("only the holder of this lock unlists chunks");
        Chain::lock(self.group.buckets, first)
    }

    /// Adds one bucket. False when there is no memory for it.
    fn grow(self, grace: &GracePeriods) -> bool {
        let group = self.group;
        let new = group.bucket_count();
        if new >= BUCKETS_MAX || !self.add_chunk(grace, new) {
            return false;
        }
        let round = new.ilog2();
        let mut source = self.lock_own(buddy(new));
        let mut target = self.lock_own(new);
        let movers: Vec<Place> = source
            .places()
            .filter(|place| {
                let slot = source.get(*place);
                slot.is_item() && slot.tag() >> round & 1 == 1
            })
            .collect();
        for place in &movers {
            let Some(room) = target.room(0) else {
                empty(&mut target);
                return false;
            };
            target.set(room, source.get(*place));
        }
        for place in movers {
            source.set(place, Slot::EMPTY);
        }
        move_ghosts(&mut source, &mut target, |ghost| ghost.tag() >> round & 1 == 1);
        source.trim();
        group.set_buckets(new + 1);
        true
    }

    /// Takes the last bucket away. False when there is no memory for what its buddy receives.
    fn shrink(self, grace: &GracePeriods) -> bool {
        let group = self.group;
        let last = group.bucket_count() - 1;
        let mut target = self.lock_own(buddy(last));
        let mut source = self.lock_own(last);
        let movers: Vec<Place> =
            source.places().filter(|place| source.get(*place).is_item()).collect();
        let mut moved = Vec::new();
        for place in &movers {
            let Some(room) = target.room(0) else {
                moved.into_iter().for_each(|place| target.set(place, Slot::EMPTY));
                target.trim();
                return false;
            };
            target.set(room, source.get(*place));
            moved.push(room);
        }
        for place in movers {
            source.set(place, Slot::EMPTY);
        }
        move_ghosts(&mut source, &mut target, |_| true);
        source.trim();
        group.set_buckets(last);
        drop((source, target));
        if last.is_multiple_of(1 << group.chunk_shift)
            && let Some(chunk) = group.chunk(last)
        {
            group.set_chunk(last, None, || None);
            group.buckets.give_chunk(grace, chunk);
        }
        true
    }
}

/// Moves the ghosts that `belong` in `target`, as far as there is room for them.
fn move_ghosts(source: &mut Chain<'_>, target: &mut Chain<'_>, belong: impl Fn(Ghost) -> bool) {
    let places: Vec<Place> = source.places().collect();
    for place in places {
        let ghosts = source.get(place).ghosts();
        for ghost in ghosts.into_iter().flatten().filter(|ghost| belong(*ghost)) {
            source.forget(place, ghost);
            target.remember(ghost);
        }
    }
}

fn empty(chain: &mut Chain<'_>) {
    let places: Vec<Place> = chain.places().collect();
    for place in places {
        chain.set(place, Slot::EMPTY);
    }
    chain.trim();
}
