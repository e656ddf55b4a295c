//! Walking a group while it grows and shrinks: in the order of reversed tags.
//!
//! A bucket holds the tags that agree in their lowest bits. With their bits reversed these tags are
//! a run of numbers. So the buckets of a group divide the numbers from 0 to 2^20 into runs, and
//! growing or shrinking cuts one run in two or joins two. (Redis walks its tables by the same
//! order, `SCAN`.) A walk that has passed all numbers below its position has passed these tags,
//! whatever buckets they lay in; and of a bucket that a step made larger it takes the rest only.
//!
//! ```text
//! buckets  5:   0        4    2        1        3          (the last bits: 000 100 10 01 11)
//! numbers       |--------|----|--------|--------|--------|
//!                                  ^ position
//! ```

use super::chain::{Chain, Place};
use super::slot::TAG_BITS;

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

impl<'i> Span<'i> {
    /// A locked chain of which a walk has passed the tags before number `from`, and that it leaves
    /// at number `end`.
    pub(super) fn new(chain: Chain<'i>, from: u32, end: u32) -> Self {
        Self { chain, from, end }
    }

    /// The places of the items that the walk has still to pass.
    pub(crate) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.chain.places().filter(|place| {
            let slot = self.chain.get(*place);
            slot.is_item() && number(slot.tag()) >= self.from
        })
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::group::Shape;
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
