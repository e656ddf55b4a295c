//! What this cell answers as a copy.
//!
//! ```text
//! in sync by the map, and it takes the primary's changes, which that does not hold back; the
//! primary has granted it time
//!   -> read -> all other copies have what it has, and it takes the same changes still -> answered
//! ```
//!
//! Invariants: what a copy shows, every copy in sync has. It was confirmed by nobody else later
//! than the primary's grant without having come here: so the answer is as old as the grant at most.
//! Whatever second the primary shows now, it finds expired what is found expired here, and the
//! other way round.

use super::executor::{Asked, Executed, Executor};
use super::target::{Subject, subject};
use crate::ring::copies::Followed;
use crate::ring::copy_reads::{AGE_MS_MAX, is_for_copies};
use base::Now;
use memcache::{Key, KeyScratch, Request};
use ring::{APART_S, Durability, Granted};
use session::{Answer, Reply};

/// An answer is composed only if its age leaves so much time for its batch to end.
const LEFT_NS: u64 = 10_000_000;

/// Answers `text`, a read, as a copy that is `age_ms` old at most. False, and nothing is appended,
/// if it may not; `reply` is empty.
pub(crate) fn answer(executor: &mut Executor, text: &[u8], age_ms: u16, reply: &mut Reply) -> bool {
    let Some((Asked::Request(request), _)) = executor.read(text) else { return false };
    let is_answered =
        is_for_copies(&request) && answer_one(executor, &request, age_ms, reply).is_some();
    if !is_answered {
        reply.bytes_mut().clear();
    }
    let counters = executor.inner.worker.counters();
    let count = match is_answered {
        true => &counters.copy_reads,
        false => &counters.copy_reads_refused,
    };
    count.add(1);
    is_answered
}

/// Waits until each change of the key of `text` that is in the log is in the memory, too: a copy
/// may have shown it already.
pub(crate) fn await_changes(executor: &mut Executor, text: &[u8]) {
    let Some((Asked::Request(request), _)) = executor.read(text) else { return };
    let mut scratch: KeyScratch = [0; _];
    let Subject::Key(key) = subject(&request, &mut scratch) else { return };
    executor.inner.worker.begin(executor.now);
    let (engine, pin) = executor.inner.worker.engine();
    // It finds the key under the lock under which changes are made.
    let _ = engine.peek(pin, &engine.key(key.as_bytes()), executor.now);
}

/// Answers the plain `get` of another cell's key, as [`answer`] does. `None`, and nothing is
/// appended, if it may not.
pub(crate) fn get(
    executor: &mut Executor,
    (key, hashed): (Key<'_>, engine::Key<'_>),
    age_ms: u16,
    reply: &mut Reply,
) -> Option<Answer> {
    let reading = begin(executor, &hashed, age_ms)?;
    let mark = reply.mark();
    let got = executor.inner.get_hashed::<false>(reading.now, (key, hashed), reply);
    if got != Answer::Done || !reading.end(executor, &hashed) {
        reply.rewind(mark);
        return None;
    }
    executor.inner.worker.counters().copy_reads.add(1);
    Some(got)
}

/// A read of a copy that has begun.
struct Reading {
    followed: Followed,
    granted: Granted,
    /// When it is executed, in the second that the primary shows at most.
    now: Now,
    until_ns: u64,
}

/// Begins to read `key` as a copy, if its answer is the primary's, and `age_ms` old at most.
fn begin(executor: &mut Executor, key: &engine::Key<'_>, age_ms: u16) -> Option<Reading> {
    let is_at_d0 = executor.consistency().durability == Durability::D0;
    // Above a tier, what it shows would have to be in its journal, too.
    if is_at_d0 || executor.ring.below().is_some() {
        return None;
    }
    let slice = key.id.slice;
    let copied = executor.routes.as_ref()?.copied(slice)?;
    if executor.now.mono_ns < copied.answers_from_ns {
        return None;
    }
    let (led_by, granted) = ((copied.primary, copied.epoch), copied.granted.now());
    let until_ns = granted.from_ns + u64::from(age_ms.min(AGE_MS_MAX)) * 1_000_000;
    let is_young = executor.now.mono_ns + LEFT_NS < until_ns;
    if granted.from_ns == 0 || !is_young || granted.map_version > executor.version() {
        return None;
    }
    let followed = executor.ring.origins.followed(slice)?;
    if (followed.primary, followed.epoch) != led_by || !executor.ring.exchanges.are_over() {
        return None;
    }
    // Where clocks are apart, the primary does not wait for this copy.
    let apart_s =
        if granted.shown_s > granted.may_show_s { granted.shown_s + 1 + APART_S } else { 0 };
    let second = executor.now.expiry_s.max(granted.may_show_s).max(apart_s);
    let now = Now { expiry_s: second, ..executor.now };
    let is_same = is_as_at_primary(executor, key, now, &granted);
    is_same.then_some(Reading { followed, granted, now, until_ns })
}

/// Whether the primary finds the key in the second that it shows now if it is found in that of
/// `shown`: that of the primary is not later, and not earlier than one that it has shown.
fn is_as_at_primary(
    executor: &mut Executor,
    key: &engine::Key<'_>,
    shown: Now,
    granted: &Granted,
) -> bool {
    if granted.shown_s >= shown.expiry_s {
        return true;
    }
    executor.inner.worker.begin(executor.now);
    let (engine, pin) = executor.inner.worker.engine();
    let at = |expiry_s| engine.peek(pin, key, Now { expiry_s, ..shown }).is_some();
    at(shown.expiry_s) || granted.shown_s > 0 && !at(granted.shown_s)
}

impl Reading {
    /// Whether what was read of `key` may be shown: all other copies have it, it was not dropped
    /// meanwhile, and came by no newer map than this cell goes by.
    fn end(&self, executor: &mut Executor, key: &engine::Key<'_>) -> bool {
        let (ring, slice) = (executor.ring.clone(), key.id.slice);
        let is_settled = ring.origins.is_settled(slice, self.followed.primary);
        let is_copied = is_settled && ring.origins.followed(slice) == Some(self.followed);
        let may_be_shown = is_copied
            && ring.newest_version() <= executor.version()
            && is_as_at_primary(executor, key, self.now, &self.granted);
        if may_be_shown {
            executor.reads_until_ns(self.until_ns);
        }
        may_be_shown
    }
}

/// Answers one request of one key, if it may.
fn answer_one(
    executor: &mut Executor,
    request: &Request<'_>,
    age_ms: u16,
    reply: &mut Reply,
) -> Option<()> {
    let mut scratch: KeyScratch = [0; _];
    let Subject::Key(key) = subject(request, &mut scratch) else { return None };
    let hashed = executor.cell().engine().key(key.as_bytes());
    let reading = begin(executor, &hashed, age_ms)?;
    let now = std::mem::replace(&mut executor.now, reading.now);
    let executed = execute_shown(executor, request, reply);
    executor.now = now;
    let is_done = matches!(executed, Executed::Done) && reading.end(executor, &hashed);
    is_done.then_some(())
}

/// Executes a read whose reply waits for nothing.
fn execute_shown(executor: &mut Executor, request: &Request<'_>, reply: &mut Reply) -> Executed {
    let worker = &mut executor.inner.worker;
    if let Some(replies) = &mut worker.replies {
        (replies.durability, replies.fences) = (Durability::D0, None);
    }
    worker.is_copy = true;
    let executed = executor.execute(&Asked::Request(*request), reply);
    executor.inner.worker.is_copy = false;
    executed
}

#[cfg(test)]
#[path = "as_copy_test.rs"]
mod tests;
