//! What a worker executes requests with: the cell, counters of its own, and a lease on the engine.
//!
//! A batch is everything that arrived together. It begins with its first request that needs the
//! engine: then a delayed flush is carried out if it is due, the worker gets a lease if it holds
//! none, and turns it into a pin. The end of the batch undoes the last two.
//!
//! Invariants: between `begin` and `end` there is a pin. A worker that is dropped returns its
//! lease.

use crate::cell::Cell;
use crate::counters::WorkerCounters;
use crate::long::{IN_PARTS, LongValuesOf, Received};
use crate::park::{Executed, Park};
use crate::replies::Replies;
use crate::tiered::{Below, Tiered};
use base::{
    Change, Effect, EffectSink, KeyId, NoSink, Now, Removal, SliceId, SliceRange, Space, Version,
};
use effects::WorkerSink;
use engine::{
    Action, Applied, Engine, FetchOptions, Filled, HeldValue, Left, Loaded, Local, Obstacle, Op,
    Pin, Put, Read, ReadSink, WriteResult, WriteStatus,
};
use memcache::reply::LINE_END;
use session::{Answer, Conn, Outcome, Taken, ValueStart, WorkerId};
use std::sync::Arc;
use tier::Stored;

/// Memory that is freed before a long value is tried again: enough for the list of its chunks.
const HELD_LIST_BYTES: u64 = 8 << 10;

/// A worker of no server: nobody wakes it.
const NOBODY: WorkerId = WorkerId(u16::MAX);

/// One worker of a cell.
pub(crate) struct Worker {
    cell: Arc<Cell>,
    counters: Arc<WorkerCounters>,
    /// Held from the first request of a batch to its end.
    pin: Option<Pin>,
    /// Held between batches, by a worker that keeps its lease.
    lease: Option<Local>,
    /// Whether the request in execution has been parked for as long as it may.
    is_overdue: bool,
    /// Whether a request has needed a key from below that is not looked up yet.
    waits_below: bool,
    /// Whether the request in execution is read as a copy, and may change nothing.
    pub(crate) is_copy: bool,
    /// Plain `get`s that are counted already, and are executed again.
    counted: u32,
    /// Who it is among the workers of its server.
    id: WorkerId,
    /// What lies below the memory, if anything does.
    tiered: Option<Arc<Tiered>>,
    /// What its changes are appended to and its replies wait for, where the cell has a log.
    pub(crate) replies: Option<Box<Replies>>,
    /// In a ring above a tier: what the changes are appended to that it copies.
    pub(crate) copied: Option<Box<WorkerSink>>,
    /// What was charged there since this was taken last.
    pub(crate) journaled: u64,
    /// The long values of its connections.
    pub(crate) long: LongValuesOf,
    /// The value of the request in execution, if it has arrived in pieces.
    pub(crate) received: Option<Received>,
}

