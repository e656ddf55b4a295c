//! How a worker appends.
//!
//! A sink reserves room in bulk and keeps it until the batch ends, so that most changes touch no
//! shared counter but those that the lock of the log guards.

use crate::account::Room;
use crate::config::Sizes;
use crate::entry::{Draft, Entry, HEAD_BYTES_MAX, copy_of};
use crate::lanes::{LaneId, Lanes, Place};
use crate::log::Log;
use crate::made::{Made, Tag};
use crate::observer::Observer;
use crate::readers::ReaderId;
use crate::slices::Slices;
use base::{
    Change, Effect, EffectSink, Facts, KeyId, Refused, Removal, SliceId, SliceRange, Space, Value,
    Version,
};
use std::sync::Arc;

/// What a worker holds of one lane.
struct Held {
    log: Arc<Log>,
    room: Room,
    /// The last position that it appended in this batch.
    last: u64,
}

/// The request in execution, whose change of `key` gets a tag.
struct Tagging {
    key: KeyId,
    tag: Tag,
    /// What was made of it so far.
    made: Option<Made>,
}

/// Appends the effects of one worker to the logs of their slices.
///
/// A value that is too large for a block is copied before the log is locked: in
/// [`EffectSink::reserve`] if it is known there, else in [`EffectSink::commit`]. The value that is
/// given to `reserve` must be that of the next change with a value of this length, or the stamp
/// of that change must refuse.
pub struct WorkerSink {
    lanes: Arc<Lanes>,
    /// The lanes of the slices, and the sizes of all logs, at hand.
    slices: Arc<Slices>,
    sizes: Sizes,
    held: Box<[Held]>,
    /// A bit for each lane of which something is held.
    used: u64,
    /// A copy of the value of the last change for which something was reserved, if it lies apart.
    prepared: Option<Arc<Vec<u8>>>,
    /// A value that is shorter needs only room: it lies in a block, and nothing is prepared.
    quick_bytes: usize,
    /// The lane of the last entry.
    last: u8,
    /// Why the last plain put was refused.
    refused: Refused,
    tagging: Option<Tagging>,
    observer: Option<Arc<dyn Observer>>,
    /// Whether there is a tag or an observer.
    is_special: bool,
}

const _: () = assert!(crate::LANES_MAX <= u64::BITS as usize);

impl WorkerSink {
    /// A sink that holds nothing.
    #[must_use]
    pub fn new(lanes: Arc<Lanes>) -> Self {
        let held =
            |(_, log): (_, &Arc<Log>)| Held { log: log.clone(), room: Room::default(), last: 0 };
        let held = lanes.logs().map(held).collect();
        let (slices, sizes) = (lanes.slices(), *lanes.sizes());
        let quick_bytes = sizes.inline_max + 1;
        Self {
            lanes,
            slices,
            sizes,
            held,
            used: 0,
            prepared: None,
            quick_bytes,
            last: 0,
            refused: Refused::Full,
            tagging: None,
            observer: None,
            is_special: false,
        }
    }

    /// Has `observer` know of every change from now on.
    pub fn set_observer(&mut self, observer: Arc<dyn Observer>) {
        (self.observer, self.is_special) = (Some(observer), true);
    }

