//! Jobs that could not be sent or executed, and are begun again a little later, in their order.

use super::asked::is_flush;
use super::slice_counts::SliceCounts;
use crate::ring::job::{Job, Repeat};
use crate::ring::not_now::NotNow;
use base::SliceId;
use std::collections::VecDeque;

/// Jobs that wait to be begun again.
#[derive(Default)]
pub(crate) struct Later {
    jobs: VecDeque<Job>,
    slices: SliceCounts,
    /// Bytes of their texts.
    bytes: usize,
    /// How many of them may have been sent, and are to be recognised by their ids.
    with_ids: usize,
    /// How many of them end items of many slices.
    flushes: usize,
    /// How many of them wait until their keys are looked up below.
    below: usize,
    /// When the first of them may be begun, or must end.
    begins_ns: u64,
    /// The map by which they were begun last.
    map_version: u64,
}

impl Later {
    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Bytes of the texts of all.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether all wait until their keys are looked up below.
    pub(crate) fn waits_below(&self) -> bool {
        self.below == self.jobs.len()
    }

    /// Whether some are to be recognised by their ids.
    pub(crate) fn has_ids(&self) -> bool {
        self.with_ids > 0
    }

    /// Whether a job about `slice` waits.
    #[inline]
    pub(crate) fn has(&self, slice: SliceId) -> bool {
        self.slices.has(slice)
    }

    /// Whether one of them may end items of any slice.
    pub(crate) fn has_flush(&self) -> bool {
        self.flushes > 0
    }

    /// Whether one of them may be begun now. Then all are taken out, and some pushed again.
    pub(crate) fn begins(&mut self, map_version: u64, now_ns: u64) -> bool {
        let begins = now_ns >= self.begins_ns || map_version != self.map_version;
        if begins {
            (self.begins_ns, self.map_version) = (u64::MAX, map_version);
        }
        begins
    }

    pub(crate) fn push(&mut self, job: Job) {
        self.counts(&job);
        self.jobs.push_back(job);
    }

    /// Adds a job that was sent, before those about its slice that were sent later, or never.
    pub(crate) fn insert(&mut self, job: Job) {
        let mut at = self.jobs.len();
        if self.slices.has(job.slice) {
            let of_slice = self.jobs.iter().enumerate().rev();
            for (place, it) in of_slice.filter(|(_, it)| it.slice == job.slice) {
                if it.since > 0 && it.since < job.since {
                    break;
                }
                at = place;
            }
        }
        self.counts(&job);
        self.jobs.insert(at, job);
    }

    fn counts(&mut self, job: &Job) {
        self.with_ids += usize::from(has_id(job));
        self.below += usize::from(waits_below(job));
        self.flushes += usize::from(is_flush(job));
        self.slices.add(job.slice);
        self.bytes += job.text.len();
        self.begins_ns = self.begins_ns.min(job.rest.until_ns.min(job.due_ns));
    }

    /// The one that was added last.
    pub(crate) fn last(&self) -> Option<&Job> {
        self.jobs.back()
    }

    pub(crate) fn pop(&mut self) -> Option<Job> {
        let job = self.jobs.pop_front()?;
        self.with_ids -= usize::from(has_id(&job));
        self.below -= usize::from(waits_below(&job));
        self.flushes -= usize::from(is_flush(&job));
        self.slices.remove(job.slice);
        self.bytes -= job.text.len();
        Some(job)
    }
}

fn waits_below(job: &Job) -> bool {
    job.not_now == Some(NotNow::Below)
}

fn has_id(job: &Job) -> bool {
    job.repeat == Repeat::ById && job.id > 0
}
