//! How a worker appends.
//!
//! A sink reserves room in bulk and keeps it until the batch ends, so that most changes touch no
//! shared counter but those that the lock of the log guards.

use crate::account::Room;
use crate::entry::{Draft, Entry, HEAD_BYTES_MAX, Run};
use crate::lanes::{LaneId, Lanes, Place};
use crate::readers::ReaderId;
use base::{Change, Effect, EffectSink, Facts, KeyId, Refused, SliceId, Space, Value, Version};
use std::sync::Arc;

/// What a worker holds of one lane.
#[derive(Clone, Copy, Default)]
struct Held {
    room: Room,
    /// The last position that it appended in this batch.
    last: u64,
}

/// Appends the effects of one worker to the logs of their slices.
///
/// A value that is too large for a block is copied before the log is locked: in
/// [`EffectSink::reserve`] if it is known there, else in [`EffectSink::commit`]. The value that is
/// given to `reserve` must be that of the next change with a value of this length, or the stamp
/// of that change must refuse.
pub struct WorkerSink {
    lanes: Arc<Lanes>,
    held: Box<[Held]>,
    /// A bit for each lane of which something is held.
    used: u64,
    /// A copy of the value that was given to `reserve`.
    prepared: Option<Arc<Vec<u8>>>,
    last: Option<Place>,
}

const _: () = assert!(crate::LANES_MAX <= u64::BITS as usize);

impl WorkerSink {
    /// A sink that holds nothing.
    #[must_use]
    pub fn new(lanes: Arc<Lanes>) -> Self {
        let held = lanes.logs().map(|_| Held::default()).collect();
        Self { lanes, held, used: 0, prepared: None, last: None }
    }

    /// The logs that it appends to.
    #[must_use]
    pub fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// Where the last entry of this batch stands.
    #[inline]
    #[must_use]
    pub fn last_appended(&self) -> Option<Place> {
        self.last
    }

    /// Where the last entry of this batch stands in the lane of `slice`.
    #[must_use]
    pub fn last_in(&self, slice: SliceId) -> Option<Place> {
        let lane = self.lanes.lane_of(slice);
        let position = self.held[lane.index()].last;
        (position > 0).then_some(Place { lane, position })
    }

    /// Returns all room that was not used, and forgets the batch.
    pub fn end_batch(&mut self) {
        while self.used != 0 {
            let lane = LaneId(self.used.trailing_zeros() as u8);
            self.used &= self.used - 1;
            let held = std::mem::take(&mut self.held[lane.index()]);
            self.lanes.log(lane).give_back(held.room);
        }
        (self.prepared, self.last) = (None, None);
    }

    /// Appends an item as it is, for one reader of the log of its slice. It keeps its version.
    ///
    /// # Errors
    /// When the log does not take it.
    pub fn emit(
        &mut self,
        reader: ReaderId,
        slice: SliceId,
        key: &[u8],
        (value, facts): (Value<'_>, Facts),
        version: Version,
    ) -> Result<Place, Refused> {
        let entry = Entry::Item { reader: reader.slot(), slice, version, key, value, facts };
        self.append(self.lanes.lane_of(slice), &entry)
    }

    /// Appends what changes no item to the log of `lane`.
    ///
    /// # Errors
    /// When the log does not take it.
    pub fn other(
        &mut self,
        lane: LaneId,
        kind: u8,
        bytes: &[u8],
        spends: bool,
    ) -> Result<Place, Refused> {
        self.append(lane, &Entry::Other { kind, bytes, spends })
    }

    /// Appends a barrier to each log that has slices of `run`, and calls `set` for each of these
    /// slices, while no change of it can be appended. What `set` does must make every later stamp
    /// refuse a change that is made from an item from before. Adds where the barriers stand to
    /// `places`.
    ///
    /// # Errors
    /// When a log does not take it. Others may have taken it then; to repeat it does no harm.
    pub fn barrier(
        &mut self,
        run: Run,
        mut set: impl FnMut(SliceId),
        places: &mut Vec<Place>,
    ) -> Result<(), Refused> {
        let lanes =
            run.slices().fold(0_u64, |lanes, slice| lanes | 1 << self.lanes.lane_of(slice).index());
        let chosen = |lane: &LaneId| lanes & 1 << lane.index() != 0;
        let chosen: Vec<_> = self.lanes.logs().map(|(lane, _)| lane).filter(chosen).collect();
        for lane in &chosen {
            self.hold(*lane, self.cost(*lane, &Entry::Barrier(run).draft())?)?;
        }
        for lane in chosen {
            let draft = Entry::Barrier(run).draft();
            let cost = self.cost(lane, &draft)?;
            let position =
                self.lanes.log(lane).append_other(&draft, None, cost, |slices, at| {
                    slices.publish_barrier(run, lane.0, at, &mut set);
                })?;
            places.push(self.appended(lane, position, cost));
        }
        Ok(())
    }

    fn append(&mut self, lane: LaneId, entry: &Entry<'_>) -> Result<Place, Refused> {
        let draft = entry.draft();
        let cost = self.cost(lane, &draft)?;
        self.hold(lane, cost)?;
        let apart = self.apart(lane, &draft.value);
        let position = self.lanes.log(lane).append_other(&draft, apart, cost, |_, _| {})?;
        Ok(self.appended(lane, position, cost))
    }

    #[inline(always)]
    fn cost(&self, lane: LaneId, draft: &Draft<'_>) -> Result<Room, Refused> {
        self.lanes.log(lane).sizes().cost(draft).ok_or(Refused::TooLarge)
    }

    /// Makes sure that it holds `needed` of a lane.
    #[inline(always)]
    fn hold(&mut self, lane: LaneId, needed: Room) -> Result<(), Refused> {
        let held = &mut self.held[lane.index()];
        if !held.room.has(needed) {
            self.lanes.log(lane).reserve(&mut held.room, needed)?;
            self.used |= 1 << lane.index();
        }
        Ok(())
    }

    /// The value if it lies apart: what was prepared, or a copy.
    #[inline(always)]
    fn apart(&mut self, lane: LaneId, value: &Value<'_>) -> Option<Arc<Vec<u8>>> {
        let sizes = self.lanes.log(lane).sizes();
        if value.bytes() <= sizes.inline_max {
            return None;
        }
        let prepared = self.prepared.take().filter(|copy| copy.len() == value.bytes());
        debug_assert!(prepared.as_ref().is_none_or(|copy| is_same(copy, value)));
        prepared.or_else(|| sizes.apart(value))
    }

    #[inline(always)]
    fn appended(&mut self, lane: LaneId, position: u64, cost: Room) -> Place {
        let held = &mut self.held[lane.index()];
        held.room.take(cost);
        held.last = position;
        let place = Place { lane, position };
        self.last = Some(place);
        place
    }
}

/// Whether `copy` has the bytes of `value`, if those may be looked at.
fn is_same(copy: &[u8], value: &Value<'_>) -> bool {
    match value {
        Value::Parts(parts) => parts.concat() == copy,
        Value::Stored(_) => true,
    }
}

impl EffectSink for WorkerSink {
    const ON: bool = true;

