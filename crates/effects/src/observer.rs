//! What else must know of changes, besides the log that they are appended to.

use base::{SliceId, Version};

/// Knows of every change of the sinks that it observes. It is called under the lock of the bucket,
/// and returns at once.
pub trait Observer: Send + Sync {
    /// Whether this version of `slice` may be given out: to a change of `key`, or of none where it
    /// concerns this memory alone.
    fn allows(&self, slice: SliceId, key: Option<&[u8]>, version: Version) -> bool;

    /// Whether what concerns this memory alone is appended to the log, evictions and expiries:
    /// copies must follow them. If not, they take no space there.
    fn keeps_evictions(&self) -> bool;

    /// The item of `key` has changed, and not only in this memory: it was not evicted, and has not
    /// expired. The change is in its log.
    fn changed(&self, slice: SliceId, key: &[u8]);

    /// Any item may have changed. That is in the logs.
    fn changed_all(&self);

    /// Whether `key`, which has no item in memory, has none elsewhere either.
    fn is_absent(&self, slice: SliceId, key: &[u8]) -> bool;
}
