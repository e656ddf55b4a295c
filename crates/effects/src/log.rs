//! The log of one lane.
//!
//! ```text
//!  1 ...   first           passed(level)        end
//!          |---------------|--------------------|         positions, one for each entry
//!  freed   read by readers                      ^ appended under the lock: by its sinks, where it
//!                                                 leads; as given, where it follows
//! ```
//!
//! Invariants: positions have no gap; of the changes of a slice, later positions have higher
//! versions; what a reader holds back is there; `end` is published last, so all that a thread can
//! see of a change is at `end` or before.

use crate::account::Room;
use crate::batch::Batch;
use crate::config::Sizes;
use crate::entry::{Draft, Entry, copy_of};
use crate::level::{Level, Levels};
use crate::part::{FellOut, Part, Refusals, Unfollowed};
use crate::readers::{JoinError, Joining, Mark, ReaderId, Readers, Who};
use crate::shared::Shared;
use crate::slices::{Jump, Slices};
use crate::state::State;
use crate::store::For;
use crate::sync::{Mutex, MutexGuard, lock, lock_quickly};
use base::{Refused, SliceId, Version};
use std::sync::Arc;

/// How often memory is freed for one reservation.
const TRIES_MAX: u32 = 8;

/// The log of one lane.
pub struct Log {
    shared: Shared,
    jump: Jump,
    lane: u8,
    sizes: Sizes,
    slices: Arc<Slices>,
    state: Mutex<State>,
    readers: Mutex<Readers>,
}

impl Log {
    pub(crate) fn new(lane: u8, sizes: Sizes, slices: Arc<Slices>, part: Part) -> Self {
        Self {
            shared: Shared::new(sizes.capacity),
            jump: Jump::new(),
            lane,
            sizes,
            slices,
            state: Mutex::new(State::new(part, &sizes)),
            readers: Mutex::new(Readers::new()),
        }
    }

    /// The last position; 0 before the first entry.
    #[inline(always)]
    #[must_use]
    pub fn end(&self) -> u64 {
        self.shared.end()
    }

    /// Whether `level` has passed `position`.
    #[inline(always)]
    #[must_use]
    pub fn passed(&self, level: Level, position: u64) -> bool {
        position <= self.shared.passed(level)
    }

    /// Whether `level` has passed everything.
    #[inline(always)]
    #[must_use]
    pub fn is_settled(&self, level: Level) -> bool {
        self.passed(level, self.end())
    }

    /// The first position that can be read, or the next one to come.
    #[must_use]
    pub fn first(&self) -> u64 {
        lock(&self.state).first()
    }

    /// What it does now.
    #[must_use]
    pub fn part(&self) -> Part {
        lock(&self.state).part
    }

