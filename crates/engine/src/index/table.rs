//! The index itself: one group of buckets per slice (or per few slices of a small pool).
//!
//! Everything here begins at a group: it finds the bucket of a key, and either probes it without a
//! lock or locks its chain. A group may take a step (grow or shrink by one bucket) at any moment.
//! So its shape is read before and after, and a bucket counts only if both are equal.

use super::bucket::{BUCKET_BYTES, BucketId};
use super::buckets::Buckets;
use super::chain::{Chain, First};
use super::group::{GROUP_BYTES, Group, GroupWords, Shape};
use super::lock::{LOCKED, is_locked, overflow};
use super::probe::Probe;
use super::resize::Resizing;
use super::slot::tag;
use super::span::{END, Span};
use crate::config::Geometry;
use crate::grace::GracePeriods;
use crate::raw::{Mapping, prefetch};
use crate::sync::{AtomicU64, MODEL, Ordering, spin_loop};
use base::{Grant, KeyId, MemoryBudget, SliceId};
use std::hint::black_box;
use std::sync::Arc;

/// Buckets in a chunk where a group serves 64 KiB of memory; more where it serves more.
const CHUNK_SHIFT_MIN: u32 = if MODEL { 0 } else { 3 };

/// Looks at a held lock before an optimistic reader tries again in any case.
const WAIT_SPINS_MAX: u32 = 128;

/// The largest block of memory taken from the budget at once, in bytes.
const BLOCK_BYTES_MAX: u64 = 64 << 10;
/// Blocks that the memory of one segment makes, at least.
const BLOCKS_PER_SEGMENT: u64 = if MODEL { 1 } else { 4 };

/// Bytes of memory to one byte of index at the least, for the reservation of address space.
const RESERVE_RATIO: u64 = 2;

pub(crate) struct Index {
    groups: Mapping<GroupWords>,
    /// Per group: items in the low half, the lock that guards resizing in the highest bit.
    meta: Mapping<AtomicU64>,
    buckets: Buckets,
    chunk_shift: u32,
    slices_shift: u32,
    _fixed: Grant,
}

impl Index {
    pub(crate) fn new(
        geometry: &Geometry,
        limit_bytes: u64,
        budget: &Arc<MemoryBudget>,
        huge: bool,
        fixed: Grant,
    ) -> std::io::Result<Self> {
        let chunk_shift = CHUNK_SHIFT_MIN + (limit_bytes >> 30).max(1).ilog2();
        let block_bytes = (geometry.segment_bytes() / BLOCKS_PER_SEGMENT).min(BLOCK_BYTES_MAX);
        let reserve = geometry.segments_max as u64 * geometry.segment_bytes() / RESERVE_RATIO;
        Ok(Self {
            groups: Mapping::reserve(geometry.groups, false)?,
            meta: Mapping::reserve(geometry.groups, false)?,
            buckets: Buckets::new(reserve, (1 << chunk_shift, block_bytes), budget.clone(), huge)?,
            chunk_shift,
            slices_shift: geometry.slices_per_group().trailing_zeros(),
            _fixed: fixed,
        })
    }

    /// Bytes of the parts that do not grow.
    pub(crate) fn fixed_bytes(geometry: &Geometry) -> u64 {
        (geometry.groups * (GROUP_BYTES + 8)) as u64
    }

    /// Bytes of buckets that it holds at least, once every slice has had an item.
    pub(crate) fn bytes_min(&self) -> u64 {
        (self.meta.places().len() as u64 * BUCKET_BYTES) << self.chunk_shift
    }

    /// How many slices share a group: two to the power of this.
    pub(super) fn slices_shift(&self) -> u32 {
        self.slices_shift
    }

    #[inline]
    fn group_of(&self, slice: SliceId) -> usize {
        slice.index() >> self.slices_shift
    }

