//! The copies of what this cell leads: how far each has read the logs, and what it is sent.

use crate::effect_log::EffectLog;
use base::{SliceId, SliceRange};
use effects::{JoinError, Joining, LaneId, Lanes, Log, Mark, ReaderId, Who};
use ring::CellId;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How long a copy may take to acknowledge what is in the logs. Long enough for a busy machine, and
/// half of what a client waits.
const LATE_NS: u64 = 1_000_000_000;
/// How long one that learns may take to acknowledge anything: it takes many items besides, and may
/// be slow.
pub(crate) const LEARNER_LATE_NS: u64 = 1_500_000_000;
/// How long one that learns may take until its streams are open, if writers wait for it.
const LEARNER_OPEN_NS: u64 = 500_000_000;
/// How long after it was found late it is found so again.
const LATE_AGAIN_NS: u64 = 100_000_000;
/// How often a log is joined again that has gone on meanwhile.
const JOINS_MAX: u32 = 64;
/// Bytes that may be appended before the copy has said how much room it has.
pub(crate) const FIRST_BYTES: u64 = 16 << 10;

/// A cell that is sent the changes of some ranges that this cell leads.
pub(crate) struct Copy {
    /// The cell.
    pub(crate) cell: CellId,
    /// Which life of it.
    pub(crate) incarnation: u64,
    /// Where it takes streams.
    pub(crate) links: SocketAddr,
    /// Which log of this cell it is sent, and which reading of it. It rises with each copy.
    pub(crate) log: u64,
    /// By lane, its reader, and the last position before its first entry.
    pub(crate) readers: Vec<(ReaderId, u64)>,
    /// By lane, up to where it has applied the log.
    acked: Vec<AtomicU64>,
    /// The slices that it is sent the changes of.
    slices: RwLock<Vec<SliceRange>>,
    /// Whether another copy is sent changes of one of these slices.
    has_others: AtomicBool,
    /// Whether it is in sync in one of these, and not only on its way.
    is_in_sync: AtomicBool,
    /// A bit for each lane whose stream has been open.
    opened: AtomicU64,
    /// A bit for each lane in which it says that it has no memory, and gets none by eviction.
    full: AtomicU64,
    /// By lane.
    late: Mutex<Vec<Late>>,
    /// Nothing is sent any more.
    pub(crate) is_over: AtomicBool,
}

/// What a copy had not acknowledged in one lane.
#[derive(Clone, Copy, Default)]
struct Late {
    /// The end of the log then.
    position: u64,
    /// What it had acknowledged.
    acked: u64,
    /// 0 before it was looked at.
    since_ns: u64,
}

impl Copy {
    /// Begins to read all logs. It holds back what it has not acknowledged.
    pub(crate) fn begin(
        (cell, incarnation, links): (CellId, u64, SocketAddr),
        log: u64,
        lanes: &Lanes,
    ) -> Result<Self, JoinError> {
        let who = Who::Copy(cell.0);
        let holds = Some(Mark::Acknowledged);
        let mut readers = Vec::new();
        for (_, log) in lanes.logs() {
            let grants = Some(FIRST_BYTES);
            match join(log, Joining { who, from: None, holds, grants }) {
                Ok(reader) => readers.push(reader),
                Err(error) => {
                    leave(&readers, lanes);
                    return Err(error);
                }
            }
        }
        let acked = readers.iter().map(|(_, start)| AtomicU64::new(*start)).collect();
        let late = Mutex::new(vec![Late::default(); readers.len()]);
        let [has_others, is_in_sync, is_over] = [(); 3].map(|()| AtomicBool::new(false));
        let [opened, full] = [(); 2].map(|()| AtomicU64::new(0));
        let slices = RwLock::default();
        Ok(Self {
            cell,
            incarnation,
            links,
            log,
            readers,
            acked,
            slices,
            has_others,
            is_in_sync,
            opened,
            full,
            late,
            is_over,
        })
    }

