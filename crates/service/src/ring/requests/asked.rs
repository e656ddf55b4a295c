//! The requests that a worker has at other cells.
//!
//! ```text
//! again, by id  < begin |  row: one place for each id, from `begin` on
//!                       |  [ asked ][ - ][ asked ][ asked ]
//!                          ^ the first place is never empty
//! ```
//!
//! Nearly all are sent once, in the order of their ids, and answered in nearly that order: so the
//! row is short, and a request is found by its id at once. What is sent again when the row has gone
//! on, and what holds up the row, is in a tree.
//!
//! Invariant: each is taken out once: by its reply, by the end of its link, by a newer map, when it
//! is overdue, or when its client is gone.

use super::flush;
use crate::ring::job::{Job, Origin, Repeat};
use base::{SLICES, SliceId};
use ring::CellId;
use session::{ConnId, Ticket};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// How often it is looked whether other cells have not answered in time.
const OVERDUE_NS: u64 = 200_000_000;

/// How long it is waited for what a cell has that leads its slice no more: if it runs, it answers
/// sooner.
const STAYS_NS: u64 = 50_000_000;

/// Places of the row. What stands first in a longer one moves to the tree.
const ROW_MAX: usize = 32 << 10;

/// A request, and the cell that has it.
type Asked = (CellId, Job);

/// By slice, the first request that was refused.
pub(crate) type Refused = HashMap<SliceId, Refusal>;

/// A request that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// The cell that has refused it.
    pub(crate) cell: CellId,
    /// Its number among all that were sent.
    pub(crate) sent: u64,
    /// Whether it gets another id. Those that follow it need later ones then.
    pub(crate) renews: bool,
}

/// The requests that a worker has at other cells.
pub(crate) struct AskedJobs {
    /// What follows for several comes in the order of their ids.
    row: VecDeque<Option<Asked>>,
    /// The id of the first place of the row.
    begin: u64,
    /// Those with lower ids.
    again: BTreeMap<u64, Asked>,
    len: usize,
    /// Bytes of their texts.
    bytes: usize,
    next_id: u64,
    /// How many were ever sent.
    sent: u64,
    /// No id below this is sent again.
    first: u64,
    /// When the next of them may be overdue.
    overdue_at_ns: u64,
    /// How many each cell has, by its number.
    of_cells: Vec<u32>,
    /// How many changes there are of slices with the same last digits.
    changes: Box<[u32]>,
    /// How many flushes there are, which may be of any slice.
    flushes: u32,
    /// How many there are of each slice.
    of_slices: Box<[u32]>,
    /// Those that stay at a cell that leads their slice no more, by slice.
    staying: HashMap<SliceId, Staying>,
    /// The reads that copies may answer, by their connections and slices: who has them, of each.
    reads: HashMap<(ConnId, SliceId), Reads>,
}

/// The reads of one connection about one slice. One cell has them all: of two, one could answer a
/// later one from before an earlier one.
#[derive(Clone, Copy)]
struct Reads {
    cell: CellId,
    count: u32,
    /// Those of them that a copy has.
    at_copies: u32,
}

/// How many of one slice stay at a cell that leads it no more, and until when that is waited for.
struct Staying {
    count: u32,
    until_ns: u64,
}

/// Numbers of changes by slice: several slices share one.
const CHANGES: usize = 1024;

impl AskedJobs {
    pub(crate) fn new() -> Self {
        Self {
            row: VecDeque::new(),
            begin: 1,
            again: BTreeMap::new(),
            len: 0,
            bytes: 0,
            next_id: 1,
            sent: 0,
            first: 1,
            overdue_at_ns: u64::MAX,
            of_cells: Vec::new(),
            changes: vec![0; CHANGES].into(),
            flushes: 0,
            of_slices: vec![0; SLICES].into(),
            staying: HashMap::new(),
            reads: HashMap::new(),
        }
    }

    /// How many `cell` has.
    pub(crate) fn at(&self, cell: CellId) -> u32 {
        self.of_cells.get(cell.0 as usize).copied().unwrap_or(0)
    }

    /// Whether some cell has a change of `slice`; yes also for some slices of which none has.
    pub(crate) fn may_change(&self, slice: SliceId) -> bool {
        self.flushes > 0 || self.changes[slice.index() % CHANGES] > 0
    }

    /// The cell that has the earlier reads of this connection about `slice`.
    pub(crate) fn reads_of(&self, conn: Option<ConnId>, slice: SliceId) -> Option<CellId> {
        let reads =
            conn.filter(|_| !self.reads.is_empty()).and_then(|it| self.reads.get(&(it, slice)));
        reads.map(|reads| reads.cell)
    }

