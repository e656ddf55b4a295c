//! What a worker executes requests with: the cell, counters of its own, and a lease on the engine.
//!
//! A batch is everything that arrived together. It begins with its first request that needs the
//! engine: a delayed flush is carried out if it is due, the worker gets a lease if it holds none,
//! and the engine is pinned. At its end the engine is unpinned, and the lease is returned unless
//! the worker keeps it.
//!
//! Invariants: between `begin` and `end` there is a lease, and the engine is pinned by it. A worker
//! that is dropped returns its lease.

use crate::cell::Cell;
use crate::counters::WorkerCounters;
use base::Now;
use engine::{Engine, Local};
use std::sync::Arc;

/// One worker of a cell.
pub(crate) struct Worker {
    cell: Arc<Cell>,
    counters: Arc<WorkerCounters>,
    /// Held from the first request of a batch to its end, or for good.
    lease: Option<Local>,
    pinned: bool,
}

impl Worker {
    /// One more worker of `cell`.
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        let counters = cell.add_worker();
        Self { cell, counters, lease: None, pinned: false }
    }

    #[inline(always)]
    pub(crate) fn cell(&self) -> &Cell {
        &self.cell
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &WorkerCounters {
        &self.counters
    }

    /// Begins a batch, unless one has begun.
    #[inline]
    pub(crate) fn begin(&mut self, now: Now) {
        if self.pinned {
            return;
        }
        self.cell.flush_if_due(now);
        let cell = &self.cell;
        let local = self.lease.get_or_insert_with(|| cell.leases().take());
        self.cell.engine().pin(local);
        self.pinned = true;
    }

    /// Ends the batch, if one has begun.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.pinned {
            self.pinned = false;
            if let Some(local) = &self.lease {
                self.cell.engine().unpin(local);
            }
            if !self.cell.options().keep_leases
                && let Some(local) = self.lease.take()
            {
                self.cell.leases().give(local);
            }
        }
    }

    /// The engine, and the lease of the batch.
    #[inline]
    pub(crate) fn engine(&mut self) -> (&Engine, &mut Local) {
        (self.cell.engine(), self.lease.as_mut().expect("a batch has begun"))
    }

    /// The lease of the batch, for a read that must leave the worker shared.
    #[inline(always)]
    pub(crate) fn lease(&self) -> &Local {
        self.lease.as_ref().expect("a batch has begun")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(local) = self.lease.take() {
            self.cell.engine().unpin(&local);
            self.cell.leases().give(local);
        }
    }
}