    /// The logs that it appends to.
    #[must_use]
    pub fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// Whether it has reserved or appended anything in this batch.
    #[inline]
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.used != 0
    }

    /// What a change without a tag is charged in the log of its slice; 0 if no log takes it.
    #[must_use]
    pub fn charge_of(&self, slice: SliceId, effect: &Effect<'_>) -> u64 {
        self.sizes.charge_of(&Draft::change(slice, effect)).unwrap_or(0)
    }

    /// Lets the processor fetch what the next changes of `slices` need.
    #[inline]
    pub fn look_ahead(&self, slices: impl Iterator<Item = SliceId>) {
        self.slices.look_ahead(slices);
    }

    /// Where the last entry of this batch stands.
    #[inline]
    #[must_use]
    pub fn last_appended(&self) -> Option<Place> {
        self.last_of(LaneId(self.last))
    }

    /// Where the last entry of this batch stands in the lane of `slice`.
    #[inline]
    #[must_use]
    pub fn last_in(&self, slice: SliceId) -> Option<Place> {
        self.last_of(LaneId(self.slices.lane(slice)))
    }

    #[inline]
    fn last_of(&self, lane: LaneId) -> Option<Place> {
        let position = self.held[lane.index()].last;
        (position > 0).then_some(Place { lane, position })
    }

    /// From now on, a change of `key` gets `tag`, unless it is an eviction or an expiry: those are
    /// not made for a request.
    pub fn begin_tag(&mut self, key: KeyId, tag: Tag) {
        self.tagging = Some(Tagging { key, tag, made: None });
        self.is_special = true;
    }

    /// No change gets a tag any more. Returns what the last one has made that got it.
    pub fn end_tag(&mut self) -> Option<Made> {
        self.is_special = self.observer.is_some();
        self.tagging.take().and_then(|tagging| tagging.made)
    }

    /// Returns all room that was not used, and forgets the batch.
    pub fn end_batch(&mut self) {
        while self.used != 0 {
            let held = &mut self.held[self.used.trailing_zeros() as usize];
            self.used &= self.used - 1;
            held.log.give_back(std::mem::take(&mut held.room));
            held.last = 0;
        }
        if self.prepared.is_some() {
            drop(self.take_prepared());
        }
    }

    fn prepare(&mut self, value: Arc<Vec<u8>>) {
        (self.prepared, self.quick_bytes) = (Some(value), 0);
    }

    fn take_prepared(&mut self) -> Option<Arc<Vec<u8>>> {
        self.quick_bytes = self.sizes.inline_max + 1;
        self.prepared.take()
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
        let lane = self.lanes.lane_of(slice);
        // Before memory is reserved for it, and its value is copied.
        if !self.lanes.log(lane).has_room_of(reader) {
            return Err(Refused::Full);
        }
        let entry = Entry::Item { reader: reader.slot(), slice, version, key, value, facts };
        self.append(lane, &entry, Some(reader))
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
        self.append(lane, &Entry::Other { kind, bytes, spends }, None)
    }

    /// Appends what changes no item to all logs, or to none. Adds where it stands to `places`.
    ///
    /// # Errors
    /// When a log does not take it. Only one that is closed meanwhile leaves others that have it.
    pub fn other_in_all(
        &mut self,
        kind: u8,
        bytes: &[u8],
        places: &mut Vec<Place>,
    ) -> Result<(), Refused> {
        let lanes: Vec<_> = self.lanes.logs().map(|(lane, _)| lane).collect();
        let draft = Entry::Other { kind, bytes, spends: false }.draft();
        for lane in &lanes {
            self.hold(*lane, &draft)?;
        }
        for lane in lanes {
            places.push(self.other(lane, kind, bytes, false)?);
        }
        Ok(())
    }

    /// Appends a barrier to each log that has some of `slices`, and calls `set` for each of these
    /// slices, while no change of it can be appended. What `set` does must make every later stamp
    /// refuse a change that is made from an item from before. Adds where the barriers stand to
    /// `places`.
    ///
    /// # Errors
    /// When a log does not take it. Others may have taken it then; to repeat it does no harm.
    pub fn barrier(
        &mut self,
        slices: SliceRange,
        set: impl FnMut(SliceId),
        places: &mut Vec<Place>,
    ) -> Result<(), Refused> {
        self.barrier_where((slices, 0), |_| true, set, places)
    }

    /// [`WorkerSink::barrier`] with a number, in each log that has one of `slices` that `lacks` it.
    ///
    /// # Errors
    /// Likewise.
    pub fn barrier_where(
        &mut self,
        (slices, number): (SliceRange, u32),
        lacks: impl Fn(&SliceId) -> bool,
        mut set: impl FnMut(SliceId),
        places: &mut Vec<Place>,
    ) -> Result<(), Refused> {
        let lanes = slices
            .iter()
            .filter(lacks)
            .fold(0_u64, |lanes, slice| lanes | 1 << self.lanes.lane_of(slice).index());
        let chosen = |lane: &LaneId| lanes & 1 << lane.index() != 0;
        let chosen: Vec<_> = self.lanes.logs().map(|(lane, _)| lane).filter(chosen).collect();
        let draft = Entry::Barrier(slices, number).draft().spending(self.slices.all_spend());
        for lane in &chosen {
            self.hold(*lane, &draft)?;
        }
        for lane in chosen {
            let charge = self.hold(lane, &draft)?;
            let held = &mut self.held[lane.index()];
            let position = held.log.append_other(&draft, None, charge, |table, at| {
                table.publish_barrier(slices, lane.0, at, &mut set);
            })?;
            held.appended(position, charge, draft.spends);
            self.last = lane.0;
            places.push(Place { lane, position });
        }
        if let Some(observer) = &self.observer {
            observer.changed_all();
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn reserve_removal(&mut self, slice: SliceId) -> Result<(), Refused> {
        if self.observer.as_ref().is_some_and(|observer| !observer.keeps_evictions()) {
            return Ok(());
        }
        let lane = self.lanes.lane_of(slice);
        let charge = self.sizes.charge(HEAD_BYTES_MAX);
        self.held[lane.index()].hold(charge, false, &mut self.used, lane)
    }

    #[cold]
    #[inline(never)]
    fn reserve_parts(
        &mut self,
        slice: SliceId,
        value_bytes: usize,
        first: &[u8],
        second: &[u8],
    ) -> Result<(), Refused> {
        self.reserve_change(slice, value_bytes, Some(Value::Parts([first, second])))
    }

    /// Reserves space that is not held yet, and copies a value that will lie apart.
    #[cold]
    #[inline(never)]
    fn reserve_change(
        &mut self,
        slice: SliceId,
        value_bytes: usize,
        value: Option<Value<'_>>,
    ) -> Result<(), Refused> {
        let lane = self.lanes.lane_of(slice);
        let charge = self.sizes.charge_of_change(value_bytes).ok_or(Refused::TooLarge)?;
        let spends = value_bytes > 0 || value.is_some() || self.slices.all_spend();
        self.held[lane.index()].hold(charge, spends, &mut self.used, lane)?;
        drop(self.take_prepared());
        if let Some(value) = value
            && value_bytes > self.sizes.inline_max
        {
            self.prepare(copy_of(&value));
        }
        Ok(())
    }

    /// Appends what is no change: an item for `one` reader, or what all are to have.
    fn append(
        &mut self,
        lane: LaneId,
        entry: &Entry<'_>,
        one: Option<ReaderId>,
    ) -> Result<Place, Refused> {
        let draft = entry.draft();
        let charge = self.hold(lane, &draft)?;
        let held = &mut self.held[lane.index()];
        // What was prepared belongs to a change, not to this.
        let apart = held.log.sizes().is_apart(&draft.value).then(|| copy_of(&draft.value));
        let position = match one {
            Some(reader) => held.log.append_item(reader, &draft, apart, charge)?,
            None => held.log.append_other(&draft, apart, charge, |_, _| {})?,
        };
        held.appended(position, charge, draft.spends);
        self.last = lane.0;
        Ok(Place { lane, position })
    }

    /// Makes sure that it holds enough for `draft`. Returns its charge.
    fn hold(&mut self, lane: LaneId, draft: &Draft<'_>) -> Result<u64, Refused> {
        let held = &mut self.held[lane.index()];
        let charge = held.log.sizes().charge_of(draft).ok_or(Refused::TooLarge)?;
        held.hold(charge, draft.spends, &mut self.used, lane)?;
        Ok(charge)
    }

    /// A put with a value in one part. Apart, so that it has all registers; and so that it returns
    /// in them, why it is refused is left in `refused`.
    #[inline(never)]
    fn commit_plain(
        &mut self,
        slice: SliceId,
        key: &[u8],
        value: &[u8],
        (client_flags, expiry_s): (u32, u32),
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Option<Version> {
        let facts = Facts { client_flags, expiry_s, ..Facts::default() };
        let change = Change::Put(Value::Parts([value, &[]]), facts);
        let lane = LaneId(self.slices.lane(slice));
        let mut draft = Draft::change(slice, &Effect { key, change });
        let charge = draft.has_right_key().then(|| self.sizes.charge(draft.bytes()));
        if let Some(charge) = charge
            && value.len() <= self.sizes.inline_max
            && let Some(held) = self.held.get_mut(lane.index())
            && held.room.has(charge, true)
        {
            match held.log.append_change(slice, &mut draft, None, charge, stamp) {
                Ok((version, position)) => {
                    held.appended(position, charge, true);
                    self.last = lane.0;
                    return Some(version);
                }
                Err(refused) => self.refused = refused,
            }
            return None;
        }
        self.commit_larger(slice, [key, value], facts, stamp)
    }

    /// The same, where the value lies apart, or room is to be reserved.
    #[cold]
    #[inline(never)]
    fn commit_larger(
        &mut self,
        slice: SliceId,
        [key, value]: [&[u8]; 2],
        facts: Facts,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Option<Version> {
        let effect = Effect { key, change: Change::Put(Value::Parts([value, &[]]), facts) };
        let committed = self.commit_any(slice, &effect, None, stamp);
        committed.map_err(|refused| self.refused = refused).ok()
    }

    /// A change of any kind.
    #[inline(never)]
    fn commit_any(
        &mut self,
        slice: SliceId,
        effect: &Effect<'_>,
        tag: Option<&Tag>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let lane = self.lanes.lane_of(slice);
        let draft = Draft::change(slice, effect).tagged(tag);
        let mut draft = draft.spending(self.slices.all_spend());
        let charge = self.hold(lane, &draft)?;
        let apart = self.take_apart(&draft.value);
        let held = &mut self.held[lane.index()];
        let (version, position) =
            held.log.append_change(slice, &mut draft, apart, charge, stamp)?;
        held.appended(position, charge, draft.spends);
        self.last = lane.0;
        Ok(version)
    }

    /// A change that gets a tag, or that an observer is to know of.
    #[inline(never)]
    fn commit_special(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let Some(observer) = self.observer.take() else {
            return self.commit_tagged(key, effect, stamp);
        };
        let is_of_memory =
            matches!(effect.change, Change::Remove(Removal::Evicted | Removal::Expired));
        // Its version is shown to nobody: it may be one that is not allowed.
        let is_kept = !is_of_memory || observer.keeps_evictions();
        let stamp = || {
            let version = stamp()?;
            let changed = (!is_of_memory).then_some(effect.key);
            let may_be = observer.allows(key.slice, changed, version) || !is_kept;
            may_be.then_some(version).ok_or(Refused::Full)
        };
        let committed = match is_kept {
            true => self.commit_tagged(key, effect, stamp),
            false => stamp(),
        };
        if committed.is_ok() && !is_of_memory {
            observer.changed(key.slice, effect.key);
        }
        self.observer = Some(observer);
        committed
    }

    /// A change while a request with a tag may be in execution.
    #[inline(never)]
    fn commit_tagged(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        let is_of_a_request =
            !matches!(effect.change, Change::Remove(Removal::Evicted | Removal::Expired));
        let tagging = self.tagging.as_ref().filter(|it| is_of_a_request && it.key == key);
        let tag = tagging.map(|tagging| tagging.tag);
        let version = self.commit_any(key.slice, effect, tag.as_ref(), stamp)?;
        if let (Some(_), Some(tagging)) = (tag, &mut self.tagging) {
            tagging.made = Some(Made::of(effect, version));
        }
        Ok(version)
    }

    /// The copy of a value that lies apart: what was prepared, or a new one.
    fn take_apart(&mut self, value: &Value<'_>) -> Option<Arc<Vec<u8>>> {
        if !self.sizes.is_apart(value) {
            return None;
        }
        let prepared = self.take_prepared().filter(|copy| copy.len() == value.bytes());
        debug_assert!(prepared.as_ref().is_none_or(|copy| is_same(copy, value)));
        Some(prepared.unwrap_or_else(|| copy_of(value)))
    }
}

impl Held {
    /// Makes sure that there is room for `charge`.
    #[inline(always)]
    fn hold(
        &mut self,
        charge: u64,
        spends: bool,
        used: &mut u64,
        lane: LaneId,
    ) -> Result<(), Refused> {
        if !self.room.has(charge, spends) {
            self.log.reserve(&mut self.room, charge, spends)?;
            *used |= 1 << lane.index();
        }
        Ok(())
    }

    #[inline(always)]
    fn appended(&mut self, position: u64, charge: u64, spends: bool) {
        self.room.take(charge, spends);
        self.last = position;
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

    /// For most changes enough is held, which is one comparison.
    #[inline(always)]
    fn reserve(&mut self, slice: SliceId, space: Space<'_>) -> Result<(), Refused> {
        if let Space::Change { value_bytes, .. } = space
            && value_bytes < self.quick_bytes
            && let Some(held) = self.held.get(usize::from(self.slices.lane(slice)))
            && held.room.both >= self.sizes.charge_of_inline(value_bytes)
        {
            return Ok(());
        }
        match space {
            // In registers: else the space would have to be in memory for all changes.
            Space::Change { value_bytes, value: Some(Value::Parts([first, second])), .. } => {
                self.reserve_parts(slice, value_bytes, first, second)
            }
            Space::Change { value_bytes, value, .. } => {
                self.reserve_change(slice, value_bytes, value)
            }
            Space::Removal => self.reserve_removal(slice),
        }
    }

    /// Most changes are plain.
    #[inline(always)]
    fn commit(
        &mut self,
        key: KeyId,
        effect: &Effect<'_>,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<Version, Refused> {
        if self.is_special {
            return self.commit_special(key, effect, stamp);
        }
        if let Change::Put(Value::Parts([value, []]), facts) = effect.change
            && is_plain(&facts)
        {
            let Facts { client_flags, expiry_s, .. } = facts;
            let facts = (client_flags, expiry_s);
            let committed = self.commit_plain(key.slice, effect.key, value, facts, stamp);
            return committed.ok_or(self.refused);
        }
        self.commit_any(key.slice, effect, None, stamp)
    }

    #[inline]
    fn is_absent(&mut self, key: KeyId, bytes: &[u8]) -> bool {
        self.observer.as_ref().is_none_or(|observer| observer.is_absent(key.slice, bytes))
    }
}

/// Whether a put carries only what most do.
#[inline(always)]
fn is_plain(facts: &Facts) -> bool {
    let Facts { token, stale, token_sent, vivified, .. } = *facts;
    token.is_none() && !stale && !token_sent && !vivified
}

impl Drop for WorkerSink {
    fn drop(&mut self) {
        self.end_batch();
    }
}
