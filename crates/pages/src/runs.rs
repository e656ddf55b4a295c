//! Runs of slices: what has one map, and one writer.

use base::{SLICES, SliceId, SliceRange};
use std::ops::Range;

/// Runs of slices.
pub(crate) const RUNS: usize = 64;
/// Slices of a run.
pub(crate) const RUN_SLICES: usize = SLICES / RUNS;
/// Stands where the number of a run stands, for notes: they have a writer too.
pub(crate) const NOTES_RUN: usize = RUNS;

/// The run that a slice is in.
pub(crate) fn run_of(slice: SliceId) -> usize {
    slice.index() / RUN_SLICES
}

/// The slices of a run.
pub(crate) fn slices_of(run: usize) -> SliceRange {
    SliceRange::new(run * RUN_SLICES..(run + 1) * RUN_SLICES)
}

/// The runs that these slices are; `None` if a part of one is among them.
pub(crate) fn runs_of(slices: SliceRange) -> Option<Range<usize>> {
    let Range { start, end } = slices.numbers();
    let is_whole = start % RUN_SLICES == 0 && end % RUN_SLICES == 0;
    is_whole.then_some(start / RUN_SLICES..end / RUN_SLICES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_whole_runs_or_not() {
        let runs = |numbers| runs_of(SliceRange::new(numbers));
        assert_eq!(runs_of(SliceRange::ALL), Some(0..RUNS));
        assert_eq!((runs(256..768), runs(0..0)), (Some(1..3), Some(0..0)));
        assert_eq!((runs(255..768), runs(256..767)), (None, None));
        for run in 0..RUNS {
            assert_eq!(runs_of(slices_of(run)), Some(run..run + 1));
            assert!(slices_of(run).iter().all(|slice| run_of(slice) == run));
        }
    }
}
