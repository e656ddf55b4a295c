//! Jobs that could not be sent or executed, and are begun again a little later, in their order.

use super::asked::is_flush;
use super::slice_counts::SliceCounts;
use crate::ring::job::{Job, Repeat};
use crate::ring::not_now::NotNow;
use base::SliceId;
use std::collections::{HashMap, VecDeque};

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

    /// Adds jobs, given in the order in which they were sent first, each as [`Later::insert`] does.
    pub(crate) fn insert_all(&mut self, jobs: Vec<Job>) {
        let (with, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|job| self.slices.has(job.slice));
        with.iter().chain(&others).for_each(|job| self.counts(job));
        if with.is_empty() {
            return self.jobs.extend(others);
        }
        let mut of_slices: HashMap<SliceId, VecDeque<Job>> = HashMap::new();
        let order: Vec<_> = with.iter().map(|job| job.slice).collect();
        for job in with {
            of_slices.entry(job.slice).or_default().push_back(job);
        }
        for job in std::mem::take(&mut self.jobs) {
            let comes_before = |it: &mut Job| job.since == 0 || it.since < job.since;
            if let Some(before) = of_slices.get_mut(&job.slice) {
                self.jobs.extend(std::iter::from_fn(|| before.pop_front_if(comes_before)));
            }
            self.jobs.push_back(job);
        }
        let after = order.iter().filter_map(|slice| of_slices.get_mut(slice)?.pop_front());
        self.jobs.extend(after);
        self.jobs.extend(others);
    }

    fn counts(&mut self, job: &Job) {
        self.with_ids += usize::from(has_id(job));
        self.below += usize::from(waits_below(job));
        self.flushes += usize::from(is_flush(job));
        self.slices.add(job.slice);
        self.bytes += job.text.len();
        self.begins_ns = self.begins_ns.min(job.rest.until_ns.min(job.due_ns));
    }

    /// Those about `slice` that were sent after `since` get other ids, if they have one and nothing
    /// of them can have been executed.
    pub(crate) fn renew_after(&mut self, slice: SliceId, since: u64) {
        if !self.slices.has(slice) {
            return;
        }
        let later = |job: &&mut Job| job.slice == slice && job.since > since && !job.is_in_doubt;
        for job in self.jobs.iter_mut().filter(later) {
            self.with_ids -= usize::from(has_id(job));
            (job.id, job.times) = (0, 0);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::job::Origin;

    /// By what they are found: the slice, and when they were sent first.
    type Which = (u16, u64);

    fn job((slice, since): Which) -> Job {
        let slice = SliceId::new(usize::from(slice)).expect("a slice");
        Job { since, ..Job::new(Origin::Nobody, (Vec::new(), slice), Repeat::ById, 9) }
    }

    fn all(mut later: Later) -> Vec<Which> {
        let which = |job: Job| (job.slice.index() as u16, job.since);
        std::iter::from_fn(|| later.pop().map(which)).collect()
    }

    /// One after the other, and all at once.
    #[test]
    fn jobs_that_come_back_stand_before_those_that_were_sent_later_or_never() {
        let has = [(1, 4), (2, 0), (1, 8), (1, 0), (2, 0)];
        let back = [(1, 2), (3, 3), (1, 5), (2, 6), (1, 7), (3, 9), (1, 10)];
        let begun = || {
            let mut later = Later::default();
            has.into_iter().for_each(|it| later.push(job(it)));
            later
        };
        let (mut one, mut at_once) = (begun(), begun());
        back.into_iter().for_each(|it| one.insert(job(it)));
        at_once.insert_all(back.into_iter().map(job).collect());
        let of = |jobs: &[Which], slice| {
            jobs.iter().filter(|it| it.0 == slice).map(|it| it.1).collect::<Vec<_>>()
        };
        for jobs in [all(one), all(at_once)] {
            assert_eq!(of(&jobs, 1), [2, 4, 5, 7, 8, 10, 0]);
            assert_eq!(of(&jobs, 2), [6, 0, 0]);
            assert_eq!(of(&jobs, 3), [3, 9]);
        }
    }
}
