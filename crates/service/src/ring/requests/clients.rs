//! The requests of clients in a ring: executed here, or made into jobs.
//!
//! ```text
//! one key       -> led here: executed  -> else a job
//! several keys  -> all led at one level here: executed  -> else a job for each key
//! flush_all     -> a job for each range; one with a delay is proposed for the map
//! ```
//!
//! Invariant: where there is no place for more jobs, the client is parked before anything is begun.

use super::as_copy;
use super::executor::{Executor, Leads};
use super::flush as flush_range;
use super::gather::{Asks, Gather, PartOf};
use super::jobs::{JOBS_MAX, Jobs};
use super::target::{Subject, is_noreply, repeat, subject, value_bytes};
use super::wanted::Wanted;
use crate::ring::cell::{Finding, Flushing};
use crate::ring::copy_reads::{self, AGE_MS_MAX, Chosen};
use crate::ring::job::{Job, Origin, Repeat};
use crate::ring::not_now::NotNow;
use crate::ring::routes::Target;
use base::SliceId;
use memcache::reply::LINE_END;
use memcache::{Key, KeyScratch, Keys, Request};
use ring::{Consistency, Durability, Range, Reads};
use session::{Answer, Conn, ConnId, Copies, Outcome, Plain, Reply, Ticket};

/// Delayed flushes of a worker that are proposed and not decided.
const FLUSHES_MAX: usize = 16;
/// Jobs beyond [`JOBS_MAX`] if they only delete what a client could not replace.
const UNLINKS_MAX: usize = 1 << 10;

/// Bytes of a request without its value, nearly always.
const TEXT_BYTES: usize = 96;

/// Whether all keys are led at one level, which is used then.
pub(crate) fn leads_all(jobs: &mut Jobs, keys: Keys<'_>, changes: bool) -> bool {
    let mut level = None;
    for key in keys.flatten() {
        let (target, _) = jobs.executor.route(SliceId::of(key.as_bytes()));
        if !matches!(target, Target::Here(..)) || level.is_some_and(|level| level != target) {
            return false;
        }
        level = Some(target);
    }
    let first = keys.flatten().next();
    let is_kept = keys.flatten().any(|key| jobs.is_kept(SliceId::of(key.as_bytes())));
    let leads = |key: Key<'_>| jobs.executor.leads(SliceId::of(key.as_bytes()), changes);
    !is_kept && first.is_some_and(leads)
}

