//! `set`, `add`, `replace`, `append`, `prepend`, `cas`, `delete`, `incr`, `decr`, `touch`.

use crate::worker::{Service, expiry_s};
use base::Now;
use engine::{Action, Mode, NoSink, Op, Outcome, Wrote};
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
    ) -> Wrote {
        let (engine, local) = self.engine();
        let mut op = Op::new(engine.key(key.as_bytes()), action);
        with(&mut op);
        let compare = op.compare.is_some();
        let wrote = engine.write(local, &op, now, &mut NoSink);
        let counters = &self.counters;
        if compare {
            match wrote.outcome {
                Outcome::Done => counters.cas_hits.add(1),
                Outcome::Exists => counters.cas_badval.add(1),
                Outcome::NotFound => counters.cas_misses.add(1),
                _ => {}
            }
        }
        match wrote.outcome {
            Outcome::TooLarge => counters.store_too_large.add(1),
            Outcome::NoSpace => counters.store_no_memory.add(1),
            _ => {}
        }
        if wrote.outcome == Outcome::NoSpace
            && matches!(action, Action::Store { mode: Mode::Set, .. })
        {
            self.unlink(now, key);
        }
        wrote
    }

    #[inline]
    pub(crate) fn store(&mut self, now: Now, store: &Store<'_>, reply: &mut Reply) {
        self.counters.cmd_set.add(1);
        let (mode, compare) = match store.verb {
            StoreVerb::Set => (Mode::Set, None),
            StoreVerb::Add => (Mode::Add, None),
            StoreVerb::Replace => (Mode::Replace, None),
            StoreVerb::Append => (Mode::Append { vivify: false }, None),
            StoreVerb::Prepend => (Mode::Prepend { vivify: false }, None),
            StoreVerb::Cas(token) => (Mode::Set, Some(token)),
        };
        let action = Action::Store {
            mode,
            value: store.value,
            client_flags: store.flags,
            expiry_s: expiry_s(store.exptime, now),
        };
        let wrote = self.write(now, store.key, action, |op| op.compare = compare);
        if store.noreply {
            return;
        }
        let out = reply.bytes_mut();
        match wrote.outcome {
            Outcome::Done => out.extend_from_slice(reply::STORED),
            outcome => not_stored(outcome, out),
        }
    }

    pub(crate) fn delete(&mut self, now: Now, key: Key<'_>, noreply: bool, reply: &mut Reply) {
        let wrote = self.write(now, key, Action::Delete, |_| {});
        let hit = wrote.outcome == Outcome::Done;
        let counters = &self.counters;
        if hit { &counters.delete_hits } else { &counters.delete_misses }.add(1);
        if !noreply {
            reply.bytes_mut().extend_from_slice(line(wrote.outcome, reply::DELETED));
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
        self.counted(down, wrote.outcome);
        if noreply {
            return;
        }
        let out = reply.bytes_mut();
        match wrote.outcome {
            Outcome::Done => reply::number(out, wrote.number),
            Outcome::NoSpace => out.extend_from_slice(reply::OUT_OF_MEMORY),
            outcome => out.extend_from_slice(line(outcome, b"")),
        }
    }

    pub(crate) fn counted(&self, down: bool, outcome: Outcome) {
        let counters = &self.counters;
        let counter = match (down, outcome) {
            (false, Outcome::NotFound) => &counters.incr_misses,
            (true, Outcome::NotFound) => &counters.decr_misses,
            (false, Outcome::Done) => &counters.incr_hits,
            (true, Outcome::Done) => &counters.decr_hits,
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
        let hit = wrote.outcome == Outcome::Done;
        if hit { &counters.touch_hits } else { &counters.touch_misses }.add(1);
        if !noreply {
            reply.bytes_mut().extend_from_slice(line(wrote.outcome, reply::TOUCHED));
        }
    }
}

/// Says why a value was not stored; apart, so that the others need no table of lines.
#[cold]
fn not_stored(outcome: Outcome, out: &mut Vec<u8>) {
    out.extend_from_slice(line(outcome, reply::STORED));
}

/// The line for an outcome; `done` says what success is called.
fn line(outcome: Outcome, done: &'static [u8]) -> &'static [u8] {
    match outcome {
        Outcome::Done => done,
        Outcome::NotStored => reply::NOT_STORED,
        Outcome::Exists => reply::EXISTS,
        Outcome::NotFound => reply::NOT_FOUND,
        Outcome::NotNumber => reply::NON_NUMERIC,
        Outcome::TooLarge => reply::TOO_LARGE,
        Outcome::NoSpace => reply::OUT_OF_MEMORY_STORING,
    }
}
