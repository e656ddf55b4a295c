//! The memory of the index: buckets in chunks for groups, and singly as overflow.
//!
//! Memory is taken from the budget a block at a time. A block holds chunks or single buckets, and
//! the lowest block with a free place is filled first. So the high ones become empty as the index
//! shrinks, with the help of [`compact`](super::compact), and their memory is returned.
//!
//! A chunk that a group releases is used again only after a grace period, because a reader may
//! still look at it. A bucket is emptied before it is used again, so its old slots are never found
//! by another group.

use super::blocks::{Blocks, Kind};
use super::bucket::{BUCKET_BYTES, Bucket, BucketId};
use super::lock::{overflow, with_overflow};
use crate::grace::{GracePeriods, Horizon};
use crate::raw::Mapping;
use crate::sync::{Apart, AtomicU64, MODEL, Mutex, Ordering, fence, lock};
use base::{MemoryBudget, Owner};
use std::collections::VecDeque;
use std::sync::Arc;

/// One in this many bytes of the blocks may be unused before the index counts as sparse.
const SPARE_PART: u64 = 16;

/// Blocks that may be unused besides: those of each kind that are being filled.
const SPARE_BLOCKS: u64 = if MODEL { 0 } else { 3 };

/// Empty blocks whose memory one call returns to the kernel at most.
const RETURNS_MAX: usize = 16;

struct Free {
    blocks: Blocks,
    /// Released chunks, each with the grace period after which no batch can look at it.
    limbo: VecDeque<(u64, BucketId)>,
}

pub(crate) struct Buckets {
    buckets: Mapping<Bucket>,
    budget: Arc<MemoryBudget>,
    /// Buckets of a chunk, a power of two, less one.
    pub(super) chunk_mask: u32,
    /// Bytes taken from the budget at a time.
    block_bytes: u64,
    free: Apart<Mutex<Free>>,
    /// Bytes of blocks that hold memory and are not in use, as of the last change.
    spare_bytes: Apart<AtomicU64>,
    /// Set when the budget refused memory: eviction then frees a segment for the index.
    is_short: Apart<AtomicU64>,
}

impl Buckets {
    pub(crate) fn new(
        reserve_bytes: u64,
        (chunk_buckets, block_bytes): (u32, u64),
        budget: Arc<MemoryBudget>,
        huge: bool,
    ) -> std::io::Result<Self> {
        let buckets_max = (reserve_bytes / BUCKET_BYTES).min(u64::from(u32::MAX) - 1);
        let block_bytes = block_bytes.max(u64::from(chunk_buckets) * BUCKET_BYTES);
        let block_buckets = (block_bytes / BUCKET_BYTES) as u32;
        let blocks = Blocks::new(block_buckets, chunk_buckets, buckets_max as u32 / block_buckets);
        Ok(Self {
            buckets: Mapping::reserve(buckets_max as usize, huge)?,
            budget,
            chunk_mask: chunk_buckets - 1,
            block_bytes,
            free: Apart(Mutex::new(Free { blocks, limbo: VecDeque::new() })),
            spare_bytes: Apart(AtomicU64::new(0)),
            is_short: Apart(AtomicU64::new(0)),
        })
    }

    /// The words of a bucket.
    #[inline]
    pub(crate) fn bucket(&self, id: BucketId) -> &Bucket {
        &self.buckets.places()[id.0 as usize]
    }

    /// A chunk of empty buckets, or `None` while the budget refuses.
    pub(crate) fn take_chunk(&self, grace: &GracePeriods) -> Option<BucketId> {
        let horizon = grace.horizon();
        let mut free = lock(&self.free);
        self.end_limbo(&mut free, horizon);
        let id = self.take(&mut free, Kind::Chunk)?;
        Some(self.cleared(id, Kind::Chunk))
    }

    /// A chunk of empty buckets below `bound`, if there is one that holds memory.
    pub(super) fn take_chunk_below(&self, bound: BucketId) -> Option<BucketId> {
        self.take_below(Kind::Chunk, bound)
    }

    /// Takes a chunk back once the batches that may be looking at it have ended.
    pub(crate) fn give_chunk(&self, grace: &GracePeriods, id: BucketId) {
        lock(&self.free).limbo.push_back((grace.retire(), id));
    }

    /// One empty bucket, or `None` while the budget refuses.
    pub(crate) fn take_overflow(&self) -> Option<BucketId> {
        let id = self.take(&mut lock(&self.free), Kind::Single)?;
        Some(self.cleared(id, Kind::Single))
    }

    /// One empty bucket below `bound`, if there is one that holds memory.
    pub(super) fn take_overflow_below(&self, bound: BucketId) -> Option<BucketId> {
        self.take_below(Kind::Single, bound)
    }

