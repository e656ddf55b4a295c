//! What an earlier start has left.

use super::format::{Cut, JournalId, SliceState};
use super::record::TailBatch;
use super::segments::{Left, Segment};
use super::states::CEILING_STEP;
use crate::disk::Disk;
use crate::index::Place;
use base::{SLICES, Version};
use std::sync::Arc;

/// What was found.
pub(crate) struct Found {
    pub(super) disk: Arc<dyn Disk>,
    pub(crate) journal: JournalId,
    /// The number of this start.
    pub(crate) start: u32,
    pub(super) left: Left,
    /// By slice, where it begins now.
    pub(crate) states: Vec<SliceState>,
    /// By slice, the highest version of the records that were read.
    pub(super) recorded: Vec<Version>,
    pub(super) tail: Vec<TailBatch>,
    pub(super) cuts: Vec<Cut>,
    /// A second that has begun before.
    pub(crate) clock_s: u32,
    /// Whether there was no journal.
    pub(crate) is_new: bool,
    /// Whether an earlier start has come so far that it gave out a version.
    pub(crate) is_begun: bool,
    /// Records that were read.
    pub(crate) records: u64,
    /// Segments with the beginning of a batch after their last whole one: a write that was torn.
    pub(crate) torn: u64,
    /// What was corrupt, and passed over.
    pub(crate) lost: Vec<String>,
}

impl Found {
    /// A new journal on `disk`, which has nothing but its name.
    pub(super) fn nothing(disk: Arc<dyn Disk>, name: JournalId, states: Vec<SliceState>) -> Self {
        let (live, unused) = (Vec::new(), Vec::new());
        let (free, retired) = (Vec::new(), Vec::new());
        Self {
            disk,
            journal: name,
            start: 1,
            left: Left { live, unused, free, retired, next_number: 1, oldest: 1 },
            states,
            recorded: vec![Version::ZERO; SLICES],
            tail: Vec::new(),
            cuts: Vec::new(),
            clock_s: 0,
            is_new: true,
            is_begun: false,
            records: 0,
            torn: 0,
            lost: Vec::new(),
        }
    }

    /// The entry of the record at `place`, if it can be read.
    pub(crate) fn read(&self, place: Place) -> Option<Vec<u8>> {
        let segment = self.left.live.iter().find(|it| it.number() == place.segment)?;
        segment.record(place).ok().flatten()
    }

    /// What was found is of no use any more: the journal goes on without a record, and its segments
    /// are free once that is durable. Each slice begins at the ceiling that `below` keeps of it, by
    /// slice, which no version that was given out has passed; and what a barrier has ended there
    /// stays so.
    pub(crate) fn begin_empty(&mut self, below: &[SliceState]) {
        let live = std::mem::take(&mut self.left.live).into_iter();
        let all = live.chain(std::mem::take(&mut self.left.unused));
        self.left.retired.extend(all.map(Segment::into_file));
        (self.tail, self.cuts) = (Vec::new(), Vec::new());
        for (state, below) in self.states.iter_mut().zip(below) {
            // One that was never written knows less than what lies below.
            let own = if self.is_begun { *state } else { *below };
            let last = own.last.max(below.ceiling);
            let ceiling = Version::from_raw(last.raw() + CEILING_STEP);
            *state = SliceState { last, ceiling, barrier: own.barrier.max(below.barrier), ..own };
        }
    }
}