    /// Counts a request that a cell has now.
    #[inline]
    fn counts(&mut self, cell: CellId, job: &Job) {
        self.len += 1;
        self.bytes += job.text.len();
        let at = cell.0 as usize;
        if at >= self.of_cells.len() {
            self.of_cells.resize(at + 1, 0);
        }
        self.of_cells[at] += 1;
        self.changes[job.slice.index() % CHANGES] += u32::from(may_change(job));
        self.flushes += u32::from(is_flush(job));
        self.of_slices[job.slice.index()] += 1;
        if let Some(conn) = job.conn {
            let none = Reads { cell, count: 0, at_copies: 0 };
            let reads = self.reads.entry((conn, job.slice)).or_insert(none);
            (reads.cell, reads.count) = (cell, reads.count + 1);
            reads.at_copies += u32::from(job.is_at_copy);
        }
    }

    /// Counts no more a request that a cell has had.
    #[inline]
    fn counts_no_more(&mut self, cell: CellId, job: &Job) {
        self.len -= 1;
        self.bytes -= job.text.len();
        self.of_cells[cell.0 as usize] -= 1;
        self.changes[job.slice.index() % CHANGES] -= u32::from(may_change(job));
        self.flushes -= u32::from(is_flush(job));
        self.of_slices[job.slice.index()] -= 1;
        if job.stays
            && let Entry::Occupied(mut staying) = self.staying.entry(job.slice)
        {
            staying.get_mut().count -= 1;
            if staying.get().count == 0 {
                staying.remove();
            }
        }
        if let Some(conn) = job.conn
            && let Entry::Occupied(mut reads) = self.reads.entry((conn, job.slice))
        {
            reads.get_mut().count -= 1;
            reads.get_mut().at_copies -= u32::from(job.is_at_copy);
            if reads.get().count == 0 {
                reads.remove();
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the texts of all.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A number that no other request of this worker has.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// The first id that may be sent again, if `id` is sent now. `others`: some are neither here
    /// nor finished.
    pub(crate) fn first_with(&mut self, id: u64, others: bool) -> u64 {
        if !others {
            let in_row = (!self.row.is_empty()).then_some(self.begin);
            let first = self.again.first_key_value().map(|(first, _)| *first).or(in_row);
            self.first = self.first.max(first.unwrap_or(id).min(id));
        }
        self.first
    }

    /// `job` was sent to `cell` as request `id`.
    pub(crate) fn add(&mut self, id: u64, (cell, mut job): (CellId, Job), now_ns: u64) {
        self.sent += 1;
        (job.sent, job.stays) = (self.sent, false);
        self.overdue_at_ns = self.overdue_at_ns.min(now_ns + OVERDUE_NS);
        self.counts(cell, &job);
        if self.row.is_empty() {
            self.begin = self.begin.max(id);
        }
        let Some(at) = id.checked_sub(self.begin).map(|at| at as usize) else {
            self.again.insert(id, (cell, job));
            return;
        };
        if at < self.row.len() {
            self.row[at] = Some((cell, job));
            return;
        }
        self.row.resize_with(at, || None);
        self.row.push_back(Some((cell, job)));
        while self.row.len() > ROW_MAX {
            let first = self.row.pop_front().flatten();
            self.again.extend(first.map(|first| (self.begin, first)));
            self.begin += 1;
        }
        self.drop_empty();
    }

    /// Drops empty places at the front of the row.
    #[inline]
    fn drop_empty(&mut self) {
        while self.row.pop_front_if(|first| first.is_none()).is_some() {
            self.begin += 1;
        }
    }

    /// Takes request `id`, which `cell` has answered as it was sent after `again` times before. It
    /// may be at another cell by now, or may have been sent once more: what was answered then says
    /// nothing of what is still on its way.
    pub(crate) fn take(&mut self, (id, again): (u64, u16), cell: CellId) -> Option<Job> {
        let is_answered = |(of, job): &Asked| *of == cell && job.asked_before() == again;
        let (_, job) = match id.checked_sub(self.begin) {
            Some(at) => {
                let taken = self.row.get_mut(at as usize)?.take_if(|asked| is_answered(asked))?;
                self.drop_empty();
                taken
            }
            None => {
                self.again.get(&id).filter(|asked| is_answered(asked))?;
                self.again.remove(&id)?
            }
        };
        self.counts_no_more(cell, &job);
        Some(job)
    }

    /// Takes the requests of which this is so, in the order in which they were sent first.
    fn extract(&mut self, is_so: impl Fn(CellId, &Job) -> bool) -> Vec<Asked> {
        let again = self.again.extract_if(.., |_, (cell, job)| is_so(*cell, job));
        let mut taken: Vec<_> = again.map(|(_, asked)| asked).collect();
        let places = self.row.iter_mut();
        taken.extend(places.filter_map(|place| place.take_if(|(cell, job)| is_so(*cell, job))));
        self.drop_empty();
        taken.sort_by_key(|(_, job)| job.since);
        taken.iter().for_each(|(cell, job)| self.counts_no_more(*cell, job));
        taken
    }

    /// Takes the requests of which this is so.
    pub(crate) fn take_if(&mut self, is_so: impl Fn(CellId, &Job) -> bool) -> Vec<Job> {
        self.extract(is_so).into_iter().map(|(_, job)| job).collect()
    }

    /// Has the requests stay of which this is so, until they are answered. What follows them waits
    /// for that, but not for long.
    pub(crate) fn stay_if(&mut self, now_ns: u64, is_so: impl Fn(CellId, &Job) -> bool) {
        let asked = self.again.values_mut().chain(self.row.iter_mut().flatten());
        for (_, job) in asked.filter(|(cell, job)| !job.stays && is_so(*cell, job)) {
            job.stays = true;
            let first = Staying { count: 0, until_ns: now_ns + STAYS_NS };
            self.staying.entry(job.slice).or_insert(first).count += 1;
        }
    }

    /// Whether one about `slice` stays at a cell that leads it no more, and is waited for.
    #[inline]
    pub(crate) fn has_staying(&self, slice: SliceId, now_ns: u64) -> bool {
        !self.staying.is_empty()
            && self.staying.get(&slice).is_some_and(|staying| now_ns < staying.until_ns)
    }

    /// When it is to be looked whether some are overdue.
    pub(crate) fn overdue_at_ns(&self) -> u64 {
        self.overdue_at_ns
    }

    /// Takes those that copies have had for too long.
    pub(crate) fn take_from_copies(&mut self, now_ns: u64) -> Vec<(CellId, Job)> {
        self.extract(|_, job| job.copy_due_ns <= now_ns)
    }

    /// Takes the reads of this connection about `slice` that copies have, in their order. All that
    /// is asked is looked at only where there are some.
    pub(crate) fn take_reads(&mut self, conn: Option<ConnId>, slice: SliceId) -> Vec<Job> {
        let reads = conn.and_then(|conn| self.reads.get(&(conn, slice)));
        if reads.is_none_or(|reads| reads.at_copies == 0) {
            return Vec::new();
        }
        self.take_if(|_, job| job.is_at_copy && job.conn == conn && job.slice == slice)
    }

    /// Takes those that a cell has as their primary, and that were sent after one about the same
    /// slice which it has `refused`. All that is asked is looked at only where there are some.
    pub(crate) fn take_later(&mut self, refused: &Refused) -> Vec<Job> {
        if refused.keys().all(|slice| self.of_slices[slice.index()] == 0) {
            return Vec::new();
        }
        self.take_if(|cell, job| {
            let first = refused.get(&job.slice).filter(|first| first.cell == cell);
            !job.is_at_copy && first.is_some_and(|first| job.sent > first.sent)
        })
    }

    /// Takes those that are overdue.
    pub(crate) fn take_overdue(&mut self, now_ns: u64) -> Vec<(CellId, Job)> {
        self.extract(|_, job| job.due_ns <= now_ns)
    }

    /// Looks again a little later, if there are any or `or` something else to look after.
    pub(crate) fn looks_again(&mut self, or: bool, now_ns: u64) {
        self.overdue_at_ns = match self.len == 0 && !or {
            true => u64::MAX,
            false => now_ns + OVERDUE_NS,
        };
    }

    /// Forgets the request of `ticket`. Returns the cell that has it, and whether it only reads.
    pub(crate) fn forget(&mut self, ticket: Ticket) -> Option<(CellId, bool)> {
        let is_of = |(_, job): &Asked| job.origin == Origin::Client(ticket);
        let again = self.again.iter().find(|(_, asked)| is_of(asked)).map(|(id, _)| *id);
        let (cell, job) = match again {
            Some(id) => self.again.remove(&id)?,
            None => self.row.iter_mut().find_map(|place| place.take_if(|asked| is_of(asked)))?,
        };
        self.drop_empty();
        self.counts_no_more(cell, &job);
        Some((cell, job.repeat == Repeat::Always))
    }
}

/// Whether `job` ends items of many slices.
pub(super) fn is_flush(job: &Job) -> bool {
    job.repeat == Repeat::Never && flush::slices_of(&job.text).is_some()
}

/// Whether a read after `job` must not show less: `job` may change something, or is a read of which
/// it is not known whose it is.
fn may_change(job: &Job) -> bool {
    !job.is_read && (job.repeat != Repeat::Always || job.conn.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(asked.take((2, 0), CellId(1)).is_none(), "another cell has it");
        assert!(asked.take((2, 0), CellId(2)).is_some());
        assert!(asked.take((2, 0), CellId(2)).is_none(), "twice");
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
    fn each_cell_has_what_it_was_sent_until_it_is_taken() {
        let mut asked = AskedJobs::new();
        let conn = ConnId { worker: session::WorkerId(0), index: 1, generation: 0 };
        let read = Job { repeat: Repeat::Always, conn: Some(conn), ..job(9) };
        let slice = read.slice;
        assert!(may_change(&Job { conn: None, ..read.clone() }), "whose it is is not known");
        for (cell, job) in [(1, read.clone()), (700, job(9)), (700, read)] {
            let id = asked.next_id();
            asked.add(id, (CellId(cell), job), 0);
        }
        let count = |asked: &AskedJobs| [1, 700, 9].map(|cell| asked.at(CellId(cell)));
        assert_eq!((count(&asked), asked.may_change(slice)), ([1, 2, 0], true));
        asked.take((2, 0), CellId(700)).expect("it has it");
        assert_eq!((count(&asked), asked.may_change(slice)), ([1, 1, 0], false));
        asked.take_if(|_, _| true);
        assert_eq!(count(&asked), [0, 0, 0]);
    }

    #[test]
    fn what_was_answered_before_it_was_sent_again_is_no_answer() {
        let mut asked = AskedJobs::new();
        let (id, mut job) = (asked.next_id(), job(9));
        for again in 0..2 {
            assert_eq!(job.asks(0), again);
        }
        asked.add(id, (CellId(1), job), 0);
        assert!(asked.take((id, 0), CellId(1)).is_none());
        assert!(asked.take((id, 1), CellId(1)).is_some());
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
        assert!(asked.take((1, 0), CellId(1)).is_some());
        assert_eq!(sends(&mut asked), (4, 2));
        let again = asked.take((2, 0), CellId(1)).expect("it is asked");
        assert!(asked.take((3, 0), CellId(1)).is_some());
        assert_eq!(asked.first_with(5, true), 2, "one is kept for later");
        assert_eq!(asked.first_with(2, false), 2);
        asked.add(2, (CellId(2), again), 0);
        assert_eq!(asked.first_with(5, false), 2);
        assert!(asked.take((2, 0), CellId(2)).is_some());
        assert_eq!(asked.first_with(5, false), 4);
    }

    /// A tree alone does the same, whatever is sent, answered and sent again.
    #[test]
    fn the_row_and_the_tree_are_one_list() {
        let mut asked = AskedJobs::new();
        let mut model: BTreeMap<u64, u16> = BTreeMap::new();
        let mut state = 9_u64;
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % sides
        };
        let mut kept = Vec::new();
        for step in 0..20_000 {
            match dice(6) {
                0..=2 => {
                    // Some numbers are of no request.
                    let id = (0..=dice(3)).map(|_| asked.next_id()).last().expect("one");
                    asked.add(id, (CellId(1), job(step)), 0);
                    model.insert(id, 0);
                }
                3 => {
                    let at = dice(model.len().max(1) as u64) as usize;
                    let Some((id, again)) = model.iter().nth(at).map(|(id, it)| (*id, *it)) else {
                        continue;
                    };
                    model.remove(&id);
                    let job = asked.take((id, again), CellId(1)).expect("it is asked");
                    kept.push((id, job));
                }
                4 => {
                    let first = model.first_key_value().map(|(id, it)| (*id, *it));
                    if let Some((id, again)) = first {
                        model.remove(&id);
                        assert!(asked.take((id, again), CellId(1)).is_some());
                    }
                }
                _ => {
                    let Some((id, mut job)) = kept.pop() else { continue };
                    (job.times, job.id) = (job.times.max(1), id);
                    let again = job.asks(0);
                    asked.add(id, (CellId(1), job), 0);
                    model.insert(id, again);
                }
            }
            assert_eq!(asked.len(), model.len());
            let first = model.first_key_value().map_or(u64::MAX, |(first, _)| *first);
            asked.first = 0;
            assert_eq!(asked.first_with(u64::MAX, false), first);
        }
        assert_eq!(asked.take_if(|_, _| true).len(), model.len());
        assert_eq!((asked.len(), asked.bytes()), (0, 0));
    }
}
