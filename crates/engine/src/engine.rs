//! The engine: what its users call. Each call is a line or two that lead into a room.
//!
//! The engine never reads a clock: its callers pass `now`. It has no thread of its own: work that a
//! request leaves is done by later requests and by [`Engine::tend`].

use crate::config::{EngineConfig, Geometry, LIMIT_BYTES_MIN};
use crate::error::EngineError;
use crate::eviction::{Eviction, Failed, Holdings, Left, Work, give_back, with_space};
use crate::grace::GracePeriods;
use crate::index::Index;
use crate::items::Items;
use crate::keys::Key;
use crate::local::{Counters, Local, LocalCounters, Pin};
use crate::raw::look_at_processor;
use crate::reading::{self, FetchOptions, Found, HeldValue, Prefetched, Read, ReadSink};
use crate::segments::{KeptForCopies, SegmentCounts, Segments, pinned_bytes, value_bytes_max};
use crate::slices::{KEPT, Role, Slices};
use crate::sync::Ordering;
use crate::transfer::{self, Applied, Cursor, Filled, ItemSink, Loaded, More};
use crate::writing::{self, Action, Ahead, Arriving, Mode, Op, Put, WriteResult, WriteStatus};
use base::{Effect, EffectSink, MemoryBudget, Now, Owner, SliceId, SliceRange, Version};
use std::convert::Infallible;
use std::sync::Arc;

/// Parts that a value has at least which is sent in parts.
const PARTS_MIN: usize = 4;

/// The memory of one cell, shared by all its threads.
///
/// ```
/// use base::{MemoryBudget, NoSink, Now};
/// use engine::{Engine, EngineConfig, Put, Read, ValueSink, WriteStatus};
///
/// let limit_bytes = 16 << 20;
/// let (engine, mut locals) =
///     Engine::new(EngineConfig::new(limit_bytes), MemoryBudget::new(limit_bytes))?;
/// let now = Now { mono_ns: 0, expiry_s: 1_000 };
/// let key = engine.key(b"name");
///
/// // A batch: what it reads stays readable until the pin is given back or dropped.
/// let mut pin = locals.remove(0).pin();
/// let put = Put { value: b"value", client_flags: 0, expiry_s: 0 };
/// assert_eq!(engine.set(&mut pin, &key, put, now, &mut NoSink), WriteStatus::Done);
/// let mut out = ValueSink::default();
/// assert_eq!(engine.get(&pin, &key, now, &mut out), Read::Hit);
/// assert_eq!(out.bytes, b"value");
/// # Ok::<(), engine::EngineError>(())
/// ```
pub struct Engine {
    items: Items,
    eviction: Eviction,
}

/// How memory is used now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// Segments that hold memory.
    pub segments: u64,
    /// Of these, full ones in the small queue.
    pub segments_small: u64,
    /// Of these, full ones in the main queue.
    pub segments_main: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The most items that the housekeeping of one request has looked at.
    pub paid_items_max: u64,
    /// The most bytes of segments that this housekeeping has walked.
    pub paid_bytes_max: u64,
    /// The most items that one request has looked at to make the space that it needed.
    pub room_items_max: u64,
}

