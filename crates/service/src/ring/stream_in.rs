//! A stream from a primary: applies what stands in it, in order, each entry once.

use super::cell::RingCell;
use super::origin::Origin;
use super::slice_state;
use crate::worker::Worker;
use base::{Change, Effect, Now, SliceId, SliceRange, Version};
use effects::{Entry, Records};
use engine::Applied;
use ring::CellId;
use std::sync::Arc;

/// Why a copy takes no more of a stream, as [`peer::Frame::StreamEnd`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// It does not follow that primary in that epoch.
    NotFollowing = 1,
    /// Its memory is full.
    NoSpace = 2,
    /// The stream has a gap, or an entry that is no entry.
    Malformed = 3,
    /// It knows a later log of that cell.
    OldLog = 4,
}

impl Reason {
    /// The reason with this number, as people read it.
    pub(crate) fn describe(number: u8) -> &'static str {
        match number {
            1 => "it does not follow this cell in this epoch",
            2 => "its memory is full",
            3 => "the stream has a gap, or an entry that is none",
            4 => "it knows a later log of this cell",
            _ => "for an unknown reason",
        }
    }
}

/// What came of the entries of a frame.
pub(crate) enum Taken {
    /// All are applied, up to this position.
    All(u64),
    /// They are to be given again later: the map is older than that of the primary, or the engine
    /// is busy.
    Later,
    /// No more is taken.
    Refused(Reason),
}

/// One stream from a primary.
pub(crate) struct StreamIn {
    pub(crate) cell: CellId,
    pub(crate) lane: u8,
    pub(crate) origin: Arc<Origin>,
}

/// The entries of a frame.
pub(crate) struct Entries<'a> {
    pub(crate) map_version: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) records: &'a [u8],
}

impl StreamIn {
    /// Applies the entries of a frame.
    pub(crate) fn take(
        &self,
        entries: &Entries<'_>,
        ring: &RingCell,
        worker: &mut Worker,
        now: Now,
    ) -> Taken {
        if ring.version() < entries.map_version {
            return Taken::Later;
        }
        let Some(mut applied) = self.origin.lock(self.lane) else {
            return Taken::Refused(Reason::Malformed);
        };
        let Some(last) = *applied else { return Taken::Refused(Reason::Malformed) };
        if entries.first > last + 1 {
            return Taken::Refused(Reason::Malformed);
        }
        for record in Records::new(entries.first, entries.records) {
            let Ok(record) = record else { return Taken::Refused(Reason::Malformed) };
            // What was applied before the link broke comes again.
            if Some(record.position) <= *applied {
                continue;
            }
            match self.apply(&record.entry, ring, worker, now) {
                Ok(()) => *applied = Some(record.position),
                Err(None) => return Taken::Later,
                Err(Some(reason)) => return Taken::Refused(reason),
            }
        }
        let end = entries.first + u64::from(entries.count) - 1;
        match *applied {
            Some(last) if last >= end => Taken::All(last),
            _ => Taken::Refused(Reason::Malformed),
        }
    }

    /// Applies one entry. `Err(None)`: it is to be tried again.
    fn apply(
        &self,
        entry: &Entry<'_>,
        ring: &RingCell,
        worker: &mut Worker,
        now: Now,
    ) -> Result<(), Option<Reason>> {
        match *entry {
            Entry::Change { slice, version, effect } => {
                self.check(ring, slice, Some(version))?;
                apply(worker, slice, &effect, version, now)
            }
            Entry::Item { slice, version, key, value, facts, .. } => {
                self.check(ring, slice, None)?;
                let effect = Effect { key, change: Change::Put(value, facts) };
                apply(worker, slice, &effect, version, now)
            }
            Entry::Barrier(slices) => {
                self.bar(slices, ring, worker);
                Ok(())
            }
            Entry::Other { kind: slice_state::KIND, bytes, .. } => {
                let engine = worker.engine().0;
                for state in slice_state::decode(bytes).ok_or(Some(Reason::Malformed))? {
                    if ring.origins.accepts(state.slice, self.cell, None) {
                        engine.advance(state.slice, state.last);
                        engine.barrier(state.slice, state.barrier);
                    }
                }
                Ok(())
            }
            Entry::Other { .. } | Entry::Skipped => Ok(()),
        }
    }

    fn check(
        &self,
        ring: &RingCell,
        slice: SliceId,
        version: Option<Version>,
    ) -> Result<(), Option<Reason>> {
        let accepts = ring.origins.accepts(slice, self.cell, version);
        accepts.then_some(()).ok_or(Some(Reason::NotFollowing))
    }

    /// Ends the items of those of `slices` that are copied from this cell and belong to this lane:
    /// what is in another lane has a barrier of its own.
    fn bar(&self, slices: SliceRange, ring: &RingCell, worker: &mut Worker) {
        let engine = worker.engine().0;
        let lanes = &ring.log.lanes;
        let of_lane = |slice: &SliceId| lanes.lane_of(*slice).index() == usize::from(self.lane);
        let accepted = |slice: &SliceId| ring.origins.accepts(*slice, self.cell, None);
        for slice in slices.iter().filter(of_lane).filter(accepted) {
            engine.barrier(slice, engine.last_version(slice));
        }
    }
}

fn apply(
    worker: &mut Worker,
    slice: SliceId,
    effect: &Effect<'_>,
    version: Version,
    now: Now,
) -> Result<(), Option<Reason>> {
    match worker.apply((slice, version), effect, now) {
        Applied::Done | Applied::Stale => Ok(()),
        Applied::Later(_) => Err(None),
        Applied::NoSpace => Err(Some(Reason::NoSpace)),
        Applied::Malformed => Err(Some(Reason::Malformed)),
    }
}
