//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.
//!
//! Each becomes one operation of the engine, except an `mg` that changes nothing: it reads without
//! a lock first, and takes the lock only if the item is stale and its token is still to be given.
//!
//! Invariant: one client at most wins the token of an item that is stale, missing or about to
//! expire.

use crate::facts;
use crate::long::InParts;
use crate::park::{Executed, Park};
use crate::store::{counted, expiry_s, is_out_of_space, unlink, write};
use crate::tiered::Below;
use crate::worker::Worker;
use base::{Now, Version};
use engine::{
    Action, FetchOptions, Found, HeldValue, ItemView, Mode, Obstacle, Read, ReadSink, WriteStatus,
};
use memcache::reply::{Marks, MetaStatus};
use memcache::{Direction, KeyScratch, KeyToken, MetaArgs, MetaFlags, MetaMode, reply};
use session::{Conn, Outcome, Reply};

/// Where a value is written: after its meta header.
struct MetaValue<'a, 'r> {
    out: &'a mut Vec<u8>,
    start: usize,
    args: &'a MetaArgs<'r>,
    now: Now,
    /// What the engine knows about the item, once it is found.
    found: Found,
    version: Option<Version>,
    /// Whether the item was fetched before, and how long it was idle, if this request reads it
    /// twice: the first read has changed both.
    before: Option<(bool, u32)>,
}

impl ReadSink for MetaValue<'_, '_> {
    const AFTER: &'static [u8] = reply::LINE_END;

    #[inline]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        self.found = view.found();
        self.version = Some(view.version());
        if let Some((fetched, idle_s)) = self.before {
            (self.found.fetched, self.found.idle_s) = (fetched, idle_s);
        }
        let found = &self.found;
        let marks =
            Marks { sent: found.token_sent && !found.won, stale: found.stale, won: found.won };
        let wanted = wants_value(&self.args.flags, found);
        let facts = facts::facts(found, self.now);
        reply::meta_hit(self.out, self.args, &facts, marks, wanted);
        wanted.then_some(self.out)
    }

    fn rewind(&mut self) {
        self.out.truncate(self.start);
    }
}

/// Whether the value is sent. It is not if the client has this version of it already.
fn wants_value(flags: &MetaFlags<'_>, found: &Found) -> bool {
    flags.wants_value() && flags.cas() != Some(found.cas)
}

/// `mg`. A long value leaves in parts.
#[inline]
pub(crate) fn get(
    worker: &mut Worker,
    now: Now,
    conn: &mut Conn,
    args: &MetaArgs<'_>,
    reply: &mut Reply,
) -> Outcome {
    if Worker::is_sending(conn) {
        let more = worker.sends_more(conn, reply.bytes_mut());
        return if more { Outcome::More } else { Outcome::Done };
    }
    match get_or_hold(worker, now, args, reply) {
        Ok(None) => Outcome::Done,
        Ok(Some(value)) => {
            worker.send(conn, value, reply.bytes_mut());
            Outcome::More
        }
        Err(Park) => Outcome::Park,
    }
}