/// Executes `request` of one key, or sends it to its owner.
pub(crate) fn call(
    jobs: &mut Jobs,
    conn: &mut Conn,
    (request, slice): (&Request<'_>, SliceId),
    ticket: Ticket,
    reply: &mut Reply,
) -> Outcome {
    let wanted = wanted(request, jobs.executor.consistency());
    if wanted.as_ref().is_ok_and(|it| it.durability == Durability::D0) {
        conn.copies = Copies::Never;
    }
    let leads = match wanted {
        Ok(_) if jobs.is_kept(slice) => Leads::No(NotNow::Unknown),
        Ok(wanted) => jobs.executor.leads_as(slice, wanted),
        Err(unknown) => Leads::Refused(format!("CLIENT_ERROR {unknown}")),
    };
    match leads {
        Leads::Yes => jobs.executor.call(conn, request, ticket, reply),
        // A part of its reply has left: only this cell can go on with it.
        Leads::No(_) | Leads::Refused(_) if conn.progress > 0 => Outcome::Park,
        Leads::No(_) => forward(jobs, conn, (request, slice), ticket, reply),
        Leads::Refused(line) => {
            if !is_noreply(request) {
                reply.bytes_mut().extend_from_slice(line.as_bytes());
                reply.bytes_mut().extend_from_slice(LINE_END);
            }
            Outcome::Done
        }
    }
}

/// How `request` is to be answered where the ring has this `default`, or why it is refused.
fn wanted(request: &Request<'_>, default: Consistency) -> Result<Wanted, String> {
    copy_reads::chosen(request).map_err(|unknown| unknown.to_string())?;
    Wanted::of(request, default).map_err(|unknown| unknown.to_string())
}

/// Answers the plain `get` of a client that lets copies answer, if this cell is to as a copy.
/// `None`: nothing has happened.
#[inline(never)]
pub(crate) fn get_as_copy(
    jobs: &mut Jobs,
    conn: ConnId,
    (key, hashed): (Key<'_>, engine::Key<'_>),
    reply: &mut Reply,
) -> Option<Answer> {
    let (slice, executor) = (hashed.id.slice, &jobs.executor);
    let age_ms = executor.ring.host.copy_reads.age_of(key.as_bytes());
    let fences = executor.consistency().reads == Reads::Fence;
    if age_ms == 0 || fences || jobs.is_kept(slice) {
        return None;
    }
    let (Target::Cell(primary), _) = executor.route(slice) else { return None };
    let me = executor.ring.identity.cell;
    if jobs.copy_for(primary, (Some(conn), slice)) != Some(me) || !jobs.has_newest_map() {
        return None;
    }
    let answer = as_copy::get(&mut jobs.executor, (key, hashed), age_ms, reply)?;
    if jobs.from_copies.is_to_be_known() {
        jobs.notes_use(key.as_bytes(), slice);
    }
    Some(answer)
}

/// Sends a plain request to its owner, as its client has written it. `false` if it takes the
/// general way: nothing has happened then.
pub(crate) fn send_on(jobs: &mut Jobs, conn: &Conn, plain: &Plain<'_>, ticket: Ticket) -> bool {
    let slice = SliceId::of(plain.key.as_bytes());
    let Target::Cell(cell) = jobs.executor.route(slice).0 else { return false };
    let has_place = jobs.waiting() < JOBS_MAX && jobs.takes(plain.text.len());
    if !has_place || jobs.is_kept(slice) || !jobs.has_links() {
        return false;
    }
    let fences = jobs.executor.consistency().reads == Reads::Fence;
    let origin = if plain.noreply { Origin::Nobody } else { Origin::Client(ticket) };
    let repeat = if plain.reads { Repeat::Always } else { Repeat::ById };
    let mut text = jobs.buffers.take();
    text.extend_from_slice(plain.text);
    let job = Job::new(origin, (text, slice), repeat, jobs.due_ns());
    let copy_reads = &jobs.executor.ring.host.copy_reads;
    match plain.reads && conn.copies == Copies::ByDefault && !fences {
        true => {
            let age_ms = copy_reads.age_of(plain.key.as_bytes());
            jobs.begin(job.for_copies(age_ms, Some(conn.id())));
        }
        false => jobs.ask(cell, job),
    }
    true
}

/// Sends `request` to its owner, or tries again a little later.
fn forward(
    jobs: &mut Jobs,
    conn: &Conn,
    (request, slice): (&Request<'_>, SliceId),
    ticket: Ticket,
    reply: &mut Reply,
) -> Outcome {
    let noreply = is_noreply(request);
    let age_ms = age_of(jobs, conn, request);
    if let Some(outcome) = is_full(jobs, (1, value_bytes(request)), conn, noreply, reply) {
        return outcome;
    }
    let origin = if noreply { Origin::Nobody } else { Origin::Client(ticket) };
    let mut text = jobs.buffers.take();
    text.reserve(TEXT_BYTES + value_bytes(request));
    memcache::write(request, &mut text);
    let job = Job::new(origin, (text, slice), repeat(request), jobs.due_ns());
    jobs.dispatch(job.for_copies(age_ms, Some(conn.id())));
    if noreply { Outcome::Done } else { Outcome::Pending }
}

/// How old the answer of a copy to `request` of one key may be; 0: no copy may answer.
fn age_of(jobs: &Jobs, conn: &Conn, request: &Request<'_>) -> u16 {
    let copy_reads = &jobs.executor.ring.host.copy_reads;
    let chosen = copy_reads::chosen(request).unwrap_or(Chosen::Primary);
    let default = jobs.executor.consistency();
    let fences = Wanted::of(request, default).is_ok_and(|it| it.fences);
    let asks_for_fence = fences && default.reads != Reads::Fence;
    let is_for_copies = copy_reads::is_for_copies(request) && conn.copies != Copies::Never;
    let by_default = || {
        let mut scratch: KeyScratch = [0; _];
        match subject(request, &mut scratch) {
            Subject::Key(key) => copy_reads.age_of(key.as_bytes()),
            _ => 0,
        }
    };
    match chosen {
        _ if !is_for_copies || asks_for_fence => 0,
        Chosen::Copy(age_ms) => age_ms.unwrap_or(match copy_reads.age_ms {
            0 => AGE_MS_MAX,
            age_ms => age_ms,
        }),
        Chosen::Nothing if conn.copies == Copies::ByDefault && !fences => by_default(),
        Chosen::Nothing | Chosen::Primary => 0,
    }
}

/// What to do where there is no place for that many more jobs, with values of `bytes` bytes.
fn is_full(
    jobs: &Jobs,
    (more, bytes): (usize, usize),
    conn: &Conn,
    noreply: bool,
    reply: &mut Reply,
) -> Option<Outcome> {
    let has_place = jobs.waiting() + more <= JOBS_MAX;
    if has_place && jobs.takes(bytes) {
        return None;
    }
    if more <= JOBS_MAX && !conn.is_overdue() {
        return Some(Outcome::Park);
    }
    if noreply {
        return Some(Outcome::Done);
    }
    let line = match has_place {
        true => format!(
            "SERVER_ERROR {} bytes of requests wait for other cells, at most {} may: send it \
             again later\r\n",
            jobs.waiting_bytes(),
            jobs.bytes_max
        ),
        false if more > JOBS_MAX => format!(
            "SERVER_ERROR {more} keys in one request, at most {JOBS_MAX} may be: ask for \
             fewer\r\n"
        ),
        false => format!(
            "SERVER_ERROR {JOBS_MAX} requests wait for other cells, no more may: send it again \
             later\r\n"
        ),
    };
    reply.bytes_mut().extend_from_slice(line.as_bytes());
    Some(Outcome::Done)
}

/// Deletes `key` wherever it is. Nobody waits for it, and nobody can be parked until there is
/// place for it: beyond its bound it is not done.
pub(crate) fn unlink(jobs: &mut Jobs, key: Key<'_>) {
    if jobs.waiting() >= JOBS_MAX + UNLINKS_MAX {
        return;
    }
    let mut text = Vec::new();
    memcache::write(&Request::Delete { key, noreply: true }, &mut text);
    let slice = SliceId::of(key.as_bytes());
    jobs.dispatch(Job::new(Origin::Nobody, (text, slice), Repeat::ById, jobs.due_ns()));
}

/// Reads several keys, each from its owner.
pub(crate) fn gather(
    jobs: &mut Jobs,
    conn: &Conn,
    (request, keys): (&Request<'_>, Keys<'_>),
    ticket: Ticket,
    reply: &mut Reply,
) -> Outcome {
    if let Some(outcome) = is_full(jobs, (keys.count(), 0), conn, false, reply) {
        return outcome;
    }
    let parts = keys.flatten().map(|key| part(request, key));
    let is_for_copies = repeat(request) == Repeat::Always
        && conn.copies == Copies::ByDefault
        && jobs.executor.consistency().reads != Reads::Fence;
    let conn = is_for_copies.then(|| conn.id());
    let part = PartOf { repeat: repeat(request), conn };
    begin_gather(jobs, Gather::new(ticket, Asks::Values, part, parts))
}

/// Begins a request in several parts. While some of them wait, nothing that follows it is executed:
/// it could change what they ask for.
fn begin_gather(jobs: &mut Jobs, gather: Gather) -> Outcome {
    let number = jobs.asked.next_id();
    jobs.finishing.gather(number, gather);
    jobs.begin_parts(number);
    if jobs.finishing.has_waiting(number) { Outcome::PendingAlone } else { Outcome::Pending }
}

/// Ends all items, range by range.
pub(crate) fn flush(
    jobs: &mut Jobs,
    conn: &Conn,
    ticket: Ticket,
    noreply: bool,
    reply: &mut Reply,
) -> Outcome {
    let map = jobs.executor.ring.map();
    let part = |range: &Range| {
        let slices = range.slices();
        Some((flush_range::text(slices)?, slices.iter().next()?))
    };
    let parts: Vec<_> = map.ranges.iter().filter_map(part).collect();
    if parts.is_empty() && !noreply {
        reply.bytes_mut().extend_from_slice(b"SERVER_ERROR the ring has not formed\r\n");
        return Outcome::Done;
    }
    if let Some(outcome) = is_full(jobs, (parts.len(), 0), conn, noreply, reply) {
        return outcome;
    }
    // To flush twice ends what was written since.
    if !noreply {
        let parts = parts.into_iter();
        let part = PartOf { repeat: Repeat::Never, conn: None };
        // What follows it is not to be ended by it.
        let _ = begin_gather(jobs, Gather::new(ticket, Asks::Done, part, parts));
        return Outcome::PendingAlone;
    }
    for what in parts {
        jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::Never, jobs.due_ns()));
    }
    Outcome::Done
}

