//! The meta commands: `mg`, `ms`, `md`, `ma`, `me`.

use crate::worker::{Service, expiry_s};
use base::Now;
use engine::{Action, FetchOptions, Found, ItemView, Mode, NoSink, Read, ReadSink, WriteStatus};
use memcache::reply::{ItemDebug, ItemFacts, Marks, MetaStatus};
use memcache::{Direction, KeyScratch, KeyToken, MetaFlags, MetaMode, reply};
use session::Reply;

/// Where a value goes: behind its meta header.
struct MetaValue<'a, 'f> {
    out: &'a mut Vec<u8>,
    start: usize,
    key: KeyToken<'a>,
    flags: &'a MetaFlags<'f>,
    now: Now,
    /// What was known of the item, once it was found.
    found: Found,
    /// Whether it had been fetched and how long it was idle, where this request has changed that
    /// by looking twice.
    before: Option<(bool, u32)>,
}

impl ReadSink for MetaValue<'_, '_> {
    const AFTER: &'static [u8] = reply::LINE_END;

    #[inline]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        self.found = view.found();
        if let Some((fetched, idle_s)) = self.before {
            (self.found.fetched, self.found.idle_s) = (fetched, idle_s);
        }
        let found = &self.found;
        let marks =
            Marks { sent: found.token_sent && !found.won, stale: found.stale, won: found.won };
        let wanted = wants_value(self.flags, found);
        let facts = facts(found, self.now);
        reply::meta_hit(self.out, self.key, self.flags, &facts, marks, wanted);
        wanted.then_some(self.out)
    }

    fn rewind(&mut self) {
        self.out.truncate(self.start);
    }
}

/// Whether the value is sent: not to a client that has this very version of it.
fn wants_value(flags: &MetaFlags<'_>, found: &Found) -> bool {
    flags.wants_value() && flags.cas() != Some(found.cas)
}

fn facts(found: &Found, now: Now) -> ItemFacts {
    ItemFacts {
        value_bytes: found.value_bytes as u64,
        cas: found.cas,
        client_flags: found.client_flags,
        ttl_s: ttl_s(found, now),
        idle_s: found.idle_s,
        fetched: found.fetched,
    }
}

fn ttl_s(found: &Found, now: Now) -> Option<u32> {
    (found.expiry_s != 0).then(|| found.expiry_s.saturating_sub(now.expiry_s))
}

/// The only class of sizes there is.
pub(crate) const CLASS: u32 = 1;

/// What `me` and dumps show of an item.
pub(crate) fn debug(found: &Found, now: Now) -> ItemDebug {
    ItemDebug { facts: facts(found, now), class: CLASS, item_bytes: found.size_bytes as u64 }
}

