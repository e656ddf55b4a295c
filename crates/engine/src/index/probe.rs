//! What a reader without a lock keeps: a bucket, and the header that it had at the first look.

use super::bucket::Bucket;
use super::lock::is_locked;
use crate::sync::{Ordering, fence};

/// The first bucket of a chain, as an optimistic reader met it.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'i> {
    pub(super) first: &'i Bucket,
    pub(super) header: u64,
}

impl Probe<'_> {
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        is_locked(self.header)
    }

    #[inline]
    pub(crate) fn first(&self) -> &Bucket {
        self.first
    }

    #[inline]
    pub(crate) fn header(&self) -> u64 {
        self.header
    }

    /// Whether nothing changed since the probe was taken: what was read in between is true.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        fence(Ordering::Acquire);
        self.first[0].load(Ordering::Relaxed) == self.header
    }
}
