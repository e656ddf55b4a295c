//! What one thread of work owns: its epoch slot, its counters and its scratch memory.
//!
//! Locals are made with the engine and leased by its user: a worker keeps one, a thousand client
//! threads share a few. There is no thread-local state, so one thread can play many workers.

/// One lease on the engine. Reads and writes go through it; a batch of them happens between
/// [`crate::Engine::pin`] and [`crate::Engine::unpin`].
#[derive(Debug)]
pub struct Local {
    pub(crate) slot: usize,
    /// Words of housekeeping owed for what was written.
    pub(crate) debt_words: usize,
    /// Old values on their way to a new place.
    pub(crate) scratch: Vec<u8>,
}

impl Local {
    pub(crate) fn new(slot: usize) -> Self {
        Self { slot, debt_words: 0, scratch: Vec::new() }
    }
}

base::counters! {
    /// Counters of the engine since it was made, summed over its locals.
    Counters of
    /// The share of one local: written by its holder alone, read by anyone.
    LocalCounters;
    /// Items held; a local that removes what another added counts below zero, so only the sum
    /// means something.
    items,
    /// Words those items take.
    item_words,
    /// Items ever stored anew or moved by a write that did not fit in place.
    stored,
    /// Overwrites in place.
    overwritten,
    /// Items evicted.
    evicted,
    /// Of these, how many had never been read.
    evicted_unread,
    /// Items found expired, or cut off by a barrier.
    expired,
    /// Of these, how many had never been read.
    expired_unread,
    /// Items kept by eviction: moved to the main pool or to its end.
    kept,
    /// Items moved out of mostly dead segments.
    compacted,
    /// Keys found among the ghosts when they were stored again.
    ghost_hits,
    /// Segments drained.
    drained,
    /// Reads that found an item whose time was over.
    read_expired,
    /// Reads that found an item which a barrier had cut off.
    read_flushed,
    /// Reads that met a change and started over.
    torn,
    /// Writes of reads to lines that other threads read: a use counted, a time of access renewed.
    shared_writes,
    /// Requests that found no ground and had to make room before they could go on.
    rooms_made,
    /// Rounds of making room that waited for the batches of others to end.
    waits,
}
