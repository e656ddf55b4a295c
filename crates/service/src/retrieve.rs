//! `get`, `gets`, `gat`, `gats`.
//!
//! A multiget is executed in groups: first all keys of a group are hashed and their buckets are
//! prefetched, then the values are read, so that the waits for memory overlap. A long reply leaves
//! in parts. A part is sent before the next is composed; `Conn::progress` counts the keys answered.
//! A long value leaves in parts too: its memory is held until the last of them.
//!
//! Invariants: values leave in the order of the keys. A key that is too long anywhere in the line
//! is found before the first part leaves, so the refusal is always sent alone.

use crate::long::InParts;
use crate::park::Park;
use crate::tiered::Below;
use crate::worker::Worker;
use base::{Now, Version};
use engine::{FetchOptions, HeldValue, ItemView, LongValues, Obstacle, Prefetched, Read, ReadSink};
use memcache::{Key, Keys, Refusal, reply};
use session::{Answer, Conn, Mark, Outcome, Reply};

/// Keys that are hashed before the first of them is read.
const GROUP_KEYS: usize = 16;

/// A reply of this many bytes leaves before more of it is composed.
const PART_BYTES_MAX: usize = 256 << 10;

/// Where a value is written: after its header line, which has the token if `CAS`. If `ALONE`, the
/// end of the whole reply comes after it.
struct ValueLines<'a, const CAS: bool, const ALONE: bool> {
    reply: &'a mut Vec<u8>,
    /// Where the lines of this value begin. While there is no value, past the end of the reply.
    start: usize,
    key: Key<'a>,
}

impl<'a, const CAS: bool, const ALONE: bool> ValueLines<'a, CAS, ALONE> {
    #[inline(always)]
    fn new(reply: &'a mut Vec<u8>, key: Key<'a>) -> Self {
        Self { start: usize::MAX, reply, key }
    }
}

impl<const CAS: bool, const ALONE: bool> ReadSink for ValueLines<'_, CAS, ALONE> {
    const AFTER: &'static [u8] = if ALONE { b"\r\nEND\r\n" } else { reply::LINE_END };
    const LONG: LongValues = LongValues::Declined;

    #[inline(always)]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        let bytes = view.value_bytes();
        self.start = self.reply.len();
        if CAS || view.has_client_flags() || !reply::short_value(self.reply, self.key, bytes) {
            let cas = CAS.then(|| view.cas());
            reply::value(self.reply, self.key, view.client_flags(), bytes as u64, cas);
        }
        Some(self.reply)
    }

    fn rewind(&mut self) {
        self.reply.truncate(self.start);
    }
}

/// A sink that also notes the version of the item.
struct Versioned<S> {
    sink: S,
    version: Option<Version>,
}

impl<S: ReadSink> ReadSink for Versioned<S> {
    const AFTER: &'static [u8] = S::AFTER;
    const LONG: LongValues = S::LONG;

    #[inline]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        self.version = Some(view.version());
        self.sink.open(view)
    }

    fn rewind(&mut self) {
        self.sink.rewind();
    }

    fn hold(&mut self, value: HeldValue) {
        self.sink.hold(value);
    }
}

/// `get` of one key, which was hashed before: the most frequent request. False if the value must be
/// sent in parts: nothing was appended or counted then.
#[inline(always)]
pub(crate) fn get_single(
    worker: &mut Worker,
    now: Now,
    (key, hashed): (Key<'_>, engine::Key<'_>),
    out: &mut Vec<u8>,
) -> bool {
    let (engine, pin) = worker.engine();
    let ahead = engine.look_ahead(hashed);
    let lines = ValueLines::<false, true>::new(out, key);
    let Some(read) = engine.get_short(pin, &ahead, now, lines) else {
        return get_single_any(worker, now, key, out);
    };
    match read {
        Read::Hit => retrieved(worker, read),
        _ => missed(worker, out),
    }
}

/// Counts a miss, and replies it. False above a tier, where it may be none.
#[inline]
fn missed(worker: &Worker, out: &mut Vec<u8>) -> bool {
    if worker.has_tier() {
        return false;
    }
    retrieved(worker, Read::Miss);
    out.extend_from_slice(reply::END);
    true
}

/// [`get_single`] for what the short way of a read does not handle.
#[cold]
#[inline(never)]
fn get_single_any(worker: &mut Worker, now: Now, key: Key<'_>, out: &mut Vec<u8>) -> bool {
    let (engine, pin) = worker.engine();
    let hashed = engine.key(key.as_bytes());
    let read = engine.get(pin, &hashed, now, ValueLines::<false, true>::new(out, key));
    if let Read::Later(_) = read {
        return false;
    }
    match read {
        Read::Hit => retrieved(worker, read),
        _ => missed(worker, out),
    }
}

