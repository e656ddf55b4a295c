//! The index: from a key's slice and hash to the item, by slice.
//!
//! Each group of buckets grows and shrinks by itself, a bucket at a time, so a slice can be walked
//! or dropped alone, and keys that crowd one slice only make that slice large. Readers take no
//! lock: they remember the version of a bucket, look, and check that it did not change. Writers
//! lock the chain they change, for as long as that takes.

mod bucket;
mod group;
mod resize;
mod slot;
mod store;

pub(crate) use bucket::{Chain, First, Place, candidate, is_locked, overflow};
pub(crate) use group::Shape;
pub(crate) use slot::{FREQ_MAX, Ghost, Slot};
pub(crate) use store::Bucket;

use crate::config::{Geometry, MODEL};
use crate::epoch::Epochs;
use crate::raw::Mapping;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop};
use base::{Grant, KeyId, MemoryBudget, SliceId};
use group::{GROUP_BYTES, Group, GroupWords};
use std::sync::Arc;
use store::{BucketId, Store};

/// Buckets in a chunk where a group serves 64 KiB of memory; more where it serves more.
const CHUNK_SHIFT_MIN: u32 = if MODEL { 0 } else { 3 };

/// Looks at a held lock before an optimistic reader tries again all the same.
const WAIT_SPINS_MAX: u32 = 128;

/// Memory is taken from the budget in blocks of so many bytes, of which a segment makes up a few.
const BLOCK_BYTES_MAX: u64 = 64 << 10;
const BLOCKS_PER_SEGMENT: u64 = 4;

/// Bytes of memory to one byte of index at the least, for the reservation of address space.
const RESERVE_RATIO: u64 = 2;

pub(crate) struct Index {
    groups: Mapping<GroupWords>,
    /// Per group: items in the low half, the lock that guards resizing in the highest bit.
    meta: Mapping<AtomicU64>,
    store: Store,
    chunk_shift: u32,
    slices_shift: u32,
    _fixed: Grant,
}

/// What an optimistic reader holds on to.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'i> {
    first: &'i Bucket,
    header: u64,
}

impl Index {
    pub(crate) fn new(
        geometry: &Geometry,
        limit_bytes: u64,
        budget: &Arc<MemoryBudget>,
        huge: bool,
        fixed: Grant,
    ) -> std::io::Result<Self> {
        let per_slice_group = (limit_bytes >> 30).max(1).ilog2();
        let chunk_shift = CHUNK_SHIFT_MIN + per_slice_group;
        let block_bytes = (geometry.segment_bytes() / BLOCKS_PER_SEGMENT).min(BLOCK_BYTES_MAX);
        let reserve = geometry.segments_max as u64 * geometry.segment_bytes() / RESERVE_RATIO;
        Ok(Self {
            groups: Mapping::reserve(geometry.groups, false)?,
            meta: Mapping::reserve(geometry.groups, false)?,
            store: Store::new(reserve, (1 << chunk_shift, block_bytes), budget.clone(), huge)?,
            chunk_shift,
            slices_shift: geometry.slices_per_group().trailing_zeros(),
            _fixed: fixed,
        })
    }

    /// Bytes of the parts that do not grow.
    pub(crate) fn fixed_bytes(geometry: &Geometry) -> u64 {
        (geometry.groups * (GROUP_BYTES + 8)) as u64
    }

    #[inline]
    fn group_of(&self, slice: SliceId) -> usize {
        slice.index() >> self.slices_shift
    }