    /// How often something was refused.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        let mark = lock(&self.readers).refused();
        Refusals { mark, ..lock(&self.state).refusals }
    }

    /// Bytes of entries, and bytes reserved for entries.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.account.used()
    }

    /// Most of these bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.sizes.capacity
    }

    /// A new reader.
    ///
    /// # Errors
    /// When there are too many, the position is not in the log, or it grants too little.
    pub fn join(&self, joining: &Joining) -> Result<ReaderId, JoinError> {
        let state = lock(&self.state);
        state.join(joining, &mut lock(&self.readers), &self.shared)
    }

    /// Removes a reader. Its marks count no more. Returns the levels that have passed more now.
    pub fn leave(&self, reader: ReaderId) -> Levels {
        let mut readers = lock(&self.readers);
        if !readers.leave(reader) {
            return Levels::default();
        }
        self.shared.account.limit(readers.granted());
        self.shared.set_bounds(&readers);
        let rose = self.shared.raise(Levels::ALL, &readers);
        drop(readers);
        self.free_unwanted();
        rose
    }

    /// Notes that a reader only sets marks: it reads no entries, and none stay for it.
    pub fn reads_nothing(&self, reader: ReaderId) {
        let mut readers = lock(&self.readers);
        readers.reads(reader, u64::MAX);
        self.shared.set_bounds(&readers);
    }

    /// Sets what `level` needs from now on: it has passed what all these marks have passed, and
    /// what it had passed before. Without marks it has passed everything. Refused if a reader is
    /// not there.
    pub fn set_level(&self, level: Level, of: &[(ReaderId, Mark)]) -> bool {
        let mut readers = lock(&self.readers);
        let is_set = readers.set_level(level, of);
        if is_set {
            self.shared.set_level(level, &readers);
        }
        is_set
    }

    /// Room that was spent or reserved since the log began, of all readers and of single ones.
    #[inline]
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.shared.account.spent() + self.shared.account.spent_of_one()
    }

    /// Room that all readers have granted, and nothing has spent or reserved.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.shared.account.left()
    }

    /// A bit for each slot whose reader has no room left: what was refused with [`Refused::Full`]
    /// then waits for it, not for memory of the log.
    #[must_use]
    pub fn lacking(&self) -> u8 {
        lock(&self.readers).lacking(self.shared.account.spent())
    }

    /// The reader grants this much room for what comes after `position`, whatever it has granted
    /// before, and whatever was appended beyond that. Returns what [`Log::spent`] was when
    /// `position` was the last, without what was for other readers since. `None` if the reader is
    /// gone, or the position is not in the log: nothing has changed then.
    pub fn grant_after(&self, reader: ReaderId, position: u64, bytes: u64) -> Option<u64> {
        let (state, slot) = (lock(&self.state), reader.slot());
        let all = state.store.spent();
        let up_to = state.store.spent_up_to(position, slot, self.spending())?;
        let mut readers = lock(&self.readers);
        *readers.granted_by(reader)? = up_to.saturating_add(bytes);
        self.shared.account.limit(readers.granted());
        Some(all.sum() - (all.of(slot) - up_to))
    }

    /// How much the reader has granted for what comes after `position`: 0 also where more was
    /// appended than it had granted. `None` if it is gone, or the position is not in the log.
    #[must_use]
    pub fn room_after(&self, reader: ReaderId, position: u64) -> Option<u64> {
        let state = lock(&self.state);
        let up_to = state.store.spent_up_to(position, reader.slot(), self.spending())?;
        drop(state);
        let granted = *lock(&self.readers).granted_by(reader)?;
        Some(granted.saturating_sub(up_to))
    }

    /// Whether `reader` has room for an item.
    pub(crate) fn has_room_of(&self, reader: ReaderId) -> bool {
        let left = lock(&self.readers).left_of(reader).map_or(0, |(left, _)| left);
        left > self.shared.account.spent()
    }

    /// The reader says `mark` of everything up to `position`. Returns the levels that have passed
    /// more now: what waits for them may leave.
    pub fn pass(&self, reader: ReaderId, mark: Mark, position: u64) -> Levels {
        let mut readers = lock(&self.readers);
        if !readers.pass(reader, mark, position, self.end()) {
            return Levels::default();
        }
        self.shared.set_bounds(&readers);
        let rose = self.shared.raise(readers.used(), &readers);
        drop(readers);
        if self.shared.should_free() {
            self.free_unwanted();
        }
        rose
    }

    /// Copies the entries from position `from` on into `batch`, as many as fit in it. The reader
    /// has no use any more for what is before `from`.
    ///
    /// # Errors
    /// When the entries are not there: the reader fell out, or is gone.
    pub fn read(&self, reader: ReaderId, from: u64, batch: &mut Batch) -> Result<(), FellOut> {
        batch.begin(from);
        if from == 0 || from > self.end() + 1 {
            return Err(FellOut);
        }
        let mut readers = lock(&self.readers);
        let joined = readers.reads(reader, from).ok_or(FellOut)?;
        self.shared.set_bounds(&readers);
        drop(readers);
        let read = lock(&self.state).read(from, For { slot: reader.slot(), joined }, batch);
        if read.is_err() {
            lock(&self.readers).falls_out(reader);
        } else if self.shared.should_free() {
            self.free_unwanted();
        }
        read
    }

    /// The reader that `level` waits for.
    #[must_use]
    pub fn slowest(&self, level: Level) -> Option<Who> {
        lock(&self.readers).slowest(level, self.end())
    }

    /// The reader for which a writer waits that was refused with [`Refused::Full`].
    #[must_use]
    pub fn stuck(&self) -> Option<Who> {
        let readers = lock(&self.readers);
        if self.shared.account.lacks_grants() {
            readers.meanest()
        } else {
            readers.holder(self.end())
        }
    }

    /// Takes an entry of the log that this is a copy of, at its position `at`.
    ///
    /// # Errors
    /// When it is not the next one, its version is not above the last of its slice, its slice is
    /// in another lane, its length is wrong, or there is no memory. Nothing has changed then.
    pub fn follow(&self, at: u64, entry: &Entry<'_>) -> Result<(), Unfollowed> {
        // What a walk emits there is for one of the readers there.
        let entry = if matches!(entry, Entry::Item { .. }) { &Entry::Skipped } else { entry };
        let followed = self.follow_with(at, entry);
        if let Err(why) = followed {
            lock(&self.state).refusals.count(why);
        }
        followed
    }

    fn follow_with(&self, at: u64, entry: &Entry<'_>) -> Result<(), Unfollowed> {
        let draft = entry.draft().spending(self.slices.all_spend());
        let charge = self.sizes.charge_of(&draft).ok_or(Unfollowed::Length)?;
        if let Entry::Change { slice, effect, .. } = entry
            && SliceId::of(effect.key) != *slice
        {
            return Err(Unfollowed::Slice);
        }
        if !self.reserve_now(Room::of(charge, false), false) {
            return Err(Unfollowed::Full);
        }
        let apart = self.sizes.is_apart(&draft.value).then(|| copy_of(&draft.value));
        let mut state = lock(&self.state);
        let checked = state.check(at, entry, self.end(), (&self.slices, self.lane));
        if checked.is_err() {
            self.shared.account.free(charge);
            return checked;
        }
        if draft.spends {
            self.shared.account.spend(charge);
        }
        state.store.push(&draft, apart, charge, &self.shared);
        match entry {
            Entry::Change { slice, version, .. } => {
                self.slices.publish(*slice, at, *version, &self.jump);
            }
            Entry::Barrier(range, _) => {
                self.slices.publish_barrier(*range, self.lane, at, |_| {});
            }
            Entry::Item { .. } | Entry::Other { .. } | Entry::Skipped => {}
        }
        self.shared.set_end(at);
        Ok(())
    }

    /// Ends the log: it takes nothing more. Returns its last position.
    pub fn seal(&self) -> u64 {
        self.set_part(Part::Sealed)
    }

    /// Makes it the log that gives the positions, from the next one on: after a promotion, or where
    /// a hand-over failed after the log was sealed. Returns its last position.
    pub fn lead(&self) -> u64 {
        self.set_part(Part::Leads)
    }

    /// Makes it an empty copy of a log, of which it takes the entries from `next` on. Refused while
    /// it has readers.
    pub fn follow_from(&self, next: u64) -> bool {
        let mut state = lock(&self.state);
        if next == 0 || !lock(&self.readers).is_empty() {
            return false;
        }
        let freed = state.restart(next, &self.shared);
        self.slices.forget(self.lane);
        self.jump.reset();
        self.shared.set_end(next - 1);
        drop(state);
        drop(freed);
        true
    }

    /// Raises the last version of `slice` to `version`, which no entry here shows: what a copy
    /// receives when it catches up. Refused for a slice of another lane.
    pub fn advance(&self, slice: SliceId, version: Version) -> bool {
        let _state = lock(&self.state);
        let is_here = self.slices.lane(slice) == self.lane;
        if is_here {
            self.slices.advance(slice, version, &self.jump);
        }
        is_here
    }

    /// Adds to `room`, so that an entry of `charge` may be charged to it: more at once, where that
    /// is free.
    ///
    /// # Errors
    /// [`Refused::Full`] if there is too little. `room` is as before then.
    #[cold]
    #[inline(never)]
    pub(crate) fn reserve(
        &self,
        room: &mut Room,
        charge: u64,
        spends: bool,
    ) -> Result<(), Refused> {
        let lacking = charge - if spends { room.both } else { room.memory };
        let bulk = Room::of(lacking.max(self.sizes.room), spends);
        if self.shared.account.reserve(bulk, false) || self.reserve_now(bulk, false) {
            room.add(bulk);
            return Ok(());
        }
        let lacking = Room::of(lacking, spends);
        if !self.reserve_now(lacking, true) {
            return Err(Refused::Full);
        }
        room.add(lacking);
        Ok(())
    }

    /// Returns room that was not used.
    #[inline]
    pub(crate) fn give_back(&self, room: Room) {
        self.shared.account.give_back(room);
    }

    /// Appends a change, to which `charge` was reserved, and stamps it. Returns its version and its
    /// position.
    #[inline(always)]
    pub(crate) fn append_change(
        &self,
        slice: SliceId,
        draft: &mut Draft<'_>,
        apart: Option<Arc<Vec<u8>>>,
        charge: u64,
        stamp: impl FnOnce() -> Result<Version, Refused>,
    ) -> Result<(Version, u64), Refused> {
        let mut state = self.lock_to_lead()?;
        if self.slices.lane(slice) != self.lane {
            return Err(Refused::Full);
        }
        let version = stamp()?;
        draft.head.version = version.raw();
        let position = self.shared.next();
        state.store.push(draft, apart, charge, &self.shared);
        self.slices.publish(slice, position, version, &self.jump);
        self.shared.set_end(position);
        Ok((version, position))
    }

    /// Appends what is no change, to which `charge` was reserved. `publish` is called with its
    /// position while nothing else can be appended.
    pub(crate) fn append_other(
        &self,
        draft: &Draft<'_>,
        apart: Option<Arc<Vec<u8>>>,
        charge: u64,
        publish: impl FnOnce(&Slices, u64),
    ) -> Result<u64, Refused> {
        let mut state = self.lock_to_lead()?;
        let position = self.end() + 1;
        state.store.push(draft, apart, charge, &self.shared);
        publish(&self.slices, position);
        self.shared.set_end(position);
        Ok(position)
    }

    /// Appends an item for `reader`, to which `charge` was reserved of the memory. Room is spent of
    /// that reader alone, so another one that is full does not hold it up.
    pub(crate) fn append_item(
        &self,
        reader: ReaderId,
        draft: &Draft<'_>,
        apart: Option<Arc<Vec<u8>>>,
        charge: u64,
    ) -> Result<u64, Refused> {
        let mut state = self.lock_to_lead()?;
        if !self.shared.spend_of_one(&mut lock(&self.readers), reader, charge) {
            return Err(Refused::Full);
        }
        let position = self.shared.next();
        state.store.push(draft, apart, charge, &self.shared);
        state.store.spends_of(reader.slot(), charge);
        self.shared.set_end(position);
        Ok(position)
    }

    /// By what it is counted how much room entries have spent.
    fn spending(&self) -> (&Sizes, bool) {
        (&self.sizes, self.slices.all_spend())
    }

    /// Its sizes.
    #[inline(always)]
    pub(crate) fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The last position that `level` has passed.
    #[inline(always)]
    pub(crate) fn passed_to(&self, level: Level) -> u64 {
        self.shared.passed(level)
    }

    /// The last position before a jump of versions.
    pub(crate) fn jump(&self) -> u64 {
        self.jump.position()
    }

    /// Locks it, if nothing is under way in it: every level has passed everything, and no reader
    /// wants an entry.
    pub(crate) fn lock_if_idle(&self) -> Option<MutexGuard<'_, State>> {
        let (state, end) = (lock(&self.state), self.end());
        let is_passed = Levels::ALL.iter().all(|level| self.passed(level, end));
        (is_passed && self.shared.unwanted() >= end).then_some(state)
    }

    /// Reserves `room`, also `over` the rest of what readers have granted. What only readers want
    /// that may fall out is freed for it, again where others took what was freed.
    #[cold]
    #[inline(never)]
    fn reserve_now(&self, room: Room, over: bool) -> bool {
        for _ in 0..TRIES_MAX {
            if self.shared.account.reserve(room, over) {
                return true;
            }
            let missing = self.shared.account.missing(room);
            if missing > 0 && !self.make_room(missing) {
                break;
            }
        }
        self.shared.account.reserve(room, over)
    }

    /// Frees `missing` bytes, or what there is. Returns whether that is anything.
    #[cold]
    fn make_room(&self, missing: u64) -> bool {
        let mut state = lock(&self.state);
        let freed = state.make_room(missing, &self.shared);
        let first = state.first();
        drop(state);
        let mut readers = lock(&self.readers);
        readers.freed(first);
        self.shared.set_bounds(&readers);
        drop(readers);
        !freed.is_empty()
    }

    #[inline(always)]
    fn lock_to_lead(&self) -> Result<MutexGuard<'_, State>, Refused> {
        let state = lock_quickly(&self.state);
        if state.part == Part::Leads { Ok(state) } else { Err(Refused::Sealed) }
    }

    #[inline(never)]
    fn free_unwanted(&self) {
        let mut state = lock(&self.state);
        let freed = state.free_unwanted(&self.shared);
        drop(state);
        drop(freed);
    }

    fn set_part(&self, part: Part) -> u64 {
        let mut state = lock(&self.state);
        state.part = part;
        self.end()
    }
}
