//! The requests that a worker has at other cells.
//!
//! Invariant: each is taken out once: by its reply, by the end of its link, or when it is overdue.

use super::job::{Job, Origin, Repeat};
use ring::CellId;
use session::Ticket;
use std::collections::BTreeMap;

/// How often it is looked whether other cells have not answered in time.
const OVERDUE_NS: u64 = 200_000_000;

/// The requests that a worker has at other cells.
pub(crate) struct AskedJobs {
    /// By their numbers: what follows for several comes in that order.
    jobs: BTreeMap<u64, (CellId, Job)>,
    next_id: u64,
    /// No id below this is sent again.
    first: u64,
    /// When the next of them may be overdue.
    overdue_at_ns: u64,
}

impl AskedJobs {
    pub(super) fn new() -> Self {
        Self { jobs: BTreeMap::new(), next_id: 1, first: 1, overdue_at_ns: u64::MAX }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// A number that no other request of this worker has.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The first id that may be sent again, if `id` is sent now. `others`: some are neither here
    /// nor finished.
    pub(super) fn first_with(&mut self, id: u64, others: bool) -> u64 {
        if !others {
            let first = self.jobs.first_key_value().map_or(id, |(first, _)| *first);
            self.first = self.first.max(first.min(id));
        }
        self.first
    }

    /// `job` was sent to `cell` as request `id`.
    pub(super) fn add(&mut self, id: u64, (cell, job): (CellId, Job), now_ns: u64) {
        self.overdue_at_ns = self.overdue_at_ns.min(now_ns + OVERDUE_NS);
        self.jobs.insert(id, (cell, job));
    }

    /// Takes the request with this number, if `cell` has it: it may be at another by now.
    pub(super) fn take(&mut self, id: u64, cell: CellId) -> Option<Job> {
        self.jobs.get(&id).filter(|(of, _)| *of == cell)?;
        self.jobs.remove(&id).map(|(_, job)| job)
    }

    /// Takes the requests of which this is so.
    pub(super) fn take_if(&mut self, is_so: impl Fn(CellId, &Job) -> bool) -> Vec<Job> {
        let taken = self.jobs.extract_if(.., |_, (cell, job)| is_so(*cell, job));
        taken.map(|(_, (_, job))| job).collect()
    }

    /// When it is to be looked whether some are overdue.
    pub(super) fn overdue_at_ns(&self) -> u64 {
        self.overdue_at_ns
    }

    /// Takes those that are overdue.
    pub(super) fn take_overdue(&mut self, now_ns: u64) -> Vec<(CellId, Job)> {
        let overdue = self.jobs.extract_if(.., |_, (_, job)| job.due_ns <= now_ns);
        overdue.map(|(_, asked)| asked).collect()
    }

    /// Looks again a little later, if there are any or `or` something else to look after.
    pub(super) fn looks_again(&mut self, or: bool, now_ns: u64) {
        self.overdue_at_ns = match self.jobs.is_empty() && !or {
            true => u64::MAX,
            false => now_ns + OVERDUE_NS,
        };
    }

    /// Forgets the request of `ticket`. Returns the cell that has it, and whether it only reads.
    pub(super) fn forget(&mut self, ticket: Ticket) -> Option<(CellId, bool)> {
        let is_of = |job: &Job| job.origin == Origin::Client(ticket);
        let mut forgotten = self.jobs.extract_if(.., |_, (_, job)| is_of(job));
        forgotten.next().map(|(_, (cell, job))| (cell, job.repeat == Repeat::Always))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SliceId;

    fn job(due_ns: u64) -> Job {
        let what = (Vec::new(), SliceId::of(b"k"));
        Job::new(Origin::Nobody, what, Repeat::ById, due_ns)
    }

    #[test]
    fn a_request_is_taken_once_and_only_when_its_reason_has_come() {
        let mut asked = AskedJobs::new();
        for (cell, due_ns) in [(1, 100), (2, 100), (1, 300)] {
            let id = asked.next_id();
            asked.add(id, (CellId(cell), job(due_ns)), 0);
        }
        assert_eq!(asked.overdue_at_ns(), OVERDUE_NS);
        assert!(asked.take(2, CellId(1)).is_none(), "another cell has it");
        assert!(asked.take(2, CellId(2)).is_some());
        assert!(asked.take(2, CellId(2)).is_none(), "twice");
        assert!(asked.take_overdue(99).is_empty());
        assert_eq!(asked.take_overdue(100).len(), 1);
        asked.looks_again(false, 100);
        assert_eq!(asked.overdue_at_ns(), 100 + OVERDUE_NS);
        assert_eq!(asked.take_if(|cell, _| cell == CellId(2)).len(), 0, "it is answered");
        assert_eq!(asked.take_if(|cell, _| cell == CellId(1)).len(), 1);
        asked.looks_again(false, 100);
        assert_eq!((asked.overdue_at_ns(), asked.len()), (u64::MAX, 0));
    }

    #[test]
    fn no_id_counts_as_finished_that_may_be_sent_again() {
        let mut asked = AskedJobs::new();
        let sends = |asked: &mut AskedJobs| {
            let id = asked.next_id();
            let first = asked.first_with(id, false);
            asked.add(id, (CellId(1), job(9)), 0);
            (id, first)
        };
        assert_eq!([(); 3].map(|()| sends(&mut asked)), [(1, 1), (2, 1), (3, 1)]);
        assert!(asked.take(1, CellId(1)).is_some());
        assert_eq!(sends(&mut asked), (4, 2));
        let again = asked.take(2, CellId(1)).expect("it is asked");
        assert!(asked.take(3, CellId(1)).is_some());
        assert_eq!(asked.first_with(5, true), 2, "one is kept for later");
        assert_eq!(asked.first_with(2, false), 2);
        asked.add(2, (CellId(2), again), 0);
        assert_eq!(asked.first_with(5, false), 2);
        assert!(asked.take(2, CellId(2)).is_some());
        assert_eq!(asked.first_with(5, false), 4);
    }
}
