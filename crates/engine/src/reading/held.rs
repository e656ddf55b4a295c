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
    total: usize,
    /// Bytes that were read.
    at: usize,
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
        Ok(Self { chunks, total: whole_value_bytes(item, head), at: 0, _grant: grant })
    }

    /// Bytes that are still to be read.
    #[must_use]
    pub fn left(&self) -> usize {
        self.total - self.at
    }

    /// Appends the next part, of `bytes_max` bytes at most.
    pub(crate) fn append_part(&mut self, items: &Items, bytes_max: usize, target: &mut Vec<u8>) {
        let chunk_bytes = items.segments().geometry().inline_value_bytes_max;
        let end = self.at + bytes_max.min(self.left());
        while self.at < end {
            let from = self.at % chunk_bytes;
            let len = (chunk_bytes - from).min(end - self.at);
            let chunk = items.segments().item(self.chunks[self.at / chunk_bytes]);
            chunk.append_value_part(chunk.head(), from..from + len, target);
            self.at += len;
        }
    }

    pub(crate) fn release(self, items: &Items) {
        release(items.segments(), &self.chunks);
    }
}
