//! Lists of keys: `lru_crawler metadump` and `mgdump`, and `stats cachedump`.
//!
//! A dump walks the whole cell, a step at a time. What a step lists is sent, and other connections
//! have their turn, before the next; `Conn::progress` is the cursor of the walk. `stats cachedump`
//! returns only what a bounded number of steps finds, and fits one reply.
//!
//! Invariant: an item that stays in the cell during the whole dump is listed exactly once.

use crate::facts::{CLASS, debug};
use crate::worker::Worker;
use base::{Now, SliceRange};
use engine::{Cursor, ItemSink, More, WalkedItem};
use memcache::{Key, Refusal, Words, reply};
use session::{Conn, Outcome, Reply};

/// The most bytes of a reply to `stats cachedump`, which leaves in one piece.
const CACHEDUMP_BYTES_MAX: usize = 1 << 20;

/// The most classes of sizes that memcached has.
const CLASSES_MAX: u32 = 64;

/// Items that one step of a dump lists, unless its last chain has more: about 50 microseconds.
const ITEMS_PER_STEP: u32 = 64;

/// The same for `stats cachedump`, which has one turn.
const CACHEDUMP_ITEMS_PER_STEP: u32 = 1 << 10;

/// Steps of `stats cachedump`, each through a bounded number of buckets.
const CACHEDUMP_STEPS_MAX: usize = 64;

/// A kind of dump.
pub(crate) struct Dump {
    /// The reply if the operator forbids it.
    disabled: &'static [u8],
    /// The end of the list.
    end: &'static [u8],
    /// Appends the line of an item.
    line: fn(Now, Key<'_>, &WalkedItem<'_>, &mut Vec<u8>),
}

/// `lru_crawler metadump`: every key with the facts about its item.
pub(crate) const METADUMP: Dump = Dump {
    disabled: reply::METADUMP_DISABLED,
    end: reply::END,
    line: |now, key, item, out| {
        reply::metadump(out, key, &debug(&item.found(), now), now.expiry_s);
    },
};

/// `lru_crawler mgdump`: every key as a request that reads it.
pub(crate) const MGDUMP: Dump = Dump {
    disabled: reply::MGDUMP_DISABLED,
    end: reply::META_END,
    line: |_, key, _, out| reply::mgdump(out, key),
};

/// Lists the items of a walk.
struct Lines<L>(L);

impl<L: FnMut(&WalkedItem<'_>)> ItemSink for Lines<L> {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        (self.0)(item);
        true
    }
}

/// Continues a dump at `conn.progress` by a step.
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
    let mut at = Cursor::from_raw(conn.progress);
    let out = reply.bytes_mut();
    let more = list(worker, now, &mut at, ITEMS_PER_STEP, |item| {
        let key = Key::new(item.key).expect("the engine holds keys of legal length");
        (kind.line)(now, key, item, out);
    });
    conn.progress = at.raw();
    match more {
        More::Yes => Outcome::More,
        More::No => {
            reply.bytes_mut().extend_from_slice(kind.end);
            Outcome::Done
        }
    }
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
    let mut at = Cursor::default();
    for _ in 0..CACHEDUMP_STEPS_MAX {
        let more = list(worker, now, &mut at, left.min(CACHEDUMP_ITEMS_PER_STEP), |item| {
            if left == 0 || out.len() >= CACHEDUMP_BYTES_MAX {
                return;
            }
            out.extend_from_slice(b"ITEM ");
            out.extend_from_slice(item.key);
            let (bytes, expiry_s) = (item.value.bytes(), item.facts.expiry_s);
            out.extend_from_slice(format!(" [{bytes} b; {expiry_s} s]\r\n").as_bytes());
            left -= 1;
        });
        if more == More::No || left == 0 || out.len() >= CACHEDUMP_BYTES_MAX {
            break;
        }
    }
    None
}

/// A step of a walk through the cell. The batch ends and another begins after it, so that no memory
/// waits for the whole walk.
fn list(
    worker: &mut Worker,
    now: Now,
    at: &mut Cursor,
    items: u32,
    line: impl FnMut(&WalkedItem<'_>),
) -> More {
    let (engine, pin) = worker.engine();
    let more = engine.scan(pin, SliceRange::ALL, at, items, now, &mut Lines(line));
    pin.renew();
    more
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
