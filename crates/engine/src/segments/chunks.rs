//! Values too long for one piece: a table in the item, and chunks in segments of their own.
//!
//! ```text
//! item, LARGE:  value = | total bytes:u64 | chunk 0:u64 | chunk 1:u64 | ... |
//! chunk, CHUNK: key   = | hash:u64 | slice:u16 |, value = the bytes
//! ```
//!
//! The table holds the addresses of the chunks, in words from the start of the pool. A chunk names
//! its owner, the item whose table names it. So the walker that drains the segment of a chunk can
//! find the owner in the index, move the chunk, and correct the table under the lock of the owner.
//! A chunk that cannot be kept takes its owner with it.
//!
//! A reader without a lock may see a table that is being changed. It checks each address, and the
//! sum of the lengths; what remains is found by the version of the bucket.

use super::addr::Addr;
use super::table::Segments;
use crate::item::{Flags, Head, ItemRef};
use base::{KeyId, SliceId};

/// Bytes of the owner's name in a chunk.
pub(crate) const OWNER_BYTES: usize = 10;

/// Bytes of one entry of the table.
pub(crate) const ENTRY_BYTES: usize = 8;

/// The longest value that a table of one item can name, in bytes.
pub(crate) fn value_bytes_max(inline_value_bytes_max: usize) -> usize {
    (inline_value_bytes_max / ENTRY_BYTES - 1) * inline_value_bytes_max
}

/// The name of an owner, as its chunks hold it.
pub(crate) fn owner_name(id: KeyId) -> [u8; OWNER_BYTES] {
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
pub(crate) fn chunks(item: ItemRef<'_>, head: Head) -> impl Iterator<Item = Addr> {
    let entries = (head.value_bytes() / ENTRY_BYTES).saturating_sub(1);
    (1..=entries).map(move |entry| Addr(item.value_u64(head, entry * ENTRY_BYTES)))
}

/// Bytes `from..to` of two slices laid end to end.
pub(crate) fn cut(parts: [&[u8]; 2], from: usize, to: usize) -> [&[u8]; 2] {
    let middle = parts[0].len();
    let clamp = |at: usize, len: usize| at.min(len);
    [
        &parts[0][clamp(from, middle)..clamp(to, middle)],
        &parts[1][from.saturating_sub(middle)..to.saturating_sub(middle)],
    ]
}

/// Length of the value as the client knows it.
#[inline]
pub(crate) fn whole_value_bytes(item: ItemRef<'_>, head: Head) -> usize {
    if head.is(Flags::LARGE) { item.value_u64(head, 0) as usize } else { head.value_bytes() }
}

/// Appends the chunks of a large value. False if the table was being changed.
#[cold]
pub(crate) fn append_chunks(
    segments: &Segments,
    item: ItemRef<'_>,
    head: Head,
    target: &mut Vec<u8>,
) -> bool {
    let start = target.len();
    for addr in chunks(item, head) {
        let Some(chunk) = segments.try_item(addr) else { return false };
        let chunk_head = chunk.head();
        if !chunk_head.is(Flags::CHUNK) || chunk_head.is(Flags::LARGE) || !chunk.fits(chunk_head) {
            return false;
        }
        chunk.append_value(chunk_head, &[], target);
    }
    target.len() - start == whole_value_bytes(item, head)
}

/// Notes in the segments of an item's chunks, if it has any, that it expires at `expiry_s`.
pub(crate) fn note_expiry_of_chunks(
    segments: &Segments,
    item: ItemRef<'_>,
    head: Head,
    expiry_s: u32,
) {
    if head.is(Flags::LARGE) {
        for addr in chunks(item, head) {
            segments.header_of(addr).note_expiry(expiry_s);
        }
    }
}

/// Whether a large item's table names the chunk at `addr`.
pub(crate) fn names_chunk(item: ItemRef<'_>, head: Head, addr: Addr) -> bool {
    head.is(Flags::LARGE) && chunks(item, head).any(|chunk| chunk == addr)
}

/// Makes the table name `to` in place of `from`, under the lock of its chain.
pub(crate) fn rename_chunk(item: ItemRef<'_>, head: Head, from: Addr, to: Addr) {
    if let Some(entry) = chunks(item, head).position(|chunk| chunk == from) {
        item.write_value_at(head, (entry + 1) * ENTRY_BYTES, &to.0.to_le_bytes());
    }
}

/// The segments that a value of `total` bytes takes when its chunks are `chunk_bytes` long: two
/// chunks share a segment, one segment has an end too short for a chunk, and one takes the item.
pub(crate) fn segments_for(total: usize, chunk_bytes: usize) -> usize {
    total.div_ceil(2 * chunk_bytes) + 2
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
