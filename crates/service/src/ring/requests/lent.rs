//! The jobs that a worker without links has lent to the one that has them.
//!
//! Invariants: a job comes back once, or is forgotten after its deadline. Until then all requests
//! for its slice are lent too, so that those of one client keep their order.

use super::slice_counts::SliceCounts;
use crate::ring::job::{Job, Origin};
use base::SliceId;
use std::collections::BTreeMap;

/// How long after its deadline the reply to a lent job may still come.
const LATE_NS: u64 = 100_000_000;

/// What is known of a job that is lent.
struct Lent {
    origin: Origin,
    slice: SliceId,
    due_ns: u64,
}

/// The jobs that are lent.
#[derive(Default)]
pub(crate) struct LentJobs {
    jobs: BTreeMap<u64, Lent>,
    slices: SliceCounts,
}

impl LentJobs {
    /// `job` is lent as `number`, with another origin.
    pub(crate) fn add(&mut self, number: u64, origin: Origin, job: (SliceId, u64)) {
        let (slice, due_ns) = job;
        self.slices.add(slice);
        self.jobs.insert(number, Lent { origin, slice, due_ns });
    }

    /// Takes the job that has come back. Returns who gets its reply.
    pub(crate) fn take(&mut self, number: u64) -> Option<Origin> {
        let lent = self.jobs.remove(&number)?;
        self.slices.remove(lent.slice);
        Some(lent.origin)
    }

    /// Forgets those that have not come back in time: their mail was lost.
    pub(crate) fn forget_late(&mut self, now_ns: u64) {
        while let Some((number, lent)) = self.jobs.first_key_value()
            && lent.due_ns + LATE_NS <= now_ns
        {
            let number = *number;
            self.take(number);
        }
    }

    /// Whether one of them is about `slice`.
    #[inline]
    pub(crate) fn has(&self, slice: SliceId) -> bool {
        self.slices.has(slice)
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }
}

/// What is to be kept of `job`.
pub(crate) fn kept(job: &Job) -> (Origin, (SliceId, u64)) {
    (job.origin, (job.slice, job.due_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_lent_until_all_jobs_about_it_are_back_or_late() {
        let (one, other) = (SliceId::of(b"a"), SliceId::of(b"b"));
        let mut lent = LentJobs::default();
        let due_ns = 1_000_000_000;
        for (number, slice) in [(3, one), (5, one), (9, other)] {
            lent.add(number, Origin::Nobody, (slice, due_ns));
        }
        assert!(lent.has(one) && lent.has(other) && lent.len() == 3);
        assert_eq!(lent.take(5), Some(Origin::Nobody));
        assert_eq!(lent.take(5), None, "it came twice");
        assert!(lent.has(one));
        assert_eq!(lent.take(3), Some(Origin::Nobody));
        assert!(!lent.has(one));
        lent.forget_late(due_ns);
        assert!(lent.has(other), "it may come yet");
        lent.forget_late(due_ns + LATE_NS);
        assert!(!lent.has(other) && lent.len() == 0);
    }
}
