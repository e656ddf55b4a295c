//! A bucket: one cache line of the index.
//!
//! ```text
//! bucket, 64 B: | header | slot 0 | slot 1 | ... | slot 6 |
//! header:       overflow(32) | version(32), odd while locked
//! ```
//!
//! `overflow` is the number of the next bucket of the chain plus one.

use crate::sync::AtomicU64;

/// Words of a bucket: one cache line.
pub(crate) const BUCKET_WORDS: usize = 8;

/// Bytes of a bucket.
pub(super) const BUCKET_BYTES: u64 = 64;

/// The words of a bucket: its header, then its slots.
pub(crate) type Bucket = [AtomicU64; BUCKET_WORDS];

/// Slots of a bucket.
pub(crate) const SLOTS: usize = BUCKET_WORDS - 1;

/// Number of a bucket, counted from the start of this memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketId(pub(crate) u32);