impl Engine {
    /// Makes an engine that takes its memory from `budget`, and its locals.
    ///
    /// # Errors
    /// When the limit is too low for a few segments, or address space is refused.
    pub fn new(
        mut config: EngineConfig,
        budget: Arc<MemoryBudget>,
    ) -> Result<(Self, Vec<Local>), EngineError> {
        if config.limit_bytes < LIMIT_BYTES_MIN {
            return Err(EngineError::LimitTooLow { limit_bytes: config.limit_bytes });
        }
        let geometry = Geometry::of(&config);
        config.value_bytes_max =
            config.value_bytes_max.min(value_bytes_max(geometry.inline_value_bytes_max));
        let needed_bytes = Index::fixed_bytes(&geometry) + Slices::bytes();
        let fixed = budget
            .take(Owner::Index, needed_bytes.min(config.limit_bytes / 4))
            .ok_or(EngineError::BudgetTooSmall { needed_bytes })?;
        let huge = config.huge_pages;
        let index = Index::new(&geometry, config.limit_bytes, &budget, huge, fixed)
            .map_err(EngineError::Reserve)?;
        let segments =
            Segments::new(geometry, budget.clone(), huge).map_err(EngineError::Reserve)?;
        if config.prefault {
            segments.prefault(config.limit_bytes / 4 * 3);
        }
        let grace = Arc::new(GracePeriods::new(config.locals));
        let counters: Vec<Arc<LocalCounters>> =
            (0..config.locals).map(|_| Arc::default()).collect();
        let locals = Local::all(&grace, &counters);
        look_at_processor();
        let eviction = Eviction::new(budget, geometry.arenas);
        Ok((Self { items: Items::new(config, segments, index, counters), eviction }, locals))
    }