    #[inline]
    fn group(&self, index: usize) -> Group<'_> {
        Group::new(&self.groups.places()[index], &self.store, self.chunk_shift)
    }

    /// The bucket that `key` would be in, with its version, if that is found at the first look:
    /// the group is neither empty nor very large, and takes no step meanwhile.
    #[inline(always)]
    pub(crate) fn glimpse(&self, key: KeyId) -> Option<Probe<'_>> {
        let group = self.group(self.group_of(key.slice));
        let shape = group.shape();
        let first = group.near_bucket(shape.number(slot::tag(key.hash)))?;
        self.probe_at(group, shape, first)
    }

    /// The bucket that `key` would be in, with its version; `None` while its group is empty.
    pub(crate) fn probe(&self, key: KeyId) -> Option<Probe<'_>> {
        let group = self.group(self.group_of(key.slice));
        loop {
            let shape = group.shape();
            if shape.is_empty() {
                return None;
            }
            if let Some(first) = group.bucket(shape.number(slot::tag(key.hash))) {
                let probe = self.probe_at(group, shape, first);
                return Some(probe.unwrap_or_else(|| self.probe_later(first)));
            }
            spin_loop();
        }
    }

    /// The bucket numbered by `shape`, unless the group has another shape by now. If it has not,
    /// this is the bucket of the key at the moment its version is read; and a step of the group
    /// that moves the key changes that version.
    #[inline(always)]
    fn probe_at(&self, group: Group<'_>, shape: Shape, first: BucketId) -> Option<Probe<'_>> {
        let first = self.store.bucket(first);
        let header = first[0].load(Ordering::Acquire);
        (group.shape() == shape).then_some(Probe { first, header })
    }

    /// A probe that passes for locked, for a group that has taken a step: look again.
    fn probe_later(&self, first: BucketId) -> Probe<'_> {
        Probe { first: self.store.bucket(first), header: bucket::LOCKED }
    }

    /// Lets a writer finish, for a while: reading what it writes would only slow it down.
    pub(crate) fn wait_while_locked(&self, key: KeyId) {
        let Some(probe) = self.probe(key) else { return };
        for _ in 0..WAIT_SPINS_MAX {
            if !is_locked(probe.first()[0].load(Ordering::Relaxed)) {
                return;
            }
            spin_loop();
        }
    }

    /// A further bucket of a chain.
    #[inline]
    pub(crate) fn bucket(&self, id: BucketId) -> &Bucket {
        self.store.bucket(id)
    }

    /// Locks the chain of `key` if its first bucket is found at the first look, as by
    /// [`Index::glimpse`], and gives that bucket.
    #[inline(always)]
    pub(crate) fn lock_first(&self, key: KeyId) -> Option<First<'_>> {
        let group = self.group(self.group_of(key.slice));
        let shape = group.shape();
        let first = group.near_bucket(shape.number(slot::tag(key.hash)))?;
        let first = First::lock(self.store.bucket(first));
        (group.shape() == shape).then_some(first)
    }

    /// Locks the chain of `key`, or `None` when the budget has no memory for its first chunk.
    pub(crate) fn lock(&self, epochs: &Epochs, key: KeyId) -> Option<Chain<'_>> {
        let index = self.group_of(key.slice);
        let group = self.group(index);
        let tag = slot::tag(key.hash);
        loop {
            let shape = group.shape();
            if shape.is_empty() {
                if !self.plant(epochs, index) {
                    return None;
                }
                continue;
            }
            if let Some(chain) = self.lock_shaped(group, shape, shape.number(tag)) {
                return Some(chain);
            }
        }
    }

    /// Locks a bucket of a group of this shape; `None` if the group has another by then.
    #[inline]
    fn lock_shaped<'i>(&'i self, group: Group<'i>, shape: Shape, number: u64) -> Option<Chain<'i>> {
        let Some(first) = group.bucket(number) else {
            spin_loop();
            return None;
        };
        let chain = Chain::lock(&self.store, first);
        (group.shape() == shape).then_some(chain)
    }

    /// The shape of the group of `slice`.
    pub(crate) fn shape(&self, slice: SliceId) -> Shape {
        self.group(self.group_of(slice)).shape()
    }

    /// Locks bucket `number` of the group of `slice`; `None` if its shape is no longer `shape`.
    pub(crate) fn lock_bucket(
        &self,
        slice: SliceId,
        shape: Shape,
        number: u64,
    ) -> Option<Chain<'_>> {
        self.lock_shaped(self.group(self.group_of(slice)), shape, number)
    }

    /// Whether memory for buckets was refused.
    pub(crate) fn hungry(&self) -> bool {
        self.store.hungry()
    }

    /// Takes memory that eviction gave up.
    pub(crate) fn feed(&self, bytes: u64) {
        self.store.feed(bytes);
    }
}

impl Probe<'_> {
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        is_locked(self.header)
    }

    #[inline]
    pub(crate) fn first(&self) -> &Bucket {
        self.first
    }

    #[inline]
    pub(crate) fn header(&self) -> u64 {
        self.header
    }

    /// Whether nothing changed since the probe was taken: what was read in between is true.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        fence(Ordering::Acquire);
        self.first[0].load(Ordering::Relaxed) == self.header
    }
}
