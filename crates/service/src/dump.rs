//! `lru_crawler metadump` and `mgdump`: every key, slice by slice, sent as it is made; and
//! `stats cachedump`, which tells as many as fit one reply.

use crate::meta::{CLASS, debug};
use crate::worker::Service;
use base::{KeyId, Now, SliceId, Version};
use engine::{Cursor, Effect, EffectSink, More};
use memcache::{Key, Refusal, Words, reply};
use session::{Conn, Outcome, Reply};

/// Bytes of reply after which a dump is sent as far as it has come.
const PART_BYTES_MAX: usize = 128 << 10;

/// Bytes of a reply to `stats cachedump`, which is made in one piece.
const CACHEDUMP_BYTES_MAX: usize = 1 << 20;

/// Classes of sizes that memcached may have.
const CLASSES_MAX: u32 = 64;

/// Items told between two looks at the end of a slice.
const ITEMS_PER_STEP: u32 = 256;

/// Collects the keys of a slice.
#[derive(Default)]
struct Names(Vec<Vec<u8>>);

impl EffectSink for Names {
    const ON: bool = true;

    fn commit(&mut self, _key: KeyId, effect: &Effect<'_>) -> Version {
        self.0.push(effect.key.to_vec());
        effect.version
    }
}

impl Service {
    pub(crate) fn metadump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        classes: &[u8],
        reply: &mut Reply,
    ) -> Outcome {
        if !self.cell.options.allow_dump {
            reply.bytes_mut().extend_from_slice(reply::METADUMP_DISABLED);
            return Outcome::Done;
        }
        self.dump(now, conn, classes, reply, reply::END, |service, key, out| {
            let (engine, pin) = service.engine();
            if let Some(found) = engine.peek(pin, &engine.key(key.as_bytes()), now) {
                reply::metadump(out, key, &debug(&found, now), now.expiry_s);
            }
        })
    }

    pub(crate) fn mgdump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        classes: &[u8],
        reply: &mut Reply,
    ) -> Outcome {
        if !self.cell.options.allow_dump {
            reply.bytes_mut().extend_from_slice(reply::MGDUMP_DISABLED);
            return Outcome::Done;
        }
        self.dump(now, conn, classes, reply, reply::META_END, |_, key, out| reply::mgdump(out, key))
    }

    /// Goes on from slice `conn.progress` until a part is full or all slices are told.
    fn dump(
        &mut self,
        now: Now,
        conn: &mut Conn,
        classes: &[u8],
        reply: &mut Reply,
        end: &[u8],
        mut tell: impl FnMut(&mut Self, Key<'_>, &mut Vec<u8>),
    ) -> Outcome {
        let start = reply.mark();
        if conn.progress == 0 {
            let Some(wanted) = wants_items(classes) else {
                reply.bytes_mut().extend_from_slice(reply::BAD_CLASS);
                return Outcome::Done;
            };
            reply.bytes_mut().extend_from_slice(reply::OK);
            if !wanted {
                reply.bytes_mut().extend_from_slice(end);
                return Outcome::Done;
            }
        }
        while let Some(slice) = SliceId::new(conn.progress as usize) {
            for name in self.names(now, slice) {
                let key = Key::new(&name).expect("the engine holds keys of legal length");
                tell(self, key, reply.bytes_mut());
            }
            conn.progress += 1;
            if reply.len_since(start) >= PART_BYTES_MAX {
                return Outcome::More;
            }
        }
        reply.bytes_mut().extend_from_slice(end);
        Outcome::Done
    }

    /// Lists items of class 1, at most as many as asked for, all if zero. Returns what is wrong
    /// with the request, if anything.
    pub(crate) fn cachedump(
        &mut self,
        now: Now,
        mut args: Words<'_>,
        out: &mut Vec<u8>,
    ) -> Option<&'static [u8]> {
        if !self.cell.options.allow_dump {
            return Some(b"CLIENT_ERROR stats cachedump not allowed\r\n");
        }
        let (Some(class), Some(limit)) = (args.next(), args.next()) else {
            return Some(b"CLIENT_ERROR bad command line\r\n");
        };
        let (Some(class), Some(limit)) = (number(class), number(limit)) else {
            return Some(Refusal::BadFormat.line());
        };
        if class >= CLASSES_MAX {
            return Some(b"CLIENT_ERROR Illegal slab id\r\n");
        }
        if class != CLASS {
            return None;
        }
        let mut left = if limit == 0 { u32::MAX } else { limit };
        for slice in SliceId::all() {
            for name in self.names(now, slice) {
                if left == 0 || out.len() >= CACHEDUMP_BYTES_MAX {
                    return None;
                }
                let (engine, pin) = self.engine();
                let Some(found) = engine.peek(pin, &engine.key(&name), now) else { continue };
                out.extend_from_slice(b"ITEM ");
                out.extend_from_slice(&name);
                let (bytes, expiry_s) = (found.value_bytes, found.expiry_s);
                out.extend_from_slice(format!(" [{bytes} b; {expiry_s} s]\r\n").as_bytes());
                left -= 1;
            }
        }
        None
    }

    fn names(&mut self, now: Now, slice: SliceId) -> Vec<Vec<u8>> {
        let (engine, pin) = self.engine();
        let mut names = Names::default();
        let mut at = Cursor::default();
        while engine.scan(pin, slice, &mut at, ITEMS_PER_STEP, now, &mut names) == More::Yes {}
        names.0
    }
}

fn number(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Whether the items, which are all of one class, are among `classes`: `all`, `hash`, or numbers
/// with commas. `None` if one of them cannot be a class.
pub(crate) fn wants_items(classes: &[u8]) -> Option<bool> {
    if classes == b"all" || classes == b"hash" {
        return Some(true);
    }
    let mut wanted = false;
    for word in classes.split(|byte| *byte == b',') {
        let class = number(word).filter(|class| (CLASS..CLASSES_MAX).contains(class))?;
        wanted |= class == CLASS;
    }
    Some(wanted)
}
