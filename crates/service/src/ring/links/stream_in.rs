//! A stream from a primary: applies what stands in it, in order, each entry once.

use super::acks::Acks;
use crate::fence;
use crate::ring::cell::{AHEAD, RingCell};
use crate::ring::copies::{
    ENTRY_KIND, Lane, OldEntry, Origin, Promised, REACH_KIND, StreamPromise, WRITTEN_BACK_KIND,
};
use crate::ring::copies::{settled, slice_state};
use crate::ring::reason::Reason;
use crate::ring::retries::outcome::Outcome;
use crate::ring::retries::{AskedBy, Asker, RequestTag, tag_state};
use crate::worker::Worker;
use base::{Change, Effect, Now, SLICES, SliceId, SliceRange, Version};
use effects::{Entry, Made, Records};
use engine::Applied;
use ring::CellId;
use std::sync::Arc;
use tier::encode_copied;

/// What has not changed is said again after this time.
const SAID_NS: u64 = 100_000_000;
/// How long a change may wait for memory, promised or not.
const FULL_NS: u64 = 1_000_000_000;

/// Slices whose states are journaled in one entry, at most: an entry of the shortest log.
const STATES_AT_ONCE: usize = 128;

/// What came of the entries of a frame.
pub(crate) enum Taken {
    /// All are applied, up to this position. More may come.
    All(u64, Promised),
    /// They are to be given again later: the map is older than that of the primary, or the engine
    /// is busy.
    Later,
    /// The stream was opened again by another connection.
    Over,
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
    /// What its primary was promised last while it sent nothing, after which position, and when.
    pub(crate) said: Option<((u64, Promised), u64)>,
    /// What its primary may still emit.
    pub(crate) promise: Arc<StreamPromise>,
    /// Since when a change waits for memory.
    pub(crate) full_since_ns: Option<u64>,
    /// Above a tier: what is applied and not acknowledged.
    pub(crate) acks: Acks,
    /// What was charged in the logs of what is copied, and is not taken of what was promised.
    pub(crate) journaled: u64,
}

/// The entries of a frame.
pub(crate) struct Entries<'a> {
    pub(crate) map_version: u64,
    /// Up to where all other copies have applied the lane.
    pub(crate) others_have: u64,
    pub(crate) first: u64,
    pub(crate) count: u32,
    pub(crate) records: &'a [u8],
}

impl StreamIn {
    /// The stream of `lane` of a cell that has `lanes` of them. An earlier one is void.
    pub(crate) fn new(
        (cell, lane, lanes): (CellId, u8, u8),
        origin: Arc<Origin>,
        ring: &RingCell,
    ) -> Self {
        let promise = ring.room.stream(slices_of(lane, lanes), lanes);
        origin.promises(lane, &promise);
        let (said, full_since_ns, acks) = (None, None, Acks::default());
        let journaled = 0;
        Self { cell, lane, lanes, origin, said, promise, full_since_ns, acks, journaled }
    }

