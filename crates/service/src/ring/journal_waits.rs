//! Which workers have acknowledgements that wait for the journal.

use effects::LANES_MAX;
use session::WorkerId;
use std::sync::atomic::{AtomicBool, Ordering};

/// By worker, whether acknowledgements wait for the journal there.
pub(crate) struct JournalWaits([AtomicBool; LANES_MAX]);

impl Default for JournalWaits {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicBool::new(false)))
    }
}

impl JournalWaits {
    /// Those of `worker` wait. It looks once more after this: what was written just before is not
    /// said again.
    pub(crate) fn add(&self, worker: WorkerId) {
        self.0[usize::from(worker.0) % LANES_MAX].store(true, Ordering::SeqCst);
    }

    /// The workers that wait. None does any more.
    pub(crate) fn take(&self) -> impl Iterator<Item = WorkerId> {
        let waits = self.0.iter().enumerate();
        let took = waits.filter(|(_, waits)| {
            waits.load(Ordering::SeqCst) && waits.swap(false, Ordering::SeqCst)
        });
        took.map(|(worker, _)| WorkerId(worker as u16))
    }
}
