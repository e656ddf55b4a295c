//! `append` and `prepend` where both values together lie in chunks.
//!
//! The chunks of the present value stay where they are. Only the one at the seam is written again,
//! together with the value that is added, so that no short chunks gather in the middle:
//!
//! ```text
//! append    | full | full | short |  and  | added |   becomes   | full | full | new ... | short |
//! prepend   | added |  and  | short | full | full |   becomes   | short | new ... | full | full |
//! ```
//!
//! A value that lies in chunks already, because it is long or has arrived in pieces, is not copied:
//! its chunks become chunks of the item. So a value may have one short chunk for each of these.
//!
//! Invariant: what is written is seen by no reader, and no chunk of the present value is changed.

use super::ahead::Ahead;
use super::long::{Partial, write_chunk, write_chunks};
use super::writer::Writer;
use crate::eviction::Stopped;
use crate::item::Flags;
use crate::items::{Current, Items};
use crate::segments::{Addr, ENTRY_BYTES, can_be_held, chunks, end_keep, keep, pinned_bytes};
use base::EffectSink;

/// The longest value, in bytes, that is joined under the lock of the chain, or the longest that
/// lies in one piece if that is more.
const COPIED_BYTES_MAX: usize = 1 << 20;

/// Two values that became one, in chunks.
pub(super) struct Joined {
    /// The length of both values, and all their chunks.
    pub(super) table: Vec<u8>,
    /// The chunks of the present value that are a part of it.
    pub(super) stay: Vec<Addr>,
    /// The chunk of the present value that was written again.
    pub(super) replaced: Option<Addr>,
}

/// Whether a value is written in chunks before it is known what it is joined to.
pub(super) fn is_written_ahead(items: &Items, value_bytes: usize) -> bool {
    value_bytes > items.segments().geometry().inline_value_bytes_max.max(COPIED_BYTES_MAX)
}

/// Joins `value`, or what lies ahead, to the value of the `current` item, whose chain is locked.
/// Both together have `total` bytes. `before` says that the present value comes last. `None` if
/// there are more chunks than an item can name, or in more segments than a reader can hold: a value
/// of small pieces may have one for each segment.
pub(super) fn join<S: EffectSink>(
    ahead: &mut Ahead,
    writer: &mut Writer<'_, '_, S>,
    current: &Current<'_>,
    (value, total, before): (&[u8], usize, bool),
    expiry_s: u32,
) -> Result<Option<Joined>, Stopped> {
    let segments = writer.work.items.segments();
    let chunk_bytes = segments.geometry().inline_value_bytes_max;
    let place = (writer.pool_of(Some(current), None), expiry_s);
    let Current { item, head, .. } = *current;
    let added = ahead.chunks();
    debug_assert!(!added.is_empty() || !ahead.has_begun(), "what was begun is complete");
    let mut stay: Vec<Addr> = Vec::new();
    let mut seam = None;
    let mut replaced = None;
    if head.is(Flags::LARGE) {
        stay.extend(chunks(item, head));
        let at = if before { 0 } else { stay.len() - 1 };
        let chunk = segments.item(stay[at]);
        if added.is_empty() && chunk.head().value_bytes() < chunk_bytes {
            replaced = Some(stay.remove(at));
            seam = Some((chunk, chunk.head()));
        }
    } else {
        seam = Some((item, head));
    }
    let mut old = writer.work.scratch(seam.map_or(0, |(_, head)| head.value_bytes()))?;
    if let Some((item, head)) = seam {
        item.append_value(head, &[], &mut old.bytes);
    }
    let wrote = if added.is_empty() {
        let partial = if before { Partial::First } else { Partial::Last };
        let parts = ordered(&old.bytes, value, before);
        write_chunks(ahead, writer, place, parts, partial).map(|()| ahead.chunks())
    } else if old.bytes.is_empty() {
        Ok(Vec::new())
    } else {
        write_chunk(writer, place, None, [&old.bytes, &[]]).map(|addr| {
            ahead.add_for_attempt(addr);
            vec![addr]
        })
    };
    writer.work.keep(old);
    let wrote = wrote?;
    let order = if before { [&added, &wrote, &stay] } else { [&stay, &wrote, &added] };
    let all = order.map(|part| part.as_slice()).concat();
    if all.len() >= chunk_bytes / ENTRY_BYTES || !can_be_held(segments, &all) {
        return Ok(None);
    }
    let mut table = Vec::with_capacity((1 + all.len()) * ENTRY_BYTES);
    table.extend((total as u64).to_le_bytes());
    all.iter().for_each(|addr| table.extend(addr.0.to_le_bytes()));
    Ok(Some(Joined { table, stay, replaced }))
}

/// The values of two parts in the order that the client wants.
pub(super) fn ordered<'v>(old: &'v [u8], value: &'v [u8], before: bool) -> [&'v [u8]; 2] {
    if before { [value, old] } else { [old, value] }
}

/// Keeps the item that a request changes, while space is made for that: it would be lost, and the
/// value of the request with it. Ends with the guard.
pub(super) struct Kept<'e> {
    items: &'e Items,
    kept: Option<(Addr, Vec<Addr>)>,
}

impl<'e> Kept<'e> {
    /// Keeps nothing yet.
    pub(super) fn new(items: &'e Items) -> Self {
        Self { items, kept: None }
    }

    /// Keeps the `current` item, whose chain is locked, in place of any other. False while others
    /// pin too much for that. Where nobody pins anything the limit is too low to keep it, ever, and
    /// it may be evicted like any other.
    pub(super) fn keep(&mut self, current: &Current<'_>) -> bool {
        self.end();
        let Current { item, head, addr, .. } = *current;
        let chunks = match head.is(Flags::LARGE) {
            true => chunks(item, head).collect(),
            false => Vec::new(),
        };
        let is_kept = keep(self.items.segments(), addr, &chunks);
        if is_kept {
            self.kept = Some((addr, chunks));
        }
        is_kept || pinned_bytes(self.items.segments()) == 0
    }

    fn end(&mut self) {
        if let Some((addr, chunks)) = self.kept.take() {
            end_keep(self.items.segments(), addr, &chunks);
        }
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.end();
    }
}