    #[inline]
    fn group(&self, index: usize) -> Group<'_> {
        Group::new(&self.groups.places()[index], &self.buckets, self.chunk_shift)
    }

    /// The group of `slice`, with what counts its items and guards its growth.
    pub(crate) fn resizing(&self, slice: SliceId) -> Resizing<'_> {
        self.resizing_of(self.group_of(slice)).expect("every slice has a group")
    }

    /// Group `index`, in no order of slices that matters; `None` after the last.
    pub(super) fn resizing_of(&self, index: usize) -> Option<Resizing<'_>> {
        let meta = self.meta.places().get(index)?;
        Some(Resizing { group: self.group(index), meta })
    }

    /// The bucket that `key` would be in, with its version, if that is found at the first look:
    /// the group is neither empty nor very large, and takes no step meanwhile.
    #[inline(always)]
    pub(crate) fn probe_once(&self, key: KeyId) -> Option<Probe<'_>> {
        let group = self.group(self.group_of(key.slice));
        let shape = group.shape();
        let first = group.near_bucket(shape.number(tag(key.hash)))?;
        self.probe_at(group, shape, first)
    }

    /// Lets the processor fetch the group of `slice`.
    #[inline]
    pub(crate) fn prefetch_group(&self, slice: SliceId) {
        prefetch(&self.groups.places()[self.group_of(slice)].word);
    }

    /// Lets the processor fetch the bucket that `key` would be in.
    #[inline]
    pub(crate) fn prefetch_bucket(&self, key: KeyId) {
        let group = self.group(self.group_of(key.slice));
        if let Some(first) = group.near_bucket(group.shape().number(tag(key.hash))) {
            prefetch(&self.buckets.bucket(first)[0]);
        }
    }

    /// Looks at the chains of these keys, and at those that a step of their groups would change, so
    /// that the processor fetches all of them side by side.
    pub(crate) fn fetch(&self, keys: impl Iterator<Item = KeyId>) {
        const SIDE_BY_SIDE: usize = 16;
        let mut second = [None; SIDE_BY_SIDE];
        for (key, second) in keys.zip(&mut second) {
            self.resizing(key.slice).fetch();
            *second = self.probe_once(key).and_then(|probe| overflow(probe.header()));
        }
        for bucket in second.into_iter().flatten() {
            black_box(self.buckets.bucket(bucket)[0].load(Ordering::Relaxed));
        }
    }

    /// The bucket that `key` would be in, with its version; `None` while its group is empty.
    pub(crate) fn probe(&self, key: KeyId) -> Option<Probe<'_>> {
        let group = self.group(self.group_of(key.slice));
        loop {
            let shape = group.shape();
            if shape.is_empty() {
                return None;
            }
            if let Some(first) = group.bucket(shape.number(tag(key.hash))) {
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
        let first = self.buckets.bucket(first);
        let header = first[0].load(Ordering::Acquire);
        (group.shape() == shape).then_some(Probe { first, header })
    }

    /// A probe that counts as locked, for a group that has taken a step: the caller looks again.
    fn probe_later(&self, first: BucketId) -> Probe<'_> {
        Probe { first: self.buckets.bucket(first), header: LOCKED }
    }

    /// Waits a bounded time for a writer: reading what it writes would only slow it down.
    pub(crate) fn wait_while_locked(&self, key: KeyId) {
        let Some(probe) = self.probe(key) else { return };
        for _ in 0..WAIT_SPINS_MAX {
            if !is_locked(probe.first()[0].load(Ordering::Relaxed)) {
                return;
            }
            spin_loop();
        }
    }

    /// The memory of all buckets.
    #[inline]
    pub(crate) fn buckets(&self) -> &Buckets {
        &self.buckets
    }

    /// Locks the chain of `key` if its first bucket is found at the first look, as by
    /// [`Index::probe_once`], and gives that bucket.
    #[inline(always)]
    pub(crate) fn lock_first(&self, key: KeyId) -> Option<First<'_>> {
        let group = self.group(self.group_of(key.slice));
        let shape = group.shape();
        let first = group.near_bucket(shape.number(tag(key.hash)))?;
        let first = First::lock(self.buckets.bucket(first));
        (group.shape() == shape).then_some(first)
    }

    /// Locks the chain of `key`, or `None` when the budget has no memory for its first chunk.
    pub(crate) fn lock(&self, grace: &GracePeriods, key: KeyId) -> Option<Chain<'_>> {
        let group = self.group(self.group_of(key.slice));
        let tag = tag(key.hash);
        loop {
            let shape = group.shape();
            if shape.is_empty() {
                if !self.resizing(key.slice).add_first(grace) {
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
        let chain = Chain::lock(&self.buckets, first);
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

    /// Locks the chain of the group of `slice` that holds the tags from number `at` on. `None`
    /// where there is none: the group is empty, or `at` is [`END`].
    pub(crate) fn lock_span(&self, slice: SliceId, at: u32) -> Option<Span<'_>> {
        loop {
            let shape = self.shape(slice);
            if shape.is_empty() || at >= END {
                return None;
            }
            let (bucket, end) = shape.run_at(at);
            if let Some(chain) = self.lock_bucket(slice, shape, bucket) {
                return Some(Span::new(chain, at, end));
            }
        }
    }

    /// The first slice after those that share the group of `slice`.
    pub(crate) fn next_group(&self, slice: usize) -> usize {
        let slices = 1 << self.slices_shift();
        slice / slices * slices + slices
    }
}
