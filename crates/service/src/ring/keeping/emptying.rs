//! Slices that are to be empty before they are anything else to this cell: in memory, and above a
//! tier in its journal, too.

use crate::ring::cell::RingCell;
use crate::worker::Worker;
use base::SliceRange;
use engine::{Cursor, More};
use ring::RangeId;
use std::collections::VecDeque;
use tier::{Member, Voiding};

/// Slices whose items are dropped, step by step.
#[derive(Default)]
pub(crate) struct Emptying(VecDeque<Slices>);

/// How far one range is.
struct Slices {
    range: RangeId,
    slices: SliceRange,
    at: Cursor,
    /// Whether nothing of it is left in memory.
    is_dropped: bool,
    voiding: Voiding,
}

impl Emptying {
    /// Drops the items of a range, from its beginning.
    pub(crate) fn begin(&mut self, range: RangeId, slices: SliceRange) {
        self.0.retain(|it| it.range != range);
        let (at, is_dropped, voiding) = (Cursor::default(), false, Voiding::default());
        self.0.push_back(Slices { range, slices, at, is_dropped, voiding });
    }

    /// Whether there is nothing left to drop.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a range is not empty yet.
    pub(crate) fn has(&self, range: RangeId) -> bool {
        self.0.iter().any(|it| it.range == range)
    }

    /// Drops a bounded number of items; with the last of a range, what other cells have asked for
    /// in it. Returns whether the next step may follow at once: it may wait for the journal.
    pub(crate) fn step(&mut self, worker: &mut Worker, ring: &RingCell) -> bool {
        let Some(it) = self.0.front_mut() else { return false };
        if !it.is_dropped {
            let (engine, pin) = worker.engine();
            it.is_dropped = engine.forget(pin, it.slices, &mut it.at) == More::No;
            return true;
        }
        if let Some(tiered) = ring.cell.tiered() {
            let is_void = |below: Member<'_>| below.void(it.slices, &mut it.voiding);
            if !tiered.member().is_none_or(is_void) {
                tiered.press_for_floors();
                return !it.voiding.waits();
            }
        }
        ring.tags.drop_slices(it.slices);
        self.0.pop_front();
        true
    }
}