/// The same, where the reply waits for what it shows.
#[inline(never)]
pub(crate) fn get_shown(
    worker: &mut Worker,
    now: Now,
    (key, hashed): (Key<'_>, engine::Key<'_>),
    out: &mut Vec<u8>,
) -> Answer {
    let (engine, pin) = worker.engine();
    let lines = ValueLines::<false, true>::new(out, key);
    let mut sink = Versioned { sink: lines, version: None };
    let read = engine.get(pin, &hashed, now, &mut sink);
    let version = sink.version;
    if let Read::Later(_) = read {
        return Answer::Declined;
    }
    if read != Read::Hit && worker.has_tier() {
        return Answer::Declined;
    }
    if !worker.is_counted() {
        retrieved(worker, read);
    }
    if read != Read::Hit {
        out.extend_from_slice(reply::END);
    }
    worker.answer_read(&hashed, version)
}

/// `get` and `gets` of any number of keys.
#[inline(never)]
pub(crate) fn get<const CAS: bool>(
    worker: &mut Worker,
    now: Now,
    conn: &mut Conn,
    mut keys: Keys<'_>,
    reply: &mut Reply,
) -> Outcome {
    let start = reply.mark();
    if goes_on(worker, conn, &mut keys, reply) {
        return Outcome::More;
    }
    let cell = worker.shared_cell();
    let engine = cell.engine();
    loop {
        let mut group = [None; GROUP_KEYS];
        let mut count = 0;
        for place in &mut group {
            let key = match keys.next() {
                None => break,
                Some(Ok(key)) => key,
                Some(Err(refusal)) => return refuse(&refusal, start, reply),
            };
            *place = Some((key, engine.look_ahead(engine.key(key.as_bytes()))));
            count += 1;
        }
        for (at, (key, ahead)) in group[..count].iter().flatten().enumerate() {
            match get_one::<CAS>(worker, now, *key, ahead, reply.bytes_mut()) {
                Got::Whole if reply.len_since(start) < PART_BYTES_MAX => {}
                Got::Whole => {
                    conn.progress += at as u64 + 1;
                    return pause(&keys, start, reply, Outcome::More);
                }
                Got::Held(value) => {
                    conn.progress += at as u64;
                    return send(worker, conn, value, &keys, start, reply);
                }
                Got::Later if worker.parks_for_value(now).is_err() => {
                    conn.progress += at as u64;
                    return pause(&keys, start, reply, Outcome::Park);
                }
                Got::Below => {
                    conn.progress += at as u64;
                    let others = group[at + 1..count].iter().flatten().map(|(_, it)| *it.key());
                    worker.look_ahead_below(others, now);
                    if worker.parks().is_err() {
                        return pause(&keys, start, reply, Outcome::Park);
                    }
                    reply.rewind(start);
                    worker.below_is_busy(reply.bytes_mut());
                    return Outcome::Done;
                }
                Got::Later => {
                    reply.rewind(start);
                    reply.bytes_mut().extend_from_slice(reply::OUT_OF_MEMORY_WRITING);
                    return Outcome::Done;
                }
            }
        }
        conn.progress += count as u64;
        if count < GROUP_KEYS {
            reply.bytes_mut().extend_from_slice(reply::END);
            return Outcome::Done;
        }
    }
}

/// How one key of several was read.
enum Got {
    /// As a whole, or there is no item.
    Whole,
    /// Its value is to be sent in parts, which follow its line.
    Held(HeldValue),
    /// Not now: too much is being sent in parts.
    Later,
    /// Not now: it is not in memory, and looked for below.
    Below,
}

#[inline(always)]
fn get_one<const CAS: bool>(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    ahead: &Prefetched<'_, '_>,
    out: &mut Vec<u8>,
) -> Got {
    let mut held = None;
    let lines = InParts { sink: ValueLines::<CAS, false>::new(out, key), held: &mut held };
    let read = if worker.replies.is_none() {
        worker.cell().engine().get_ahead(worker.pin(), ahead, now, lines)
    } else {
        let mut sink = Versioned { sink: lines, version: None };
        let read = worker.cell().engine().get_ahead(worker.pin(), ahead, now, &mut sink);
        let version = sink.version;
        worker.shows(ahead.key(), version);
        read
    };
    if let Read::Later(_) = read {
        return Got::Later;
    }
    if read != Read::Hit
        && worker.has_tier()
        && let Below::Later = worker.look_below(*ahead.key(), now)
    {
        return Got::Below;
    }
    retrieved(worker, read);
    held.map_or(Got::Whole, Got::Held)
}

