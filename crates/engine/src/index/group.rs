//! A group: the buckets of one slice (of a few slices in a small pool), found by number.
//!
//! ```text
//! word     shape: 63.....42 41....21 20........0
//!                 steps(22) mask(21) buckets(21)
//! halves   29 chunk numbers, each plus one; 0 for none
//!          number plus one of a chunk that lists chunks that list chunks
//! ```
//!
//! Buckets are numbered by linear hashing (Litwin 1980) over the tag: with `n` buckets and
//! `2^l <= n < 2^(l+1)`, a key is in bucket `tag mod 2^(l+1)` if that exists, else in
//! `tag mod 2^l`. Growing adds bucket `n` and splits bucket `n - 2^l`; nothing else moves.
//!
//! The mask is `2^(l+1) - 1`. Each step of growing or shrinking is counted in the shape. So a group
//! that shrank and grew back, whose last buckets have other memory now, has another shape.

use super::bucket::{BUCKET_WORDS, BucketId};
use super::buckets::Buckets;
use super::slot::TAG_BITS;
use super::span::END;
use crate::raw::WordAndHalves;
use crate::sync::{AtomicU64, MODEL, Ordering};

/// Two cache lines, the first of which is enough for a small group.
pub(crate) type GroupWords = WordAndHalves<30>;

/// Their size; the atomics of model checkers are larger than those they stand for.
pub(crate) const GROUP_BYTES: usize = 128;
const _: () = assert!(size_of::<GroupWords>() == GROUP_BYTES || MODEL);

const LISTED: usize = 29;
const ROOT: usize = LISTED;

#[derive(Clone, Copy)]
pub(crate) struct Group<'i> {
    words: &'i GroupWords,
    pub(super) buckets: &'i Buckets,
    pub(super) chunk_shift: u32,
}

const BUCKETS_BITS: u32 = TAG_BITS + 1;
const MASK_SHIFT: u32 = BUCKETS_BITS;
const STEPS_SHIFT: u32 = MASK_SHIFT + TAG_BITS + 1;

/// The most buckets a group can have: further ones would stay empty, as tags have no more values.
pub(crate) const BUCKETS_MAX: u64 = 1 << TAG_BITS;

/// How many buckets a group has, the mask of their numbers, and how many steps it has taken.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape(u64);

impl Shape {
    /// The next shape after this: with `buckets` buckets, at least one.
    pub(super) fn step(self, buckets: u64) -> Self {
        let mask = (2 << buckets.ilog2()) - 1;
        let mask = mask & (BUCKETS_MAX - 1);
        let steps = (self.0 >> STEPS_SHIFT) + 1;
        Self(steps << STEPS_SHIFT | mask << MASK_SHIFT | buckets)
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) fn buckets(self) -> u64 {
        self.0 & ((1 << BUCKETS_BITS) - 1)
    }

    /// The bits of a tag that number the most buckets before the mask grows.
    #[inline]
    pub(super) fn mask(self) -> u64 {
        self.0 >> MASK_SHIFT & (BUCKETS_MAX - 1)
    }

    /// The bucket of a key with `tag`. A tag has no bits where the steps are.
    #[inline]
    pub(crate) fn number(self, tag: u64) -> u64 {
        let mask = self.0 >> MASK_SHIFT;
        let number = tag & mask;
        if number < self.buckets() { number } else { number & (mask >> 1) }
    }

    /// The bucket whose run of reversed tags holds number `at`, and the end of that run: see
    /// `span.rs`.
    pub(super) fn run_at(self, at: u32) -> (u64, u32) {
        let tag = u64::from(at).reverse_bits() >> (u64::BITS - TAG_BITS);
        let mask = self.mask();
        let low = tag & (mask >> 1);
        let sibling = low | (mask ^ (mask >> 1));
        let is_split = sibling < self.buckets();
        let fixed = if is_split { mask.count_ones() } else { (mask >> 1).count_ones() };
        let run = END >> fixed;
        (if is_split { tag & mask } else { low }, (at & !(run - 1)) + run)
    }
}