    #[inline]
    fn reserve(&mut self, slice: SliceId, space: Space<'_>) -> Result<(), Refused> {
        let lane = self.lanes.lane_of(slice);
        let sizes = self.lanes.log(lane).sizes();
        match space {
            Space::Removal => {
                let memory = sizes.charge(HEAD_BYTES_MAX, 0);
                self.hold(lane, Room { memory, granted: 0 })
            }
            Space::Change { key_bytes, value_bytes, value } => {
                self.prepared = None;
                let head = HEAD_BYTES_MAX - usize::from(u8::MAX) + key_bytes;
                let memory = sizes.charge(head, value_bytes);
                if memory > sizes.longest {
                    return Err(Refused::TooLarge);
                }
                let memory = memory + sizes.charge(head, 0);
                self.hold(lane, Room { memory, granted: (head + value_bytes) as u64 })?;
                if let Some(value) = value {
                    self.prepared = self.lanes.log(lane).sizes().apart(&value);
                }
                Ok(())
            }
        }
    }

    #[inline]
    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let lane = self.lanes.lane_of(key.slice);
        let mut draft = Draft::change(key.slice, effect);
        let cost = self.cost(lane, &draft)?;
        self.hold(lane, cost)?;
        let apart = self.apart(lane, &draft.value);
        let log = self.lanes.log(lane);
        let (version, position) = log.append_change(key.slice, &mut draft, apart, cost, stamp)?;
        self.appended(lane, position, cost);
        Ok(version)
    }
}

impl Drop for WorkerSink {
    fn drop(&mut self) {
        self.end_batch();
    }
}

/// Appends what a walk emits, for the readers that are on their way to have everything.
///
/// The stamp of an item gives the version that it has, or refuses because the item has changed.
pub struct WalkSink<'a> {
    sink: &'a mut WorkerSink,
    readers: &'a [Option<ReaderId>],
}

impl<'a> WalkSink<'a> {
    /// A sink for a walk that is for `readers`, by lane. Slices of other lanes are refused.
    pub fn new(sink: &'a mut WorkerSink, readers: &'a [Option<ReaderId>]) -> Self {
        Self { sink, readers }
    }
}

impl EffectSink for WalkSink<'_> {
    const ON: bool = true;

    fn reserve(&mut self, slice: SliceId, space: Space<'_>) -> Result<(), Refused> {
        self.sink.reserve(slice, space)
    }

    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let lane = self.sink.lanes.lane_of(key.slice).index();
        let reader = self.readers.get(lane).copied().flatten().ok_or(Refused::Sealed)?;
        let Change::Put(value, facts) = effect.change else { return Err(Refused::Sealed) };
        let version = stamp()?;
        self.sink.emit(reader, key.slice, effect.key, (value, facts), version)?;
        Ok(version)
    }
}
