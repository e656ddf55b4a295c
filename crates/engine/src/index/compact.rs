//! Making a sparse index compact: its chunks and overflow buckets move from high blocks to low
//! ones, so that the memory of the high ones can be returned.
//!
//! A pass looks at every group, a chunk of buckets at a step. A chunk moves under the lock of its
//! group and those of all its chains. The move is a step of the group: its shape changes, so who
//! found a bucket at the old place looks again. The old place is used again after a grace period.

use super::bucket::BucketId;
use super::buckets::Bounds;
use super::chain::Chain;
use super::lock::overflow;
use super::resize::Resizing;
use super::table::Index;
use crate::grace::GracePeriods;
use crate::sync::Ordering;

/// How far a compaction has come. One thread at a time works on it.
#[derive(Default)]
pub(crate) struct Compaction {
    pass: Option<Pass>,
    /// What the index could return when a pass ended that had moved nothing.
    stuck_bytes: u64,
}

struct Pass {
    bounds: Bounds,
    group: usize,
    /// The first bucket of the next chunk.
    bucket: u64,
    /// Whether it has moved anything.
    moved: bool,
}

impl Compaction {
    /// Whether a pass is to be made or continued.
    pub(crate) fn has_work(&self, index: &Index) -> bool {
        let returnable_bytes = index.buckets().returnable_bytes();
        returnable_bytes > 0 && (self.pass.is_some() || returnable_bytes != self.stuck_bytes)
    }

    /// Looks at one chunk of the index, if that is sparse. While items are still to go, it becomes
    /// more so by itself: then only a `hollow` index is worth a pass. Returns whether there was
    /// anything to do.
    pub(crate) fn step(&mut self, index: &Index, grace: &GracePeriods, hollow: bool) -> bool {
        let waits = self.pass.is_none() && hollow && !index.buckets().is_hollow();
        if waits || !self.has_work(index) {
            self.pass = None;
            return false;
        }
        let new = || Pass { bounds: index.buckets().bounds(), group: 0, bucket: 0, moved: false };
        let pass = self.pass.get_or_insert_with(new);
        let Some(resizing) = index.resizing_of(pass.group) else {
            self.stuck_bytes = if pass.moved { 0 } else { index.buckets().returnable_bytes() };
            self.pass = None;
            return true;
        };
        resizing.adjust(grace);
        let end = pass.bucket + (1 << resizing.group.chunk_shift);
        let is_last = end >= resizing.group.bucket_count();
        if resizing.try_lock() {
            pass.moved |= compact_chunk(resizing, grace, pass.bucket, pass.bounds);
            resizing.unlock();
        }
        (pass.group, pass.bucket) = if is_last { (pass.group + 1, 0) } else { (pass.group, end) };
        true
    }
}