/// The bucket that is split when bucket `new` is added, or that takes it back.
pub(crate) fn buddy(new: u64) -> u64 {
    new - (1 << new.ilog2())
}

impl<'i> Group<'i> {
    #[inline]
    pub(crate) fn new(words: &'i GroupWords, buckets: &'i Buckets, chunk_shift: u32) -> Self {
        Self { words, buckets, chunk_shift }
    }

    #[inline]
    pub(crate) fn shape(self) -> Shape {
        Shape(self.words.word.load(Ordering::Acquire))
    }

    pub(crate) fn bucket_count(self) -> u64 {
        self.shape().buckets()
    }

    /// Takes a step. The caller holds the lock of the group.
    pub(crate) fn set_buckets(self, buckets: u64) {
        self.words.word.store(self.shape().step(buckets).0, Ordering::Release);
    }

    /// Where bucket `number` is, for the buckets that the group lists itself. `None` for others.
    #[inline]
    pub(crate) fn near_bucket(self, number: u64) -> Option<BucketId> {
        let chunk = (number >> self.chunk_shift) as usize;
        if chunk >= LISTED {
            return None;
        }
        self.bucket_in(self.listed(chunk), number)
    }

    /// The entry of a chunk that the group lists itself.
    #[inline]
    fn listed(self, chunk: usize) -> u32 {
        self.words.halves[chunk].load(Ordering::Relaxed)
    }

    fn root(self) -> u32 {
        self.words.halves[ROOT].load(Ordering::Acquire)
    }

    #[inline]
    fn bucket_in(self, chunk_id: u32, number: u64) -> Option<BucketId> {
        let first = chunk_id.checked_sub(1)?;
        Some(BucketId(first + (number as u32 & self.buckets.chunk_mask)))
    }

    /// Where bucket `number` is: `None` if the group shrank since the number was computed, and
    /// gave up the memory of that bucket.
    #[inline]
    pub(crate) fn bucket(self, number: u64) -> Option<BucketId> {
        let chunk = (number >> self.chunk_shift) as usize;
        let id = if chunk < LISTED { self.listed(chunk) } else { self.far(chunk) };
        self.bucket_in(id, number)
    }

    #[cold]
    fn far(self, chunk: usize) -> u32 {
        let (leaf, at) = self.far_place(chunk);
        let root = self.root();
        self.entry(self.entry(root, leaf), at)
    }

    fn far_place(self, chunk: usize) -> (usize, usize) {
        let far = chunk - LISTED;
        (far / self.entries(), far % self.entries())
    }

    /// Chunk numbers that fit in a chunk.
    fn entries(self) -> usize {
        (BUCKET_WORDS << self.chunk_shift) * 2
    }

    fn entry(self, list: u32, index: usize) -> u32 {
        let (bucket, half_index) = Self::entry_place(list, index);
        half(self.buckets.bucket(bucket), half_index)
    }

    fn entry_place(list: u32, index: usize) -> (BucketId, usize) {
        let per_bucket = BUCKET_WORDS * 2;
        (BucketId(list - 1 + (index / per_bucket) as u32), index % per_bucket)
    }

    fn set_entry(self, list: u32, index: usize, id: u32) {
        let (bucket, half_index) = Self::entry_place(list, index);
        set_half(self.buckets.bucket(bucket), half_index, id);
    }

    /// The chunk that bucket `number` belongs to, if there is one already.
    pub(crate) fn chunk(self, number: u64) -> Option<BucketId> {
        let chunk = (number >> self.chunk_shift) as usize;
        let id = if chunk < LISTED {
            self.listed(chunk)
        } else {
            let (leaf, at) = self.far_place(chunk);
            let root = self.root();
            let leaf = if root == 0 || leaf >= self.entries() { 0 } else { self.entry(root, leaf) };
            if leaf == 0 { 0 } else { self.entry(leaf, at) }
        };
        (id != 0).then(|| BucketId(id - 1))
    }

