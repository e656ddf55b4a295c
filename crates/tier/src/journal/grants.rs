//! How much room the journal grants to a log, and how much of it may be promised.
//!
//! ```text
//! segments that are made   [ reserve | kept | promised | granted, the same to each log ]
//! a log has                | written | not written: the rest of its open segment, what is promised
//!                                      of it, and its share of those
//! ```
//!
//! What is in a log must be written, whatever the disk has space for: nothing counts as written
//! back before what the logs had then is durable. So room is granted for segments that are files of
//! their full length, and more are made as soon as one is taken. An entry may be longer than the
//! rest of what is granted, so a lane may need one more segment than its share. The reserve has
//! that, where the disk has no space.
//!
//! A cell of a ring promises room to the primaries of what it copies, who emit no more. What is
//! promised is set aside: no other log gets it, however much the others write. The more is
//! promised, the more segments are made ahead.

use super::lane::{CHECKPOINT_BYTES_MAX, Shared};
use super::logged::Lane;
use super::pace::{Seen, UNPACED};
use super::segments::SegmentsConfig;
use crate::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that an entry is charged in a log at least: what is granted to a log in bytes is at most
/// as many entries.
const CHARGE_MIN: u64 = 30;

/// Most bytes of a record for each byte that its entry is charged in its log, where a batch has one
/// short record.
const BYTES_PER_CHARGE: u64 = 4;

/// So much is set aside for each byte that is promised: a log here may charge an entry more than
/// that of its primary, and one entry may come beyond what was promised.
const ASIDE_PER_PROMISED: u64 = 2;

/// Room is granted again once this part of it is used.
const PARTS: u64 = 8;

/// Segments that are granted to no log of a cell in a ring, for each: what is promised begins
/// another segment, and barriers and ceilings take no room.
pub(super) const KEPT_PER_LANE: usize = 2;

/// What room is granted of, and to whom.
pub(super) struct Grants<'a> {
    pub(super) shared: &'a Shared,
    pub(super) lanes: &'a [Lane],
    /// Up to how many bytes of what this cell leads may be written in all.
    pub(super) paced: &'a AtomicU64,
    /// Whether nothing is written any more.
    pub(super) has_failed: bool,
}

impl Grants<'_> {
    /// Grants all logs room.
    pub(super) fn grant_all(&self) {
        for lane in self.lanes {
            let mut granted = lock(&lane.granted);
            let bytes = granted.0;
            self.grant(lane, bytes, &mut granted);
        }
    }

    /// Grants a log room again once a part of what was granted is used, when `bytes` are written.
    pub(super) fn grant_if_due(&self, lane: &Lane, bytes: u64) {
        let mut granted = lock(&lane.granted);
        let (before, room) = *granted;
        if (bytes - before) * PARTS > room {
            self.grant(lane, bytes, &mut granted);
        }
    }

    /// Grants room for what comes after what is written now, as much as the journal and the index
    /// have. `granted` is locked meanwhile: of two calls, the later one knows of what was taken
    /// before.
    fn grant(&self, lane: &Lane, bytes: u64, granted: &mut (u64, u64)) {
        let written = lane.written.load(Ordering::Acquire);
        let rest = lane.rest.load(Ordering::Acquire);
        let room = match self.has_failed {
            true => 0,
            false => self.left().room(lane.promised(), rest.into()).min(self.paced_room(lane)),
        };
        if lane.log.grant_after(lane.reader, written, room).is_some() {
            *granted = (bytes, room);
        }
    }

    /// What the pace leaves. Where several logs use it up at once, they wait the longer.
    fn paced_room(&self, lane: &Lane) -> u64 {
        match lane.is_copied {
            true => UNPACED,
            false => self.paced.load(Ordering::Acquire).saturating_sub(self.written()),
        }
    }

    /// Bytes of records of what this cell leads that were written since the journal began.
    fn written(&self) -> u64 {
        self.led().map(|lane| lane.journaled.load(Ordering::Relaxed)).sum()
    }

    /// What the pace goes by. A segment has no records where the checkpoint of its lane is, and may
    /// have none where the longest batch would be.
    pub(super) fn seen(&self) -> Seen {
        let segments = &self.shared.segments;
        let SegmentsConfig { bytes, batch, .. } = *segments.config();
        let besides = (CHECKPOINT_BYTES_MAX / self.led().count().max(1)) as u64 + u64::from(batch);
        let left = segments.left() as u64;
        Seen {
            freed: segments.freed(),
            left,
            whole: left + segments.live() as u64,
            segment: u64::from(bytes).saturating_sub(besides).max(1),
            written: self.written(),
        }
    }

    /// The lanes of what this cell leads.
    fn led(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter().filter(|lane| !lane.is_copied)
    }

    /// What is left to be granted.
    fn left(&self) -> Left {
        let Shared { segments, index, .. } = self.shared;
        let SegmentsConfig { batch, kept, .. } = *segments.config();
        let not_granted = kept as u64 + self.set_aside();
        Left {
            segments: (segments.available() as u64).saturating_sub(not_granted),
            usable: self.usable(),
            batch: batch.into(),
            entries: index.capacity().saturating_sub(index.len()),
            lanes: self.lanes.len() as u64,
        }
    }

    /// The segments that are set aside for what is promised.
    fn set_aside(&self) -> u64 {
        let usable = self.usable();
        self.lanes.iter().map(|lane| segments_for(lane.promised(), usable)).sum()
    }

    /// Bytes that a segment holds at least: its end may stay empty where a batch is longer.
    fn usable(&self) -> u64 {
        let SegmentsConfig { bytes, batch, .. } = *self.shared.segments.config();
        u64::from(bytes).saturating_sub(CHECKPOINT_BYTES_MAX as u64 + u64::from(batch)).max(1)
    }

    /// How many segments are to be ready: besides those that any journal has, what is kept and what
    /// is set aside.
    pub(super) fn ready(&self) -> usize {
        let SegmentsConfig { ready, kept, count_max, .. } = *self.shared.segments.config();
        ready + kept + (self.set_aside() as usize).min(count_max)
    }

    /// Whether more are to be made than there are, and may be.
    pub(super) fn lacks_segments(&self) -> bool {
        let segments = &self.shared.segments;
        let (available, reserve) = (segments.available(), segments.config().reserve);
        available + reserve < self.ready() && available < segments.left()
    }
}

