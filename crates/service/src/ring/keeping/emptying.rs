//! Slices that are to be empty before they are anything else to this cell.

use crate::ring::retries::Tags;
use crate::worker::Worker;
use base::SliceRange;
use engine::{Cursor, More};
use ring::RangeId;
use std::collections::VecDeque;

/// Slices whose items are dropped, step by step.
#[derive(Default)]
pub(crate) struct Emptying(VecDeque<(RangeId, SliceRange, Cursor)>);

impl Emptying {
    /// Drops the items of a range, from its beginning.
    pub(crate) fn begin(&mut self, range: RangeId, slices: SliceRange) {
        self.0.retain(|(id, ..)| *id != range);
        self.0.push_back((range, slices, Cursor::default()));
    }

    /// Whether there is nothing left to drop.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a range is not empty yet.
    pub(crate) fn has(&self, range: RangeId) -> bool {
        self.0.iter().any(|(id, ..)| *id == range)
    }

    /// Drops a bounded number of items; with the last of a range, what other cells have asked for
    /// in it.
    pub(crate) fn step(&mut self, worker: &mut Worker, tags: &Tags) {
        let Some((_, slices, at)) = self.0.front_mut() else { return };
        let (engine, pin) = worker.engine();
        if engine.forget(pin, *slices, at) == More::No {
            tags.drop_slices(*slices);
            self.0.pop_front();
        }
    }
}
