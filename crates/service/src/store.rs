//! `set`, `add`, `replace`, `append`, `prepend`, `cas`, `delete`, `incr`, `decr`, `touch`.
//!
//! A command becomes one operation of the engine, and its outcome a line. What makes operations
//! differ from memcached's rules is decided here: which counter they raise, and that a `set` that
//! finds no memory deletes the old value.
//!
//! Invariant: a function called with `noreply` appends nothing.

use crate::park::{Executed, Park};
use crate::worker::Worker;
use base::Now;
use engine::{Action, Mode, Obstacle, Op, Put, WriteResult, WriteStatus};
use memcache::{Direction, Expiry, Key, Store, StoreVerb, reply};
use session::Reply;

/// Makes one change, and counts what all kinds of change have in common. A change that cannot be
/// made now parks the request.
#[inline]
pub(crate) fn write(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    action: Action<'_>,
    with: impl FnOnce(&mut Op<'_>),
) -> Result<WriteResult, Park> {
    let mut op = Op::new(worker.cell().engine().key(key.as_bytes()), action);
    with(&mut op);
    let compare = op.compare.is_some();
    let wrote = worker.write(&op, now);
    if let WriteStatus::Later(_) = wrote.status {
        worker.parks()?;
    }
    if compare {
        let counters = worker.counters();
        match wrote.status {
            WriteStatus::Done => counters.cas_hits.add(1),
            WriteStatus::Exists => counters.cas_badval.add(1),
            WriteStatus::NotFound => counters.cas_misses.add(1),
            _ => {}
        }
    }
    not_written(worker, wrote.status);
    Ok(wrote)
}

/// `set`: the most frequent write.
#[inline(never)]
pub(crate) fn set(worker: &mut Worker, now: Now, store: &Store<'_>, out: &mut Vec<u8>) -> Executed {
    let key = worker.cell().engine().key(store.key.as_bytes());
    let expiry_s = expiry_s(store.exptime, now);
    let put = Put { value: store.value, client_flags: store.flags, expiry_s };
    let outcome = worker.set(&key, put, now);
    if outcome != WriteStatus::Done {
        not_set(worker, now, store.key, outcome)?;
    }
    worker.counters().cmd_set.add(1);
    if !store.noreply {
        stored(worker, outcome, out);
    }
    Ok(())
}

/// Any storage command.
#[inline(never)]
pub(crate) fn store(
    worker: &mut Worker,
    now: Now,
    store: &Store<'_>,
    out: &mut Vec<u8>,
) -> Executed {
    match store.verb {
        StoreVerb::Set => set(worker, now, store, out),
        _ => store_any(worker, now, store, out),
    }
}

/// Any storage command, on the general way. Its value may have arrived in pieces.
pub(crate) fn store_any(
    worker: &mut Worker,
    now: Now,
    store: &Store<'_>,
    out: &mut Vec<u8>,
) -> Executed {
    let (mode, compare) = match store.verb {
        StoreVerb::Set => (Mode::Set, None),
        StoreVerb::Add => (Mode::Add, None),
        StoreVerb::Replace => (Mode::Replace, None),
        StoreVerb::Append => (Mode::Append { vivify: false }, None),
        StoreVerb::Prepend => (Mode::Prepend { vivify: false }, None),
        StoreVerb::Cas(token) => (Mode::Set, Some(token)),
    };
    let expiry_s = match worker.received_facts() {
        Some((_, expiry_s)) => expiry_s,
        None => expiry_s(store.exptime, now),
    };
    let (value, client_flags) = (store.value, store.flags);
    let action = Action::Store { mode, value, client_flags, expiry_s };
    let wrote = write(worker, now, store.key, action, |op| op.compare = compare)?;
    if store.verb == StoreVerb::Set && is_out_of_space(wrote.status) {
        unlink(worker, now, store.key);
    }
    worker.counters().cmd_set.add(1);
    if !store.noreply {
        stored(worker, wrote.status, out);
    }
    Ok(())
}

/// Counts why a `set` stored nothing. If there was no memory, or the value is too long for the log,
/// the old value is deleted: the client wanted to replace it, so nobody may read it again. A `set`
/// that can be made later parks.
#[cold]
fn not_set(worker: &mut Worker, now: Now, key: Key<'_>, outcome: WriteStatus) -> Executed {
    if let WriteStatus::Later(_) = outcome {
        worker.parks()?;
    }
    not_written(worker, outcome);
    if is_out_of_space(outcome) || outcome == WriteStatus::TooLarge {
        unlink(worker, now, key);
    }
    Ok(())
}

/// Whether a change was not made for lack of space.
pub(crate) fn is_out_of_space(outcome: WriteStatus) -> bool {
    matches!(outcome, WriteStatus::NoSpace | WriteStatus::Later(Obstacle::Memory))
}

/// Deletes an item whose new value could not be stored, so that no stale value is read; below the
/// memory too.
pub(crate) fn unlink(worker: &mut Worker, now: Now, key: Key<'_>) {
    let key = worker.cell().engine().key(key.as_bytes());
    worker.write(&Op { unseen: true, ..Op::new(key, Action::Delete) }, now);
}

#[inline]
fn not_written(worker: &Worker, outcome: WriteStatus) {
    match outcome {
        WriteStatus::TooLarge => worker.counters().store_too_large.add(1),
        outcome if is_out_of_space(outcome) => worker.counters().store_no_memory.add(1),
        _ => {}
    }
}

/// `delete`.
pub(crate) fn delete(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    noreply: bool,
    reply: &mut Reply,
) -> Executed {
    let wrote = write(worker, now, key, Action::Delete, |_| {})?;
    let hit = wrote.status == WriteStatus::Done;
    let counters = worker.counters();
    if hit { &counters.delete_hits } else { &counters.delete_misses }.add(1);
    if !noreply {
        respond(worker, wrote.status, reply::DELETED, reply.bytes_mut());
    }
    Ok(())
}

/// `incr` and `decr`.
pub(crate) fn count(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    delta: u64,
    direction: Direction,
    noreply: bool,
    reply: &mut Reply,
) -> Executed {
    let down = direction == Direction::Decrement;
    let action = Action::Count { delta, down, initial: None, expiry_s: None };
    let wrote = write(worker, now, key, action, |_| {})?;
    counted(worker, down, wrote.status);
    if noreply {
        return Ok(());
    }
    let out = reply.bytes_mut();
    match wrote.status {
        WriteStatus::Done => reply::number(out, wrote.number),
        outcome if is_out_of_space(outcome) => out.extend_from_slice(reply::OUT_OF_MEMORY),
        outcome => respond(worker, outcome, b"", out),
    }
    Ok(())
}

/// Counts the outcome of an `incr`, or of a `decr` if `down`.
pub(crate) fn counted(worker: &Worker, down: bool, outcome: WriteStatus) {
    let counters = worker.counters();
    let counter = match (down, outcome) {
        (false, WriteStatus::NotFound) => &counters.incr_misses,
        (true, WriteStatus::NotFound) => &counters.decr_misses,
        (false, WriteStatus::Done) => &counters.incr_hits,
        (true, WriteStatus::Done) => &counters.decr_hits,
        _ => return,
    };
    counter.add(1);
}

/// `touch`.
pub(crate) fn touch(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    exptime: i64,
    noreply: bool,
    reply: &mut Reply,
) -> Executed {
    let action = Action::Touch { expiry_s: expiry_s(exptime, now) };
    let wrote = write(worker, now, key, action, |_| {})?;
    let counters = worker.counters();
    counters.cmd_touch.add(1);
    let hit = wrote.status == WriteStatus::Done;
    if hit { &counters.touch_hits } else { &counters.touch_misses }.add(1);
    if !noreply {
        respond(worker, wrote.status, reply::TOUCHED, reply.bytes_mut());
    }
    Ok(())
}

/// Replies whether a value was stored, and if not, why.
#[inline(always)]
fn stored(worker: &Worker, outcome: WriteStatus, out: &mut Vec<u8>) {
    match outcome {
        WriteStatus::Done => out.extend_from_slice(reply::STORED),
        outcome => respond(worker, outcome, reply::STORED, out),
    }
}

/// Replies how a change ended. `done` is the line for success.
#[cold]
fn respond(worker: &Worker, outcome: WriteStatus, done: &'static [u8], out: &mut Vec<u8>) {
    match outcome {
        WriteStatus::Later(Obstacle::Sink(_)) => worker.log_is_full(out),
        WriteStatus::Later(Obstacle::Elsewhere) => worker.below_is_busy(out),
        outcome => out.extend_from_slice(line(outcome, done)),
    }
}

/// The line for an outcome; `done` is the line for success.
fn line(outcome: WriteStatus, done: &'static [u8]) -> &'static [u8] {
    match outcome {
        WriteStatus::Done => done,
        WriteStatus::NotStored => reply::NOT_STORED,
        WriteStatus::Exists => reply::EXISTS,
        WriteStatus::NotFound => reply::NOT_FOUND,
        WriteStatus::NotNumber => reply::NON_NUMERIC,
        WriteStatus::TooLarge => reply::TOO_LARGE,
        WriteStatus::NoSpace | WriteStatus::Later(_) => reply::OUT_OF_MEMORY_STORING,
    }
}

/// The expiry second for the engine: 0 if the item never expires. An expiry time in the past
/// becomes the present second, in which the item is expired already.
pub(crate) fn expiry_s(exptime: i64, now: Now) -> u32 {
    match memcache::expiry(exptime, now.expiry_s) {
        Expiry::Never => 0,
        Expiry::At(second) => second,
        Expiry::Expired => now.expiry_s.max(1),
    }
}
