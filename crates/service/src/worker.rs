//! What a worker executes requests with: the cell, counters of its own, and a lease on the engine.
//!
//! A batch is everything that arrived together. It begins with its first request that needs the
//! engine: then a delayed flush is carried out if it is due, the worker gets a lease if it holds
//! none, and turns it into a pin. The end of the batch undoes the last two.
//!
//! Invariants: between `begin` and `end` there is a pin. A worker that is dropped returns its
//! lease.

use crate::cell::Cell;
use crate::counters::WorkerCounters;
use base::Now;
use engine::{Engine, Local, Pin};
use session::Conn;
use std::sync::Arc;

/// One worker of a cell.
pub(crate) struct Worker {
    cell: Arc<Cell>,
    counters: Arc<WorkerCounters>,
    /// Held from the first request of a batch to its end.
    pin: Option<Pin>,
    /// Held between batches, by a worker that keeps its lease.
    lease: Option<Local>,
    /// Whether the request in execution has been parked for as long as it may.
    is_overdue: bool,
}

/// A request cannot be executed now. It has changed nothing, and is executed again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Park;

impl Worker {
    /// One more worker of `cell`.
    pub(crate) fn new(cell: Arc<Cell>) -> Self {
        let counters = cell.add_worker();
        Self { cell, counters, pin: None, lease: None, is_overdue: false }
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
    #[inline(always)]
    pub(crate) fn begin(&mut self, now: Now) {
        if self.pin.is_none() {
            self.begin_batch(now);
        }
    }

    /// Begins a request of the batch.
    pub(crate) fn begin_request(&mut self, now: Now, conn: &Conn) {
        self.begin(now);
        self.is_overdue = conn.is_overdue();
    }

    /// Ends a request of the batch.
    pub(crate) fn end_request(&mut self) {
        self.is_overdue = false;
    }

    /// Whether the request in execution is parked because of an obstacle. One that has been parked
    /// for as long as it may fails instead.
    pub(crate) fn parks(&self) -> Result<(), Park> {
        if self.is_overdue { Ok(()) } else { Err(Park) }
    }

    /// Apart, so that a later request of a batch pays for one comparison only.
    #[inline(never)]
    fn begin_batch(&mut self, now: Now) {
        self.cell.flush_if_due(now);
        let local = self.lease.take().unwrap_or_else(|| self.cell.leases().take());
        self.pin = Some(local.pin());
    }

    /// Whether a batch has begun.
    pub(crate) fn is_busy(&self) -> bool {
        self.pin.is_some()
    }

    /// Ends the batch, if one has begun.
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(pin) = self.pin.take() {
            let local = pin.unpin();
            if self.cell.options().keep_leases {
                self.lease = Some(local);
            } else {
                self.cell.leases().give(local);
            }
        }
    }

    /// The engine, and the pin of the batch.
    #[inline]
    pub(crate) fn engine(&mut self) -> (&Engine, &mut Pin) {
        (self.cell.engine(), self.pin.as_mut().expect("a batch has begun"))
    }

    /// The pin of the batch, for a read that must leave the worker shared.
    #[inline(always)]
    pub(crate) fn pin(&self) -> &Pin {
        self.pin.as_ref().expect("a batch has begun")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(local) = self.pin.take().map(Pin::unpin).or(self.lease.take()) {
            self.cell.leases().give(local);
        }
    }
}