impl Service {
    #[inline]
    pub(crate) fn meta_get(
        &mut self,
        now: Now,
        token: KeyToken<'_>,
        flags: &MetaFlags<'_>,
        reply: &mut Reply,
    ) {
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let seconds = |exptime| expiry_s(exptime, now);
        let options = FetchOptions {
            touch: flags.ttl().map(seconds),
            vivify: flags.vivify().map(seconds),
            vivify_cas: flags.cas_new(),
            recache_before_s: flags.recache().map(seconds),
            quiet: flags.no_bump(),
        };
        let out = reply.bytes_mut();
        let start = out.len();
        let found = Found::default();
        let mut sink = MetaValue { out, start, key: token, flags, now, found, before: None };
        let (engine, pin) = self.engine();
        let key = engine.key(key.as_bytes());
        let changes = options.touch.is_some()
            || options.vivify.is_some()
            || options.recache_before_s.is_some();
        let mut read = Read::Miss;
        if !changes && !options.quiet {
            read = engine.get(pin, &key, now, &mut sink);
        }
        // A stale item gives a token to its next reader, and only the lock decides who that is.
        let contested = read == Read::Hit && sink.found.stale && !sink.found.token_sent;
        if changes || options.quiet || contested {
            sink.rewind();
            sink.before = contested.then_some((sink.found.fetched, sink.found.idle_s));
            read = engine.fetch(pin, &key, &options, now, &mut NoSink, &mut sink);
        }
        let found = sink.found;
        let counters = &self.counters;
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
            Read::Miss => reply::meta_miss(out, token, flags),
            Read::NoSpace if options.vivify.is_some() => reply::meta_miss(out, token, flags),
            Read::NoSpace => out.extend_from_slice(reply::OUT_OF_MEMORY),
        }
    }

    pub(crate) fn meta_set(
        &mut self,
        now: Now,
        token: KeyToken<'_>,
        mode: MetaMode,
        flags: &MetaFlags<'_>,
        value: &[u8],
        reply: &mut Reply,
    ) {
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        self.counters.cmd_meta.add(1);
        self.counters.cmd_set.add(1);
        let vivify = flags.vivify();
        let (mode, exptime) = match mode {
            MetaMode::Set => (Mode::Set, flags.ttl()),
            MetaMode::Add => (Mode::Add, flags.ttl()),
            MetaMode::Replace => (Mode::Replace, flags.ttl()),
            MetaMode::Append => (Mode::Append { vivify: vivify.is_some() }, vivify),
            MetaMode::Prepend => (Mode::Prepend { vivify: vivify.is_some() }, vivify),
        };
        let action = Action::Store {
            mode,
            value,
            client_flags: flags.client_flags(),
            expiry_s: expiry_s(exptime.unwrap_or(0), now),
        };
        let wrote = self.write(now, key, action, |op| {
            op.compare = match mode {
                Mode::Set | Mode::Replace => flags.cas(),
                // Zero is no token where the protocol has no command to compare with.
                Mode::Append { .. } | Mode::Prepend { .. } => flags.cas().filter(|cas| *cas != 0),
                Mode::Add => None,
            };
            op.older_as_stale = flags.invalidate()
                && flags.cas() != Some(0)
                && matches!(mode, Mode::Set | Mode::Replace);
            op.cas = flags.cas_new();
            op.report = true;
        });
        if wrote.status == WriteStatus::NoSpace {
            self.unlink(now, key);
        }
        let out = reply.bytes_mut();
        match status(wrote.status) {
            Some(status) => {
                let stored = status == MetaStatus::Done;
                let found = wrote.found.filter(|_| stored);
                let cas = found.map_or(0, |found| found.cas);
                let bytes = found.map_or(value.len(), |found| found.value_bytes);
                reply::meta_stored(out, status, token, flags, cas, bytes as u64);
            }
            None => {
                out.extend_from_slice(failure(wrote.status, reply::OUT_OF_MEMORY_STORING));
            }
        }
    }

    pub(crate) fn meta_delete(
        &mut self,
        now: Now,
        token: KeyToken<'_>,
        flags: &MetaFlags<'_>,
        reply: &mut Reply,
    ) {
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let expiry_s = flags.ttl().map(|exptime| expiry_s(exptime, now));
        let action = if flags.remove_value() {
            let (client_flags, stale) = (flags.client_flags(), flags.invalidate());
            Action::Clear { client_flags, expiry_s, stale }
        } else if flags.invalidate() {
            Action::Invalidate { expiry_s }
        } else {
            Action::Delete
        };
        let wrote = self.write(now, key, action, |op| {
            op.compare = flags.cas();
            op.cas = flags.cas_new();
            op.report = true;
        });
        self.counters.cmd_meta.add(1);
        match wrote.status {
            WriteStatus::Done => self.counters.delete_hits.add(1),
            WriteStatus::NotFound | WriteStatus::Exists => self.counters.delete_misses.add(1),
            _ => {}
        }
        let out = reply.bytes_mut();
        match status(wrote.status) {
            Some(status) => reply::meta_status(out, status, token, flags),
            None => out.extend_from_slice(failure(wrote.status, reply::OUT_OF_MEMORY)),
        }
    }

    pub(crate) fn meta_arith(
        &mut self,
        now: Now,
        token: KeyToken<'_>,
        direction: Direction,
        flags: &MetaFlags<'_>,
        reply: &mut Reply,
    ) {
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let down = direction == Direction::Decrement;
        let seconds = |exptime| expiry_s(exptime, now);
        let action = Action::Count {
            delta: flags.delta(),
            down,
            initial: flags.vivify().map(|exptime| (flags.initial(), seconds(exptime))),
            expiry_s: flags.ttl().map(seconds),
        };
        let wrote = self.write(now, key, action, |op| {
            op.compare = flags.cas().filter(|cas| *cas != 0);
            op.cas = flags.cas_new();
            op.report = true;
        });
        self.counters.cmd_meta.add(1);
        self.counted(down, wrote.status);
        let out = reply.bytes_mut();
        match wrote.status {
            WriteStatus::Done => {
                let found = wrote.found.unwrap_or_default();
                let (cas, ttl_s) = (found.cas, ttl_s(&found, now));
                reply::meta_number(out, token, flags, wrote.number, cas, ttl_s);
            }
            outcome => match status(outcome) {
                Some(status) => reply::meta_status(out, status, token, flags),
                None => out.extend_from_slice(failure(outcome, reply::OUT_OF_MEMORY)),
            },
        }
    }

    pub(crate) fn meta_debug(&mut self, now: Now, token: KeyToken<'_>, reply: &mut Reply) {
        let mut scratch: KeyScratch = [0; _];
        let key = token.key(&mut scratch);
        let (engine, pin) = self.engine();
        let found = engine.peek(pin, &engine.key(key.as_bytes()), now);
        let out = reply.bytes_mut();
        self.counters.cmd_meta.add(1);
        match found {
            Some(found) => reply::meta_debug(out, token, &debug(&found, now)),
            None => out.extend_from_slice(reply::META_END),
        }
    }
}

/// The meta code of an outcome, for those that have one.
fn status(outcome: WriteStatus) -> Option<MetaStatus> {
    match outcome {
        WriteStatus::Done => Some(MetaStatus::Done),
        WriteStatus::NotStored => Some(MetaStatus::NotStored),
        WriteStatus::Exists => Some(MetaStatus::Exists),
        WriteStatus::NotFound => Some(MetaStatus::NotFound),
        WriteStatus::NotNumber | WriteStatus::TooLarge | WriteStatus::NoSpace => None,
    }
}

/// The error line of an outcome without a meta code; `no_space` says that there is no room.
fn failure(outcome: WriteStatus, no_space: &'static [u8]) -> &'static [u8] {
    match outcome {
        WriteStatus::NotNumber => reply::NON_NUMERIC,
        WriteStatus::TooLarge => reply::TOO_LARGE,
        _ => no_space,
    }
}