    /// Takes back an overflow bucket that was unlinked under the lock of its chain.
    pub(crate) fn give_overflow(&self, id: BucketId) {
        let mut free = lock(&self.free);
        free.blocks.give(id);
        self.note_spare(&free);
    }

    fn end_limbo(&self, free: &mut Free, horizon: Horizon) {
        while let Some((stamp, id)) = free.limbo.front().copied()
            && horizon.has_passed(stamp)
        {
            free.limbo.pop_front();
            free.blocks.give(id);
        }
        self.note_spare(free);
    }

    fn take(&self, free: &mut Free, kind: Kind) -> Option<BucketId> {
        let id = free.blocks.take(kind, || {
            let grant = self.budget.take(Owner::Index, self.block_bytes);
            if grant.is_none() {
                self.is_short.store(1, Ordering::Relaxed);
            }
            grant
        })?;
        self.note_spare(free);
        Some(id)
    }

    fn take_below(&self, kind: Kind, bound: BucketId) -> Option<BucketId> {
        let mut free = lock(&self.free);
        let id = free.blocks.take_below(kind, bound)?;
        self.note_spare(&free);
        Some(self.cleared(id, kind))
    }

    fn note_spare(&self, free: &Free) {
        let spare_bytes = free.blocks.spare_buckets() * BUCKET_BYTES;
        self.spare_bytes.store(spare_bytes, Ordering::Relaxed);
    }

    /// Whether memory was refused since [`Buckets::take_freed`].
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed) != 0
    }

    /// Takes memory that eviction freed, before any other owner does.
    pub(crate) fn take_freed(&self, bytes: u64) {
        let mut free = lock(&self.free);
        for _ in 0..bytes / self.block_bytes {
            let Some(grant) = self.budget.take(Owner::Index, self.block_bytes) else { break };
            free.blocks.add_grant(grant);
        }
        self.note_spare(&free);
        self.is_short.store(0, Ordering::Relaxed);
    }

    /// Bytes that the index can return: whole blocks that it does not need, but for a small part.
    pub(crate) fn returnable_bytes(&self) -> u64 {
        let held = self.budget.used(Owner::Index);
        let kept = held / SPARE_PART + SPARE_BLOCKS * self.block_bytes;
        let more = self.spare_bytes.load(Ordering::Relaxed).saturating_sub(kept);
        more / self.block_bytes * self.block_bytes
    }

    /// Whether a third of its memory is unused.
    pub(super) fn is_hollow(&self) -> bool {
        self.spare_bytes.load(Ordering::Relaxed) * 3 > self.budget.used(Owner::Index)
    }

    /// The buckets below which all chunks and all single buckets have room.
    pub(super) fn bounds(&self) -> Bounds {
        let free = lock(&self.free);
        let bound = |kind| free.blocks.bound(kind);
        Bounds { chunks: bound(Kind::Chunk), singles: bound(Kind::Single) }
    }

    /// Returns the memory of a few empty blocks, as far as [`Buckets::returnable_bytes`] says.
    pub(crate) fn give_back(&self, grace: &GracePeriods) {
        let horizon = grace.horizon();
        let mut free = lock(&self.free);
        self.end_limbo(&mut free, horizon);
        let blocks = (self.returnable_bytes() / self.block_bytes) as usize;
        if blocks == 0 {
            return;
        }
        let returned = free.blocks.retire(blocks.min(RETURNS_MAX));
        self.note_spare(&free);
        drop(free);
        for block in &returned {
            let buckets = (self.block_bytes / BUCKET_BYTES) as usize;
            let start = block.number as usize * buckets;
            self.buckets.discard(start..start + buckets);
        }
        lock(&self.free).blocks.retired(returned);
    }

    /// Copies the slots of a bucket, and its link to the next, to one that no reader can find yet.
    pub(super) fn copy(&self, from: BucketId, to: BucketId) {
        let (from, to) = (self.bucket(from), self.bucket(to));
        for (word, target) in from.iter().zip(to).skip(1) {
            target.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let next = overflow(from[0].load(Ordering::Relaxed));
        to[0].store(with_overflow(0, next), Ordering::Relaxed);
    }

    /// Empties a chunk or a bucket for another use. A reader that still follows an old link to it
    /// and sees any of this must also see that the link is gone.
    fn cleared(&self, id: BucketId, kind: Kind) -> BucketId {
        fence(Ordering::Release);
        let last = if kind == Kind::Chunk { self.chunk_mask } else { 0 };
        for number in id.0..=id.0 + last {
            for word in self.bucket(BucketId(number)) {
                word.store(0, Ordering::Relaxed);
            }
        }
        id
    }
}

/// Where a compact index ends.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) chunks: BucketId,
    pub(super) singles: BucketId,
}
