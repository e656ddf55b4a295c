//! A stream from a primary: applies what stands in it, in order, each entry once.

use super::cell::RingCell;
use super::origin::Origin;
use super::outcome::Outcome;
use super::room::{Promise, Promised};
use super::slice_state;
use super::tag::{Asker, RequestTag};
use super::tag_state::{self, KIND as TAGS_KIND, NOTHING_KIND};
use super::tags::AskedBy;
use crate::fence;
use crate::worker::Worker;
use base::{Change, Effect, Now, SLICES, SliceId, Version};
use effects::{Entry, Made, Records};
use engine::{Applied, KEY_BYTES_MAX};
use ring::CellId;
use std::sync::Arc;

/// How long a change may wait for memory that was promised to it, or that was not.
const FULL_NS: u64 = 1_000_000_000;

/// Entries that are looked at together before the first of them is applied.
const AHEAD: usize = 16;

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
    /// All are applied, up to this position. More may come.
    All(u64, Promised),
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
    /// How many lanes its primary has.
    pub(crate) lanes: u8,
    pub(crate) origin: Arc<Origin>,
    /// What its primary may still emit.
    pub(crate) promise: Promise,
    /// Since when a change waits for memory.
    pub(crate) full_since_ns: Option<u64>,
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
        &mut self,
        entries: &Entries<'_>,
        ring: &RingCell,
        worker: &mut Worker,
        now: Now,
    ) -> Taken {
        if ring.version() < entries.map_version {
            return Taken::Later;
        }
        let origin = self.origin.clone();
        let Some(mut applied) = origin.lock(self.lane) else {
            return Taken::Refused(Reason::OldLog);
        };
        let Some(last) = *applied else { return Taken::Refused(Reason::Malformed) };
        if entries.first > last + 1 {
            return Taken::Refused(Reason::Malformed);
        }
        let mut ahead = Records::new(entries.first, entries.records);
        let mut asked_by = None;
        for (at, record) in Records::new(entries.first, entries.records).enumerate() {
            if at % AHEAD == 0 {
                look_ahead(&mut ahead, worker);
            }
            let Ok(record) = record else { return Taken::Refused(Reason::Malformed) };
            // What was applied before the link broke comes again.
            if Some(record.position) <= *applied {
                continue;
            }
            let by = (worker as &mut _, &mut asked_by);
            match self.apply(&record.entry, (ring, entries.map_version), by, now) {
                Ok(()) => *applied = Some(record.position),
                Err(None) => return Taken::Later,
                Err(Some(Reason::NoSpace)) if !self.is_full_for_long(now) => return Taken::Later,
                Err(Some(reason)) => return Taken::Refused(reason),
            }
            self.full_since_ns = None;
        }
        let end = entries.first + u64::from(entries.count) - 1;
        match *applied {
            Some(last) if last >= end => {
                self.promise.take(entries.records.len() as u64);
                Taken::All(last, self.promise.renew())
            }
            _ => Taken::Refused(Reason::Malformed),
        }
    }

    /// Whether a change has waited for memory for [`FULL_NS`].
    fn is_full_for_long(&mut self, now: Now) -> bool {
        let since_ns = *self.full_since_ns.get_or_insert(now.mono_ns);
        now.mono_ns.saturating_sub(since_ns) >= FULL_NS
    }

    /// Applies one entry. `Err(None)`: it is to be tried again.
    fn apply(
        &self,
        entry: &Entry<'_>,
        (ring, map_version): (&RingCell, u64),
        (worker, last_asker): (&mut Worker, &mut Option<(Asker, Arc<AskedBy>)>),
        now: Now,
    ) -> Result<(), Option<Reason>> {
        let accepts = |slice: &SliceId, version: Option<Version>| {
            ring.origins.accepts(*slice, (self.cell, map_version), version)
        };
        let check = |slice: SliceId, version| {
            accepts(&slice, version).then_some(()).ok_or(Some(Reason::NotFollowing))
        };
        match *entry {
            Entry::Change { slice, version, effect, tag } => {
                check(slice, Some(version))?;
                self.promise.sees(effect.change.value_bytes());
                apply(worker, slice, &effect, version, now)?;
                if let Some(tag) = tag {
                    let tag = RequestTag::decode(tag);
                    let made = Outcome::Made(Made::of(&effect, version));
                    // Neighbours are nearly always of one asker.
                    let last = last_asker.take_if(|(asker, _)| *asker == tag.asker);
                    let (_, asked_by) = last_asker
                        .insert(last.unwrap_or_else(|| (tag.asker, ring.tags.asked_by(tag.asker))));
                    ring.tags.copies_by(asked_by, &tag, (slice, made));
                }
                Ok(())
            }
            Entry::Item { slice, version, key, value, facts, .. } => {
                check(slice, None)?;
                self.promise.sees(value.bytes());
                let effect = Effect { key, change: Change::Put(value, facts) };
                apply(worker, slice, &effect, version, now)
            }
            Entry::Barrier(slices, number) => {
                // What is in another lane of the primary has a barrier of its own there. That cell
                // may have more lanes than this one, or fewer.
                let engine = worker.engine().0;
                let lane = |slice: &SliceId| slice.index() * usize::from(self.lanes) / SLICES;
                let of_lane = |slice: &SliceId| lane(slice) == usize::from(self.lane);
                // A delayed flush is carried out once in each slice.
                let lacks = |slice: &SliceId| number == 0 || ring.flushed.of(*slice) < number;
                for slice in slices.iter().filter(of_lane) {
                    // To acknowledge it says that what was stored before it is gone here, too.
                    check(slice, None)?;
                    if !lacks(&slice) {
                        continue;
                    }
                    engine.barrier(slice, engine.last_version(slice));
                    if number != 0 {
                        ring.flushed.set(slice, number);
                    }
                }
                Ok(())
            }
            Entry::Other { kind: slice_state::KIND, bytes, .. } => {
                let engine = worker.engine().0;
                for state in slice_state::decode(bytes).ok_or(Some(Reason::Malformed))? {
                    if accepts(&state.slice, None) {
                        engine.advance(state.slice, state.last);
                        engine.barrier(state.slice, state.barrier);
                        ring.flushed.set(state.slice, state.flushed);
                    }
                }
                Ok(())
            }
            // To acknowledge it says that this cell follows that primary in that epoch.
            Entry::Other { kind: fence::KIND, bytes, .. } => {
                let (slice, epoch) = fence::decode(bytes).ok_or(Some(Reason::Malformed))?;
                check(slice, Some(Version::new(epoch, 0)))
            }
            // A reply waits for it, which says that the request has made nothing.
            Entry::Other { kind: NOTHING_KIND, bytes, .. } => {
                let nothing = tag_state::decode_nothing(bytes).ok_or(Some(Reason::Malformed))?;
                let (tag, slice) = nothing;
                check(slice, None)?;
                ring.tags.copies(&tag, (slice, Outcome::Nothing(tag.again)));
                Ok(())
            }
            Entry::Other { kind: TAGS_KIND, bytes, .. } => {
                let state = tag_state::decode(bytes).ok_or(Some(Reason::Malformed))?;
                ring.tags.learn(state, |slice| accepts(slice, None));
                Ok(())
            }
            Entry::Other { .. } | Entry::Skipped => Ok(()),
        }
    }
}

/// Lets the processor fetch what the next of `records` are about.
fn look_ahead(records: &mut Records<'_>, worker: &mut Worker) {
    let engine = worker.engine().0;
    let keys = (0..AHEAD).map_while(|_| records.next_key());
    let keys = keys.filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    engine.prefetch(keys.map(|key| engine.key(key)));
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

#[cfg(test)]
#[path = "stream_in_test.rs"]
mod tests;