/// Continues the value that is being sent in parts, if there is one. Returns whether more parts
/// follow; if not, the keys that are answered are skipped.
#[inline(always)]
fn goes_on(worker: &mut Worker, conn: &mut Conn, keys: &mut Keys<'_>, reply: &mut Reply) -> bool {
    if Worker::is_sending(conn) {
        if worker.sends_more(conn, reply.bytes_mut()) {
            return true;
        }
        conn.progress += 1;
    }
    keys.skip_answered(conn.progress as u32);
    false
}

/// Sends a value in parts: the first one follows its line at once.
#[cold]
fn send(
    worker: &mut Worker,
    conn: &mut Conn,
    value: HeldValue,
    keys: &Keys<'_>,
    start: Mark,
    reply: &mut Reply,
) -> Outcome {
    let outcome = pause(keys, start, reply, Outcome::More);
    match outcome {
        Outcome::More => worker.send(conn, value, reply.bytes_mut()),
        _ => worker.cell().engine().release(value),
    }
    outcome
}

/// As [`get`], with a new expiry for every item found.
pub(crate) fn gat<const CAS: bool>(
    worker: &mut Worker,
    now: Now,
    conn: &mut Conn,
    mut keys: Keys<'_>,
    expiry_s: u32,
    reply: &mut Reply,
) -> Outcome {
    let (start, more) = (reply.mark(), goes_on(worker, conn, &mut keys, reply));
    if more {
        return Outcome::More;
    }
    while let Some(key) = keys.next() {
        match key {
            Ok(key) => {
                let mut held = None;
                let (out, place) = (reply.bytes_mut(), &mut held);
                let read = gat_one::<CAS>(worker, now, key, expiry_s, place, out);
                let Ok(read) = read else { return pause(&keys, start, reply, Outcome::Park) };
                if !matches!(read, Read::Hit | Read::Miss) {
                    reply.rewind(start);
                    match read {
                        Read::Later(Obstacle::Sink(_)) => worker.log_is_full(reply.bytes_mut()),
                        Read::Later(Obstacle::Elsewhere) => worker.below_is_busy(reply.bytes_mut()),
                        _ => reply.bytes_mut().extend_from_slice(reply::OUT_OF_MEMORY_WRITING),
                    }
                    return Outcome::Done;
                }
                if let Some(value) = held {
                    return send(worker, conn, value, &keys, start, reply);
                }
            }
            Err(refusal) => return refuse(&refusal, start, reply),
        }
        conn.progress += 1;
        if reply.len_since(start) >= PART_BYTES_MAX {
            return pause(&keys, start, reply, Outcome::More);
        }
    }
    reply.bytes_mut().extend_from_slice(reply::END);
    Outcome::Done
}

fn gat_one<const CAS: bool>(
    worker: &mut Worker,
    now: Now,
    key: Key<'_>,
    expiry_s: u32,
    held: &mut Option<HeldValue>,
    out: &mut Vec<u8>,
) -> Result<Read, Park> {
    let mut lines = InParts { sink: ValueLines::<CAS, false>::new(out, key), held };
    let options =
        FetchOptions { touch: Some(expiry_s), leaves_token: true, ..FetchOptions::default() };
    let hashed = worker.cell().engine().key(key.as_bytes());
    let read = worker.fetch(&hashed, &options, now, &mut lines);
    if let Read::Later(_) = read {
        worker.parks()?;
    }
    let hit = retrieved(worker, read);
    let counters = worker.counters();
    counters.cmd_touch.add(1);
    if hit { &counters.touch_hits } else { &counters.touch_misses }.add(1);
    Ok(read)
}

/// Counts a read. Returns whether it was a hit.
#[inline(always)]
fn retrieved(worker: &Worker, read: Read) -> bool {
    let hit = read == Read::Hit;
    let counters = worker.counters();
    if hit { &counters.get_hits } else { &counters.get_misses }.add(1);
    hit
}

/// A key is too long: the values found so far are dropped, and the refusal is sent alone.
#[cold]
fn refuse(refusal: &Refusal<'_>, start: Mark, reply: &mut Reply) -> Outcome {
    reply.rewind(start);
    reply::refusal(reply.bytes_mut(), refusal);
    Outcome::Done
}

/// A part of the reply leaves and cannot be taken back, so the keys that remain are checked first.
#[cold]
fn pause(keys: &Keys<'_>, start: Mark, reply: &mut Reply, outcome: Outcome) -> Outcome {
    match keys.clone().find_map(Result::err) {
        Some(refusal) => refuse(&refusal, start, reply),
        None => outcome,
    }
}
