//! What all workers of a cell share.

use crate::counters::{Counters, WorkerCounters};
use crate::host::Host;
use crate::leases::Leases;
use base::{MemoryBudget, Now, Owner};
use engine::{Engine, EngineConfig, EngineError};
use memcache::{LINE_BYTES_MAX, Limits};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The longest user name and password that are looked at, in bytes.
const AUTH_BYTES_MAX: u64 = 2048;

/// Checks `user password`, as a client sends them.
pub type Authenticate = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What the operator decided.
pub struct Options {
    /// What `version` answers.
    pub version: String,
    /// Longest value and longest line.
    pub limits: Limits,
    /// Whether `flush_all` is allowed.
    pub allow_flush: bool,
    /// Whether `shutdown` is allowed.
    pub allow_shutdown: bool,
    /// Whether keys may be listed.
    pub allow_dump: bool,
    /// Who may use the cell; everyone when absent.
    pub authenticate: Option<Authenticate>,
    /// The share of the budget that connections may take for input and output they must keep.
    pub connection_bytes_max: u64,
    /// Whether each worker keeps its lease on the engine, as a few workers should.
    pub keep_leases: bool,
    /// Names and values for `stats settings`.
    pub settings: Vec<(&'static str, String)>,
}

/// Counts as they were when `stats reset` was last called.
#[derive(Clone, Copy, Default)]
pub(crate) struct Baseline {
    pub(crate) requests: Counters,
    pub(crate) engine: engine::Counters,
    pub(crate) connections: crate::host::Connections,
}

/// One cell: its memory, its options, its counts.
pub struct Cell {
    pub(crate) engine: Engine,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) options: Options,
    pub(crate) host: Box<dyn Host>,
    pub(crate) leases: Leases,
    /// Limits for clients that have yet to authenticate.
    pub(crate) auth_limits: Limits,
    pub(crate) started_s: u32,
    /// When a delayed `flush_all` is due; 0 for never.
    flush_due_s: AtomicU32,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
    baseline: Mutex<Baseline>,
}

impl Cell {
    /// A cell with an engine of its own, whose memory comes out of `budget`.
    ///
    /// # Errors
    /// When the engine cannot be made.
    pub fn new(
        config: EngineConfig,
        budget: Arc<MemoryBudget>,
        options: Options,
        host: Box<dyn Host>,
        now: Now,
    ) -> Result<Arc<Self>, EngineError> {
        let (engine, locals) = Engine::new(config, budget.clone())?;
        let auth_limits =
            Limits { value_bytes_max: AUTH_BYTES_MAX, multiget_line_bytes_max: LINE_BYTES_MAX };
        Ok(Arc::new(Self {
            engine,
            budget,
            options,
            host,
            leases: Leases::new(locals),
            auth_limits,
            started_s: now.expiry_s,
            flush_due_s: AtomicU32::new(0),
            workers: Mutex::new(Vec::new()),
            baseline: Mutex::new(Baseline::default()),
        }))
    }

    /// The engine, for whoever looks at its counters.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Requests executed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for worker in lock(&self.workers).iter() {
            sum.add(worker);
        }
        sum
    }

    /// Counters for one more worker. Those of workers that ended are used again, so that a thread
    /// per client does not collect them for ever.
    pub(crate) fn enlist(&self) -> Arc<WorkerCounters> {
        let mut workers = lock(&self.workers);
        if let Some(free) = workers.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return free.clone();
        }
        let counters = Arc::new(WorkerCounters::default());
        workers.push(counters.clone());
        counters
    }

    /// Empties the cache now, or when second `due_s` has come.
    pub(crate) fn flush(&self, due_s: Option<u32>) {
        if due_s.is_none() {
            self.engine.flush();
        }
        self.flush_due_s.store(due_s.unwrap_or(0), Ordering::Relaxed);
    }

    /// Carries out a delayed flush whose time has come. Called before requests are executed.
    #[inline]
    pub(crate) fn flush_if_due(&self, now: Now) {
        let due_s = self.flush_due_s.load(Ordering::Relaxed);
        if due_s != 0 && due_s <= now.expiry_s {
            self.flush_due(due_s);
        }
    }

    #[cold]
    fn flush_due(&self, due_s: u32) {
        let relaxed = Ordering::Relaxed;
        if self.flush_due_s.compare_exchange(due_s, 0, relaxed, relaxed).is_ok() {
            self.engine.flush();
        }
    }

    /// Whether connections may hold `bytes` more, be there room now or not.
    pub(crate) fn has_share_left(&self, bytes: u64) -> bool {
        self.budget.used(Owner::Connections) + bytes <= self.options.connection_bytes_max
    }

    pub(crate) fn baseline(&self) -> Baseline {
        *lock(&self.baseline)
    }

    /// Makes `stats` count from here on.
    pub(crate) fn reset(&self) {
        let now = Baseline {
            requests: self.counters(),
            engine: self.engine.counters(),
            connections: self.host.connections(),
        };
        *lock(&self.baseline) = now;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
