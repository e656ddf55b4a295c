//! Values too long for one piece: a table in the item, and chunks in segments of their own.
//!
//! ```text
//! item, LARGE:  value = | total bytes:u64 | chunk 0:u64 | chunk 1:u64 | ... |
//! chunk, CHUNK: key   = | hash:u64 | slice:u16 |, value = the bytes
//! ```
//!
//! A chunk names its owner, so that whoever drains its segment can ask the index whether it is
//! still wanted, move it, and mend the table under the owner's lock. A chunk that cannot be kept
//! takes its owner with it.

use crate::effect::EffectSink;
use crate::engine::{Current, Engine};
use crate::head::{Flags, Head};
use crate::index::Chain;
use crate::item::{Attributes, ItemRef};
use crate::local::Local;
use crate::place::Draft;
use crate::segment::{Addr, Pool};
use crate::writer::{NeedSpace, Writer};
use base::{KeyId, SliceId};

/// Bytes of the owner's name in a chunk.
const OWNER_BYTES: usize = 10;

/// Bytes of one entry of the table.
const ENTRY_BYTES: usize = 8;

/// The longest value that a table of one item can name, in bytes.
pub(crate) fn value_bytes_max(inline_value_bytes_max: usize) -> usize {
    (inline_value_bytes_max / ENTRY_BYTES - 1) * inline_value_bytes_max
}

fn owner_name(id: KeyId) -> [u8; OWNER_BYTES] {
    let mut name = [0; OWNER_BYTES];
    name[..8].copy_from_slice(&id.hash.to_le_bytes());
    name[8..].copy_from_slice(&(id.slice.index() as u16).to_le_bytes());
    name
}

/// The owner that a chunk names.
pub(crate) fn owner(name: &[u8]) -> Option<KeyId> {
    let (hash, slice) = name.split_first_chunk::<8>()?;
    let slice = u16::from_le_bytes(*slice.first_chunk::<2>()?);
    let slice = SliceId::new(usize::from(slice))?;
    Some(KeyId { slice, hash: u64::from_le_bytes(*hash) })
}

/// The chunks named by the table of a large item.
fn chunks(item: ItemRef<'_>, head: Head) -> impl Iterator<Item = Addr> {
    let entries = (head.value_bytes() / ENTRY_BYTES).saturating_sub(1);
    (1..=entries).map(move |entry| Addr(item.value_u64(head, entry * ENTRY_BYTES)))
}

/// Bytes `from..to` of two slices laid end to end.
fn cut(parts: [&[u8]; 2], from: usize, to: usize) -> [&[u8]; 2] {
    let middle = parts[0].len();
    let clamp = |at: usize, len: usize| at.min(len);
    [
        &parts[0][clamp(from, middle)..clamp(to, middle)],
        &parts[1][from.saturating_sub(middle)..to.saturating_sub(middle)],
    ]
}

impl Engine {
    /// Length of the value as the client knows it.
    #[inline]
    pub(crate) fn whole_value_bytes(&self, item: ItemRef<'_>, head: Head) -> usize {
        if head.is(Flags::LARGE) { item.value_u64(head, 0) as usize } else { head.value_bytes() }
    }

    /// Appends the whole value of an item whose chain is locked.
    pub(crate) fn append_whole(&self, current: &Current<'_>, target: &mut Vec<u8>) {
        if current.head.is(Flags::LARGE) {
            let whole = self.append_chunks(current.item, current.head, target);
            assert!(whole, "chunks of a locked item are in place");
        } else {
            current.item.append_value(current.head, &[], target);
        }
    }

    /// Appends the chunks of a large value. False if the table was being changed.
    #[cold]
    pub(crate) fn append_chunks(
        &self,
        item: ItemRef<'_>,
        head: Head,
        target: &mut Vec<u8>,
    ) -> bool {
        let start = target.len();
        for addr in chunks(item, head) {
            let Some(chunk) = self.segments.try_item(addr) else { return false };
            let chunk_head = chunk.head();
            if !chunk_head.is(Flags::CHUNK) || !chunk.fits(chunk_head) {
                return false;
            }
            chunk.append_value(chunk_head, &[], target);
        }
        target.len() - start == self.whole_value_bytes(item, head)
    }

    pub(crate) fn bury_chunks(&self, local: &Local, item: ItemRef<'_>, head: Head) {
        for addr in chunks(item, head) {
            self.bury_chunk(local, addr);
        }
    }

    fn bury_chunk(&self, local: &Local, addr: Addr) {
        let words = self.segments.item(addr).head().span_words();
        self.segments.kill(addr, words);
        self.count(local).item_words.subtract(words as u64);
    }