    /// Ends it. No level may count on it any more.
    pub(crate) fn end(&self, log: &EffectLog) {
        self.is_over.store(true, Ordering::Release);
        for ((lane, _), (reader, _)) in log.lanes.logs().zip(&self.readers) {
            log.set_full(lane, *reader, false);
        }
        leave(&self.readers, &log.lanes);
    }

    /// Its stream of `lane` is open.
    pub(crate) fn opens(&self, lane: usize) {
        self.opened.fetch_or(1 << lane, Ordering::Relaxed);
    }

    /// Notes whether it says in `lane` that it has no memory, and gets none by eviction. A change
    /// that it has no room for is refused then, if it is in sync: one that only learns is given up.
    pub(crate) fn sets_full(&self, lane: LaneId, is_full: bool, log: &EffectLog) {
        let bit = 1 << lane.index();
        match is_full {
            true => self.full.fetch_or(bit, Ordering::Relaxed),
            false => self.full.fetch_and(!bit, Ordering::Relaxed),
        };
        let (reader, _) = self.readers[lane.index()];
        log.set_full(lane, reader, is_full && self.is_in_sync.load(Ordering::Acquire));
        if self.is_over.load(Ordering::Acquire) {
            // It was forgotten already what this copy says.
            log.set_full(lane, reader, false);
        }
    }

    /// Whether it says so in a lane.
    pub(crate) fn says_full(&self) -> bool {
        self.full.load(Ordering::Relaxed) != 0
    }

    /// Sets the slices that it is sent the changes of from now on, whether another copy is sent
    /// those of one of them, and whether it is in sync in one.
    pub(crate) fn set_slices(
        &self,
        slices: Vec<SliceRange>,
        (has_others, is_in_sync): (bool, bool),
    ) {
        self.is_in_sync.store(is_in_sync, Ordering::Release);
        self.has_others.store(has_others, Ordering::Release);
        *self.slices.write().unwrap_or_else(PoisonError::into_inner) = slices;
    }

