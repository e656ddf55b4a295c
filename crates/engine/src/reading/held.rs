//! A long value that is read in parts.
//!
//! The reader holds the segments of its chunks from the first part to the last. Chunks are never
//! written again and their memory is not used again before that, so every part is of the value that
//! was found, also if the item is replaced, moved or evicted meanwhile.

use crate::items::{Current, Items};
use crate::segments::{Addr, chunks, hold, release, whole_value_bytes};
use base::{Grant, Owner};

/// A long value that is being read in parts. [`Engine::release`](crate::Engine::release) ends it.
#[must_use = "its memory is held until it is released"]
pub struct HeldValue {
    chunks: Vec<Addr>,
    /// Bytes that are still to be read.
    left: usize,
    /// Where the next part begins: the number of its chunk, and bytes of it.
    at: (usize, usize),
    /// For the list of the chunks.
    _grant: Grant,
}

/// Why a value is not held.
pub(crate) enum NotHeld {
    /// So much is pinned already that this must wait.
    TooMuch,
    /// The budget has no memory for the list of its chunks, of this number of bytes.
    NoBuffer(u64),
}

impl HeldValue {
    /// Holds the value of an item whose chain is locked, and which is in chunks.
    pub(crate) fn of(items: &Items, current: &Current<'_>) -> Result<Self, NotHeld> {
        let Current { item, head, .. } = *current;
        let chunks: Vec<Addr> = chunks(item, head).collect();
        let bytes = size_of_val(&*chunks) as u64;
        let grant = items.segments().budget().take(Owner::Connections, bytes);
        let grant = grant.ok_or(NotHeld::NoBuffer(bytes))?;
        if !hold(items.segments(), &chunks) {
            return Err(NotHeld::TooMuch);
        }
        Ok(Self { chunks, left: whole_value_bytes(item, head), at: (0, 0), _grant: grant })
    }

    /// Bytes that are still to be read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Appends the next part, of `bytes_max` bytes at most.
    pub(crate) fn append_part(&mut self, items: &Items, bytes_max: usize, target: &mut Vec<u8>) {
        let mut wanted = bytes_max.min(self.left);
        self.left -= wanted;
        while wanted > 0 {
            let (number, from) = self.at;
            let chunk = items.segments().item(self.chunks[number]);
            let head = chunk.head();
            let len = (head.value_bytes() - from).min(wanted);
            chunk.append_value_part(head, from..from + len, target);
            wanted -= len;
            let is_read = from + len == head.value_bytes();
            self.at = if is_read { (number + 1, 0) } else { (number, from + len) };
        }
    }

    pub(crate) fn release(self, items: &Items) {
        release(items.segments(), &self.chunks);
    }
}
