//! What a worker counts about the requests that it executes.
//!
//! The names are those of memcached's `stats`, so that a report needs no second list. Each worker
//! has counters of its own; a report adds them up. docs/stats.md says what each one means.

base::counters! {
    /// Requests executed since the start, summed over all workers.
    Counters of
    /// The counts of one worker.
    WorkerCounters;
    /// Values that arrived to be stored, whether or not they were.
    cmd_set,
    /// `flush_all` commands.
    cmd_flush,
    /// Keys that `touch`, `gat` or the meta flag `T` gave a new expiry, found or not.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys found.
    get_hits,
    /// Keys not found.
    get_misses,
    /// Reads answered as a copy of what another cell leads.
    copy_reads,
    /// Reads that were to be answered so, and were not.
    copy_reads_refused,
    /// Items deleted.
    delete_hits,
    /// Deletes that found no item.
    delete_misses,
    /// Numbers incremented.
    incr_hits,
    /// Increments that found no item.
    incr_misses,
    /// Numbers decremented.
    decr_hits,
    /// Decrements that found no item.
    decr_misses,
    /// Changes that named the item's token.
    cas_hits,
    /// Changes that named a token and found no item.
    cas_misses,
    /// Changes that named another token than the item's.
    cas_badval,
    /// Of `cmd_touch`, keys that were found.
    touch_hits,
    /// Of `cmd_touch`, keys that were not found.
    touch_misses,
    /// Values refused because of their size.
    store_too_large,
    /// Values refused because there was no memory.
    store_no_memory,
    /// Attempts to authenticate.
    auth_cmds,
    /// Of `auth_cmds`, the failed ones.
    auth_errors,
    /// Requests that were refused: malformed, beyond a limit, or without memory to receive them.
    refused,
}
