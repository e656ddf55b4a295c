//! Which workers have acknowledgements that wait for the journal.

use session::WorkerId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The workers whose acknowledgements wait.
#[derive(Default)]
pub(crate) struct JournalWaits {
    workers: Mutex<Vec<WorkerId>>,
    /// Whether there is any.
    is_any: AtomicBool,
}

impl JournalWaits {
    /// Those of `worker` wait. It looks once more after this: what was written just before is not
    /// said again.
    pub(crate) fn add(&self, worker: WorkerId) {
        let mut workers = self.lock();
        if !workers.contains(&worker) {
            workers.push(worker);
        }
        self.is_any.store(true, Ordering::SeqCst);
    }

    /// The workers that wait. None does any more.
    pub(crate) fn take(&self) -> Vec<WorkerId> {
        match self.is_any.swap(false, Ordering::SeqCst) {
            true => std::mem::take(&mut *self.lock()),
            false => Vec::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WorkerId>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
