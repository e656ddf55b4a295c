//! Atomics and locks, or the model checkers' own in their place.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

#[cfg(shuttle)]
pub(crate) use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicU32, AtomicU64, Ordering, fence},
    sync::{Mutex, MutexGuard},
    thread::yield_now,
};

/// Takes a lock that guards plain bookkeeping, which no panic can leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Sleeps for a millisecond.
#[cfg(not(any(loom, shuttle)))]
pub(crate) fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(1));
}

/// Lets others run: the checkers have no time.
#[cfg(any(loom, shuttle))]
pub(crate) fn nap() {
    yield_now();
}
