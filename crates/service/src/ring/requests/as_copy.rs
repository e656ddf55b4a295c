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
use crate::ring::copy_reads::{AGE_MS_MAX, is_for_copies};
use base::{Now, SliceId};
use memcache::{KeyScratch, Request};
use ring::{Durability, Granted};
use session::Reply;

/// Answers `text`, a read, as a copy that is `age_ms` old at most. False, and nothing is appended,
/// if it may not; `reply` is empty.
pub(crate) fn answer(executor: &mut Executor, text: &[u8], age_ms: u16, reply: &mut Reply) -> bool {
    let Some((Asked::Request(request), slice)) = executor.read(text) else { return false };
    let answered = is_for_copies(&request)
        .then(|| answer_confirmed(executor, (&request, slice), age_ms, reply));
    let is_answered = answered.flatten().is_some();
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

fn answer_confirmed(
    executor: &mut Executor,
    (request, slice): (&Request<'_>, SliceId),
    age_ms: u16,
    reply: &mut Reply,
) -> Option<()> {
    let is_at_d0 = executor.consistency().durability == Durability::D0;
    // Above a tier, what it shows would have to be in its journal, too.
    if is_at_d0 || executor.ring.below().is_some() {
        return None;
    }
    let copied = executor.routes.as_ref()?.copied(slice)?;
    if executor.now.mono_ns < copied.answers_from_ns {
        return None;
    }
    let (led_by, granted) = ((copied.primary, copied.epoch), copied.granted.now());
    let until_ns = granted.from_ns + u64::from(age_ms.min(AGE_MS_MAX)) * 1_000_000;
    if granted.from_ns == 0 || executor.now.mono_ns >= until_ns {
        return None;
    }
    let followed = executor.ring.origins.followed(slice)?;
    if (followed.primary, followed.epoch) != led_by || !executor.ring.exchanges.are_over() {
        return None;
    }
    let second = executor.now.expiry_s.max(granted.may_show_s);
    let shown = Now { expiry_s: second, ..executor.now };
    if !is_as_at_primary(executor, request, shown, &granted) {
        return None;
    }
    let now = std::mem::replace(&mut executor.now, shown);
    let executed = execute_shown(executor, request, reply);
    executor.now = now;
    let Executed::Done = executed else { return None };
    let is_settled = executor.ring.origins.is_settled(slice, followed.primary);
    if !is_settled || executor.ring.origins.followed(slice) != Some(followed) {
        return None;
    }
    executor.reads_until_ns(until_ns);
    Some(())
}

/// Whether the primary finds the key in the second that it shows now if it is found in that of
/// `shown`: that of the primary is not later, and not earlier than one that it has shown.
fn is_as_at_primary(
    executor: &mut Executor,
    request: &Request<'_>,
    shown: Now,
    granted: &Granted,
) -> bool {
    let mut scratch: KeyScratch = [0; _];
    let Subject::Key(key) = subject(request, &mut scratch) else { return false };
    executor.inner.worker.begin(executor.now);
    let (engine, pin) = executor.inner.worker.engine();
    let key = engine.key(key.as_bytes());
    let at = |expiry_s| engine.peek(pin, &key, Now { expiry_s, ..shown }).is_some();
    granted.shown_s >= shown.expiry_s
        || at(shown.expiry_s)
        || granted.shown_s > 0 && !at(granted.shown_s)
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
