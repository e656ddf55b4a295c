//! What a worker counts of the requests it executes: the names are those of memcached's `stats`.

base::counters! {
    /// Requests executed since the start, summed over all workers.
    Counters of
    /// The counts of one worker.
    WorkerCounters;
    /// Values sent to be stored.
    cmd_set,
    /// `flush_all`.
    cmd_flush,
    /// Keys whose expiry was set anew, by `touch`, `gat` and the meta flag `T`.
    cmd_touch,
    /// Meta commands.
    cmd_meta,
    /// Keys found.
    get_hits,
    /// Keys not found.
    get_misses,
    /// See the name.
    delete_hits,
    /// See the name.
    delete_misses,
    /// See the name.
    incr_hits,
    /// See the name.
    incr_misses,
    /// See the name.
    decr_hits,
    /// See the name.
    decr_misses,
    /// See the name.
    cas_hits,
    /// See the name.
    cas_misses,
    /// Tokens that were not the item's.
    cas_badval,
    /// See the name.
    touch_hits,
    /// See the name.
    touch_misses,
    /// Values refused for their size.
    store_too_large,
    /// Values for which no room could be made.
    store_no_memory,
    /// Attempts to authenticate.
    auth_cmds,
    /// Of these, the failed ones.
    auth_errors,
    /// Requests that were malformed or beyond a limit.
    refused,
}