/// Answers `mg`. Returns the value if that is long: its parts are to follow.
#[inline]
fn get_or_hold(
    worker: &mut Worker,
    now: Now,
    args: &MetaArgs<'_>,
    reply: &mut Reply,
) -> Result<Option<HeldValue>, Park> {
    let (flags, mut scratch): (_, KeyScratch) = (&args.flags, [0; _]);
    let key = args.key.key(&mut scratch);
    let seconds = |exptime| expiry_s(exptime, now);
    let options = FetchOptions {
        touch: flags.ttl().map(seconds),
        vivify: flags.vivify().map(seconds),
        vivify_cas: flags.cas_new(),
        recache_before_s: flags.recache().map(seconds),
        quiet: flags.no_bump(),
        leaves_token: false,
    };
    let out = reply.bytes_mut();
    let start = out.len();
    let found = Found::default();
    let mut sink = MetaValue { out, start, args, now, found, version: None, before: None };
    let key = worker.cell().engine().key(key.as_bytes());
    let changes =
        options.touch.is_some() || options.vivify.is_some() || options.recache_before_s.is_some();
    let mut read = Read::Miss;
    let mut held = None;
    if !changes && !options.quiet {
        let parts = InParts { sink: &mut sink, held: &mut held };
        read = worker.cell().engine().get(worker.pin(), &key, now, parts);
        if read == Read::Miss
            && worker.has_tier()
            && let Below::Later = worker.look_below(key, now)
        {
            read = Read::Later(Obstacle::Elsewhere);
        }
        worker.shows(&key, sink.version);
    }
    // A stale item gives a token to its next reader. Only under the lock is there one next reader.
    let contested = read == Read::Hit && sink.found.stale && !sink.found.token_sent;
    if changes || options.quiet || contested {
        if let Some(value) = held.take() {
            worker.cell().engine().release(value);
        }
        sink.rewind();
        if worker.is_copy {
            return Err(Park);
        }
        sink.before = contested.then_some((sink.found.fetched, sink.found.idle_s));
        let mut parts = InParts { sink: &mut sink, held: &mut held };
        read = worker.fetch(&key, &options, now, &mut parts);
    }
    match read {
        Read::Later(Obstacle::Memory) => worker.parks_for_value(now)?,
        Read::Later(_) => worker.parks()?,
        _ => {}
    }
    let found = sink.found;
    let counters = worker.counters();
    counters.cmd_meta.add(1);
    let empty = found.value_bytes == 0 && !found.fetched;
    let vivified = options.vivify.is_some() && found.won && !found.stale && empty;
    let hit = read == Read::Hit && !vivified;
    if hit { &counters.get_hits } else { &counters.get_misses }.add(1);
    if options.touch.is_some() {
        counters.cmd_touch.add(1);
        if hit { &counters.touch_hits } else { &counters.touch_misses }.add(1);
    }
    match read {
        Read::Hit => {}
        Read::Miss => reply::meta_miss(out, args),
        Read::Later(Obstacle::Sink(_)) => worker.log_is_full(out),
        Read::Later(Obstacle::Elsewhere) => worker.below_is_busy(out),
        _ if options.vivify.is_some() => reply::meta_miss(out, args),
        _ => out.extend_from_slice(reply::OUT_OF_MEMORY),
    }
    Ok(held)
}

/// The expiry time of an item that `ms` creates.
pub(crate) fn exptime(args: &MetaArgs<'_>, mode: MetaMode) -> Option<i64> {
    if mode.joins() { args.flags.vivify() } else { args.flags.ttl() }
}

/// `ms`.
pub(crate) fn set(
    worker: &mut Worker,
    now: Now,
    args: &MetaArgs<'_>,
    mode: MetaMode,
    value: &[u8],
    reply: &mut Reply,
) -> Executed {
    let flags = &args.flags;
    let mut scratch: KeyScratch = [0; _];
    let key = args.key.key(&mut scratch);
    let exptime = exptime(args, mode);
    let vivify = flags.vivify().is_some();
    let joins = mode.joins();
    let mode = match mode {
        MetaMode::Set => Mode::Set,
        MetaMode::Add => Mode::Add,
        MetaMode::Replace => Mode::Replace,
        MetaMode::Append => Mode::Append { vivify },
        MetaMode::Prepend => Mode::Prepend { vivify },
    };
    let (value_bytes, expiry_s) = match worker.received_facts() {
        Some(facts) => facts,
        None => (value.len(), expiry_s(exptime.unwrap_or(0), now)),
    };
    let client_flags = flags.client_flags();
    let action = Action::Store { mode, value, client_flags, expiry_s };
    let wrote = write(worker, now, key, action, |op| {
        op.compare = match mode {
            Mode::Set | Mode::Replace => flags.cas(),
            // As in memcached, `append` and `prepend` take a token of zero for none.
            Mode::Append { .. } | Mode::Prepend { .. } => flags.cas().filter(|cas| *cas != 0),
            Mode::Add => None,
        };
        op.older_as_stale = flags.invalidate()
            && flags.cas() != Some(0)
            && matches!(mode, Mode::Set | Mode::Replace);
        op.cas = flags.cas_new();
        op.report = true;
    })?;
    worker.counters().cmd_meta.add(1);
    worker.counters().cmd_set.add(1);
    if !joins && (is_out_of_space(wrote.status) || wrote.status == WriteStatus::TooLarge) {
        unlink(worker, now, key);
    }
    let out = reply.bytes_mut();
    match status(wrote.status) {
        Some(status) => {
            let stored = status == MetaStatus::Done;
            let found = wrote.found.filter(|_| stored);
            let cas = found.map_or(0, |found| found.cas);
            let bytes = found.map_or(value_bytes, |found| found.value_bytes);
            reply::meta_stored(out, status, args, cas, bytes as u64);
        }
        None => {
            fail(worker, wrote.status, reply::OUT_OF_MEMORY_STORING, out);
        }
    }
    Ok(())
}

