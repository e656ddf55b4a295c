//! Lists of keys: `lru_crawler metadump` and `mgdump`, and `stats cachedump`.
//!
//! A dump goes through the cell slice by slice. It leaves in parts, and each part is sent before
//! the next is composed; `Conn::progress` is the number of the next slice. `stats cachedump`
//! returns only what fits one reply.
//!
//! Invariant: an item that stays in the cell during the whole dump is listed once.

use crate::facts::{CLASS, debug};
use crate::worker::Worker;
use base::{KeyId, Now, SliceId, Version};
use engine::{Cursor, Effect, EffectSink, More};
use memcache::{Key, Refusal, Words, reply};
use session::{Conn, Outcome, Reply};

/// A reply of this many bytes leaves before more of the dump is composed.
const PART_BYTES_MAX: usize = 128 << 10;

/// The most bytes of a reply to `stats cachedump`, which leaves in one piece.
const CACHEDUMP_BYTES_MAX: usize = 1 << 20;

/// The most classes of sizes that memcached has.
const CLASSES_MAX: u32 = 64;

/// Buckets that a dump looks at before other connections have their turn.
const BUCKETS_PER_TURN: u64 = 1 << 10;

/// Items that one call of the engine's scan examines.
const ITEMS_PER_STEP: u32 = 256;

/// A kind of dump.
pub(crate) struct Dump {
    /// The reply if the operator forbids it.
    disabled: &'static [u8],
    /// The end of the list.
    end: &'static [u8],
    /// Appends the line of a key.
    line: fn(&mut Worker, Now, Key<'_>, &mut Vec<u8>),
}

/// `lru_crawler metadump`: every key with the facts about its item.
pub(crate) const METADUMP: Dump = Dump {
    disabled: reply::METADUMP_DISABLED,
    end: reply::END,
    line: |worker, now, key, out| {
        let (engine, pin) = worker.engine();
        if let Some(found) = engine.peek(pin, &engine.key(key.as_bytes()), now) {
            reply::metadump(out, key, &debug(&found, now), now.expiry_s);
        }
    },
};

/// `lru_crawler mgdump`: every key as a request that reads it.
pub(crate) const MGDUMP: Dump = Dump {
    disabled: reply::MGDUMP_DISABLED,
    end: reply::META_END,
    line: |_, _, key, out| reply::mgdump(out, key),
};

/// Collects the keys of a slice.
#[derive(Default)]
struct Names(Vec<Vec<u8>>);

impl EffectSink for Names {
    const ON: bool = true;
    const VALUES: bool = false;

    fn commit(&mut self, _key: KeyId, effect: &Effect<'_>) -> Version {
        self.0.push(effect.key.to_vec());
        effect.version
    }
}

/// Continues a dump at slice `conn.progress`, until a part is full or the last slice is listed.
pub(crate) fn dump(
    worker: &mut Worker,
    now: Now,
    conn: &mut Conn,
    kind: &Dump,
    classes: &[u8],
    reply: &mut Reply,
) -> Outcome {
    if !worker.cell().options().allow_dump {
        reply.bytes_mut().extend_from_slice(kind.disabled);
        return Outcome::Done;
    }
    let start = reply.mark();
    if conn.progress == 0 {
        let Some(wanted) = wants_items(classes) else {
            reply.bytes_mut().extend_from_slice(reply::BAD_CLASS);
            return Outcome::Done;
        };
        reply.bytes_mut().extend_from_slice(reply::OK);
        if !wanted {
            reply.bytes_mut().extend_from_slice(kind.end);
            return Outcome::Done;
        }
    }
    let mut passed = 0;
    while let Some(slice) = SliceId::new(conn.progress as usize) {
        for name in names(worker, now, slice, &mut passed) {
            let key = Key::new(&name).expect("the engine holds keys of legal length");
            (kind.line)(worker, now, key, reply.bytes_mut());
        }
        conn.progress += 1;
        if reply.len_since(start) >= PART_BYTES_MAX || passed >= BUCKETS_PER_TURN {
            return Outcome::More;
        }
    }
    reply.bytes_mut().extend_from_slice(kind.end);
    Outcome::Done
}

/// `stats cachedump`: lists at most as many items of a class as the request says, all if zero.
/// Returns the error line if the request is wrong.
pub(crate) fn cachedump(
    worker: &mut Worker,
    now: Now,
    mut args: Words<'_>,
    out: &mut Vec<u8>,
) -> Option<&'static [u8]> {
    if !worker.cell().options().allow_dump {
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
        for name in names(worker, now, slice, &mut 0) {
            if left == 0 || out.len() >= CACHEDUMP_BYTES_MAX {
                return None;
            }
            let (engine, pin) = worker.engine();
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

/// The keys of a slice. The buckets that were looked at are added to `passed`. The batch ends and
/// another begins after every step, so that no memory waits for the whole walk.
fn names(worker: &mut Worker, now: Now, slice: SliceId, passed: &mut u64) -> Vec<Vec<u8>> {
    let (engine, pin) = worker.engine();
    let mut names = Names::default();
    let mut at = Cursor::default();
    while engine.scan(pin, slice, &mut at, ITEMS_PER_STEP, now, &mut names) == More::Yes {
        pin.renew();
    }
    pin.renew();
    *passed += at.passed();
    if at.restarted() {
        names.0.sort_unstable();
        names.0.dedup();
    }
    names.0
}

fn number(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Whether `classes` include the one class that all items are of. `classes` is `all`, `hash`, or
/// numbers with commas between them. `None` if one of them cannot be a class.
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
