//! Growing and shrinking a group, a bucket at a time, while others read and write.
//!
//! The lock of the group is only ever tried: whoever fails leaves the step to the one who holds
//! it. Bucket locks are taken inside it, the lower number first.

use super::bucket::Chain;
use super::group::{BUCKETS_MAX, Group, buddy};
use super::slot::{Ghost, Slot};
use super::{Index, Place};
use crate::config::MODEL;
use crate::epoch::Epochs;
use crate::sync::{AtomicU64, Ordering, spin_loop, yield_now};
use base::SliceId;

const RESIZING: u64 = 1 << 63;
const ITEMS_MASK: u64 = u32::MAX as u64;

/// Items per bucket, in sixteenths, above which a group grows and below which it shrinks.
const GROW_ITEMS_X16: u64 = if MODEL { 32 } else { 80 };
const SHRINK_ITEMS_X16: u64 = if MODEL { 20 } else { 24 };

/// Steps of growth that one insertion pays for at most.
const STEPS_MAX: u32 = 2;

impl Index {
    fn meta(&self, index: usize) -> &AtomicU64 {
        &self.meta.places()[index]
    }

    fn try_resize(&self, index: usize) -> bool {
        self.meta(index).fetch_or(RESIZING, Ordering::Acquire) & RESIZING == 0
    }

    fn end_resize(&self, index: usize) {
        self.meta(index).fetch_and(!RESIZING, Ordering::Release);
    }

    /// Gives an empty group its first bucket. False when there is no memory for it.
    #[cold]
    pub(super) fn plant(&self, epochs: &Epochs, index: usize) -> bool {
        while !self.try_resize(index) {
            if self.group(index).buckets() > 0 {
                return true;
            }
            yield_now();
            spin_loop();
        }
        let group = self.group(index);
        let planted = group.buckets() > 0 || self.add_chunk(epochs, group, 0);
        if planted && group.buckets() == 0 {
            group.set_buckets(1);
        }
        self.end_resize(index);
        planted
    }

    fn add_chunk(&self, epochs: &Epochs, group: Group<'_>, number: u64) -> bool {
        if group.chunk(number).is_some() {
            return true;
        }
        let Some(chunk) = self.store.take_chunk(epochs) else { return false };
        let listed = group.set_chunk(number, Some(chunk), || self.store.take_chunk(epochs));
        if !listed {
            self.store.give_chunk(epochs, chunk);
        }
        listed
    }

    /// Counts an item added to the group of `slice`.
    pub(crate) fn count_added(&self, slice: SliceId) {
        self.meta(self.group_of(slice)).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an item removed from the group of `slice`.
    pub(crate) fn count_removed(&self, slice: SliceId) {
        self.meta(self.group_of(slice)).fetch_sub(1, Ordering::Relaxed);
    }

    /// Grows the group of `slice` if it is crowded, shrinks it if it is sparse: a step or two.
    /// The caller holds no chain.
    pub(crate) fn adjust(&self, epochs: &Epochs, slice: SliceId) {
        let index = self.group_of(slice);
        let items = self.meta(index).load(Ordering::Relaxed) & ITEMS_MASK;
        let buckets = self.group(index).buckets();
        let crowded = items * 16 > buckets * GROW_ITEMS_X16;
        let sparse = buckets > 1 && items * 16 < buckets * SHRINK_ITEMS_X16;
        if !(crowded || sparse) || !self.try_resize(index) {
            return;
        }
        let group = self.group(index);
        if sparse {
            self.shrink(epochs, group);
        } else {
            for _ in 0..STEPS_MAX {
                if items * 16 <= group.buckets() * GROW_ITEMS_X16 || !self.grow(epochs, group) {
                    break;
                }
            }
        }
        self.end_resize(index);
    }

    /// Locks a bucket of a group whose resizing lock the caller holds.
    fn lock_own<'i>(&'i self, group: Group<'_>, number: u64) -> Chain<'i> {
        let first = group.bucket(number).expect("only the holder of this lock unlists chunks");
        Chain::lock(&self.store, first)
    }

    /// Adds one bucket. False when there is no memory for it.
    fn grow(&self, epochs: &Epochs, group: Group<'_>) -> bool {
        let new = group.buckets();
        if new >= BUCKETS_MAX || !self.add_chunk(epochs, group, new) {
            return false;
        }
        let round = new.ilog2();
        let mut source = self.lock_own(group, buddy(new));
        let mut target = self.lock_own(group, new);
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

    /// Takes the last bucket away, if what it holds fits in its buddy.
    fn shrink(&self, epochs: &Epochs, group: Group<'_>) {
        let last = group.buckets() - 1;
        if last == 0 {
            return;
        }
        let mut target = self.lock_own(group, buddy(last));
        let mut source = self.lock_own(group, last);
        let items =
            source.places().map(|place| source.get(place)).filter(|slot| slot.is_item()).count();
        let room = target.places().filter(|place| !target.get(*place).is_item()).count();
        if items > room {
            return;
        }
        let places: Vec<Place> = source.places().collect();
        for place in places {
            let slot = source.get(place);
            if slot.is_item() {
                let room = target.room(0).expect("room was counted under the lock");
                target.set(room, slot);
                source.set(place, Slot::EMPTY);
            }
        }
        move_ghosts(&mut source, &mut target, |_| true);
        source.trim();
        group.set_buckets(last);
        drop((source, target));
        if last.is_multiple_of(1 << self.chunk_shift)
            && let Some(chunk) = group.chunk(last)
        {
            group.set_chunk(last, None, || None);
            self.store.give_chunk(epochs, chunk);
        }
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
