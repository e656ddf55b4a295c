//! The copies of what this cell leads: how far each has read the logs, and what it is sent.

use base::{SliceId, SliceRange};
use effects::{JoinError, Joining, Lanes, Log, Mark, ReaderId, Who};
use ring::CellId;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// How long a copy may take to acknowledge what is in the logs. Long enough for a busy machine, and
/// half of what a client waits.
const LATE_NS: u64 = 1_000_000_000;
/// The same for one that learns: it takes many items besides.
const LEARNER_LATE_NS: u64 = 1_500_000_000;
/// How often a log is joined again that has gone on meanwhile.
const JOINS_MAX: u32 = 64;
/// Bytes that may be appended before the copy has said how much room it has.
const FIRST_BYTES: u64 = 16 << 10;

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
    /// By lane, a position that it had not acknowledged, and since when.
    late: Mutex<Vec<(u64, u64)>>,
    /// Nothing is sent any more.
    pub(crate) is_over: AtomicBool,
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
        let late = Mutex::new(vec![(0, 0); readers.len()]);
        let (slices, is_over) = (RwLock::default(), AtomicBool::new(false));
        Ok(Self { cell, incarnation, links, log, readers, acked, slices, late, is_over })
    }

    /// Ends it. No level may count on it any more.
    pub(crate) fn end(&self, lanes: &Lanes) {
        self.is_over.store(true, Ordering::Release);
        leave(&self.readers, lanes);
    }

    /// Sets the slices that it is sent the changes of from now on.
    pub(crate) fn set_slices(&self, slices: Vec<SliceRange>) {
        *self.slices.write().unwrap_or_else(PoisonError::into_inner) = slices;
    }

    /// The slices that it is sent the changes of.
    pub(crate) fn slices(&self) -> Vec<SliceRange> {
        self.slices.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that everything in `lane` up to `position` is applied.
    pub(crate) fn acknowledges(&self, lane: usize, position: u64) {
        self.acked[lane].fetch_max(position, Ordering::AcqRel);
    }

    /// Whether it has not acknowledged something for [`LATE_NS`], or for [`LEARNER_LATE_NS`] if it
    /// `learns`: those who write wait for it.
    pub(crate) fn is_late(&self, lanes: &Lanes, learns: bool, now_ns: u64) -> bool {
        let late_ns = if learns { LEARNER_LATE_NS } else { LATE_NS };
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_late = false;
        for ((lane, log), (position, since_ns)) in lanes.logs().zip(late.iter_mut()) {
            if self.acked(lane.index()) >= *position {
                (*position, *since_ns) = (log.end(), now_ns);
            } else {
                is_late |= now_ns.saturating_sub(*since_ns) >= late_ns;
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
