//! Atomics and locks, or those of a model checker (loom, shuttle) in their place.
//!
//! Every file of the engine takes its atomics and locks from here, so that a checker sees each
//! access. Nothing here knows of memory or items.
//!
//! One function waits for time: [`sleep_1_ms`]. The engine is a core and should own no clock, but
//! today it sleeps in the thread of its caller, and so delays all clients of that thread. Only a
//! request that finds no free space calls it, and only after `space.rs` has yielded the
//! processor about a thousand times without effect. The sleeps of one request are bounded there.

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

/// Blocks the calling thread for a millisecond by the clock of the kernel.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn sleep_1_ms() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// Lets other threads run: a model checker has no time.
#[cfg(any(loom, shuttle))]
pub(crate) fn sleep_1_ms() {
    yield_now();
}
