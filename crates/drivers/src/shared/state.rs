//! The state of one server: its settings, its phase, its workers, how many connections are open.
//!
//! ```text
//! phase   Running -> Draining -> Stopping      never back
//!              +----------------^
//! ```
//!
//! Invariants: `open` counts each client from the moment it is accepted until its worker has
//! closed it; links are not counted. While the server drains, the last client that is closed wakes
//! every worker, because links are closed then. The counts of a worker that is gone are in
//! `retired`, and in no handle: both change under the write lock of `workers`.
//!
//! Times are nanoseconds of the monotonic clock.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, Weak};
use std::time::Duration;

use session::WorkerId;

use super::handle::WorkerHandle;
use crate::clock::Clock;
use crate::config::Config;
use crate::counters::Snapshot;
use crate::sockets::{Listener, Report};

/// How far a server is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It serves.
    Running,
    /// It accepts no client, and closes each connection between two requests.
    Draining,
    /// It closes everything.
    Stopping,
}

/// What all workers of a server share.
pub(crate) struct Shared {
    config: Config,
    clock: Clock,
    /// Clients that are connected, over all workers.
    open: AtomicU32,
    /// Accepting has stopped; the worker that accepts is woken when a connection closes.
    accept_stopped: AtomicBool,
    phase: AtomicU8,
    drain_until_ns: AtomicU64,
    workers: RwLock<Vec<Option<Arc<WorkerHandle>>>>,
    /// What the workers counted that are gone.
    retired: Mutex<Snapshot>,
    listeners: Mutex<Vec<(Report, Weak<OwnedFd>)>>,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Arc<Self> {
        Arc::new(Self {
            clock: config.clock.clone(),
            config,
            open: AtomicU32::new(0),
            accept_stopped: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Running as u8),
            drain_until_ns: AtomicU64::new(u64::MAX),
            workers: RwLock::default(),
            retired: Mutex::default(),
            listeners: Mutex::default(),
        })
    }

    #[inline]
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Stopping,
        }
    }

    /// When draining ends at the latest.
    pub(crate) fn drain_until_ns(&self) -> u64 {
        self.drain_until_ns.load(Ordering::Relaxed)
    }

    /// Enters `phase`, unless a later one is entered already, and wakes every worker.
    pub(crate) fn advance(&self, phase: Phase) {
        // Ordered with the count of clients: either the last one sees the phase, or who has entered
        // it sees that none is left.
        self.phase.fetch_max(phase as u8, Ordering::SeqCst);
        self.wake_all();
    }

    fn wake_all(&self) {
        for worker in self.workers().iter().flatten() {
            worker.mailbox().wake();
        }
    }

    /// Begins to drain. A second call changes nothing: the limit counts from the first.
    pub(crate) fn drain(&self, limit: Duration) {
        if self.phase() != Phase::Running {
            return;
        }
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = self.clock.now().mono_ns.saturating_add(limit_ns);
        self.drain_until_ns.store(until_ns, Ordering::Relaxed);
        self.advance(Phase::Draining);
    }

    /// Clients that are connected.
    pub(crate) fn open(&self) -> u32 {
        self.open.load(Ordering::SeqCst)
    }

    /// Whether no further client may be accepted.
    pub(crate) fn is_full(&self) -> bool {
        self.open() >= self.config.connections_max
    }

    /// Whether the next client must wait unaccepted until a connection closes.
    pub(crate) fn must_wait(&self) -> bool {
        self.is_full() && !self.config.reject_at_limit
    }

    /// Counts a client that was accepted.
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that was closed, and wakes the acceptor if it waits for that.
    pub(crate) fn closed(&self) {
        let was_last = self.open.fetch_sub(1, Ordering::SeqCst) == 1;
        if was_last && self.phase.load(Ordering::SeqCst) != Phase::Running as u8 {
            return self.wake_all();
        }
        if self.has_stopped_accepting()
            && let Some(worker) = self.worker(self.config.acceptor())
        {
            worker.mailbox().wake();
        }
    }

    /// Whether accepting has stopped: at the limit, or because descriptors have run out.
    pub(crate) fn has_stopped_accepting(&self) -> bool {
        self.accept_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_accept_stopped(&self, stopped: bool) {
        self.accept_stopped.store(stopped, Ordering::Relaxed);
    }

    /// Shows `listener` in the reports from now on.
    pub(crate) fn show(&self, listener: &Listener) {
        self.lock_listeners().push((listener.report(), listener.of_clients()));
    }

    /// Every listener.
    pub(super) fn listeners(&self) -> Vec<Report> {
        self.lock_listeners().iter().map(|(report, _)| report.clone()).collect()
    }

    /// The sockets of TCP that clients connect to, and that are open.
    pub(super) fn of_clients(&self) -> Vec<Arc<OwnedFd>> {
        self.lock_listeners().iter().filter_map(|(_, socket)| socket.upgrade()).collect()
    }

    fn lock_listeners(&self) -> MutexGuard<'_, Vec<(Report, Weak<OwnedFd>)>> {
        self.listeners.lock().expect("no holder of the listeners panics")
    }

    pub(crate) fn worker(&self, id: WorkerId) -> Option<Arc<WorkerHandle>> {
        self.workers().get(usize::from(id.0))?.clone()
    }

    /// Every worker that there is; a place without a worker is `None`.
    pub(super) fn workers(&self) -> RwLockReadGuard<'_, Vec<Option<Arc<WorkerHandle>>>> {
        self.workers.read().expect("no holder of the workers panics")
    }

    /// Makes `handle` that of worker `id`.
    pub(crate) fn add_worker(&self, id: WorkerId, handle: Arc<WorkerHandle>) {
        let mut workers = self.workers.write().expect("no holder of the workers panics");
        let index = usize::from(id.0);
        if workers.len() <= index {
            workers.resize(index + 1, None);
        }
        workers[index] = Some(handle);
    }

    /// Removes worker `id` and keeps what it counted.
    pub(crate) fn remove_worker(&self, id: WorkerId) {
        let mut workers = self.workers.write().expect("no holder of the workers panics");
        let Some(handle) = workers[usize::from(id.0)].take() else { return };
        // Under the same lock, so that no sum misses the counts or adds them twice.
        self.retired.lock().expect("no holder of the counts panics").add(handle.counters());
    }

    /// The counters of all workers together, those included that are gone.
    pub(super) fn snapshot(&self) -> Snapshot {
        let workers = self.workers();
        let mut sum = *self.retired.lock().expect("no holder of the counts panics");
        for worker in workers.iter().flatten() {
            sum.add(worker.counters());
        }
        sum
    }
}