/// The segments that are set aside where so much is promised, each with `usable` bytes.
fn segments_for(promised: u64, usable: u64) -> u64 {
    (promised * ASIDE_PER_PROMISED * BYTES_PER_CHARGE).div_ceil(usable)
}

/// How much more may be promised of a log that has `left` so much room, of which so much is
/// promised, to one that has `held` some of that: a `part`-th of all at most.
pub(super) fn may_promise(left: u64, promised: u64, (held, part): (u64, u64)) -> u64 {
    let all = left / ASIDE_PER_PROMISED;
    all.saturating_sub(promised).min((all / part.max(1)).saturating_sub(held))
}

/// What is left to be granted to all logs besides what is promised.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// Segments that are made and may be taken.
    segments: u64,
    /// Bytes that each holds at least.
    usable: u64,
    /// Bytes of the longest batch, for which an open segment may have no place.
    batch: u64,
    /// Entries that the index has place for.
    entries: u64,
    /// How many logs there are.
    lanes: u64,
}

impl Left {
    /// The room of a log of which so much is promised, and whose open segment has this `rest`, in
    /// bytes.
    fn room(&self, promised: u64, rest: u64) -> u64 {
        let bytes = self.segments * self.usable / self.lanes + rest.saturating_sub(self.batch);
        let of_index = self.entries * CHARGE_MIN / self.lanes;
        promised * ASIDE_PER_PROMISED + (bytes / BYTES_PER_CHARGE).min(of_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USABLE: u64 = 640 << 10;

    fn left(segments: u64) -> Left {
        Left { segments, usable: USABLE, batch: 256 << 10, entries: u64::MAX / 64, lanes: 2 }
    }

    #[test]
    fn what_is_promised_is_set_aside_whatever_the_other_logs_take() {
        let room = left(8).room(0, 0);
        assert_eq!(room, USABLE);
        let promised = may_promise(room, 0, (0, 1));
        assert_eq!(promised, room / 2);
        assert_eq!(may_promise(room, promised, (0, 1)), 0, "all of it is");
        // The other log has taken all that was left.
        assert_eq!(left(0).room(promised, 0), room);
        // What is set aside is as much as may come of it.
        assert!(segments_for(promised, USABLE) * USABLE >= room * BYTES_PER_CHARGE);
        assert_eq!(segments_for(0, USABLE), 0);
        assert_eq!(Left { entries: 10, ..left(8) }.room(0, 0), 150, "the index is nearly full");
    }

    #[test]
    fn the_rest_of_an_open_segment_counts_as_far_as_any_batch_has_place() {
        assert_eq!(left(0).room(0, 256 << 10), 0);
        assert_eq!(left(0).room(0, 512 << 10), (256 << 10) / BYTES_PER_CHARGE);
        assert_eq!(left(8).room(0, 512 << 10), USABLE + (256 << 10) / BYTES_PER_CHARGE);
    }

    #[test]
    fn each_of_several_gets_its_part_and_no_more() {
        assert_eq!(may_promise(8_000, 0, (0, 4)), 1_000);
        assert_eq!(may_promise(8_000, 1_000, (600, 4)), 400);
        assert_eq!(may_promise(8_000, 3_900, (0, 4)), 100, "the others hold more than their parts");
        assert_eq!(may_promise(8_000, 5_000, (1_200, 4)), 0);
    }
}