/// `md`.
pub(crate) fn delete(
    worker: &mut Worker,
    now: Now,
    args: &MetaArgs<'_>,
    reply: &mut Reply,
) -> Executed {
    let flags = &args.flags;
    let mut scratch: KeyScratch = [0; _];
    let key = args.key.key(&mut scratch);
    let expiry_s = flags.ttl().map(|exptime| expiry_s(exptime, now));
    let action = if flags.remove_value() {
        let (client_flags, stale) = (flags.client_flags(), flags.invalidate());
        Action::Clear { client_flags, expiry_s, stale }
    } else if flags.invalidate() {
        Action::Invalidate { expiry_s }
    } else {
        Action::Delete
    };
    let wrote = write(worker, now, key, action, |op| {
        op.compare = flags.cas();
        op.cas = flags.cas_new();
        op.report = true;
    })?;
    worker.counters().cmd_meta.add(1);
    match wrote.status {
        WriteStatus::Done => worker.counters().delete_hits.add(1),
        WriteStatus::NotFound | WriteStatus::Exists => worker.counters().delete_misses.add(1),
        _ => {}
    }
    let out = reply.bytes_mut();
    match status(wrote.status) {
        Some(status) => reply::meta_status(out, status, args),
        None => fail(worker, wrote.status, reply::OUT_OF_MEMORY, out),
    }
    Ok(())
}

/// `ma`.
pub(crate) fn arith(
    worker: &mut Worker,
    now: Now,
    args: &MetaArgs<'_>,
    direction: Direction,
    reply: &mut Reply,
) -> Executed {
    let flags = &args.flags;
    let mut scratch: KeyScratch = [0; _];
    let key = args.key.key(&mut scratch);
    let down = direction == Direction::Decrement;
    let seconds = |exptime| expiry_s(exptime, now);
    let action = Action::Count {
        delta: flags.delta(),
        down,
        initial: flags.vivify().map(|exptime| (flags.initial(), seconds(exptime))),
        expiry_s: flags.ttl().map(seconds),
    };
    let wrote = write(worker, now, key, action, |op| {
        op.compare = flags.cas().filter(|cas| *cas != 0);
        op.cas = flags.cas_new();
        op.report = true;
    })?;
    worker.counters().cmd_meta.add(1);
    counted(worker, down, wrote.status);
    let out = reply.bytes_mut();
    match wrote.status {
        WriteStatus::Done => {
            let found = wrote.found.unwrap_or_default();
            let (cas, ttl_s) = (found.cas, facts::ttl_s(&found, now));
            reply::meta_number(out, args, wrote.number, cas, ttl_s);
        }
        outcome => match status(outcome) {
            Some(status) => reply::meta_status(out, status, args),
            None => fail(worker, outcome, reply::OUT_OF_MEMORY, out),
        },
    }
    Ok(())
}

/// `me`.
pub(crate) fn debug(
    worker: &mut Worker,
    now: Now,
    token: KeyToken<'_>,
    reply: &mut Reply,
) -> Executed {
    let mut scratch: KeyScratch = [0; _];
    let key = token.key(&mut scratch);
    let key = worker.cell().engine().key(key.as_bytes());
    let found = worker.cell().engine().peek(worker.pin(), &key, now);
    let is_unknown =
        found.is_none() && worker.has_tier() && matches!(worker.look_below(key, now), Below::Later);
    if is_unknown {
        worker.parks()?;
    }
    worker.shows(&key, None);
    let out = reply.bytes_mut();
    worker.counters().cmd_meta.add(1);
    match found {
        Some(found) => reply::meta_debug(out, token, &facts::debug(&found, now)),
        None if is_unknown => worker.below_is_busy(out),
        None => out.extend_from_slice(reply::META_END),
    }
    Ok(())
}

/// The meta code of an outcome. `None` if it has an error line instead.
fn status(outcome: WriteStatus) -> Option<MetaStatus> {
    match outcome {
        WriteStatus::Done => Some(MetaStatus::Done),
        WriteStatus::NotStored => Some(MetaStatus::NotStored),
        WriteStatus::Exists => Some(MetaStatus::Exists),
        WriteStatus::NotFound => Some(MetaStatus::NotFound),
        WriteStatus::NotNumber
        | WriteStatus::TooLarge
        | WriteStatus::NoSpace
        | WriteStatus::Later(_) => None,
    }
}

/// Appends the error line of an outcome without a meta code; `no_space` is the line if there is no
/// memory.
fn fail(worker: &Worker, outcome: WriteStatus, no_space: &'static [u8], out: &mut Vec<u8>) {
    out.extend_from_slice(match outcome {
        WriteStatus::NotNumber => reply::NON_NUMERIC,
        WriteStatus::TooLarge => reply::TOO_LARGE,
        WriteStatus::Later(Obstacle::Sink(_)) => return worker.log_is_full(out),
        WriteStatus::Later(Obstacle::Elsewhere) => return worker.below_is_busy(out),
        _ => no_space,
    });
}