impl Worker {
    /// One more worker of `cell`, which serves no client.
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        Self::of_server(cell, NOBODY)
    }

    /// One more worker of `cell`, which is `id` among those of its server.
    pub(crate) fn of_server(cell: Arc<Cell>, id: WorkerId) -> Self {
        let counters = cell.add_worker();
        let mut replies = cell.effect_log().map(|log| Box::new(Replies::new(log)));
        let tiered = cell.tiered().cloned();
        if let (Some(replies), Some(tiered)) = (&mut replies, &tiered) {
            replies.sink.set_observer(tiered.tier().clone());
            tiered.rules_of_replies().into_iter().for_each(|rules| replies.follow(rules));
        }
        let member = cell.member();
        let copied = member.map(|member| Box::new(WorkerSink::new(member.copied().clone())));
        Self {
            cell,
            counters,
            id,
            tiered,
            pin: None,
            lease: None,
            is_overdue: false,
            waits_below: false,
            is_copy: false,
            counted: 0,
            replies,
            copied,
            journaled: 0,
            long: LongValuesOf::default(),
            received: None,
        }
    }

    #[inline(always)]
    pub(crate) fn cell(&self) -> &Cell {
        &self.cell
    }

    /// The cell, for what is looked up while the worker changes.
    pub(crate) fn shared_cell(&self) -> Arc<Cell> {
        self.cell.clone()
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// Begins a batch, unless one has begun.
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Now) {
        if self.pin.is_none() {
            self.begin_batch(now);
        }
    }

    /// Begins a request of the batch.
    pub(crate) fn begin_request(&mut self, now: Now, conn: &Conn) {
        self.begin(now);
        self.is_overdue = conn.is_overdue();
    }

    /// Ends a request of the batch. Returns what its reply waits for, or what is written of it.
    pub(crate) fn end_request(&mut self, outcome: Outcome, conn: &Conn) -> Outcome {
        self.is_overdue = false;
        let Some(replies) = &mut self.replies else { return outcome };
        let parks = outcome == Outcome::Park;
        match outcome {
            Outcome::Done => replies.outcome(),
            // Nothing of it was executed that is not executed again.
            Outcome::Park if conn.progress == 0 => {
                replies.forget();
                outcome
            }
            Outcome::More | Outcome::Park => match replies.outcome() {
                Outcome::Gate { log, seq } => Outcome::Part { log, seq, parks },
                _ => outcome,
            },
            _ => outcome,
        }
    }

    /// What the reply to a plain `get` waits for that shows the item of a key with `version`, or
    /// that the key has none.
    pub(crate) fn answer_read(
        &mut self,
        key: &engine::Key<'_>,
        version: Option<Version>,
    ) -> Answer {
        let Some(replies) = &mut self.replies else { return Answer::Done };
        replies.goes_by(key.bytes);
        replies.answer_read(key.id.slice, version)
    }

    /// Whether the replies to the last plain `get`s may leave at once.
    #[inline(always)]
    pub(crate) fn confirms_gets(&self) -> bool {
        self.replies.as_ref().is_none_or(|replies| replies.is_settled())
    }

    /// That many plain `get`s are executed again, and are counted already.
    pub(crate) fn counts_no_more(&mut self, gets: u32) {
        self.counted += gets;
    }

    /// Whether a `get` is executed again that is counted already.
    pub(crate) fn is_counted(&mut self) -> bool {
        let is_counted = self.counted > 0;
        self.counted -= u32::from(is_counted);
        is_counted
    }

    /// What the reply to a plain change waits for.
    #[inline(always)]
    pub(crate) fn answer_store(&mut self, stored: Executed, noreply: bool) -> Answer {
        match &mut self.replies {
            _ if stored.is_err() => self.declines(),
            Some(replies) if replies.is_any_shown() => replies.answer_store(noreply),
            _ => Answer::Done,
        }
    }

    /// Forgets what a request would have shown that is executed again.
    #[cold]
    fn declines(&mut self) -> Answer {
        if let Some(replies) = &mut self.replies {
            replies.forget();
        }
        Answer::Declined
    }

    /// Whether the request in execution is parked because a long value cannot be sent now: the
    /// memory of many is held for that, or there is none for the list of its chunks.
    #[cold]
    pub(crate) fn parks_for_value(&mut self, now: Now) -> Result<(), Park> {
        if self.cell.has_share_left(HELD_LIST_BYTES) {
            self.give_back(HELD_LIST_BYTES, now);
        }
        self.parks()
    }

    /// Whether the request in execution is parked because of an obstacle. One that has been parked
    /// for as long as it may fails instead.
    pub(crate) fn parks(&self) -> Result<(), Park> {
        if self.is_overdue { Ok(()) } else { Err(Park) }
    }

    /// Apart, so that a later request of a batch pays for one comparison only.
    #[inline(never)]
    fn begin_batch(&mut self, now: Now) {
        if let (Some(replies), Some(tiered)) = (&mut self.replies, &self.tiered)
            && let Some(rules) = tiered.rules_of_replies()
        {
            replies.follow(rules);
        }
        if self.cell.is_flush_due(now) {
            self.carry_out_flush(now);
        }
        let local = self.lease.take().unwrap_or_else(|| self.cell.leases().take());
        self.pin = Some(local.pin());
    }

    /// Whether a batch has begun.
    pub(crate) fn is_busy(&self) -> bool {
        self.pin.is_some()
    }

    /// Ends the batch, if one has begun.
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(pin) = self.pin.take() {
            let mut waits_for_disk = false;
            if let Some(replies) = &mut self.replies {
                replies.end_batch();
                waits_for_disk = replies.take_waits_for_disk();
            }
            if let Some(copied) = &mut self.copied {
                copied.end_batch();
            }
            let local = pin.unpin();
            if self.cell.options().keep_leases {
                self.lease = Some(local);
            } else {
                self.cell.leases().give(local);
            }
            if let Some(tiered) = &self.tiered {
                tiered.end_batch(waits_for_disk);
            }
        }
    }

    /// Makes one change. Its reply shows how far the slice has come.
    #[inline]
    pub(crate) fn write(&mut self, op: &Op<'_>, now: Now) -> WriteResult {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let Some(replies) = &mut self.replies else {
            if let Some(received) = &mut self.received
                && let Action::Store { .. } = op.action
            {
                let engine = self.cell.engine();
                return engine.store_value(pin, received.value(), op, now, &mut NoSink);
            }
            return self.cell.engine().write(pin, op, now, &mut NoSink);
        };
        replies.goes_by(op.key.bytes);
        let mut wrote = self.cell.engine().write(pin, op, now, &mut replies.sink);
        if let WriteStatus::Later(obstacle) = wrote.status
            && is_full(replies, op.key.id.slice, obstacle)
        {
            wrote.status = WriteStatus::NoSpace;
        }
        if wrote.status == WriteStatus::Later(Obstacle::Elsewhere) {
            self.look_below(op.key, now);
            return wrote;
        }
        if !matches!(wrote.status, WriteStatus::Later(_)) {
            replies.shows(op.key.id.slice, None);
        }
        wrote
    }

    /// [`Worker::write`] for a `set` without conditions.
    #[inline(always)]
    pub(crate) fn set(&mut self, key: &engine::Key<'_>, put: Put<'_>, now: Now) -> WriteStatus {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let Some(replies) = &mut self.replies else {
            return self.cell.engine().set(pin, key, put, now, &mut NoSink);
        };
        replies.goes_by(key.bytes);
        replies.sink.look_ahead([key.id.slice].into_iter());
        match self.cell.engine().set(pin, key, put, now, &mut replies.sink) {
            WriteStatus::Later(obstacle) if is_full(replies, key.id.slice, obstacle) => {
                replies.shows_change(key.id.slice);
                WriteStatus::NoSpace
            }
            WriteStatus::Later(obstacle) => WriteStatus::Later(obstacle),
            wrote => {
                replies.shows_change(key.id.slice);
                wrote
            }
        }
    }

    /// Reads and changes at once. The reply shows how far the slice has come.
    #[inline]
    pub(crate) fn fetch(
        &mut self,
        key: &engine::Key<'_>,
        options: &FetchOptions,
        now: Now,
        out: &mut impl ReadSink,
    ) -> Read {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let Some(replies) = &mut self.replies else {
            return self.cell.engine().fetch(pin, key, options, now, &mut NoSink, out);
        };
        replies.goes_by(key.bytes);
        let mut read = self.cell.engine().fetch(pin, key, options, now, &mut replies.sink, out);
        if let Read::Later(obstacle) = read
            && is_full(replies, key.id.slice, obstacle)
        {
            read = Read::NoSpace;
        }
        if read == Read::Later(Obstacle::Elsewhere) {
            self.look_below(*key, now);
            return read;
        }
        if !matches!(read, Read::Later(_)) {
            replies.shows(key.id.slice, None);
        }
        read
    }

    /// Whether something lies below the memory.
    #[inline(always)]
    pub(crate) fn has_tier(&self) -> bool {
        self.tiered.is_some()
    }

    /// Looks for a key below that is not in memory. Without a tier it is missing.
    #[cold]
    pub(crate) fn look_below(&mut self, key: engine::Key<'_>, now: Now) -> Below {
        let tiered = self.tiered.as_ref();
        let want = |it: &Arc<Tiered>| it.want(key.id.slice, key.bytes, self.id, now);
        let below = tiered.map_or(Below::Missing, want);
        self.waits_below |= matches!(below, Below::Later);
        below
    }

    /// Whether a request has needed a key from below that is not looked up yet, since this was
    /// asked last.
    pub(crate) fn take_waits_below(&mut self) -> bool {
        std::mem::take(&mut self.waits_below)
    }

    /// The same for each of `keys` that is not in memory, so that they are looked up together.
    #[cold]
    pub(crate) fn look_ahead_below<'k>(
        &mut self,
        keys: impl Iterator<Item = engine::Key<'k>>,
        now: Now,
    ) {
        for key in keys {
            if self.cell.engine().peek(self.pin(), &key, now).is_none() {
                self.look_below(key, now);
            }
        }
    }

    /// Installs an item that was loaded from below, if `admit` says so.
    pub(crate) fn fill(
        &mut self,
        key: &[u8],
        stored: &Stored,
        now: Now,
        admit: &mut dyn FnMut() -> bool,
    ) -> Filled {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let replies = self.replies.as_mut().expect("a cell above a tier keeps a log");
        let engine = self.cell.engine();
        let item = Loaded {
            key: engine.key(key),
            value: [&stored.value, &[]],
            facts: stored.facts,
            version: stored.version,
        };
        engine.fill(pin, &item, now, &mut replies.sink, admit)
    }

    /// Drops the item of a key from memory, unless it is newer than `version`; `None`: however new
    /// it is. That is no change: it lies below, was given up, or is in the journal. Returns whether
    /// memory has no such item now.
    pub(crate) fn drop_item(&mut self, key: &[u8], version: Option<Version>, now: Now) -> bool {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let replies = self.replies.as_mut().expect("a cell above a tier keeps a log");
        let effect = Effect { key, change: Change::Remove(Removal::Evicted) };
        let (slice, engine) = (SliceId::of(key), self.cell.engine());
        let newest = version.unwrap_or_else(|| engine.last_version(slice));
        let above = Version::from_raw(newest.raw() + 1);
        match engine.apply(pin, slice, &effect, above, now, &mut replies.sink) {
            Applied::Done => true,
            // Somebody was quicker.
            Applied::Stale => version.is_some(),
            _ => false,
        }
    }

    /// Appends the error line of a request that needs a key which cannot be looked up now.
    #[cold]
    pub(crate) fn below_is_busy(&self, out: &mut Vec<u8>) {
        let obstacle = self.tiered.as_ref().map(|tiered| tiered.obstacle()).unwrap_or_default();
        out.extend_from_slice(format!("SERVER_ERROR {obstacle}\r\n").as_bytes());
    }

    /// Sends `value` in parts to `conn` from now on, and appends the first one.
    pub(crate) fn send(&mut self, conn: &mut Conn, value: HeldValue, out: &mut Vec<u8>) {
        conn.progress |= IN_PARTS;
        self.long.send(conn.id(), self.cell.clone(), value);
        self.long.append_part(conn.id(), out);
    }

    /// Length and expiry second of the value of the request in execution, if it has arrived in
    /// pieces.
    pub(crate) fn received_facts(&mut self) -> Option<(usize, u32)> {
        let value = self.received.as_mut()?.value();
        Some((value.bytes(), value.expiry_s()))
    }

    /// Whether a value is being sent to `conn` in parts.
    pub(crate) fn is_sending(conn: &Conn) -> bool {
        conn.progress & IN_PARTS != 0
    }

    /// Appends the next part of that value, and the end of the value after the last one. Returns
    /// whether more parts follow.
    pub(crate) fn sends_more(&mut self, conn: &mut Conn, out: &mut Vec<u8>) -> bool {
        if !self.long.append_part(conn.id(), out) {
            return true;
        }
        conn.progress &= !IN_PARTS;
        out.extend_from_slice(LINE_END);
        false
    }

    /// Begins to receive a value of `bytes` bytes for `key` in pieces.
    pub(crate) fn begin_value(
        &mut self,
        conn: &Conn,
        key: &[u8],
        (bytes, expiry_s): (usize, u32),
        now: Now,
    ) -> ValueStart {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let engine = self.cell.engine();
        match engine.begin_value(pin, &engine.key(key), (bytes, expiry_s), now, &mut NoSink) {
            Ok(value) => {
                self.long.begin(conn.id(), Received::new(self.cell.clone(), value));
                ValueStart::Pieces
            }
            Err(true) => ValueStart::Later,
            Err(false) => ValueStart::Refused,
        }
    }

    /// Takes the next bytes of that value.
    pub(crate) fn take_piece(&mut self, conn: &Conn, piece: &[u8], now: Now) -> Taken {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let Some(received) = self.long.received(conn.id()) else { return Taken::Refused };
        let engine = self.cell.engine();
        match engine.write_piece(pin, received.value(), piece, now, &mut NoSink) {
            Ok(()) => Taken::All,
            Err((taken, true)) => Taken::Later(taken),
            Err((_, false)) => Taken::Refused,
        }
    }

    /// Housekeeping.
    pub(crate) fn tend(&mut self, now: Now, items: u32) -> Left {
        let pin = self.pin.as_mut().expect("a batch has begun");
        match &mut self.replies {
            None => self.cell.engine().tend(pin, now, items, &mut NoSink),
            Some(replies) => self.cell.engine().tend(pin, now, items, &mut replies.sink),
        }
    }

    /// Evicts until the budget has `bytes` left.
    pub(crate) fn give_back(&mut self, bytes: u64, now: Now) -> bool {
        let pin = self.pin.as_mut().expect("a batch has begun");
        match &mut self.replies {
            None => self.cell.engine().give_back(pin, bytes, now, &mut NoSink),
            Some(replies) => self.cell.engine().give_back(pin, bytes, now, &mut replies.sink),
        }
    }

    /// Notes that the reply in execution shows the item of a key with `version`, or that the key
    /// has none.
    #[inline(always)]
    pub(crate) fn shows(&mut self, key: &engine::Key<'_>, version: Option<Version>) {
        if let Some(replies) = &mut self.replies {
            replies.goes_by(key.bytes);
            replies.shows(key.id.slice, version);
        }
    }

    /// Notes that the reply in execution shows how far `slice` has come.
    pub(crate) fn shows_slice(&mut self, slice: SliceId) {
        if let Some(replies) = &mut self.replies {
            replies.shows(slice, None);
        }
    }

    /// Who holds the entries of the log, as an error line names it.
    pub(crate) fn holder(&self) -> String {
        let replies = self.replies.as_ref();
        replies
            .map_or_else(|| "no reader".to_owned(), |replies| replies.log().slowest(replies.level))
    }

    /// Appends the error line of a change that the log had no space for.
    #[cold]
    pub(crate) fn log_is_full(&self, out: &mut Vec<u8>) {
        let why = match &self.tiered {
            Some(tiered) if tiered.member().is_some() => {
                format!("{}; it waits for {}", tiered.fullness(), self.holder())
            }
            Some(tiered) => tiered.fullness(),
            None => format!("the log is full: it waits for {}", self.holder()),
        };
        out.extend_from_slice(format!("SERVER_ERROR {why}\r\n").as_bytes());
    }

    /// Ends all items now, and calls off what was to end them later.
    pub(crate) fn flush(&mut self) -> Result<(), Park> {
        let cell = self.cell.clone();
        let _order = cell.flush_order();
        self.flush_in_order()
    }

    /// Ends all items in second `due_s`.
    pub(crate) fn flush_later(&mut self, due_s: u32) -> Result<(), Park> {
        let _order = self.cell.flush_order();
        if let Some(replies) = &mut self.replies {
            replies.flush_later(due_s)?;
        }
        self.cell.flush_at(due_s);
        Ok(())
    }

    /// Carries out the delayed flush, unless another worker does, or has done so. Where a log is
    /// full, the next batch tries again.
    #[cold]
    fn carry_out_flush(&mut self, now: Now) {
        let cell = self.cell.clone();
        let Some(_order) = cell.try_flush_order() else { return };
        if cell.is_flush_due(now) {
            let _ = self.flush_in_order();
        }
    }

    fn flush_in_order(&mut self) -> Result<(), Park> {
        let engine = self.cell.engine();
        match &mut self.replies {
            None => engine.flush(),
            Some(replies) => replies.flush(engine, SliceRange::ALL)?,
        }
        self.cell.flush_at(0);
        Ok(())
    }

    /// Ends all items of `slices` now, of which this cell orders the changes.
    pub(crate) fn flush_slices(&mut self, slices: SliceRange) -> Result<(), Park> {
        self.counters.cmd_flush.add(1);
        let replies = self.replies.as_mut().expect("a cell of a ring keeps a log");
        replies.flush(self.cell.engine(), slices)
    }

    /// The engine, and the pin of the batch.
    #[inline]
    pub(crate) fn engine(&mut self) -> (&Engine, &mut Pin) {
        (self.cell.engine(), self.pin.as_mut().expect("a batch has begun"))
    }

    /// Applies a change of another cell.
    pub(crate) fn apply(
        &mut self,
        (slice, version): (SliceId, Version),
        effect: &Effect<'_>,
        now: Now,
    ) -> Applied {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let engine = self.cell.engine();
        match &mut self.replies {
            None => engine.apply(pin, slice, effect, version, now, &mut NoSink),
            Some(replies) => engine.apply(pin, slice, effect, version, now, &mut replies.sink),
        }
    }

    /// The same for a change of what this cell copies: above a tier it is journaled, too.
    pub(crate) fn copy(
        &mut self,
        (slice, version): (SliceId, Version),
        effect: &Effect<'_>,
        now: Now,
    ) -> Applied {
        let is_kept = !matches!(effect.change, Change::Remove(Removal::Evicted | Removal::Expired));
        // What is not journaled must not be shown.
        if let Some(copied) = self.copied.as_mut().filter(|_| is_kept) {
            let (key_bytes, value_bytes) = (effect.key.len(), effect.change.value_bytes());
            let value = match effect.change {
                Change::Put(value, _) | Change::Touch(_, Some((value, _))) => Some(value),
                Change::Touch(_, None) | Change::Remove(_) => None,
            };
            let space = Space::Change { key_bytes, value_bytes, value };
            if let Err(refused) = copied.reserve(slice, space) {
                return Applied::Later(Obstacle::Sink(refused));
            }
        }
        let applied = self.apply((slice, version), effect, now);
        if let Some(copied) = self.copied.as_mut().filter(|_| is_kept)
            && matches!(applied, Applied::Done | Applied::Stale)
        {
            let key = KeyId { slice, hash: 0 };
            if let Err(refused) = copied.commit(key, effect, || Ok(version)) {
                return Applied::Later(Obstacle::Sink(refused));
            }
            self.journaled += copied.charge_of(slice, effect);
        }
        applied
    }

    /// The engine, the pin of the batch, and what its changes are appended to.
    pub(crate) fn parts(&mut self) -> (&Engine, &mut Pin, &mut WorkerSink) {
        let pin = self.pin.as_mut().expect("a batch has begun");
        let replies = self.replies.as_mut().expect("a cell of a ring keeps a log");
        (self.cell.engine(), pin, &mut replies.sink)
    }

    /// The pin of the batch, for a read that must leave the worker shared.
    #[inline(always)]
    pub(crate) fn pin(&self) -> &Pin {
        self.pin.as_ref().expect("a batch has begun")
    }
}

/// Whether a change of `slice` that met `obstacle` finds no memory at a copy, which gets none
/// unless a client deletes something: then it is refused as where the memory of this cell is full.
#[cold]
fn is_full(replies: &Replies, slice: SliceId, obstacle: Obstacle) -> bool {
    matches!(obstacle, Obstacle::Sink(_)) && replies.log().is_full(slice)
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(local) = self.pin.take().map(Pin::unpin).or(self.lease.take()) {
            self.cell.leases().give(local);
        }
    }
}
