//! The engine's locals, leased to workers for as long as they execute a batch.
//!
//! A thread needs a local to use the engine, and there are only as many as the engine was made
//! with. A few workers keep theirs. Where each client has a thread, thousands of threads share the
//! locals, each for the length of a batch.
//!
//! Invariant: a local is held by one worker, or is idle here. A wait for a local ends when another
//! worker's batch ends. Which local a worker gets decides only
//! which arena of the engine it uses.

use engine::Local;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The locals that no worker holds.
pub(crate) struct Leases {
    idle: Mutex<Idle>,
    returned: Condvar,
}

struct Idle {
    locals: Vec<Local>,
    /// Threads that wait for a local. A notification is a system call, so it is sent only to them.
    waiting: usize,
}

impl Leases {
    /// All of `locals`, idle.
    pub(crate) fn new(locals: Vec<Local>) -> Self {
        Self { idle: Mutex::new(Idle { locals, waiting: 0 }), returned: Condvar::new() }
    }

    /// Leases a local. Waits if none is idle.
    pub(crate) fn take(&self) -> Local {
        let mut idle = self.lock();
        loop {
            if let Some(local) = idle.locals.pop() {
                return local;
            }
            idle.waiting += 1;
            idle = self.returned.wait(idle).unwrap_or_else(PoisonError::into_inner);
            idle.waiting -= 1;
        }
    }

    /// Ends a lease.
    pub(crate) fn give(&self, local: Local) {
        let mut idle = self.lock();
        idle.locals.push(local);
        if idle.waiting > 0 {
            self.returned.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
