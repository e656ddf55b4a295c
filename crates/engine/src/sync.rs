//! Atomics and locks, or those of a model checker (loom, shuttle) in their place.
//!
//! Every file of the engine takes its atomics and locks from here, so that a checker sees each
//! access. Nothing here knows of memory or items.

/// Whether a model checker runs the engine. It tries many orders of all steps, so everything is as
/// small as it can be.
pub(crate) const MODEL: bool = cfg!(any(loom, shuttle));

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;
pub(crate) use source::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};
#[cfg(not(any(loom, shuttle)))]
use std as source;
use std::sync::TryLockError;

/// What writers change, on cache lines of its own: readers load what lies beside it. (Two lines,
/// since processors fetch pairs.)
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> std::ops::Deref for Apart<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Takes a lock that guards plain bookkeeping: no panic can leave that half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// [`lock`], unless another thread holds it.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
