//! Long values: written before the chain of their key is locked, so that nobody waits for the copy.
//!
//! ```text
//! up to 8 KiB     under the lock, often over the old value
//! in one piece    the whole item, in new space that no slot points to yet
//! in chunks       the chunks; their table is the value of the item, which is short
//! ```
//!
//! Chunks that fill segments get segments of their own, which belong to the request: no walker looks
//! at them, so they survive while the request makes space, and what was copied is kept. The rest
//! lies among the items of others and is written anew in each attempt.
//!
//! Invariants: between two attempts nothing but `whole` and its chunks is held. An attempt that does
//! not publish what was written counts it dead before its batch ends.

use super::in_place;
use super::writer::{Draft, Writer};
use crate::eviction::{Stopped, Work};
use crate::item::{Attributes, Flags, class};
use crate::keys::Key;
use crate::local::Scratch;
use crate::segments::{
    Addr, ENTRY_BYTES, OWNER_BYTES, Pool, SegmentId, cut, owner_name, segments_for,
    whole_value_bytes,
};
use base::{EffectSink, Version};

/// Chunks of full length that a segment holds.
const CHUNKS_PER_SEGMENT: usize = 2;

/// Segments that are made free at once for a long value, at most: further ones follow.
const SEGMENTS_AT_ONCE: usize = 16;

/// Attempts to join a value to one that others change meanwhile, before the lock is held for it.
const JOINS_MAX: u32 = 3;

/// What a request has written of its value while no chain was locked.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Segments that hold nothing but chunks of this value.
    whole: Vec<SegmentId>,
    /// The table of its chunks; empty where it has none.
    table: Vec<u8>,
    /// Bytes of the table that name chunks in `whole`.
    kept_bytes: usize,
    /// The item, if the value lies in one piece, and what it was written with.
    item: Option<(Addr, Attributes)>,
    /// Whether an item was published that names what was written, or is it.
    published: bool,
    /// The present value, of which the written one is made, and the version of its item.
    present: Option<(Version, Scratch)>,
    /// How often an attempt has wanted the present value.
    wants: u32,
}

/// What is known of an item that was looked at before its chain is locked for a change.
pub(super) struct Looked {
    /// The pool that an item of the key belongs to.
    pub(super) pool: Pool,
    /// Whether the key has an item that is alive.
    pub(super) alive: bool,
    /// Length of its value.
    pub(super) value_bytes: usize,
    /// Its expiry.
    pub(super) expiry_s: u32,
}

/// Whether a value is so long that nobody should wait for its copy.
pub(super) fn is_long(value_bytes: usize) -> bool {
    value_bytes > in_place::BYTES_MAX
}

impl Ahead {
    /// Whether chunks were written.
    pub(super) fn has_table(&self) -> bool {
        !self.table.is_empty()
    }

    /// The table of the chunks that were written of a value of `total` bytes.
    pub(super) fn table(&self, total: usize) -> Option<&[u8]> {
        let of = u64::from_le_bytes(*self.table.first_chunk()?);
        (of == total as u64).then_some(&self.table)
    }

    /// The item that was written with these attributes.
    pub(super) fn item(&self, with: &Attributes) -> Option<Addr> {
        self.item.filter(|(_, written)| written.are_stored_like(with)).map(|(addr, _)| addr)
    }

    /// Whether an attempt has found that it needs the present value before it locks the chain.
    pub(super) fn wants_present(&self) -> bool {
        (1..=JOINS_MAX).contains(&self.wants)
    }

    /// Notes that the present value is needed before the chain is locked, and that the attempt is to
    /// end. False where it was so in [`JOINS_MAX`] attempts already: the item changes so often that
    /// it is to be read under the lock.
    pub(super) fn want_present(&mut self) -> bool {
        self.wants += 1;
        self.wants <= JOINS_MAX + 1
    }

    /// What was written is made from `value`, that of the item with `version`.
    pub(super) fn set_present(&mut self, version: Version, value: Scratch) {
        self.present = Some((version, value));
    }

    /// The present value, if what was written is made from that of the item with `version`. If it
    /// is not, what was written is of no use.
    pub(super) fn take_present(&mut self, version: Version) -> Option<Scratch> {
        self.present.take().filter(|(of, _)| *of == version).map(|(_, value)| value)
    }

    /// An item that was written, or that names the chunks, is published.
    pub(super) fn set_published(&mut self) {
        self.published = true;
    }

    /// Writes a value for the item of `key` if it is long.
    pub(crate) fn write_if_long<S: EffectSink>(
        &mut self,
        work: &mut Work<'_, S>,
        key: &Key<'_>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<(), Stopped> {
        let total = value[0].len() + value[1].len();
        if !is_long(total) {
            return Ok(());
        }
        let pool = look(work, key)?.pool;
        let writer = &mut Writer::new(work, key);
        let inline_bytes_max = writer.work.items.segments().geometry().inline_value_bytes_max;
        if total > inline_bytes_max {
            self.take_segments(writer, pool, with.expiry_s, total / inline_bytes_max)?;
            return self.write_chunks(writer, pool, with.expiry_s, value);
        }
        let head = writer.head(with, total);
        let draft = Draft { head, with: *with, value, same_chunks: false };
        self.item = Some((writer.write_new(pool, &draft)?, *with));
        Ok(())
    }