    /// `bytes` as a key: its slice and its hash. Stored items have keys of 1 to
    /// [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) bytes; a read of any other key finds nothing.
    #[inline(always)]
    #[must_use]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.items.key(bytes)
    }

    /// Looks up where `key` would be, so that the processor fetches it. A caller with many keys
    /// looks ahead for some of them before it reads the first, in one batch.
    #[inline(always)]
    pub fn look_ahead<'e, 'k>(&'e self, key: Key<'k>) -> Prefetched<'e, 'k> {
        reading::look_ahead(&self.items, key)
    }

    /// Lets the processor fetch the items of `keys`, of the first sixteen, which are read or
    /// written soon. Nothing is waited for, and nothing depends on it.
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = Key<'k>>) {
        reading::prefetch_all(&self.items, keys);
    }

    /// Appends the value of `key` to `out`.
    #[inline(always)]
    pub fn get(&self, pin: &Pin, key: &Key<'_>, now: Now, out: impl ReadSink) -> Read {
        self.get_ahead(pin, &self.look_ahead(*key), now, out)
    }

    /// [`Engine::get`] of a key that was looked up before.
    ///
    /// The short way of most reads is inlined where this is called; the rest is not.
    #[inline(always)]
    pub fn get_ahead(
        &self,
        pin: &Pin,
        ahead: &Prefetched<'_, '_>,
        now: Now,
        out: impl ReadSink,
    ) -> Read {
        reading::get_ahead(&self.items, pin, ahead, now, out)
    }

    /// The short way of [`Engine::get_ahead`], which nearly all reads take. `None`, and nothing is
    /// appended, where it is not enough.
    #[inline(always)]
    pub fn get_short(
        &self,
        pin: &Pin,
        ahead: &Prefetched<'_, '_>,
        now: Now,
        mut out: impl ReadSink,
    ) -> Option<Read> {
        reading::get_plain(&self.items, pin, ahead, now, &mut out)
    }

    /// What is known of the item of `key`, without counting a use.
    pub fn peek(&self, pin: &Pin, key: &Key<'_>, now: Now) -> Option<Found> {
        reading::peek(&self.items, pin, key, now)
    }

    /// Reads and changes at once: touch, create on a miss, win the token to refresh. The pin may
    /// move on.
    pub fn fetch<S: EffectSink>(
        &self,
        pin: &mut Pin,
        key: &Key<'_>,
        options: &FetchOptions,
        now: Now,
        sink: &mut S,
        out: &mut impl ReadSink,
    ) -> Read {
        let mut work = self.work(pin, now, sink);
        let fetch = |work: &mut Work<'_, S>| writing::fetch(work, key, options, out);
        let read = with_space(&self.eviction, &mut work, fetch);
        self.settle(&mut work, key.id.slice);
        read.unwrap_or_else(|failed| match failed {
            Failed::Later(obstacle) => Read::Later(obstacle),
            Failed::NoSpace | Failed::TooLarge => Read::NoSpace,
        })
    }

    /// Makes one change. The pin may move on.
    ///
    /// ```
    /// # use base::{MemoryBudget, NoSink, Now};
    /// # use engine::{Action, Engine, EngineConfig, Op, WriteStatus};
    /// # let now = Now { mono_ns: 0, expiry_s: 1_000 };
    /// # let budget = MemoryBudget::new(1 << 20);
    /// # let (engine, mut locals) = Engine::new(EngineConfig::new(1 << 20), budget)?;
    /// # let mut pin = locals.remove(0).pin();
    /// let add = Action::Count { delta: 2, down: false, initial: Some((40, 0)), expiry_s: None };
    /// let op = Op::new(engine.key(b"counter"), add);
    /// assert_eq!(engine.write(&mut pin, &op, now, &mut NoSink).number, 40);
    /// assert_eq!(engine.write(&mut pin, &op, now, &mut NoSink).number, 42);
    /// # Ok::<(), engine::EngineError>(())
    /// ```
    pub fn write<S: EffectSink>(
        &self,
        pin: &mut Pin,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> WriteResult {
        if let Some(put) = Put::of(op)
            && writing::overwrite(&self.items, pin, &op.key, put, now, sink).is_some()
        {
            return WriteResult::ended(WriteStatus::Done);
        }
        self.write_any(&mut self.work(pin, now, sink), op)
    }

    /// [`Engine::write`] for a `set` without conditions. The pin may move on.
    ///
    /// The short way of most sets is inlined where this is called; the rest is not.
    #[inline(always)]
    pub fn set<S: EffectSink>(
        &self,
        pin: &mut Pin,
        key: &Key<'_>,
        put: Put<'_>,
        now: Now,
        sink: &mut S,
    ) -> WriteStatus {
        if writing::overwrite(&self.items, pin, key, put, now, sink).is_some() {
            return WriteStatus::Done;
        }
        let Put { value, client_flags, expiry_s } = put;
        self.set_any(pin, *key, value, (client_flags, expiry_s), now, sink)
    }

    #[inline(never)]
    fn set_any<S: EffectSink>(
        &self,
        pin: &mut Pin,
        key: Key<'_>,
        value: &[u8],
        (client_flags, expiry_s): (u32, u32),
        now: Now,
        sink: &mut S,
    ) -> WriteStatus {
        let action = Action::Store { mode: Mode::Set, value, client_flags, expiry_s };
        self.write_any(&mut self.work(pin, now, sink), &Op::new(key, action)).status
    }

    #[inline(never)]
    fn write_any<S: EffectSink>(&self, work: &mut Work<'_, S>, op: &Op<'_>) -> WriteResult {
        let mut ahead = Ahead::default();
        let wrote = writing::write(&self.eviction, work, op, &mut ahead);
        ahead.give_back(work);
        self.settle(work, op.key.id.slice);
        wrote.unwrap_or_else(WriteResult::failed)
    }

    /// What every change leaves to do: the group of its slice grows or shrinks, and the space that
    /// was taken is paid for.
    fn settle<S: EffectSink>(&self, work: &mut Work<'_, S>, slice: SliceId) {
        self.items.index().resizing(slice).adjust(work.pin.grace());
        self.eviction.pay(work);
        work.pin.trim_scratch();
    }

    fn work<'w, S>(&'w self, pin: &'w mut Pin, now: Now, sink: &'w mut S) -> Work<'w, S> {
        let may_evict = self.items.config().evict;
        let (items, ghosts) = (&self.items, self.eviction.ghosts());
        Work { items, ghosts, pin, now, sink, may_evict, is_copying: false }
    }

    /// Housekeeping for an idle moment or the end of a batch: looks at up to `items` items of
    /// segments that must go, because they have expired or the limit was lowered, and at a part of
    /// an index that is sparse. Returns what is left. The pin may move on.
    pub fn tend<S: EffectSink>(&self, pin: &mut Pin, now: Now, items: u32, sink: &mut S) -> Left {
        self.eviction.tend(&mut self.work(pin, now, sink), items)
    }

    /// Evicts until the budget has `bytes` left, for an owner whose share is not used up. The pin
    /// of the caller moves on. False when that much could not be evicted.
    pub fn give_back<S: EffectSink>(
        &self,
        pin: &mut Pin,
        bytes: u64,
        now: Now,
        sink: &mut S,
    ) -> bool {
        give_back(&self.eviction, &mut self.work(pin, now, sink), bytes)
    }

    /// Makes the item of a key of `slice` as `effect` says, with the `version` that it has, unless
    /// the item is as new. The pin may move on. Space is made out of dead words only; `sink` takes
    /// what is removed for that, of slices of which this cell is the primary.
    pub fn apply<S: EffectSink>(
        &self,
        pin: &mut Pin,
        slice: SliceId,
        effect: &Effect<'_>,
        version: Version,
        now: Now,
        sink: &mut S,
    ) -> Applied {
        let work = &mut Work { may_evict: false, is_copying: true, ..self.work(pin, now, sink) };
        let applied = transfer::apply(&self.eviction, work, slice, effect, version);
        // The space that it took is paid for with what this cell may evict.
        (work.may_evict, work.is_copying) = (self.items.config().evict, false);
        self.eviction.pay(work);
        applied
    }

    /// Installs an item that was loaded from below the memory, unless there is one of its key: that
    /// is newer. No effect is committed for it, and it keeps its version. `admit` is asked at
    /// most once: under the lock of the bucket, right before the item is published, which nothing
    /// prevents then. The pin may move on. Space is made as for a write: `sink` takes what is
    /// removed.
    pub fn fill<S: EffectSink>(
        &self,
        pin: &mut Pin,
        item: &Loaded<'_>,
        now: Now,
        sink: &mut S,
        admit: impl FnMut() -> bool,
    ) -> Filled {
        let mut work = self.work(pin, now, sink);
        let filled = transfer::fill(&self.eviction, &mut work, item, admit);
        self.settle(&mut work, item.key.id.slice);
        filled
    }

    /// Passes the items of `slices` to `sink`, from `at` on, until at least `items` were passed, a
    /// bounded number of buckets was looked at, the sink has no space, or the walk is over. An item
    /// that stays is passed exactly once. Between two calls the caller may renew its pin.
    pub fn scan(
        &self,
        pin: &mut Pin,
        slices: SliceRange,
        at: &mut Cursor,
        items: u32,
        now: Now,
        sink: &mut impl ItemSink,
    ) -> More {
        transfer::scan(&self.items, pin, (slices, at), items, now, sink)
    }

    /// Drops the items of `slices`, from `at` on, until a bounded number of buckets was looked at
    /// or the walk is over. With the last of them the barriers of the slices are forgotten: what
    /// comes next may be older than a barrier of before. Nobody else may execute anything in
    /// `slices` meanwhile. Between two calls the caller may renew its pin.
    pub fn forget(&self, pin: &mut Pin, slices: SliceRange, at: &mut Cursor) -> More {
        transfer::forget(&self.items, pin, slices, at)
    }

    /// The same of items of epochs before that one alone, and others may execute meanwhile.
    pub fn forget_before(&self, pin: &mut Pin, of: (SliceRange, u32), at: &mut Cursor) -> More {
        transfer::forget_before(&self.items, pin, of, at)
    }

    /// The last version given in `slice`: a barrier at it ends every item that exists now.
    #[must_use]
    pub fn last_version(&self, slice: SliceId) -> Version {
        self.items.slices().last(slice)
    }

    /// Makes the last version of `slice` at least `version`: later ones exceed it.
    pub fn advance(&self, slice: SliceId, version: Version) {
        self.items.slices().raise(slice, version);
    }

    /// Keeps memory free for copies from now on.
    pub fn keep_for_copies(&self, kept: KeptForCopies) {
        self.items.segments().keep_for_copies(kept);
    }

    /// What items and copies hold now.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        self.eviction.holdings(&self.items)
    }

    /// Whether less is free than compaction works towards for copies.
    #[must_use]
    pub fn lacks_room_for_copies(&self) -> bool {
        self.eviction.lacks_room_for_copies(&self.items)
    }

    /// Whether it evicts where memory is full.
    #[must_use]
    pub fn evicts(&self) -> bool {
        self.items.config().evict
    }

    /// Evicts items of some `bytes` more than space is needed for, little by little: where it has
    /// copies, these need it. Nothing changes while as much is to be evicted already, or where
    /// nothing is evicted.
    pub fn evict_more(&self, bytes: u64) {
        if self.items.config().evict {
            self.eviction.evict_more(bytes);
        }
    }

    /// What is to be evicted of that, in bytes.
    #[must_use]
    pub fn evicts_more(&self) -> u64 {
        self.eviction.evicts_more()
    }

    /// Makes this cell the primary of `slices`, or one that keeps a copy. It is the primary of all
    /// at first. The items of a copy are not evicted from now on; those of a primary can be, once
    /// their segments have followed.
    pub fn set_role(&self, pin: &Pin, slices: SliceRange, role: Role) {
        for slice in slices.iter() {
            self.items.slices().set_role(slice, role);
        }
        if role == Role::Primary {
            self.items.segments().note_promotion(pin.grace());
        }
    }

    /// The barrier of `slice`: items with it or an older version are dead.
    #[must_use]
    pub fn barrier_of(&self, slice: SliceId) -> Version {
        self.items.slices().barrier(slice)
    }

    /// Raises the barrier of `slice` to `version`: items with it or an older one are dead.
    pub fn barrier(&self, slice: SliceId, version: Version) {
        self.items.slices().set_barrier(slice, version);
    }

    /// Raises the barrier of every slice to its last version: the command `flush_all`.
    pub fn flush(&self) {
        let Ok(()) = self.flush_by(|| -> Result<_, Infallible> {
            SliceId::all().take(KEPT).for_each(|slice| self.items.slices().cut(slice));
            Ok(())
        });
    }

    /// Runs `raise`, which raises the barrier of every slice at least to the version that was its
    /// last one before. The memory of what it ends is used again first.
    ///
    /// # Errors
    /// Those of `raise`, which has raised no barrier or not all then.
    pub fn flush_by<T, E>(&self, raise: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let sealed = self.items.segments().sealed();
        let raised = raise()?;
        self.items.segments().note_flush(sealed);
        Ok(raised)
    }

    /// The longest value, in bytes, that is received and sent as a whole. Longer ones can be stored
    /// piece by piece and read in parts.
    #[inline]
    #[must_use]
    pub fn whole_value_bytes_max(&self) -> usize {
        self.items.segments().geometry().whole_value_bytes_max
    }

    /// Begins to store a value of `bytes` bytes, more than [`Engine::whole_value_bytes_max`], that
    /// expires at second `expiry_s` (0: never). The pin may move on.
    ///
    /// # Errors
    /// That it may be tried again later, if `true`. It cannot be stored, if `false`.
    pub fn begin_value<S: EffectSink>(
        &self,
        pin: &mut Pin,
        key: &Key<'_>,
        (bytes, expiry_s): (usize, u32),
        now: Now,
        sink: &mut S,
    ) -> Result<Arriving, bool> {
        debug_assert!(bytes > self.whole_value_bytes_max());
        if bytes > self.value_bytes_max() {
            return Err(false);
        }
        let mut work = self.work(pin, now, sink);
        Arriving::begin(&self.eviction, &mut work, key, bytes, expiry_s).map_err(is_later)
    }

    /// Writes the next bytes of a value, as far as there is space.
    /// The pin may move on.
    ///
    /// # Errors
    /// The number, if not all were written: whether the rest may be tried again later is the
    /// second part.
    pub fn write_piece<S: EffectSink>(
        &self,
        pin: &mut Pin,
        value: &mut Arriving,
        piece: &[u8],
        now: Now,
        sink: &mut S,
    ) -> Result<(), (usize, bool)> {
        let mut work = self.work(pin, now, sink);
        let wrote = value.write(&self.eviction, &mut work, piece);
        self.eviction.pay(&mut work);
        wrote.map_err(|(done, failed)| (done, is_later(failed)))
    }

    /// Makes the change `op`, which stores `value`: all of it was written, and `op` has an empty
    /// one in its place. Where the result is not that it may be tried again later,
    /// [`Engine::give_back_value`] follows. The pin may move on.
    pub fn store_value<S: EffectSink>(
        &self,
        pin: &mut Pin,
        value: &mut Arriving,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> WriteResult {
        let mut work = self.work(pin, now, sink);
        let wrote = value.store(&self.eviction, &mut work, op);
        self.settle(&mut work, op.key.id.slice);
        wrote
    }

    /// Gives back what a value holds that is stored, or that nobody will store. A value can be
    /// given back between two batches.
    pub fn give_back_value(&self, value: Arriving) {
        value.give_back(&self.items);
    }

    /// Appends the next part of a value to `target`.
    pub fn append_part(&self, value: &mut HeldValue, target: &mut Vec<u8>) {
        let part_bytes = self.whole_value_bytes_max() / PARTS_MIN;
        value.append_part(&self.items, part_bytes, target);
    }

    /// Holds a value no longer. It can be released between two batches.
    pub fn release(&self, value: HeldValue) {
        value.release(&self.items);
    }

    /// Counters since the engine was made.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.items.counters()
    }

    /// How memory is used now.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let segments = self.items.segments();
        let SegmentCounts { committed, small, main, .. } = segments.counts();
        let maxima = self.eviction.maxima();
        Usage {
            segment_bytes: segments.geometry().segment_bytes(),
            segments: committed as u64,
            segments_small: small as u64,
            segments_main: main as u64,
            index_bytes: self.eviction.budget().used(Owner::Index),
            paid_items_max: maxima.paid_items.load(Ordering::Relaxed),
            paid_bytes_max: 8 * maxima.paid_words.load(Ordering::Relaxed),
            room_items_max: maxima.space_items.load(Ordering::Relaxed),
        }
    }

    /// Bytes of the pool's address space: the most that the limit can be raised to.
    #[must_use]
    pub fn reserve_bytes(&self) -> u64 {
        let geometry = self.items.segments().geometry();
        geometry.segments_max as u64 * geometry.segment_bytes()
    }

    /// The lowest total of the budget that it can work with now, beside the values that are being
    /// received and sent. Where it does not evict, that is no lower than what is held.
    #[must_use]
    pub fn limit_bytes_min(&self) -> u64 {
        let (items, budget) = (&self.items, self.eviction.budget());
        if !items.config().evict {
            return budget.used_total();
        }
        let geometry = items.segments().geometry();
        let own = Index::fixed_bytes(geometry)
            + Slices::bytes()
            + items.index().bytes_min()
            + geometry.segments_min() * geometry.segment_bytes();
        let engine = [Owner::Primary, Owner::Index].map(|owner| budget.used(owner));
        let pinned = pinned_bytes(items.segments());
        own + pinned + budget.used_total().saturating_sub(engine.iter().sum())
    }

    /// The longest value that it stores, in bytes.
    #[must_use]
    pub fn value_bytes_max(&self) -> usize {
        self.items.config().value_bytes_max
    }
}

fn is_later(failed: Failed) -> bool {
    matches!(failed, Failed::Later(_))
}
