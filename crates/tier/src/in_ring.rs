//! The tier of a cell in a ring: what it may write back, and what its copies are to hear of that.

use crate::floors::Floors;
use crate::led::Led;
use crate::sync::{Mutex, lock};
use base::{SliceId, SliceRange, Version};
use effects::{Lanes, Level};
use std::sync::Arc;

/// What a key had when it was written back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenBack {
    /// Its slice.
    pub slice: SliceId,
    /// The key.
    pub key: Box<[u8]>,
    /// The version of its last change that is below.
    pub version: Version,
}

/// What the tier of a cell in a ring has besides.
pub(crate) struct InRing {
    /// The logs of what this cell leads, and of what it copies.
    lanes: Arc<Lanes>,
    pub(crate) copied: Arc<Lanes>,
    led: Led,
    pub(crate) floors: Floors,
    /// What was written back, and the copies do not know yet. Each round of the flusher is taken
    /// before the next begins, so it bounds this.
    written_back: Mutex<Vec<WrittenBack>>,
    /// Slices that are to be led below before anything of them is read or written there.
    to_lead: Mutex<Vec<SliceRange>>,
}

impl InRing {
    pub(crate) fn new(lanes: Arc<Lanes>, copied: Arc<Lanes>, floors: Floors) -> Self {
        Self {
            lanes,
            copied,
            led: Led::new(),
            floors,
            written_back: Mutex::new(Vec::new()),
            to_lead: Mutex::new(Vec::new()),
        }
    }

    /// Whether this cell leads the slice, and its level has passed the version.
    pub(crate) fn may_write_back(&self, slice: SliceId, version: Version) -> bool {
        let level = self.led.level(slice);
        level.is_some_and(|level| self.lanes.wait_for(level, slice, Some(version)).is_none())
    }

    /// Notes what was written back, for the copies.
    pub(crate) fn written_back<'a>(
        &self,
        keys: impl Iterator<Item = (SliceId, &'a [u8], Version)>,
    ) {
        let note = |(slice, key, version): (SliceId, &[u8], Version)| WrittenBack {
            slice,
            key: key.into(),
            version,
        };
        lock(&self.written_back).extend(keys.map(note));
    }

    /// What was written back since this was asked last.
    pub(crate) fn take_written_back(&self) -> Vec<WrittenBack> {
        std::mem::take(&mut lock(&self.written_back))
    }

    /// Leads `slices` from now on, at this level; below as soon as the flusher comes to it.
    pub(crate) fn lead(&self, slices: SliceRange, level: Level) {
        let mut to_lead = lock(&self.to_lead);
        if !to_lead.contains(&slices) {
            to_lead.push(slices);
        }
        self.led.set(slices, Some(level));
    }

    /// Is nothing to `slices` any more.
    pub(crate) fn leave(&self, slices: SliceRange) {
        let mut to_lead = lock(&self.to_lead);
        to_lead.retain(|it| *it != slices);
        self.led.set(slices, None);
    }

    /// The next slices that are to be led below; they stay so until [`InRing::leads_below`].
    pub(crate) fn next_to_lead(&self) -> Option<SliceRange> {
        lock(&self.to_lead).first().copied()
    }

    /// `slices` are led below. Returns whether they are still wanted.
    pub(crate) fn leads_below(&self, slices: SliceRange) -> bool {
        let mut to_lead = lock(&self.to_lead);
        let before = to_lead.len();
        to_lead.retain(|it| *it != slices);
        to_lead.len() < before
    }
}
