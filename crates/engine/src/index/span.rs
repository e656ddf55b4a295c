//! Walking a group while it grows and shrinks: in the order of reversed tags.
//!
//! A bucket holds the tags that agree in their lowest bits. With their bits reversed these tags are
//! a run of numbers. So the buckets of a group divide the numbers from 0 to 2^20 into runs, and
//! growing or shrinking cuts one run in two or joins two. (Redis walks its tables by the same order,
//! `SCAN`.) A walk that has passed all numbers below its position has passed these tags, whatever
//! buckets they lay in; and of a bucket that a step made larger it takes the rest only.
//!
//! ```text
//! buckets  5:   0        4    2        1        3          (the last bits: 000 100 10 01 11)
//! numbers       |--------|----|--------|--------|--------|
//!                                  ^ position
//! ```

use super::chain::{Chain, Place};
use super::group::Shape;
use super::slot::TAG_BITS;
use super::table::Index;
use base::SliceId;

/// One more than the last number.
pub(super) const END: u32 = 1 << TAG_BITS;

/// The number of a tag: its bits in reverse.
pub(super) fn number(tag: u64) -> u32 {
    (tag.reverse_bits() >> (u64::BITS - TAG_BITS)) as u32
}

/// A locked chain, and which of the tags in it a walk has still to pass.
pub(crate) struct Span<'i> {
    pub(crate) chain: Chain<'i>,
    from: u32,
    /// Where the walk continues.
    pub(crate) end: u32,
}

impl Span<'_> {
    /// The places of the items that the walk has still to pass.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.chain.places().filter(|place| {
            let slot = self.chain.get(*place);
            slot.is_item() && number(slot.tag()) >= self.from
        })
    }
}

impl Shape {
    /// The bucket whose run holds `at`, and the end of that run.
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

impl Index {
    /// Locks the chain of the group of `slice` that holds the tags from number `at` on. `None` where
    /// there is none: the group is empty, or `at` is [`END`].
    pub(crate) fn lock_span(&self, slice: SliceId, at: u32) -> Option<Span<'_>> {
        loop {
            let shape = self.shape(slice);
            if shape.is_empty() || at >= END {
                return None;
            }
            let (bucket, end) = shape.run_at(at);
            if let Some(chain) = self.lock_bucket(slice, shape, bucket) {
                return Some(Span { chain, from: at, end });
            }
        }
    }

    /// The first slice after those that share the group of `slice`.
    pub(crate) fn next_group(&self, slice: usize) -> usize {
        let slices = 1 << self.slices_shift();
        slice / slices * slices + slices
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_runs_of_all_buckets_cover_all_numbers_once() {
        let mut shape = Shape::default();
        for buckets in 1..300 {
            shape = shape.step(buckets);
            let (mut at, mut seen) = (0, Vec::new());
            while at < END {
                let (bucket, end) = shape.run_at(at);
                for inside in [at, end - 1, at + (end - at) / 2] {
                    let tag = u64::from(inside).reverse_bits() >> (u64::BITS - TAG_BITS);
                    assert_eq!(shape.number(tag), bucket, "{buckets} buckets, number {inside}");
                    assert_eq!(shape.run_at(inside), (bucket, end));
                }
                seen.push(bucket);
                at = end;
            }
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..buckets), "{buckets} buckets");
        }
    }

    #[test]
    fn the_largest_group_has_a_run_for_each_tag() {
        let shape = Shape::default().step(super::super::group::BUCKETS_MAX);
        for at in [0, 1, END / 3, END - 1] {
            assert_eq!(shape.run_at(at), (shape.run_at(at).0, at + 1));
        }
    }
}
