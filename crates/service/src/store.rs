//! `set`, `add`, `replace`, `append`, `prepend`, `cas`, `delete`, `incr`, `decr`, `touch`.

use crate::worker::{Service, expiry_s};
use base::Now;
use engine::{Action, Mode, NoSink, Op, Put, WriteResult, WriteStatus};
use memcache::{Direction, Key, Store, StoreVerb, reply};
use session::Reply;

impl Service {
    /// Makes one change, and counts what every kind of change has in common.
    #[inline]
    pub(crate) fn write(
        &mut self,
        now: Now,
        key: Key<'_>,
        action: Action<'_>,
        with: impl FnOnce(&mut Op<'_>),
    ) -> WriteResult {
        let (engine, pin) = self.engine();
        let mut op = Op::new(engine.key(key.as_bytes()), action);
        with(&mut op);
        let compare = op.compare.is_some();
        let wrote = engine.write(pin, &op, now, &mut NoSink);
        if compare {
            let counters = &self.counters;
            match wrote.status {
                WriteStatus::Done => counters.cas_hits.add(1),
                WriteStatus::Exists => counters.cas_badval.add(1),
                WriteStatus::NotFound => counters.cas_misses.add(1),
                _ => {}
            }
        }
        self.not_written(wrote.status);
        wrote
    }

    /// Plain `set`: the way of most writes.
    #[inline(never)]
    pub(crate) fn set(&mut self, now: Now, store: &Store<'_>, out: &mut Vec<u8>) {
        self.counters.cmd_set.add(1);
        let (engine, pin) = self.engine();
        let key = engine.key(store.key.as_bytes());
        let expiry_s = expiry_s(store.exptime, now);
        let put = Put { value: store.value, client_flags: store.flags, expiry_s };
        let outcome = engine.set(pin, &key, put, now, &mut NoSink);
        if outcome != WriteStatus::Done {
            self.not_set(now, store.key, outcome);
        }
        if !store.noreply {
            stored(outcome, out);
        }
    }

    /// `add`, `replace`, `append`, `prepend` and `cas`.
    #[inline(never)]
    pub(crate) fn store(&mut self, now: Now, store: &Store<'_>, out: &mut Vec<u8>) {
        let (mode, compare) = match store.verb {
            StoreVerb::Set => return self.set(now, store, out),
            StoreVerb::Add => (Mode::Add, None),
            StoreVerb::Replace => (Mode::Replace, None),
            StoreVerb::Append => (Mode::Append { vivify: false }, None),
            StoreVerb::Prepend => (Mode::Prepend { vivify: false }, None),
            StoreVerb::Cas(token) => (Mode::Set, Some(token)),
        };
        self.counters.cmd_set.add(1);
        let action = Action::Store {
            mode,
            value: store.value,
            client_flags: store.flags,
            expiry_s: expiry_s(store.exptime, now),
        };
        let wrote = self.write(now, store.key, action, |op| op.compare = compare);
        if !store.noreply {
            stored(wrote.status, out);
        }
    }

    /// Counts why a `set` did not store; the value it was to replace is stale now, and goes.
    #[cold]
    fn not_set(&mut self, now: Now, key: Key<'_>, outcome: WriteStatus) {
        self.not_written(outcome);
        if outcome == WriteStatus::NoSpace {
            self.unlink(now, key);
        }
    }

    #[inline]
    fn not_written(&self, outcome: WriteStatus) {
        match outcome {
            WriteStatus::TooLarge => self.counters.store_too_large.add(1),
            WriteStatus::NoSpace => self.counters.store_no_memory.add(1),
            _ => {}
        }
    }

    pub(crate) fn delete(&mut self, now: Now, key: Key<'_>, noreply: bool, reply: &mut Reply) {
        let wrote = self.write(now, key, Action::Delete, |_| {});
        let hit = wrote.status == WriteStatus::Done;
        let counters = &self.counters;
        if hit { &counters.delete_hits } else { &counters.delete_misses }.add(1);
        if !noreply {
            reply.bytes_mut().extend_from_slice(line(wrote.status, reply::DELETED));
        }
    }

    pub(crate) fn count(
        &mut self,
        now: Now,
        key: Key<'_>,
        delta: u64,
        direction: Direction,
        noreply: bool,
        reply: &mut Reply,
    ) {
        let down = direction == Direction::Decrement;
        let action = Action::Count { delta, down, initial: None, expiry_s: None };
        let wrote = self.write(now, key, action, |_| {});
        self.counted(down, wrote.status);
        if noreply {
            return;
        }
        let out = reply.bytes_mut();
        match wrote.status {
            WriteStatus::Done => reply::number(out, wrote.number),
            WriteStatus::NoSpace => out.extend_from_slice(reply::OUT_OF_MEMORY),
            outcome => out.extend_from_slice(line(outcome, b"")),
        }
    }

    pub(crate) fn counted(&self, down: bool, outcome: WriteStatus) {
        let counters = &self.counters;
        let counter = match (down, outcome) {
            (false, WriteStatus::NotFound) => &counters.incr_misses,
            (true, WriteStatus::NotFound) => &counters.decr_misses,
            (false, WriteStatus::Done) => &counters.incr_hits,
            (true, WriteStatus::Done) => &counters.decr_hits,
            _ => return,
        };
        counter.add(1);
    }

    pub(crate) fn touch(
        &mut self,
        now: Now,
        key: Key<'_>,
        exptime: i64,
        noreply: bool,
        reply: &mut Reply,
    ) {
        let action = Action::Touch { expiry_s: expiry_s(exptime, now) };
        let wrote = self.write(now, key, action, |_| {});
        let counters = &self.counters;
        counters.cmd_touch.add(1);
        let hit = wrote.status == WriteStatus::Done;
        if hit { &counters.touch_hits } else { &counters.touch_misses }.add(1);
        if !noreply {
            reply.bytes_mut().extend_from_slice(line(wrote.status, reply::TOUCHED));
        }
    }
}

/// Says whether a value was stored, and if not, why.
#[inline(always)]
fn stored(outcome: WriteStatus, out: &mut Vec<u8>) {
    match outcome {
        WriteStatus::Done => out.extend_from_slice(reply::STORED),
        outcome => not_stored(outcome, out),
    }
}

/// Apart, so that the common case needs no table of lines.
#[cold]
fn not_stored(outcome: WriteStatus, out: &mut Vec<u8>) {
    out.extend_from_slice(line(outcome, reply::STORED));
}

/// The line for an outcome; `done` says what success is called.
fn line(outcome: WriteStatus, done: &'static [u8]) -> &'static [u8] {
    match outcome {
        WriteStatus::Done => done,
        WriteStatus::NotStored => reply::NOT_STORED,
        WriteStatus::Exists => reply::EXISTS,
        WriteStatus::NotFound => reply::NOT_FOUND,
        WriteStatus::NotNumber => reply::NON_NUMERIC,
        WriteStatus::TooLarge => reply::TOO_LARGE,
        WriteStatus::NoSpace => reply::OUT_OF_MEMORY_STORING,
    }
}