    /// Takes the segments that `chunks` chunks of full length fill.
    fn take_segments<S: EffectSink>(
        &mut self,
        writer: &mut Writer<'_, '_, S>,
        pool: Pool,
        expiry_s: u32,
        chunks: usize,
    ) -> Result<(), Stopped> {
        let segments = writer.work.items.segments();
        let class = class(expiry_s, writer.work.now, segments.geometry().classes);
        let wanted = chunks / CHUNKS_PER_SEGMENT;
        while self.whole.len() < wanted {
            let Some(id) = segments.take_whole(pool, class) else {
                let lacking = wanted - self.whole.len() + 1;
                return Err(Stopped::NeedSpace { segments: lacking.min(SEGMENTS_AT_ONCE) });
            };
            self.whole.push(id);
        }
        Ok(())
    }

    /// Writes a value in chunks and their table: into whole segments as far as there are any, and
    /// then among other items. What was written into whole segments before is not written again.
    pub(super) fn write_chunks<S: EffectSink>(
        &mut self,
        writer: &mut Writer<'_, '_, S>,
        pool: Pool,
        expiry_s: u32,
        value: [&[u8]; 2],
    ) -> Result<(), Stopped> {
        let segments = writer.work.items.segments();
        let chunk_bytes = segments.geometry().inline_value_bytes_max;
        let total = value[0].len() + value[1].len();
        let name = owner_name(writer.key.id);
        let with = Attributes { flags: Flags::CHUNK, ..Attributes::default() };
        if self.table.is_empty() {
            self.table.extend((total as u64).to_le_bytes());
        }
        let mut number = self.table.len() / ENTRY_BYTES - 1;
        while number * chunk_bytes < total {
            let (from, to) = (number * chunk_bytes, total.min((number + 1) * chunk_bytes));
            let head = with.head(OWNER_BYTES, to - from);
            let words = head.used_words();
            let whole = self.whole.get(number / CHUNKS_PER_SEGMENT);
            let addr = match whole {
                Some(id) => {
                    writer.count_words(words);
                    segments.allocate_in(*id, words).expect("a segment has space for its chunks")
                }
                None => writer.allocate(pool, expiry_s, words).map_err(|_| {
                    // What is not in whole segments is written anew.
                    let kept = self.whole.len() * CHUNKS_PER_SEGMENT * chunk_bytes;
                    Stopped::NeedSpace { segments: segments_for(total - kept, chunk_bytes) }
                })?,
            };
            segments.item(addr).write(head, &name, &with, cut(value, from, to));
            segments.header_of(addr).note_expiry(expiry_s);
            self.table.extend(addr.0.to_le_bytes());
            if whole.is_some() {
                self.kept_bytes = self.table.len();
            }
            number += 1;
        }
        Ok(())
    }

    /// Ends an attempt. What was published is handed over to the walkers; what was not, and lies
    /// among the items of others, is counted dead.
    pub(crate) fn end_attempt<S>(&mut self, work: &mut Work<'_, S>) {
        let segments = work.items.segments();
        if self.published {
            for id in self.whole.drain(..) {
                segments.seal_whole(work.pin.grace(), id);
            }
            *self = Self::default();
            return;
        }
        if let Some((addr, _)) = self.item.take() {
            let words = segments.item(addr).head().span_words();
            work.items.release_words(work.pin, addr, words);
        }
        // The first entry is the length.
        let from = self.kept_bytes.max(ENTRY_BYTES).min(self.table.len());
        for entry in self.table[from..].as_chunks().0 {
            work.items.release_chunk(work.pin, Addr(u64::from_le_bytes(*entry)));
        }
        self.table.truncate(self.kept_bytes);
        if let Some((_, scratch)) = self.present.take() {
            work.keep(scratch);
        }
    }

    /// Gives back what no item came to need.
    pub(crate) fn give_back<S>(&mut self, work: &mut Work<'_, S>) {
        let entries = self.table.as_chunks::<ENTRY_BYTES>().0;
        for entry in entries.iter().skip(1) {
            let words = work.items.segments().item(Addr(u64::from_le_bytes(*entry))).head();
            work.pin.counters().item_words.subtract(words.span_words() as u64);
        }
        for id in self.whole.drain(..) {
            work.items.segments().give_back_whole(id);
        }
        *self = Self::default();
    }
}

/// Looks at the item of `key`. It may change at once.
pub(super) fn look<S: EffectSink>(
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
    Ok(match current {
        None => Looked { pool, alive: false, value_bytes: 0, expiry_s: 0 },
        Some(current) => Looked {
            pool,
            alive: items.alive(current.item, current.head, key.id.slice, now),
            value_bytes: whole_value_bytes(current.item, current.head),
            expiry_s: current.item.expiry_s(current.head),
        },
    })
}
