//! `get`, `gets`, `gat`, `gats`.
//!
//! A multiget is executed in groups: first every key is hashed and its bucket looked up, then the
//! values are read, so that the waits for memory overlap. A long one is answered in parts, each
//! sent before the next is made.

use crate::worker::Service;
use base::Now;
use engine::{FetchOptions, ItemView, NoSink, Prefetched, Read, ReadSink};
use memcache::{Key, Keys, Refusal, reply};
use session::{Conn, Mark, Outcome, Reply};

/// Keys that are hashed before the first of them is read.
const GROUP_KEYS: usize = 16;

/// Bytes of reply after which a multiget is sent as far as it has come.
const PART_BYTES_MAX: usize = 256 << 10;

/// Where a value goes: behind its header line, which tells the token if `CAS`, and before the end
/// of the whole reply if it is `ALONE`.
struct ValueLines<'a, const CAS: bool, const ALONE: bool> {
    reply: &'a mut Vec<u8>,
    /// Where the value in work begins; past the end while there is none.
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

impl Service {
    /// One key of a plain `get`: the way of most requests.
    #[inline(always)]
    pub(crate) fn get_single(&mut self, now: Now, key: Key<'_>, out: &mut Vec<u8>) {
        let (engine, pin) = self.engine();
        let hashed = engine.key(key.as_bytes());
        let read = engine.get(pin, &hashed, now, ValueLines::<false, true>::new(out, key));
        if !self.retrieved(read) {
            out.extend_from_slice(reply::END);
        }
    }

    /// Any number of keys.
    #[inline(never)]
    pub(crate) fn get<const CAS: bool>(
        &mut self,
        now: Now,
        conn: &mut Conn,
        mut keys: Keys<'_>,
        reply: &mut Reply,
    ) -> Outcome {
        let start = reply.mark();
        keys.pass(conn.progress);
        loop {
            let mut group = [None; GROUP_KEYS];
            let mut count = 0;
            for place in &mut group {
                let key = match keys.next() {
                    None => break,
                    Some(Ok(key)) => key,
                    Some(Err(refusal)) => return refuse(&refusal, start, reply),
                };
                let hashed = self.cell.engine.key(key.as_bytes());
                *place = Some((key, self.cell.engine.look_ahead(hashed)));
                count += 1;
            }
            for (key, ahead) in group[..count].iter().flatten() {
                self.get_one::<CAS>(now, *key, ahead, reply.bytes_mut());
            }
            conn.progress += count as u32;
            if count < GROUP_KEYS {
                reply.bytes_mut().extend_from_slice(reply::END);
                return Outcome::Done;
            }
            if reply.len_since(start) >= PART_BYTES_MAX {
                return pause(&keys, start, reply);
            }
        }
    }

    #[inline(always)]
    fn get_one<const CAS: bool>(
        &self,
        now: Now,
        key: Key<'_>,
        ahead: &Prefetched<'_, '_>,
        out: &mut Vec<u8>,
    ) {
        let pin = self.pin.as_ref().expect("a batch has begun");
        let lines = ValueLines::<CAS, false>::new(out, key);
        self.retrieved(self.cell.engine.get_ahead(pin, ahead, now, lines));
    }

    /// As [`Service::get`], with a new expiry for what is found.
    pub(crate) fn gat<const CAS: bool>(
        &mut self,
        now: Now,
        conn: &mut Conn,
        mut keys: Keys<'_>,
        expiry_s: u32,
        reply: &mut Reply,
    ) -> Outcome {
        let start = reply.mark();
        keys.pass(conn.progress);
        while let Some(key) = keys.next() {
            match key {
                Ok(key) => {
                    let read = self.gat_one::<CAS>(now, key, expiry_s, reply.bytes_mut());
                    if read == Read::NoSpace {
                        reply.rewind(start);
                        reply.bytes_mut().extend_from_slice(reply::OUT_OF_MEMORY_WRITING);
                        return Outcome::Done;
                    }
                }
                Err(refusal) => return refuse(&refusal, start, reply),
            }
            conn.progress += 1;
            if reply.len_since(start) >= PART_BYTES_MAX {
                return pause(&keys, start, reply);
            }
        }
        reply.bytes_mut().extend_from_slice(reply::END);
        Outcome::Done
    }

    fn gat_one<const CAS: bool>(
        &mut self,
        now: Now,
        key: Key<'_>,
        expiry_s: u32,
        out: &mut Vec<u8>,
    ) -> Read {
        let mut lines = ValueLines::<CAS, false>::new(out, key);
        let (engine, pin) = self.engine();
        let options = FetchOptions { touch: Some(expiry_s), ..FetchOptions::default() };
        let hashed = engine.key(key.as_bytes());
        let read = engine.fetch(pin, &hashed, &options, now, &mut NoSink, &mut lines);
        let hit = self.retrieved(read);
        self.counters.cmd_touch.add(1);
        if hit { &self.counters.touch_hits } else { &self.counters.touch_misses }.add(1);
        read
    }

    /// Counts, and tells whether it was a hit.
    #[inline(always)]
    fn retrieved(&self, read: Read) -> bool {
        let hit = read == Read::Hit;
        if hit { &self.counters.get_hits } else { &self.counters.get_misses }.add(1);
        hit
    }
}

/// A key that is none: the values found so far are dropped, and the refusal is sent alone.
#[cold]
fn refuse(refusal: &Refusal<'_>, start: Mark, reply: &mut Reply) -> Outcome {
    reply.rewind(start);
    reply::refusal(reply.bytes_mut(), refusal);
    Outcome::Done
}

/// The reply is sent as far as it has come, so nothing in it can be taken back later: unless a key
/// that follows is none.
#[cold]
fn pause(keys: &Keys<'_>, start: Mark, reply: &mut Reply) -> Outcome {
    match keys.clone().find_map(Result::err) {
        Some(refusal) => refuse(&refusal, start, reply),
        None => Outcome::More,
    }
}
