//! The tier of a cell in a ring: what it may write back, and what its copies are to hear of that.

use crate::floors::Floors;
use crate::led::Led;
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use base::{SliceId, SliceRange, Version};
use effects::{Lanes, Level};
use std::sync::{Arc, OnceLock};

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

/// Slices that this cell leads.
struct Range {
    slices: SliceRange,
    level: Level,
    /// The number of the last time that they were to be led below, and that of the last time as of
    /// which they are. No number is used twice, also where they were left in between.
    wanted: u64,
    led: u64,
}

/// Slices that this cell copies, of which everything of earlier epochs is below.
struct Below {
    slices: SliceRange,
    epoch: u32,
    /// The logs of what is copied had ended here when that was said.
    ends: Vec<u64>,
}

/// Says whether the leases of a level last still.
type Lease = Box<dyn Fn(Level) -> bool + Send + Sync>;

/// What the tier of a cell in a ring has besides.
pub(crate) struct InRing {
    /// The logs of what this cell leads, and of what it copies.
    lanes: Arc<Lanes>,
    pub(crate) copied: Arc<Lanes>,
    led: Led,
    pub(crate) floors: Floors,
    /// Without a lease nothing is written or taken over below.
    lease: OnceLock<Lease>,
    /// What was written back, and the copies do not know yet. Each round of the flusher is taken
    /// before the next begins, so it bounds this.
    written_back: Mutex<Vec<WrittenBack>>,
    /// What primaries have said last, each of its slices.
    below: Mutex<Vec<Below>>,
    /// What this cell leads: a few ranges.
    ranges: Mutex<Vec<Range>>,
    /// How often any was to be led below.
    wanted: AtomicU64,
}

impl InRing {
    pub(crate) fn new(lanes: Arc<Lanes>, copied: Arc<Lanes>, floors: Floors) -> Self {
        Self {
            lanes,
            copied,
            led: Led::new(),
            floors,
            lease: OnceLock::new(),
            written_back: Mutex::new(Vec::new()),
            below: Mutex::new(Vec::new()),
            ranges: Mutex::new(Vec::new()),
            wanted: AtomicU64::new(0),
        }
    }

    /// Sets what says whether a lease lasts. The first call counts.
    pub(crate) fn set_lease(&self, lease: Lease) {
        let _ = self.lease.set(lease);
    }

    fn has_lease(&self, level: Level) -> bool {
        self.lease.get().is_some_and(|lease| lease(level))
    }

    /// Whether this cell leads the slice, with a lease or without.
    pub(crate) fn leads(&self, slice: SliceId) -> bool {
        self.led.level(slice).is_some()
    }

    /// Whether this cell leads the slice, under a lease, and its level has passed the version.
    pub(crate) fn may_write_back(&self, slice: SliceId, version: Version) -> bool {
        self.led.level(slice).is_some_and(|level| {
            self.has_lease(level) && self.lanes.wait_for(level, slice, Some(version)).is_none()
        })
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

    /// Everything of `slices` of epochs before `epoch` is below, or was changed since.
    pub(crate) fn are_below(&self, slices: SliceRange, epoch: u32) {
        let ends = self.copied.logs().map(|(_, log)| log.end()).collect();
        let mut below = lock(&self.below);
        below.retain(|it| it.slices != slices);
        below.push(Below { slices, epoch, ends });
    }

    /// What was said so, as far as everything that had come by then `is_written`.
    pub(crate) fn take_below(&self, is_written: impl Fn(&[u64]) -> bool) -> Vec<(SliceRange, u32)> {
        let mut below = lock(&self.below);
        let taken = below.extract_if(.., |it| is_written(&it.ends));
        taken.map(|it| (it.slices, it.epoch)).collect()
    }

    /// Leads `slices` from now on, at this level; below as soon as the flusher comes to it.
    pub(crate) fn lead(&self, slices: SliceRange, level: Level) {
        let mut ranges = lock(&self.ranges);
        ranges.retain(|range| !range.slices.overlaps(slices));
        ranges.push(Range { slices, level, wanted: self.next_wanted(), led: 0 });
        self.led.set(slices, Some(level));
    }

    /// This cell does not lead `slices` from now on.
    pub(crate) fn leave(&self, slices: SliceRange) {
        lock(&self.ranges).retain(|range| !range.slices.overlaps(slices));
        self.led.set(slices, None);
    }

    /// Another cell may have led below what this one leads: all is led once more.
    pub(crate) fn lead_again(&self) {
        let mut ranges = lock(&self.ranges);
        let done = ranges.iter_mut().filter(|range| range.led == range.wanted);
        done.for_each(|range| range.wanted = self.next_wanted());
    }

    fn next_wanted(&self) -> u64 {
        self.wanted.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What is to be led below, under a lease: the slices, and a number for
    /// [`InRing::leads_below`].
    pub(crate) fn to_lead(&self) -> Vec<(SliceRange, u64)> {
        let ranges = lock(&self.ranges);
        let open = ranges.iter().filter(|it| it.led < it.wanted && self.has_lease(it.level));
        open.map(|range| (range.slices, range.wanted)).collect()
    }

    /// `slices` are led below, as was wanted with this number. False if that is not wanted any
    /// more, or the lease has ended meanwhile: another cell may lead them.
    pub(crate) fn leads_below(&self, slices: SliceRange, number: u64) -> bool {
        let mut ranges = lock(&self.ranges);
        let Some(range) = ranges.iter_mut().find(|range| range.slices == slices) else {
            return false;
        };
        if range.wanted != number || !self.has_lease(range.level) {
            return false;
        }
        range.led = number;
        true
    }
}
