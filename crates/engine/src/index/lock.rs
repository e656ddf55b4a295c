//! The first word of a bucket: the lock of its chain, its version, and the next bucket.
//!
//! ```text
//! 63......32 31........0
//! overflow   version       overflow = number of the next bucket of the chain + 1, or 0
//! ```
//!
//! The lock is the lowest bit of the version in the header of the first bucket. Taking it makes
//! the version odd, and optimistic readers start over. Releasing it makes the version even again,
//! and higher if anything changed. The lock guards the slots of the whole chain, and every item
//! that they point to. Further buckets of a chain have no lock of their own.

use super::bucket::BucketId;
use crate::sync::{AtomicU64, Ordering, fence, spin_loop, yield_now};

/// The header of a bucket that is locked, apart from its version and its overflow.
pub(super) const LOCKED: u64 = 1;
const VERSION_MASK: u64 = u32::MAX as u64;
const OVERFLOW_SHIFT: u32 = 32;

/// Spins on a held lock before the thread lets others run.
const SPINS_MAX: u32 = 64;

/// Whether a bucket with this header is locked.
#[inline]
pub(crate) fn is_locked(header: u64) -> bool {
    header & LOCKED != 0
}

/// The next bucket of the chain.
#[inline]
pub(crate) fn overflow(header: u64) -> Option<BucketId> {
    let link = (header >> OVERFLOW_SHIFT) as u32;
    (link != 0).then(|| BucketId(link - 1))
}

pub(super) fn with_overflow(header: u64, next: Option<BucketId>) -> u64 {
    header & VERSION_MASK | next.map_or(0, |id| u64::from(id.0) + 1) << OVERFLOW_SHIFT
}

/// The lock of a chain, held for change. Dropping it releases the lock.
pub(super) struct Lock<'i> {
    header: &'i AtomicU64,
    /// Whether readers must start over.
    pub(super) changed: bool,
}

impl<'i> Lock<'i> {
    /// Waits for the lock in this header.
    #[inline(always)]
    pub(super) fn take(header: &'i AtomicU64) -> Self {
        if !Self::try_take(header) {
            Self::wait(header);
        }
        // Readers that see any later store must see the odd version too.
        fence(Ordering::Release);
        Self { header, changed: false }
    }

    #[inline(always)]
    fn try_take(word: &AtomicU64) -> bool {
        let header = word.load(Ordering::Relaxed);
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        !is_locked(header)
            && word.compare_exchange_weak(header, header | LOCKED, acquire, relaxed).is_ok()
    }

    #[cold]
    fn wait(header: &AtomicU64) {
        let mut spins = 0;
        while !Self::try_take(header) {
            spins += 1;
            if spins % SPINS_MAX == 0 { yield_now() } else { spin_loop() }
        }
    }
}

impl Drop for Lock<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let header = self.header.load(Ordering::Relaxed);
        let version = header & VERSION_MASK;
        let version = if self.changed { version.wrapping_add(1) } else { version - LOCKED };
        self.header.store(header & !VERSION_MASK | version & VERSION_MASK, Ordering::Release);
    }
}