/// Moves the chunk of a locked group that begins with bucket `start`, and the overflow buckets of
/// its chains. With its first chunk a group also moves its lists of chunks. Returns whether
/// anything moved.
fn compact_chunk(resizing: Resizing<'_>, grace: &GracePeriods, start: u64, bounds: Bounds) -> bool {
    let group = resizing.group;
    let mut moved = false;
    if start == 0 {
        let take = || group.buckets.take_chunk_below(bounds.chunks);
        for list in group.move_lists(bounds.chunks, take) {
            moved = true;
            group.buckets.give_chunk(grace, list);
        }
    }
    let count = group.bucket_count();
    let end = count.min(start + (1 << group.chunk_shift));
    let Some(chunk) = group.chunk(start).filter(|_| start < end) else { return moved };
    for number in start..end {
        let first = BucketId(chunk.0 + (number - start) as u32);
        // Without its lock a chain may get an overflow bucket now, but a low one.
        if overflow(group.buckets.bucket(first)[0].load(Ordering::Relaxed)).is_some() {
            moved |= resizing.lock_own(number).move_below(bounds.singles);
        }
    }
    if chunk.0 < bounds.chunks.0 {
        return moved;
    }
    let Some(target) = group.buckets.take_chunk_below(bounds.chunks) else { return moved };
    let mut chains: Vec<Chain<'_>> = (start..end).map(|at| resizing.lock_own(at)).collect();
    for at in 0..(end - start) as u32 {
        group.buckets.copy(BucketId(chunk.0 + at), BucketId(target.0 + at));
    }
    group.set_chunk(start, Some(target), || None);
    group.set_buckets(count);
    chains.iter_mut().for_each(Chain::touch);
    drop(chains);
    group.buckets.give_chunk(grace, chunk);
    true
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::config::{EngineConfig, Geometry};
    use crate::index::{Probe, Slot};
    use crate::segments::Addr;
    use base::{KeyId, MemoryBudget, Owner, SLICES, SliceId};

    const LIMIT_BYTES: u64 = 8 << 20;
    const KEYS: u64 = 60_000;

    struct Rig {
        index: Index,
        grace: GracePeriods,
    }

    impl Rig {
        /// An index with a slot for each key, in turns of all groups.
        fn new() -> Self {
            let budget = MemoryBudget::new(LIMIT_BYTES);
            let geometry = Geometry::of(&EngineConfig::new(LIMIT_BYTES));
            let fixed = budget.take(Owner::Index, Index::fixed_bytes(&geometry)).expect("memory");
            let index = Index::new(&geometry, LIMIT_BYTES, &budget, false, fixed);
            let rig = Self { index: index.expect("address space"), grace: GracePeriods::new(1) };
            for number in 0..KEYS {
                let key = key(number);
                let mut chain = rig.index.lock(&rig.grace, key).expect("memory");
                let place = chain.room(0).expect("memory");
                chain.set(place, Slot::item(key.hash, Addr(number), 0));
                drop(chain);
                let resizing = rig.index.resizing(key.slice);
                resizing.count_added();
                resizing.adjust(&rig.grace);
            }
            rig
        }

        fn has(&self, number: u64) -> bool {
            let key = key(number);
            let chain = self.index.lock(&self.grace, key).expect("memory");
            chain.find(key.hash, |addr| addr == Addr(number)).is_some()
        }

        fn remove(&self, number: u64) {
            let key = key(number);
            let mut chain = self.index.lock(&self.grace, key).expect("memory");
            let place = chain.find(key.hash, |addr| addr == Addr(number)).expect("a slot");
            chain.set(place, Slot::EMPTY);
            chain.trim();
            drop(chain);
            let resizing = self.index.resizing(key.slice);
            resizing.count_removed();
            resizing.adjust(&self.grace);
        }
    }

    fn key(number: u64) -> KeyId {
        let hash = crate::keys::mix(number);
        let slice = SliceId::new(hash as usize % SLICES).expect("a slice");
        KeyId { slice, hash }
    }

    fn stays(number: u64) -> bool {
        (key(number).slice.index() * 128 / SLICES).is_multiple_of(2)
    }

    #[test]
    fn what_moves_is_found_and_readers_of_the_old_place_look_again() {
        let rig = Rig::new();
        (0..KEYS).filter(|number| !stays(*number)).for_each(|number| rig.remove(number));
        let probe = |number: u64| rig.index.probe(key(number)).expect("a bucket");
        let first = |probe: &Probe<'_>| std::ptr::from_ref(probe.first());
        let next = |probe: &Probe<'_>| overflow(probe.header());
        let kept: Vec<u64> = (0..KEYS).filter(|number| stays(*number)).collect();
        let shape = |number: u64| rig.index.shape(key(number).slice);
        let before: Vec<_> = kept.iter().map(|number| (probe(*number), shape(*number))).collect();
        rig.index.buckets().give_back(&rig.grace);
        let mut compaction = Compaction::default();
        while compaction.step(&rig.index, &rig.grace, false) {}
        let (mut chunks, mut singles) = (0, 0);
        for (number, (before, shape_before)) in kept.iter().zip(before) {
            assert!(rig.has(*number), "key {number}");
            let after = probe(*number);
            let in_place = first(&before) == first(&after);
            if in_place && next(&before) != next(&after) {
                singles += 1;
                assert!(!before.holds(), "key {number}: its second bucket has moved");
            }
            if !in_place {
                chunks += 1;
                assert!(!before.holds(), "key {number}: its first bucket has moved");
                assert!(shape(*number) != shape_before, "key {number}: its chunk has moved");
            }
        }
        assert!(chunks > 0 && singles > 0, "{chunks} keys in chunks, {singles} beyond");
    }
}
