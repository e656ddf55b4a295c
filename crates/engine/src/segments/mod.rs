//! Segments: equal pieces of the pool. Each is filled from the front and evicted as a whole.
//!
//! ```text
//! uncommitted -> free -> open -> sealed -> draining -> limbo -> free
//!                                                         \-> uncommitted (memory given back)
//! ```
//!
//! * uncommitted: address space without memory;
//! * free: holds memory, and no item;
//! * open: writers take words from its end, without a lock;
//! * sealed: full, in the queue of its pool, oldest first;
//! * draining: one walker looks at each item and moves or drops it;
//! * limbo: nothing points into it, but a batch that began earlier may still read it, or a reader
//!   holds it that sends a value in parts (`holds.rs`).
//!
//! There is no edge from draining back to sealed. A writer writes the words it took before its
//! batch ends, so a sealed segment may be walked once the grace period of its sealing has passed.
//!
//! This room knows items only as far as it must lay them and walk them. It never decides what to
//! evict, and it counts nothing for statistics.

mod addr;
mod chunks;
mod for_copies;
mod header;
mod holds;
mod pins;
mod pool;
mod queue;
mod reuse;
mod table;

pub(crate) use addr::{ADDR_BITS, Addr, SegmentId};
pub(crate) use chunks::{
    ENTRY_BYTES, OWNER_BYTES, append_chunks, chunks, cut, names_chunk, note_expiry_of_chunks,
    owner, owner_name, rename_chunk, segments_for, value_bytes_max, whole_value_bytes,
};
pub use for_copies::KeptForCopies;
pub(crate) use header::Header;
#[cfg(test)]
pub(crate) use header::HeaderWords;
pub(crate) use holds::{
    Admission, admit, can_be_held, dismiss, end_keep, hold, keep, pinned_bytes, release, renew,
};
pub(crate) use pool::{POOLS, Pool, SMALL_PERCENT_FIRST};
pub(crate) use reuse::{
    Reclaim, Victim, aged, dead_victim, drained, expired_victim, flushed_victim, follow,
    oldest_victim, reclaim, removed_victim,
};
pub(crate) use table::{Purpose, SegmentCounts, Segments, Stream};