    /// Whether its primary is to hear of `what` is promised after a position: it has not been said,
    /// or was said [`SAID_NS`] ago.
    pub(crate) fn says(&mut self, what: (u64, Promised), now_ns: u64) -> bool {
        let is_known = self.said.is_some_and(|(said, at)| said == what && now_ns < at + SAID_NS);
        if !is_known {
            self.said = Some((what, now_ns));
        }
        !is_known
    }

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
        let Some(mut of_lane) = origin.lock(self.lane) else {
            return Taken::Refused(Reason::OldLog);
        };
        let Lane { applied, kept, unsettled, .. } = &mut *of_lane;
        let Some(last) = *applied else { return Taken::Refused(Reason::Malformed) };
        if entries.first > last + 1 {
            return Taken::Refused(Reason::Malformed);
        }
        let end = entries.first + u64::from(entries.count) - 1;
        match entries.count {
            0 => kept.others_have(entries.others_have),
            _ => kept.take((entries.first, end), entries.records, entries.others_have),
        }
        if end > entries.others_have {
            unsettled.set(true);
        }
        let map_version = entries.map_version;
        worker.journaled = 0;
        let states_done = std::mem::take(&mut self.acks.states_done);
        let mut with = With { ring, map_version, worker, now, asked_by: None, states_done };
        let mut ahead = Records::new(entries.first, entries.records);
        for (at, record) in Records::new(entries.first, entries.records).enumerate() {
            if at % AHEAD == 0 {
                look_ahead(&mut ahead, ring);
            }
            let Ok(record) = record else { return Taken::Refused(Reason::Malformed) };
            // What was applied before the link broke comes again.
            if Some(record.position) <= *applied {
                continue;
            }
            let taken = self.apply(&record.entry, &mut with);
            self.journaled += std::mem::take(&mut with.worker.journaled);
            match taken {
                Ok(()) => *applied = Some(record.position),
                Err(None) => {
                    self.acks.states_done = with.states_done;
                    return Taken::Later;
                }
                Err(Some(Reason::NoSpace)) if !self.is_full_for_long(now) => return Taken::Later,
                Err(Some(reason)) => return Taken::Refused(reason),
            }
            self.full_since_ns = None;
            with.states_done = 0;
        }
        match *applied {
            Some(last) if last >= end => {
                unsettled.set(last > entries.others_have);
                let journaled = std::mem::take(&mut self.journaled);
                let bytes = entries.records.len() as u64;
                let promised = self.promise.take(bytes, journaled, now.mono_ns);
                promised.map_or(Taken::Over, |promised| Taken::All(last, promised))
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
    fn apply(&self, entry: &Entry<'_>, with: &mut With<'_>) -> Result<(), Option<Reason>> {
        match *entry {
            Entry::Change { slice, version, effect, tag } => {
                self.check(slice, Some(version), with)?;
                with.ring.room.sees(effect.change.value_bytes());
                let tag = tag_of(tag)?;
                copy(with, slice, &effect, version)?;
                if let Some(tag) = tag {
                    with.keep_tag(&tag, (slice, Made::of(&effect, version)));
                }
                Ok(())
            }
            Entry::Item { slice, version, key, value, facts, .. } => {
                self.check(slice, None, with)?;
                with.ring.room.sees(value.bytes());
                let effect = Effect { key, change: Change::Put(value, facts) };
                apply(with, slice, &effect, version)
            }
            Entry::Barrier(slices, number) => {
                let (ring, map_version) = (with.ring, with.map_version);
                let follows = |slice: SliceId| {
                    let is_ours = ring.origins.accepts(slice, (self.cell, map_version), None);
                    is_ours.then_some(()).ok_or_else(|| self.unaccepted(slice, ring))
                };
                end_items((slices, number), (self.lane, self.lanes), follows, with)
            }
            Entry::Other { kind, bytes, .. } => self.apply_other(kind, bytes, with),
            Entry::Skipped => Ok(()),
        }
    }

    /// Whether this cell copies `slice` from the primary of this stream, in this version.
    fn accepts(&self, slice: SliceId, version: Option<Version>, with: &With<'_>) -> bool {
        with.ring.origins.accepts(slice, (self.cell, with.map_version), version)
    }

    /// The same, for what replies wait for: to acknowledge it says that it is applied.
    fn check(
        &self,
        slice: SliceId,
        version: Option<Version>,
        with: &With<'_>,
    ) -> Result<(), Option<Reason>> {
        self.accepts(slice, version, with)
            .then_some(())
            .ok_or_else(|| self.unaccepted(slice, with.ring))
    }

    /// Why a change of `slice` is not accepted; `None`: it is soon.
    fn unaccepted(&self, slice: SliceId, ring: &RingCell) -> Option<Reason> {
        (!ring.origins.awaits(slice, self.cell)).then_some(Reason::NotFollowing)
    }

    /// Applies an entry of the log of a primary that is over, which another copy of it has sent.
    fn apply_old(&self, old: &OldEntry<'_>, with: &mut With<'_>) -> Result<(), Option<Reason>> {
        match old.entry {
            Entry::Change { slice, version, effect, tag } if old.slices.contains(slice) => {
                let tag = tag_of(tag)?;
                copy(with, slice, &effect, version)?;
                if let Some(tag) = tag {
                    with.keep_tag(&tag, (slice, Made::of(&effect, version)));
                }
                Ok(())
            }
            Entry::Barrier(slices, number) => {
                let is_of = |slice: SliceId| old.slices.contains(slice);
                let follows = |slice| is_of(slice).then_some(()).ok_or(Some(Reason::Malformed));
                end_items((slices, number), (old.lane, old.lanes), follows, with)
            }
            Entry::Other { kind: tag_state::NOTHING_KIND, bytes, .. } => {
                let nothing = tag_state::decode_nothing(bytes);
                let (tag, slice) = nothing.ok_or(Some(Reason::Malformed))?;
                with.ring.tags.copies(&tag, (slice, Outcome::Nothing(tag.again)));
                Ok(())
            }
            _ => Err(Some(Reason::Malformed)),
        }
    }

    /// Applies what changes no item.
    fn apply_other(
        &self,
        kind: u8,
        bytes: &[u8],
        with: &mut With<'_>,
    ) -> Result<(), Option<Reason>> {
        let (engine, malformed) = (with.ring.cell.engine(), Some(Reason::Malformed));
        match kind {
            slice_state::KIND => {
                let mut learned = Vec::new();
                for state in slice_state::decode(bytes).ok_or(malformed)? {
                    if self.accepts(state.slice, None, with) {
                        engine.advance(state.slice, state.last);
                        engine.barrier(state.slice, state.barrier);
                        with.ring.flushed.set(state.slice, state.flushed);
                        learned.push(state.slice);
                    }
                }
                with.journal_states(&learned)?;
            }
            settled::KIND => {
                let (slices, epoch) = settled::decode(bytes).ok_or(malformed)?;
                // What is in another lane may not have come.
                let (of, own) = (slices.numbers(), slices_of(self.lane, self.lanes).numbers());
                let of_lane = of.start.max(own.start)..of.end.min(own.end);
                let first = SliceId::new(of_lane.start).filter(|_| !of_lane.is_empty());
                if let (Some(below), Some(first)) = (with.ring.below(), first)
                    && self.accepts(first, None, with)
                {
                    below.are_below(SliceRange::new(of_lane), epoch);
                }
            }
            WRITTEN_BACK_KIND => with.journal(tier::WRITTEN_BACK, bytes)?,
            fence::KIND => {
                let (slice, epoch) = fence::decode(bytes).ok_or(malformed)?;
                self.check(slice, Some(Version::new(epoch, 0)), with)?;
            }
            tag_state::NOTHING_KIND => {
                let (tag, slice) = tag_state::decode_nothing(bytes).ok_or(malformed)?;
                self.check(slice, None, with)?;
                with.ring.tags.copies(&tag, (slice, Outcome::Nothing(tag.again)));
            }
            tag_state::KIND => {
                let state = tag_state::decode(bytes).ok_or(malformed)?;
                let (map, me) = (with.ring.map(), with.ring.identity.cell);
                // A copy in sync gets each with its change, which may still be in another lane.
                let learns = |slice: SliceId| {
                    map.range_of(slice).is_some_and(|range| range.learner == Some(me))
                };
                let accepts = |slice: &SliceId| learns(*slice) && self.accepts(*slice, None, with);
                with.ring.tags.learn(state, accepts);
            }
            REACH_KIND | ENTRY_KIND => {
                let (ring, from) = (with.ring, self.cell);
                let between = (ring.identity.cell, from);
                let apply = |old: &OldEntry<'_>| self.apply_old(old, with);
                if let Some(slices) = ring.exchanges.take(between, (kind, bytes), apply)? {
                    // What follows is of the new primary, whose counters have risen.
                    ring.jumps.note(slices);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// The slices that a cell with this number of `lanes` has in `lane`.
fn slices_of(lane: u8, lanes: u8) -> SliceRange {
    let first = |lane: u8| (usize::from(lane) * SLICES).div_ceil(usize::from(lanes.max(1)));
    SliceRange::new(first(lane).min(SLICES)..first(lane.saturating_add(1)).min(SLICES))
}

/// Ends the items of those of `slices` that are in `lane` of `lanes` of the primary: what is in
/// another lane has a barrier of its own there. That cell may have more lanes than this one, or
/// fewer.
fn end_items(
    (slices, number): (SliceRange, u32),
    (lane, lanes): (u8, u8),
    follows: impl Fn(SliceId) -> Result<(), Option<Reason>>,
    with: &mut With<'_>,
) -> Result<(), Option<Reason>> {
    let (engine, flushed) = (with.ring.cell.engine(), &with.ring.flushed);
    let own = slices_of(lane, lanes);
    let of_lane: Vec<_> = slices.iter().filter(|slice| own.contains(*slice)).collect();
    for slice in of_lane.iter().copied() {
        follows(slice)?;
        // A delayed flush is carried out once in each slice.
        if number != 0 && flushed.of(slice) >= number {
            continue;
        }
        engine.barrier(slice, engine.last_version(slice));
        if number != 0 {
            flushed.set(slice, number);
        }
    }
    with.journal_states(&of_lane)
}

/// What the entries of one frame are applied with.
struct With<'a> {
    ring: &'a RingCell,
    /// The map that the primary goes by.
    map_version: u64,
    worker: &'a mut Worker,
    now: Now,
    /// Whose request was applied last: neighbours are nearly always of one asker.
    asked_by: Option<(Asker, Arc<AskedBy>)>,
    /// Parts of the states that the present entry shows which the journal has.
    states_done: usize,
}

impl With<'_> {
    /// Has the journal know what no record shows of slices, which come in their order: their
    /// barriers, and their delayed flushes. Where a log has no room for all parts of that at once,
    /// it goes on behind those that it has taken.
    fn journal_states(&mut self, slices: &[SliceId]) -> Result<(), Option<Reason>> {
        let Some(below) = self.ring.below() else { return Ok(()) };
        let (engine, flushed) = (self.ring.cell.engine(), &self.ring.flushed);
        for some in slices.chunks(STATES_AT_ONCE).skip(self.states_done) {
            let mut bytes = Vec::new();
            for slice in some {
                below.learn(*slice, engine.last_version(*slice));
                encode_copied(*slice, engine.barrier_of(*slice), flushed.of(*slice), &mut bytes);
            }
            self.journal(tier::COPIED_STATES, &bytes)?;
            self.worker.journaled += bytes.len() as u64;
            self.states_done += 1;
        }
        Ok(())
    }

    /// Appends an entry to each log of what is copied. `Err(None)`: one has no room now.
    fn journal(&mut self, kind: u8, bytes: &[u8]) -> Result<(), Option<Reason>> {
        let Some(copied) = &mut self.worker.copied else { return Ok(()) };
        copied.other_in_all(kind, bytes, &mut Vec::new()).map_err(|_| None)
    }

    /// Keeps what a request has made that another cell has asked for.
    fn keep_tag(&mut self, tag: &RequestTag, (slice, made): (SliceId, Made)) {
        let tags = &self.ring.tags;
        let last = self.asked_by.take_if(|(asker, _)| *asker == tag.asker);
        let last = last.unwrap_or_else(|| (tag.asker, tags.asked_by(tag.asker)));
        let (_, asked_by) = self.asked_by.insert(last);
        tags.copies_by(asked_by, tag, (slice, Outcome::Made(made)));
    }
}

/// The tag of a change, if it has one.
#[inline]
fn tag_of(tag: Option<&effects::Tag>) -> Result<Option<RequestTag>, Option<Reason>> {
    tag.map(|tag| RequestTag::decode(tag).ok_or(Some(Reason::Malformed))).transpose()
}

/// Lets the processor fetch what the next of `records` are about.
fn look_ahead(records: &mut Records<'_>, ring: &RingCell) {
    ring.origins.look_ahead(ring.look_ahead((0..AHEAD).map_while(|_| records.next_key())));
}

/// Applies an item as it is, which the primary writes back, if it has not.
fn apply(
    with: &mut With<'_>,
    slice: SliceId,
    effect: &Effect<'_>,
    version: Version,
) -> Result<(), Option<Reason>> {
    outcome(with.worker.apply((slice, version), effect, with.now))
}

/// Applies a change, which may outlive the primary here.
fn copy(
    with: &mut With<'_>,
    slice: SliceId,
    effect: &Effect<'_>,
    version: Version,
) -> Result<(), Option<Reason>> {
    outcome(with.worker.copy((slice, version), effect, with.now))
}

fn outcome(applied: Applied) -> Result<(), Option<Reason>> {
    match applied {
        Applied::Done | Applied::Stale => Ok(()),
        Applied::Later(_) => Err(None),
        Applied::NoSpace => Err(Some(Reason::NoSpace)),
        Applied::Malformed => Err(Some(Reason::Malformed)),
    }
}

#[cfg(test)]
#[path = "stream_in_test.rs"]
mod tests;