    /// Notes in the segments of an item's chunks, if it has any, that it expires at `expiry_s`.
    pub(crate) fn note_expiry_of_chunks(&self, current: &Current<'_>, expiry_s: u32) {
        if current.head.is(Flags::LARGE) {
            for addr in chunks(current.item, current.head) {
                self.segments.header_of(addr).note_expiry(expiry_s);
            }
        }
    }

    /// Whether a large item's table names the chunk at `addr`.
    pub(crate) fn names_chunk(&self, item: ItemRef<'_>, head: Head, addr: Addr) -> bool {
        head.is(Flags::LARGE) && chunks(item, head).any(|chunk| chunk == addr)
    }

    /// Makes the table name `to` in place of `from`, under the lock of its chain.
    pub(crate) fn rename_chunk(&self, item: ItemRef<'_>, head: Head, from: Addr, to: Addr) {
        if let Some(entry) = chunks(item, head).position(|chunk| chunk == from) {
            item.write_value_at(head, (entry + 1) * ENTRY_BYTES, &to.0.to_le_bytes());
        }
    }

    /// The segments that a value of `total` bytes takes: two chunks each, an end that was too
    /// short for either, and one for the item.
    fn space_for(&self, total: usize) -> NeedSpace {
        let pair_bytes = 2 * self.segments.geometry().inline_value_bytes_max;
        NeedSpace { segments: total.div_ceil(pair_bytes) + 2 }
    }

    /// Gives up chunks that no item came to name.
    fn discard(&self, local: &Local, table: &[u8]) {
        let (entries, _) = table.as_chunks::<ENTRY_BYTES>();
        for entry in entries.iter().skip(1) {
            self.bury_chunk(local, Addr(u64::from_le_bytes(*entry)));
        }
    }
}

impl<'e, S: EffectSink> Writer<'_, 'e, S> {
    /// Stores a long value: the chunks first, unseen, then the item that names them.
    pub(crate) fn put_large(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<Current<'e>, NeedSpace> {
        let engine = self.engine;
        let pool = match &current {
            Some(current) => engine.segments.header_of(current.addr).pool(),
            None => Pool::Small,
        };
        let table = self.lay_chunks(pool, with.expiry_s, value)?;
        let with = Attributes { flags: with.flags.with(Flags::LARGE), ..*with };
        let head = self.head(&with, table.len());
        let draft = Draft { head, with, value: [&table, &[]], same_chunks: false };
        let Ok(current) = self.place(chain, current, &draft) else {
            engine.discard(self.local, &table);
            return Err(engine.space_for(value[0].len() + value[1].len()));
        };
        self.tell_put(&current, &with, value);
        Ok(current)
    }

    /// Lays a value out in chunks and returns their table.
    fn lay_chunks(
        &mut self,
        pool: Pool,
        expiry_s: u32,
        value: [&[u8]; 2],
    ) -> Result<Vec<u8>, NeedSpace> {
        let engine = self.engine;
        let chunk_bytes = engine.segments.geometry().inline_value_bytes_max;
        let total = value[0].len() + value[1].len();
        let name = owner_name(self.key.id);
        let with = Attributes { flags: Flags::CHUNK, ..Attributes::default() };
        let mut table = (total as u64).to_le_bytes().to_vec();
        for from in (0..total).step_by(chunk_bytes) {
            let to = total.min(from + chunk_bytes);
            let head = with.head(OWNER_BYTES, to - from);
            let Ok(addr) = self.carve(pool, expiry_s, head.used_words()) else {
                engine.discard(self.local, &table);
                return Err(engine.space_for(total));
            };
            engine.segments.item(addr).write(head, &name, &with, cut(value, from, to));
            engine.segments.header_of(addr).note_expiry(expiry_s);
            table.extend(addr.0.to_le_bytes());
        }
        Ok(table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_runs_over_the_seam() {
        let parts: [&[u8]; 2] = [b"abc", b"defg"];
        for (from, to, expected) in [(0, 2, "ab"), (2, 5, "cde"), (3, 7, "defg"), (5, 6, "f")] {
            assert_eq!(cut(parts, from, to).concat(), expected.as_bytes());
        }
    }

    #[test]
    fn a_chunk_names_its_owner() {
        let id = KeyId { slice: SliceId::new(16_383).expect("a slice"), hash: 0xFEED_0123 };
        assert_eq!(owner(&owner_name(id)), Some(id));
        assert_eq!(owner(b"short"), None);
    }
}
