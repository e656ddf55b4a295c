//! One log of the cell, and how far the journal has it.

use super::lane::Writer;
use crate::rules::{Ack, Rules};
use crate::sync::Mutex;
use effects::{Joining, LaneId, Lanes, Log, Mark, ReaderId, Who};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// One lane: a log of what this cell leads, or of what it copies.
pub(super) struct Lane {
    /// Its number in the journal.
    pub(super) number: u8,
    /// Its number among the logs of its kind, which are these.
    pub(super) id: LaneId,
    pub(super) lanes: Arc<Lanes>,
    /// Whether it is of what this cell copies.
    pub(super) is_copied: bool,
    pub(super) log: Arc<Log>,
    pub(super) reader: ReaderId,
    /// Its mark Acknowledged: up to where all lies below that must. Absent before anything must.
    pub(super) below: OnceLock<ReaderId>,
    pub(super) writer: Mutex<Writer>,
    /// The last position that is written, and that is durable.
    pub(super) written: AtomicU64,
    pub(super) durable: AtomicU64,
    /// Bytes that its open segment has left, and those of records written since it began.
    pub(super) rest: AtomicU32,
    pub(super) journaled: AtomicU64,
    /// What its writer had written when room was granted last, and how much was granted.
    pub(super) granted: Mutex<(u64, u64)>,
    /// In a ring: what is promised of its room to the primaries of what is copied, and has not
    /// come.
    promised: AtomicU64,
}

impl Lane {
    /// The lane with this number in the journal.
    pub(super) fn new(
        (number, index): (u8, usize),
        (lanes, is_copied): (&Arc<Lanes>, bool),
        rules: &Arc<Rules>,
    ) -> Self {
        let (id, log) = lanes.logs().nth(index).expect("invariant: a lane has this number");
        let next = log.end() + 1;
        let joining =
            Joining { who: Who::Journal, from: None, holds: Some(Mark::Durable), grants: Some(0) };
        let reader = log.join(&joining).expect("invariant: it is the first reader of an empty log");
        Self {
            number,
            id,
            lanes: lanes.clone(),
            is_copied,
            log: log.clone(),
            reader,
            below: OnceLock::new(),
            writer: Mutex::new(Writer::new((number, id), next, rules.clone())),
            written: AtomicU64::new(next - 1),
            durable: AtomicU64::new(next - 1),
            rest: AtomicU32::new(0),
            journaled: AtomicU64::new(0),
            granted: Mutex::default(),
            promised: AtomicU64::new(0),
        }
    }

    /// What is promised of its room, and has not come.
    pub(super) fn promised(&self) -> u64 {
        self.promised.load(Ordering::Relaxed)
    }

    /// So much more is promised.
    pub(super) fn promise(&self, bytes: u64) {
        self.promised.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So much of that has come, or is not promised any more.
    pub(super) fn redeem(&self, bytes: u64) {
        self.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// One more reader, which only says what lies below.
    pub(super) fn join_below(&self) -> ReaderId {
        let joining = Joining { who: Who::Flusher, from: None, holds: None, grants: None };
        let below = self.log.join(&joining).expect("invariant: it is the second reader");
        self.log.reads_nothing(below);
        below
    }

    /// Notes how much its open segment has left, and how much is written, which its writer knows.
    pub(super) fn note(&self, writer: &Writer) {
        self.journaled.store(writer.journaled, Ordering::Relaxed);
        let rest =
            writer.open().map_or(0, |open| open.head.bytes - open.written.load(Ordering::Relaxed));
        self.rest.store(rest, Ordering::Release);
    }

    /// Sets what each level waits for.
    pub(super) fn set_levels(&self) {
        // Also of levels that no key has: a flush of all waits at the highest up to Disk, and what
        // is not durable yet has not passed a level that keys get later.
        for ack in Ack::ALL {
            let of_journal = ack.mark().map(|mark| (self.reader, mark));
            let below = self.below.get().filter(|_| ack == Ack::Backend);
            let of_below = below.map(|it| (*it, Mark::Acknowledged));
            let marks: Vec<_> = of_journal.into_iter().chain(of_below).collect();
            let is_set = self.log.set_level(ack.level(), &marks);
            debug_assert!(is_set, "both are readers of the log");
        }
    }
}
