//! Atomics and the lock, or those of a model checker (loom, shuttle) in their place.
//!
//! Every file takes them from here, so that a checker sees each access.

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;
pub(crate) use source::sync::atomic::{AtomicU8, AtomicU64, Ordering};
pub(crate) use source::sync::{Mutex, MutexGuard};
#[cfg(not(any(loom, shuttle)))]
use std as source;
use std::sync::{PoisonError, TryLockError};

/// Whether a model checker runs the logs: then tables and blocks are as small as they can be.
pub(crate) const MODEL: bool = cfg!(any(loom, shuttle));

/// [`lock`], for a lock that is mostly free: the attempt is short enough to be inlined.
#[inline(always)]
pub(crate) fn lock_quickly<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => lock(mutex),
    }
}

/// Takes the lock, also after a panic: every change of what it guards is complete before anything
/// that may panic is called.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
