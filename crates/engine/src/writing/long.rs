//! Long values: written before the chain of their key is locked, so that nobody waits for the copy.
//!
//! ```text
//! up to 8 KiB     under the lock, often over the old value
//! in one piece    the whole item, in new space that no slot points to yet
//! in chunks       the chunks; their table is the value of the item, which is short
//! ```
//!
//! Chunks that fill segments get segments of their own, which belong to the request: no walker
//! looks at them, so they survive while the request makes space, and what was copied is kept. The
//! rest lies among the items of others and is written again in each attempt.

use super::ahead::{Ahead, CHUNKS_PER_SEGMENT};
use super::in_place;
use super::writer::{Draft, Writer};
use crate::config::Geometry;
use crate::eviction::{Stopped, Work};
use crate::item::{Attributes, Flags, class};
use crate::keys::Key;
use crate::segments::{
    Addr, ENTRY_BYTES, OWNER_BYTES, Pool, SegmentId, cut, owner_name, segments_for,
    whole_value_bytes,
};
use base::EffectSink;

/// Segments that are made free at once for a long value, at most: further ones follow.
const SEGMENTS_AT_ONCE: usize = 16;

/// What is known of an item that was looked at before its chain is locked for a change.
pub(crate) struct Looked {
    /// The pool that an item of the key belongs to.
    pub(super) pool: Pool,
    /// That of the chunks of a new value: they prove themselves, also while memory fills.
    pub(super) chunks_pool: Pool,
    /// Whether the key has an item that is alive.
    pub(crate) alive: bool,
    /// Length of its value.
    pub(super) value_bytes: usize,
}

/// Whether a value is so long that nobody should wait for its copy, or lies in chunks.
pub(super) fn is_long(geometry: &Geometry, value_bytes: usize) -> bool {
    value_bytes > in_place::BYTES_MAX.min(geometry.inline_value_bytes_max)
}

/// Looks at the item of `key`. It may change at once.
pub(crate) fn look<S: EffectSink>(
    work: &mut Work<'_, S>,
    key: &Key<'_>,
) -> Result<Looked, Stopped> {
    let now = work.now;
    let writer = Writer::new(work, key);
    let chain = writer.lock()?;
    let items = writer.work.items;
    let current = items.find(&chain, key);
    let ghost = chain.find_ghost(key.id.hash).map(|(_, ghost)| ghost);
    let pool = writer.pool_of(current.as_ref(), ghost);
    let is_new = current.is_none() && pool != Pool::Copies;
    let chunks_pool = if is_new { Pool::Small } else { pool };
    Ok(match current {
        None => Looked { pool, chunks_pool, alive: false, value_bytes: 0 },
        Some(current) => Looked {
            pool,
            chunks_pool,
            alive: items.alive(current.item, current.head, key.id.slice, now),
            value_bytes: whole_value_bytes(current.item, current.head),
        },
    })
}

/// Writes a value for the item of `key` if it is long.
pub(crate) fn write_if_long<S: EffectSink>(
    ahead: &mut Ahead,
    work: &mut Work<'_, S>,
    key: &Key<'_>,
    with: &Attributes,
    value: [&[u8]; 2],
) -> Result<(), Stopped> {
    let total = value[0].len() + value[1].len();
    if !is_long(work.items.segments().geometry(), total) {
        return Ok(());
    }
    let Looked { pool, chunks_pool, .. } = look(work, key)?;
    let writer = &mut Writer::new(work, key);
    let inline_bytes_max = writer.work.items.segments().geometry().inline_value_bytes_max;
    if total > inline_bytes_max {
        take_segments(ahead, writer, chunks_pool, with.expiry_s, total / inline_bytes_max)?;
        return write_chunks(ahead, writer, (chunks_pool, with.expiry_s), value, Partial::Last);
    }
    let head = writer.head(with, total);
    let draft = Draft { head, with: *with, value, same_chunks: false };
    ahead.item = Some((writer.write_new(pool, &draft)?, *with));
    Ok(())
}

/// Takes the segments that `chunks` chunks of full length fill.
fn take_segments<S: EffectSink>(
    ahead: &mut Ahead,
    writer: &mut Writer<'_, '_, S>,
    pool: Pool,
    expiry_s: u32,
    chunks: usize,
) -> Result<(), Stopped> {
    let segments = writer.work.items.segments();
    let class = class(expiry_s, writer.work.now, || segments.classes());
    let wanted = chunks / CHUNKS_PER_SEGMENT;
    while ahead.whole.len() < wanted {
        let Some(id) = segments.take_whole(pool, class) else {
            let lacking = wanted - ahead.whole.len() + 1;
            return Err(Stopped::NeedSpace { segments: lacking.min(SEGMENTS_AT_ONCE) });
        };
        ahead.whole.push(id);
    }
    Ok(())
}

/// Which chunk of a value is short, where not all have full length.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Partial {
    First,
    Last,
}

/// Writes a value in chunks and their table: into whole segments as far as there are any, and then
/// among other items. What was written into whole segments before is not written again.
pub(super) fn write_chunks<S: EffectSink>(
    ahead: &mut Ahead,
    writer: &mut Writer<'_, '_, S>,
    (pool, expiry_s): (Pool, u32),
    value: [&[u8]; 2],
    partial: Partial,
) -> Result<(), Stopped> {
    let chunk_bytes = writer.work.items.segments().geometry().inline_value_bytes_max;
    let total = value[0].len() + value[1].len();
    let missing = match partial {
        Partial::First => total.next_multiple_of(chunk_bytes) - total,
        Partial::Last => 0,
    };
    if ahead.table.is_empty() {
        ahead.table.extend((total as u64).to_le_bytes());
    }
    let mut number = ahead.table.len() / ENTRY_BYTES - 1;
    while number * chunk_bytes < total + missing {
        let from = (number * chunk_bytes).saturating_sub(missing);
        let to = total.min((number + 1) * chunk_bytes - missing);
        let whole = ahead.whole.get(number / CHUNKS_PER_SEGMENT).copied();
        let addr = write_chunk(writer, (pool, expiry_s), whole, cut(value, from, to));
        let addr = addr.map_err(|_| {
            // What is not in whole segments is written again.
            let kept = ahead.whole.len() * CHUNKS_PER_SEGMENT * chunk_bytes;
            Stopped::NeedSpace { segments: segments_for(total - kept, chunk_bytes) }
        })?;
        ahead.table.extend(addr.0.to_le_bytes());
        if whole.is_some() {
            ahead.kept_bytes = ahead.table.len();
        }
        number += 1;
    }
    ahead.is_complete = true;
    Ok(())
}

/// Writes one chunk: into the `whole` segment if there is one, else among other items.
pub(super) fn write_chunk<S: EffectSink>(
    writer: &mut Writer<'_, '_, S>,
    (pool, expiry_s): (Pool, u32),
    whole: Option<SegmentId>,
    bytes: [&[u8]; 2],
) -> Result<Addr, Stopped> {
    let segments = writer.work.items.segments();
    let with = Attributes { flags: Flags::CHUNK, ..Attributes::default() };
    let head = with.head(OWNER_BYTES, bytes[0].len() + bytes[1].len());
    let words = head.used_words();
    let addr = match whole {
        Some(id) => {
            writer.count_words(words);
            segments.allocate_in(id, words).expect("a segment has space for its chunks")
        }
        None => writer.allocate(pool, expiry_s, words)?,
    };
    segments.item(addr).write(head, &owner_name(writer.key.id), &with, bytes);
    segments.header_of(addr).note_expiry(expiry_s);
    Ok(addr)
}