/// Ends all items in second `due_s`, once the map has that.
pub(crate) fn flush_later(
    jobs: &mut Jobs,
    due_s: u32,
    ticket: Ticket,
    noreply: bool,
    reply: &mut Reply,
) -> Outcome {
    let flushes = &mut jobs.finishing.flushes;
    if flushes.len() >= FLUSHES_MAX {
        if !noreply {
            let line = format!(
                "SERVER_ERROR {FLUSHES_MAX} delayed flush_all are not decided, no more may \
                 wait: send it again later\r\n"
            );
            reply.bytes_mut().extend_from_slice(line.as_bytes());
        }
        return Outcome::Done;
    }
    let id = jobs.executor.ring.next_number();
    flushes.insert(id, (!noreply).then_some(ticket));
    let Executor { ring, worker, now, .. } = &jobs.executor;
    ring.find(Finding::Flushes(Flushing { worker: *worker, id, due_s, at_s: now.expiry_s }));
    if noreply { Outcome::Done } else { Outcome::Pending }
}

/// `request` for one of its keys.
fn part(request: &Request<'_>, key: Key<'_>) -> (Vec<u8>, SliceId) {
    let keys = Keys::one(key);
    let one = match *request {
        Request::Gat { exptime, with_cas, .. } => Request::Gat { exptime, keys, with_cas },
        Request::Get { with_cas, .. } => Request::Get { keys, with_cas },
        other => other,
    };
    let mut text = Vec::with_capacity(TEXT_BYTES);
    memcache::write(&one, &mut text);
    (text, SliceId::of(key.as_bytes()))
}

/// The session has waited for the reply to `ticket` for too long. Returns its error line.
pub(crate) fn overdue(jobs: &mut Jobs, ticket: Ticket) -> String {
    // Its place is free when its outcome comes.
    let mut flushes = jobs.finishing.flushes.values_mut();
    if let Some(waits) = flushes.find(|waits| **waits == Some(ticket)) {
        *waits = None;
        let line = "SERVER_ERROR in doubt: the agreement has not confirmed it in time\r\n";
        return line.to_owned();
    }
    match jobs.asked.forget(ticket) {
        Some((cell, true)) => format!("SERVER_ERROR cell {cell} has not answered in time\r\n"),
        Some((cell, false)) => {
            format!("SERVER_ERROR in doubt: cell {cell} has not answered in time\r\n")
        }
        None => {
            jobs.finishing.forget(ticket);
            "SERVER_ERROR in doubt: the owner has not answered in time\r\n".to_owned()
        }
    }
}