    /// Lists a chunk for bucket `number`, the first of it; `None` unlists it. `list` gives chunks
    /// for further lists. False when there is none, or when the group is as large as it gets.
    pub(crate) fn set_chunk(
        self,
        number: u64,
        chunk_id: Option<BucketId>,
        mut list: impl FnMut() -> Option<BucketId>,
    ) -> bool {
        let id = chunk_id.map_or(0, |id| id.0 + 1);
        let chunk = (number >> self.chunk_shift) as usize;
        if chunk < LISTED {
            self.words.halves[chunk].store(id, Ordering::Release);
            return true;
        }
        let (leaf_at, at) = self.far_place(chunk);
        if leaf_at >= self.entries() {
            return false;
        }
        let mut root = self.root();
        if root == 0 {
            let Some(new) = list() else { return false };
            root = new.0 + 1;
            self.words.halves[ROOT].store(root, Ordering::Release);
        }
        let mut leaf = self.entry(root, leaf_at);
        if leaf == 0 {
            let Some(new) = list() else { return false };
            leaf = new.0 + 1;
            self.set_entry(root, leaf_at, leaf);
        }
        self.set_entry(leaf, at, id);
        true
    }
}

impl Group<'_> {
    /// Moves the lists of chunks from `bound` on to chunks that `take` gives, and returns where
    /// they were. The caller holds the lock of the group.
    pub(super) fn move_lists(
        self,
        bound: BucketId,
        mut take: impl FnMut() -> Option<BucketId>,
    ) -> Vec<BucketId> {
        let root = self.root();
        if root == 0 {
            return Vec::new();
        }
        let mut left = Vec::new();
        let mut moved = |list: u32| {
            let is_high = list > bound.0;
            let target = is_high.then(&mut take).flatten()?;
            left.push(BucketId(list - 1));
            for at in 0..=self.buckets.chunk_mask {
                let from = self.buckets.bucket(BucketId(list - 1 + at));
                for (word, to) in from.iter().zip(self.buckets.bucket(BucketId(target.0 + at))) {
                    to.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            }
            Some(target.0 + 1)
        };
        let leaves = (0..self.entries()).take_while(|at| self.entry(root, *at) != 0);
        for at in leaves {
            if let Some(list) = moved(self.entry(root, at)) {
                self.set_entry(root, at, list);
            }
        }
        if let Some(list) = moved(root) {
            self.words.halves[ROOT].store(list, Ordering::Release);
        }
        if !left.is_empty() {
            self.set_buckets(self.bucket_count());
        }
        left
    }
}

#[inline]
fn half(words: &[AtomicU64], index: usize) -> u32 {
    (words[index / 2].load(Ordering::Relaxed) >> (index % 2 * 32)) as u32
}

/// Only the holder of the group's lock writes chunk numbers, so this need not be one step.
fn set_half(words: &[AtomicU64], index: usize, value: u32) {
    let shift = index % 2 * 32;
    let word = &words[index / 2];
    let kept = word.load(Ordering::Relaxed) & !(u64::from(u32::MAX) << shift);
    word.store(kept | u64::from(value) << shift, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(buckets: u64) -> Shape {
        Shape(0).step(buckets)
    }

    #[test]
    fn a_group_that_grew_back_has_another_shape() {
        let before = shape(9);
        let after = before.step(8).step(9);
        assert!(before != after && before.buckets() == after.buckets());
        for tag in 0..BUCKETS_MAX {
            assert_eq!(before.number(tag), after.number(tag));
        }
    }

    #[test]
    fn the_largest_group_uses_every_bit_of_the_tag() {
        let shape = Shape(u64::MAX).step(BUCKETS_MAX);
        assert_eq!(shape.buckets(), BUCKETS_MAX);
        for tag in [0, 1, BUCKETS_MAX / 2, BUCKETS_MAX - 1] {
            assert_eq!(shape.number(tag), tag);
        }
    }

    #[test]
    fn growing_moves_keys_to_the_new_bucket_only() {
        for buckets in 1..200_u64 {
            for tag in 0..1024 {
                let (old, new) = (shape(buckets).number(tag), shape(buckets + 1).number(tag));
                assert!(old < buckets);
                assert!(new == old || (new == buckets && old == buddy(buckets)));
            }
        }
    }
}