    /// The slices that it is sent the changes of.
    pub(crate) fn slices(&self) -> Vec<SliceRange> {
        self.slices.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Up to where all others of `copies` have applied `lane` that are sent changes of the same
    /// slices; `u64::MAX` if there is no other.
    pub(crate) fn others_have(
        &self,
        lane: usize,
        copies: impl FnOnce() -> Arc<Vec<Arc<Self>>>,
    ) -> u64 {
        if !self.has_others.load(Ordering::Acquire) {
            return u64::MAX;
        }
        let (slices, copies) = (self.slices(), copies());
        let shares = |other: &&Arc<Self>| {
            let others = other.slices();
            other.cell != self.cell && slices.iter().any(|slices| others.contains(slices))
        };
        let others = copies.iter().filter(shares);
        others.map(|other| other.acked(lane)).min().unwrap_or(u64::MAX)
    }

    /// Notes that everything in `lane` up to `position` is applied.
    pub(crate) fn acknowledges(&self, lane: usize, position: u64) {
        self.acked[lane].fetch_max(position, Ordering::AcqRel);
    }

    /// Whether those who write wait for it for too long: it has not acknowledged something for
    /// [`LATE_NS`], or, if it `learns`, nothing at all for [`LEARNER_LATE_NS`], or for
    /// [`LEARNER_OPEN_NS`] before its streams were open.
    pub(crate) fn is_late(&self, lanes: &Lanes, learns: bool, now_ns: u64) -> bool {
        let is_open = self.opened.load(Ordering::Relaxed).count_ones() as usize == self.acked.len();
        let late_ns = match (learns, is_open) {
            (false, _) => LATE_NS,
            (true, true) => LEARNER_LATE_NS,
            (true, false) => LEARNER_OPEN_NS,
        };
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_late = false;
        for ((lane, log), late) in lanes.logs().zip(late.iter_mut()) {
            let (acked, end) = (self.acked(lane.index()), log.end());
            let goes_on = match learns {
                true => acked != late.acked || acked >= end,
                false => acked >= late.position,
            };
            let is_first = late.since_ns == 0;
            if goes_on || is_first {
                *late = Late { position: end, acked, since_ns: now_ns };
            } else if now_ns.saturating_sub(late.since_ns) >= late_ns {
                late.since_ns = now_ns - late_ns + LATE_AGAIN_NS;
                is_late = true;
            }
        }
        is_late
    }

    /// Up to where it has applied the log of `lane`.
    pub(crate) fn acked(&self, lane: usize) -> u64 {
        self.acked[lane].load(Ordering::Acquire)
    }

    /// Whether it has applied the log of each lane up to `ends`.
    pub(crate) fn has_acked(&self, ends: &[u64]) -> bool {
        ends.iter().enumerate().all(|(lane, end)| self.acked(lane) >= *end)
    }
}

/// Joins `log` at its end. Returns the reader, and the last position before its first entry.
fn join(log: &Log, mut joining: Joining) -> Result<(ReaderId, u64), JoinError> {
    let mut start = log.end();
    for _ in 0..JOINS_MAX {
        match log.join(&Joining { from: Some(start + 1), ..joining }) {
            Ok(reader) => return Ok((reader, start)),
            // It was appended to, and freed, since.
            Err(JoinError::Gone(first)) => start = first - 1,
            // Writers hold more already.
            Err(JoinError::Grants(held)) => joining.grants = Some(held),
            Err(error) => return Err(error),
        }
    }
    Err(JoinError::Gone(start + 1))
}

fn leave(readers: &[(ReaderId, u64)], lanes: &Lanes) {
    for ((_, log), (reader, _)) in lanes.logs().zip(readers) {
        log.leave(*reader);
    }
}

/// Whether one of `slices` has `slice`.
pub(crate) fn has(slices: &[SliceRange], slice: SliceId) -> bool {
    slices.iter().any(|range| range.contains(slice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::MemoryBudget;
    use effects::{LanesConfig, WorkerSink};

    #[test]
    fn a_copy_is_late_with_what_it_should_have_and_a_learner_when_it_stands_still() {
        let budget = MemoryBudget::new(64 << 20);
        let config = LanesConfig {
            lanes: 1,
            sinks: 1,
            bytes: 4 << 20,
            value_bytes_max: 1000,
            follows: false,
        };
        let lanes = Lanes::new(&config, &budget).expect("enough memory");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let copy = Copy::begin((CellId(2), 1, at), 1, &lanes).expect("a place");
        let (lane, _) = lanes.logs().next().expect("one");
        let mut sink = WorkerSink::new(lanes.clone());
        let mut append = || sink.other(lane, 9, b"x", false).expect("space").position;
        (0..9).for_each(|_| assert!(append() > 0));
        let late = |learns, now_ns| copy.is_late(&lanes, learns, now_ns);
        assert!(!late(true, 1) && !late(true, LEARNER_OPEN_NS) && late(true, LEARNER_OPEN_NS + 1));
        copy.opens(0);
        copy.late.lock().expect("nobody panics").fill(Late::default());
        assert!(!late(true, LEARNER_LATE_NS) && !late(true, 2 * LEARNER_LATE_NS - 1));
        // It goes on, slowly, and more is appended.
        copy.acknowledges(0, 1);
        append();
        assert!(!late(true, 2 * LEARNER_LATE_NS) && !late(true, 3 * LEARNER_LATE_NS - 1));
        assert!(late(true, 3 * LEARNER_LATE_NS));
        assert!(!late(true, 3 * LEARNER_LATE_NS + 1), "it is said again a little later");
        assert!(late(true, 3 * LEARNER_LATE_NS + LATE_AGAIN_NS));
        // A copy in sync must have had all of that.
        copy.acknowledges(0, 2);
        assert!(late(false, 4 * LEARNER_LATE_NS));
        copy.acknowledges(0, 10);
        assert!(!late(false, 5 * LEARNER_LATE_NS));
    }
}
