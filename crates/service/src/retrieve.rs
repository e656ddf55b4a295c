//! `get`, `gets`, `gat`, `gats`.
//!
//! A multiget is executed in groups: first every key is hashed and its bucket touched, then the
//! values are read, so that the waits for memory overlap. A long one is answered in parts, each
//! sent before the next is made.

use crate::worker::Service;
use base::Now;
use engine::{Ask, Glance, NoSink, Read, ReadSink};
use memcache::{Key, Keys, reply};
use session::{Conn, Outcome, Reply};

/// Keys that are hashed before the first of them is read.
const GROUP_KEYS: usize = 16;

/// Bytes of reply after which a multiget is sent as far as it has come.
const PART_BYTES_MAX: usize = 256 << 10;

/// Where a value goes: behind its header line, which tells the token if `CAS`.
struct ValueLines<'a, const CAS: bool> {
    reply: &'a mut Vec<u8>,
    start: usize,
    key: Key<'a>,
}

impl<'a, const CAS: bool> ValueLines<'a, CAS> {
    #[inline(always)]
    fn new(reply: &'a mut Vec<u8>, key: Key<'a>) -> Self {
        Self { start: reply.len(), reply, key }
    }
}

impl<const CAS: bool> ReadSink for ValueLines<'_, CAS> {
    #[inline(always)]
    fn open(&mut self, glance: &Glance<'_>) -> Option<&mut Vec<u8>> {
        let cas = CAS.then(|| glance.cas());
        let bytes = glance.value_bytes() as u64;
        reply::value_header(self.reply, self.key, glance.client_flags(), bytes, cas);
        Some(self.reply)
    }

    fn rewind(&mut self) {
        self.reply.truncate(self.start);
    }
}

impl Service {
    /// One key of a plain `get`: the way of most requests.
    #[inline(never)]
    pub(crate) fn get_single(&mut self, now: Now, key: Key<'_>, out: &mut Vec<u8>) {
        const LINE_END_AND_END: &[u8] = b"\r\nEND\r\n";
        let hashed = self.cell.engine.key(key.as_bytes());
        // Two copies of known length instead of one that must call for any.
        if self.look_up::<false>(now, key, &hashed, out) {
            out.extend_from_slice(LINE_END_AND_END);
        } else {
            out.extend_from_slice(reply::END);
        }
    }

    /// Any number of keys, whose expiry may be set on the way.
    pub(crate) fn get<const CAS: bool>(
        &mut self,
        now: Now,
        conn: &mut Conn,
        keys: Keys<'_>,
        touch: Option<u32>,
        reply: &mut Reply,
    ) -> Outcome {
        if conn.progress == 0
            && let Some(refusal) = keys.clone().find_map(Result::err)
        {
            reply::refusal(reply.bytes_mut(), &refusal);
            return Outcome::Done;
        }
        let start = reply.mark();
        let mut keys = keys.skip(conn.progress as usize).filter_map(Result::ok);
        loop {
            let mut group: [Option<(Key<'_>, engine::Key<'_>)>; GROUP_KEYS] = [None; GROUP_KEYS];
            let mut count = 0;
            for (place, key) in group.iter_mut().zip(&mut keys) {
                let hashed = self.cell.engine.key(key.as_bytes());
                self.cell.engine.prefetch(&hashed);
                *place = Some((key, hashed));
                count += 1;
            }
            for (key, hashed) in group.iter().flatten() {
                match touch {
                    None => self.get_one::<CAS>(now, *key, hashed, reply.bytes_mut()),
                    Some(expiry_s) => {
                        self.gat_one::<CAS>(now, *key, hashed, expiry_s, reply.bytes_mut());
                    }
                }
            }
            conn.progress += count;
            if (count as usize) < GROUP_KEYS {
                reply.bytes_mut().extend_from_slice(reply::END);
                return Outcome::Done;
            }
            if reply.len_since(start) >= PART_BYTES_MAX {
                return Outcome::More;
            }
        }
    }

    /// One key of a multiget.
    fn get_one<const CAS: bool>(
        &mut self,
        now: Now,
        key: Key<'_>,
        hashed: &engine::Key<'_>,
        out: &mut Vec<u8>,
    ) {
        if self.look_up::<CAS>(now, key, hashed, out) {
            out.extend_from_slice(reply::LINE_END);
        }
    }

    /// Appends the value of a hit, without the end of its last line.
    #[inline(always)]
    fn look_up<const CAS: bool>(
        &mut self,
        now: Now,
        key: Key<'_>,
        hashed: &engine::Key<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        let lines = ValueLines::<CAS>::new(out, key);
        let (engine, local) = self.engine();
        let read = engine.get(local, hashed, now, lines);
        self.retrieved(read)
    }

    fn gat_one<const CAS: bool>(
        &mut self,
        now: Now,
        key: Key<'_>,
        hashed: &engine::Key<'_>,
        expiry_s: u32,
        out: &mut Vec<u8>,
    ) {
        let mut lines = ValueLines::<CAS>::new(out, key);
        let (engine, local) = self.engine();
        let ask = Ask { touch: Some(expiry_s), ..Ask::default() };
        let read = engine.fetch(local, hashed, &ask, now, &mut NoSink, &mut lines);
        let hit = self.retrieved(read);
        if hit {
            out.extend_from_slice(reply::LINE_END);
        }
        self.counters.cmd_touch.add(1);
        if hit { &self.counters.touch_hits } else { &self.counters.touch_misses }.add(1);
    }

    /// Counts, and tells whether it was a hit.
    #[inline(always)]
    fn retrieved(&self, read: Read) -> bool {
        let hit = read == Read::Hit;
        self.counters.cmd_get.add(1);
        if hit { &self.counters.get_hits } else { &self.counters.get_misses }.add(1);
        hit
    }
}
