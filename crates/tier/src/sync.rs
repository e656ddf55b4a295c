//! Atomics and the lock, or those of a model checker (loom, shuttle) in their place.
//!
//! Every file takes them from here, so that a checker sees each access.

#[cfg(loom)]
use loom as source;
#[cfg(shuttle)]
use shuttle as source;
pub(crate) use source::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use source::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(any(loom, shuttle)))]
use std as source;
use std::sync::{PoisonError, TryLockError};

/// Whether a model checker runs: then there are few shards, so that keys meet in them.
pub(crate) const MODEL: bool = cfg!(any(loom, shuttle));

/// Takes the lock, also after a panic: what it guards is complete whenever code of a caller runs.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock if it is free.
pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Takes the lock to read.
pub(crate) fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock to write.
pub(crate) fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
