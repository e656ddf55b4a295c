//! An exchange of tails as the keeper carries it out.
//!
//! ```text
//! new primary   Awaits the tails of the others --> Sends its own --> over: it begins to lead
//! other copies                                     Sends its own --> over
//! ```
//!
//! A tail is appended to the first log of this cell, and is sent when the other cells have
//! acknowledged that.

use crate::ring::copies::Copy;
use crate::ring::copies::{Exchanges, Tail};
use crate::worker::Worker;
use base::Now;
use ring::{CellId, RangeId};
use std::collections::VecDeque;
use std::sync::Arc;

/// How long a copy may take to send its tail. Nothing of the range is served meanwhile.
const TAIL_NS: u64 = 150_000_000;

/// So long an exchange is looked at again and again; then at times.
const QUICK_NS: u64 = 1_000_000_000;

/// How far it is.
enum Progress {
    /// The tails of the others are to come.
    Awaits,
    /// These entries are to be appended: the kind of each, and its bytes.
    Appends(VecDeque<(u8, Vec<u8>)>),
    /// By lane, the position up to which the others must have come.
    Sent(Vec<u64>),
}

/// What follows from a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There is more to do, or to wait for.
    Waits,
    /// Something was appended, which is to be sent.
    Appended,
    /// These cells are to be dropped: their tails do not come, or do not join on.
    Drops(Vec<CellId>),
    /// All have what the others had.
    Over,
}

/// The exchange of a range.
pub(crate) struct Exchanging {
    pub(crate) range: RangeId,
    /// The new epoch.
    pub(crate) epoch: u32,
    /// The others: all copies, or, at a copy, the new primary.
    pub(crate) others: Vec<CellId>,
    leads: bool,
    began_ns: u64,
    since_ns: u64,
    /// When cells were found that are to be dropped.
    said_ns: Option<u64>,
    progress: Progress,
    tail: Tail,
}

impl Exchanging {
    /// At the new primary, if it `leads`, or at another copy.
    pub(crate) fn new(
        (range, epoch): (RangeId, u32),
        others: Vec<CellId>,
        (tail, leads): (Tail, bool),
        now: Now,
    ) -> Self {
        let mut new = Self {
            range,
            epoch,
            others,
            leads,
            began_ns: now.mono_ns,
            since_ns: now.mono_ns,
            said_ns: None,
            progress: Progress::Awaits,
            tail,
        };
        if !leads {
            new.appends(now);
        }
        new
    }

    /// Whether this cell waits for the end of it before it leads `range`.
    pub(crate) fn holds_back(&self, range: RangeId) -> bool {
        self.leads && self.range == range
    }

    /// Whether it is likely to continue at once. Without a majority it may wait for long.
    pub(crate) fn is_quick(&self, now: Now) -> bool {
        now.mono_ns.saturating_sub(self.began_ns) < QUICK_NS
    }

    /// Whether this cell is the new primary.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// The next thing to do is to send the tail to all others.
    fn appends(&mut self, now: Now) {
        self.since_ns = now.mono_ns;
        let to = |cell: &CellId| self.tail.encode(*cell, self.range, self.epoch);
        self.progress = Progress::Appends(self.others.iter().flat_map(to).collect());
        self.tail.entries = Vec::new();
    }

    /// Only those of the others are left that `stays` says.
    pub(crate) fn keep(&mut self, stays: impl Fn(CellId) -> bool) {
        self.others.retain(|cell| stays(*cell));
    }

    /// Takes the next step, with those of the others that read the logs.
    pub(crate) fn step(
        &mut self,
        (exchanges, copies): (&Exchanges, &[Arc<Copy>]),
        worker: &mut Worker,
        now: Now,
    ) -> Step {
        let of = |cell: &CellId| copies.iter().find(|copy| copy.cell == *cell);
        let (awaited, apart) = exchanges.open(self.range);
        let mut lacking: Vec<_> = self.others.clone();
        match &mut self.progress {
            Progress::Awaits => {
                lacking.retain(|cell| awaited.contains(cell) || apart.contains(cell));
                if lacking.is_empty() {
                    self.appends(now);
                    return Step::Waits;
                }
            }
            // What is appended before a cell reads the logs does not reach it.
            Progress::Appends(_) if !lacking.iter().all(|cell| of(cell).is_some()) => {}
            Progress::Appends(entries) => {
                if let Some(ends) = append(entries, worker) {
                    self.progress = Progress::Sent(ends);
                    return Step::Appended;
                }
            }
            Progress::Sent(ends) => {
                lacking.retain(|cell| !of(cell).is_some_and(|copy| copy.has_acked(ends)));
            }
        }
        if lacking.is_empty() {
            return Step::Over;
        }
        let is_late = now.mono_ns.saturating_sub(self.since_ns) >= TAIL_NS;
        lacking.retain(|cell| is_late || apart.contains(cell));
        // It is said again later, where it does not follow.
        let may_say = self.said_ns.is_none_or(|at_ns| now.mono_ns - at_ns >= TAIL_NS);
        if !self.leads || !may_say || lacking.is_empty() {
            return Step::Waits;
        }
        self.said_ns = Some(now.mono_ns);
        Step::Drops(lacking)
    }
}

/// Appends `entries` to the first log, as long as it takes them. Returns the ends of all logs when
/// it has taken all.
fn append(entries: &mut VecDeque<(u8, Vec<u8>)>, worker: &mut Worker) -> Option<Vec<u64>> {
    let (_, _, sink) = worker.parts();
    let (lane, _) = sink.lanes().logs().next()?;
    while let Some((kind, bytes)) = entries.front() {
        sink.other(lane, *kind, bytes, false).ok()?;
        entries.pop_front();
    }
    Some(sink.lanes().ends())
}
