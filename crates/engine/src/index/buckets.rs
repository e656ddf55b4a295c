//! The memory of the index: buckets of one cache line, in chunks for groups and singly as overflow.
//!
//! ```text
//! bucket, 64 B: | header | slot 0 | slot 1 | ... | slot 6 |
//! header:       overflow(32) | version(32), odd while locked
//! ```
//!
//! `overflow` is the number of the next bucket of the chain plus one. Memory is taken from the
//! budget a block at a time and never given back. A chunk that a group releases is used again, but
//! only after a grace period, because a reader may still look at it. A bucket is emptied before it
//! is used again, so its old slots are never found by another group.

use crate::grace::GracePeriods;
use crate::raw::Mapping;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use base::{Grant, MemoryBudget, Owner};
use std::collections::VecDeque;
use std::sync::Arc;

/// Words of a bucket: one cache line.
pub(crate) const BUCKET_WORDS: usize = 8;

/// The words of a bucket: its header, then its slots.
pub(crate) type Bucket = [AtomicU64; BUCKET_WORDS];

/// Slots of a bucket.
pub(crate) const SLOTS: usize = BUCKET_WORDS - 1;

/// Number of a bucket, counted from the start of this memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketId(pub(crate) u32);

struct FreeBuckets {
    /// First bucket that was never used, and the first that has no memory.
    fresh: u32,
    granted: u32,
    grants: Vec<Grant>,
    chunks: Vec<BucketId>,
    /// Released chunks, each with the grace period after which no batch can look at it.
    limbo: VecDeque<(u64, BucketId)>,
    overflow: Vec<BucketId>,
}

pub(crate) struct Buckets {
    buckets: Mapping<Bucket>,
    budget: Arc<MemoryBudget>,
    /// Buckets of a chunk, a power of two, less one.
    pub(super) chunk_mask: u32,
    /// Bytes taken from the budget at a time.
    block_bytes: u64,
    free: Mutex<FreeBuckets>,
    /// Set when the budget refused memory: eviction then frees a segment for the index.
    is_short: AtomicU64,
}

impl Buckets {
    pub(crate) fn new(
        reserve_bytes: u64,
        (chunk_buckets, block_bytes): (u32, u64),
        budget: Arc<MemoryBudget>,
        huge: bool,
    ) -> std::io::Result<Self> {
        let buckets_max = (reserve_bytes / 64).min(u64::from(u32::MAX) - 1);
        let free = FreeBuckets {
            fresh: 0,
            granted: 0,
            grants: Vec::new(),
            chunks: Vec::new(),
            limbo: VecDeque::new(),
            overflow: Vec::new(),
        };
        Ok(Self {
            buckets: Mapping::reserve(buckets_max as usize, huge)?,
            budget,
            chunk_mask: chunk_buckets - 1,
            block_bytes,
            free: Mutex::new(free),
            is_short: AtomicU64::new(0),
        })
    }

    /// The words of a bucket.
    #[inline]
    pub(crate) fn bucket(&self, id: BucketId) -> &Bucket {
        &self.buckets.places()[id.0 as usize]
    }

    /// A chunk of empty buckets, or `None` while the budget refuses.
    pub(crate) fn take_chunk(&self, grace: &GracePeriods) -> Option<BucketId> {
        let mut free = lock(&self.free);
        while let Some((stamp, id)) = free.limbo.front().copied() {
            if !grace.passed(stamp) {
                break;
            }
            free.limbo.pop_front();
            free.chunks.push(id);
        }
        let id = match free.chunks.pop() {
            Some(id) => id,
            None => self.fresh(&mut free, self.chunk_mask + 1)?,
        };
        for bucket in id.0..=id.0 + self.chunk_mask {
            self.clear(BucketId(bucket));
        }
        Some(id)
    }

    /// Takes a chunk back once the batches that may be looking at it have ended.
    pub(crate) fn give_chunk(&self, grace: &GracePeriods, id: BucketId) {
        lock(&self.free).limbo.push_back((grace.retire(), id));
    }

    /// One empty bucket, or `None` while the budget refuses.
    pub(crate) fn take_overflow(&self) -> Option<BucketId> {
        let mut free = lock(&self.free);
        let id = match free.overflow.pop() {
            Some(id) => id,
            None => self.fresh(&mut free, 1)?,
        };
        self.clear(id);
        Some(id)
    }

    /// Takes back an overflow bucket that was unlinked under the lock of its chain.
    pub(crate) fn give_overflow(&self, id: BucketId) {
        lock(&self.free).overflow.push(id);
    }

    fn fresh(&self, free: &mut FreeBuckets, count: u32) -> Option<BucketId> {
        let end = free.fresh.checked_add(count)?;
        if end as usize > self.buckets.places().len() {
            return None;
        }
        while end > free.granted {
            let Some(grant) = self.budget.take(Owner::Index, self.block_bytes) else {
                self.is_short.store(1, Ordering::Relaxed);
                return None;
            };
            free.grants.push(grant);
            free.granted += (self.block_bytes / 64) as u32;
        }
        free.fresh = end;
        Some(BucketId(end - count))
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
            free.grants.push(grant);
            free.granted += (self.block_bytes / 64) as u32;
        }
        self.is_short.store(0, Ordering::Relaxed);
    }

    /// Empties a bucket for another use. A reader that still follows an old link to it and sees any
    /// of this must also see that the link is gone.
    fn clear(&self, id: BucketId) {
        fence(Ordering::Release);
        for word in self.bucket(id) {
            word.store(0, Ordering::Relaxed);
        }
    }
}
