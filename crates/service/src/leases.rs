//! Locals of the engine, leased by whoever works a batch.
//!
//! Under a few workers each keeps its lease; under a thread per client, thousands share as many as
//! there are, for the length of a batch. The wait for one is bounded by the batches of others.

use engine::Local;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Locals that nobody works with.
pub struct Leases {
    idle: Mutex<Idle>,
    returned: Condvar,
}

struct Idle {
    locals: Vec<Local>,
    /// Threads that wait for one. Waking is a system call, so it is done for them only.
    waiting: usize,
}

impl Leases {
    /// All of `locals` to lease.
    #[must_use]
    pub fn new(locals: Vec<Local>) -> Self {
        Self { idle: Mutex::new(Idle { locals, waiting: 0 }), returned: Condvar::new() }
    }

    /// A local, as soon as there is one.
    pub(crate) fn take(&self) -> Local {
        let mut idle = self.lock();
        loop {
            if let Some(local) = idle.locals.pop() {
                return local;
            }
            idle.waiting += 1;
            idle = match self.returned.wait(idle) {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            };
            idle.waiting -= 1;
        }
    }

    pub(crate) fn give(&self, local: Local) {
        let mut idle = self.lock();
        idle.locals.push(local);
        if idle.waiting > 0 {
            self.returned.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        match self.idle.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}
