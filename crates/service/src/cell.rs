//! What all workers of a cell share: the engine, the options, and what statistics need.
//!
//! A cell executes nothing itself. Every field is either fixed after the start, or an atomic, or
//! behind a lock that is held for a few instructions.
//!
//! Invariants:
//! - A delayed `flush_all` is carried out once, by the first batch that begins at or after its
//!   second.
//! - The sum over all workers' counters never falls, even if workers end.
//!
//! Units: `_s` is seconds of [`Now::expiry_s`], `_bytes` bytes.

use crate::counters::{Counters, WorkerCounters};
use crate::effect_log::{EffectLog, EffectLogOptions};
use crate::host::{Connections, Host, LimitChange};
use crate::leases::Leases;
use crate::tiered::Tiered;
use base::{MemoryBudget, Now, Owner};
use engine::{Engine, EngineConfig, EngineError};
use memcache::{LINE_BYTES_MAX, Limits};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use tier::{Recovered, TierError};

/// The longest user name and password together that a client may send, in bytes.
const AUTH_BYTES_MAX: u64 = 2048;

/// Checks the text `user password` that a client has sent.
pub type Authenticate = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// What the operator has decided.
pub struct Options {
    /// What `version` replies.
    pub version: String,
    /// The longest value and the longest line.
    pub limits: Limits,
    /// Whether `flush_all` is allowed.
    pub allow_flush: bool,
    /// Whether `shutdown` is allowed.
    pub allow_shutdown: bool,
    /// Whether clients may change what replies above a tier promise.
    pub allow_policy: bool,
    /// Whether `stats tier discard` is served.
    pub allow_discard: bool,
    /// Whether clients may list keys.
    pub allow_dump: bool,
    /// Who may use the cell; if absent, everyone.
    pub authenticate: Option<Authenticate>,
    /// Connections may hold one byte in this many of the memory limit, for input and output that
    /// they must keep.
    pub connections_part: u64,
    /// Whether each worker keeps its lease between batches. It should if workers are few.
    pub keep_leases: bool,
    /// Names and values for `stats settings`.
    pub settings: Vec<(&'static str, String)>,
    /// The effect log, if the cell has one.
    pub effect_log: Option<EffectLogOptions>,
}

/// Why the limit on memory stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitRefused {
    /// The cell cannot work with less than `bytes_min` now.
    TooLow { bytes_min: u64 },
    /// There is address space for no more than `bytes_max`.
    TooHigh { bytes_max: u64 },
}

/// Why a cell could not be made. A message names the value, the limit and the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum CellError {
    /// Its engine could not be made.
    Engine(EngineError),
    /// The part of the limit that logs take is too little for one log of effects.
    NoMemoryForLog {
        /// The limit.
        limit_bytes: u64,
    },
}

impl fmt::Display for CellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::NoMemoryForLog { limit_bytes } => write!(
                f,
                "a 32nd of the memory limit of {limit_bytes} bytes is too little for the log of \
                 effects: raise the limit"
            ),
        }
    }
}

impl std::error::Error for CellError {}

impl From<EngineError> for CellError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

/// All counts at the time of the latest `stats reset`; zero before the first.
#[derive(Clone, Copy, Default)]
pub(crate) struct Baseline {
    /// Requests.
    pub requests: Counters,
    /// What the engine counts.
    pub engine: engine::Counters,
    /// What the process counts.
    pub connections: Connections,
}

/// One cell: its memory, its options, its counts.
pub struct Cell {
    engine: Engine,
    effect_log: Option<Arc<EffectLog>>,
    tiered: OnceLock<Arc<Tiered>>,
    budget: Arc<MemoryBudget>,
    options: Options,
    host: Box<dyn Host>,
    leases: Leases,
    /// The limits for clients that have not authenticated yet.
    auth_limits: Limits,
    started_ns: u64,
    /// When a delayed `flush_all` is due; 0 if there is none.
    flush_due_s: AtomicU32,
    /// Held while a flush is appended to the logs and noted here: both have them in one order.
    flush_order: Mutex<()>,
    workers: Mutex<Vec<Arc<WorkerCounters>>>,
    baseline: Mutex<Baseline>,
}

impl Cell {
    /// A cell with an engine of its own, whose memory is taken from `budget`.
    ///
    /// # Errors
    /// If the engine cannot be created, or its log of effects.
    pub fn new(
        mut config: EngineConfig,
        budget: Arc<MemoryBudget>,
        options: Options,
        host: Box<dyn Host>,
        now: Now,
    ) -> Result<Arc<Self>, CellError> {
        let limit_bytes = config.limit_bytes;
        let effect_log = match options.effect_log {
            None => None,
            Some(of) => {
                let log = EffectLog::new(of, &budget);
                Some(Arc::new(log.ok_or(CellError::NoMemoryForLog { limit_bytes })?))
            }
        };
        // An effect has its value in one piece, and a reply waits for the log as a whole.
        config.in_parts &= effect_log.is_none();
        let (engine, locals) = Engine::new(config, budget.clone())?;
        share_out(&budget, &options);
        let auth_limits =
            Limits { value_bytes_max: AUTH_BYTES_MAX, multiget_line_bytes_max: LINE_BYTES_MAX };
        Ok(Arc::new(Self {
            engine,
            effect_log,
            tiered: OnceLock::new(),
            budget,
            options,
            host,
            leases: Leases::new(locals),
            auth_limits,
            started_ns: now.mono_ns,
            flush_due_s: AtomicU32::new(0),
            flush_order: Mutex::default(),
            workers: Mutex::new(Vec::new()),
            baseline: Mutex::new(Baseline::default()),
        }))
    }

    /// The engine.
    #[inline]
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The requests executed so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for worker in lock(&self.workers).iter() {
            sum.add(worker);
        }
        sum
    }

    /// The effect log, if there is one.
    pub(crate) fn effect_log(&self) -> Option<Arc<EffectLog>> {
        self.effect_log.clone()
    }

    /// Puts a tier below the memory, before anything is served. The cell was made with a log that
    /// has readers.
    ///
    /// # Errors
    /// When the journal cannot begin.
    pub fn put_above(&self, mut recovered: Recovered, now: Now) -> Result<Arc<Tiered>, TierError> {
        let log = self.effect_log.as_ref().expect("a cell above a tier keeps a log");
        let copied = match (recovered.is_in_ring(), self.options.effect_log) {
            (true, Some(of)) => Some(of.lanes_of(&self.budget).ok_or(TierError::NoMemory)?),
            _ => None,
        };
        // In a ring the map says what of it counts.
        if copied.is_none() {
            self.flush_at(recovered.end_due(now));
            for (slice, begin, barrier) in recovered.slices() {
                self.engine.advance(slice, begin);
                self.engine.barrier(slice, barrier);
            }
        }
        let tier = recovered.begin(log.lanes.clone(), copied, now)?;
        Ok(self.tiered.get_or_init(|| Arc::new(Tiered::new(tier))).clone())
    }

    /// The tier below the memory, if there is one.
    pub(crate) fn tiered(&self) -> Option<&Arc<Tiered>> {
        self.tiered.get()
    }

    /// The tier, if there is one and the cell is of a ring.
    #[inline]
    pub(crate) fn member(&self) -> Option<tier::Member<'_>> {
        self.tiered().and_then(|tiered| tiered.member())
    }

    pub(crate) fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Changes the limit on memory. What is held beyond a lower one is returned little by little.
    pub(crate) fn resize(&self, bytes: u64) -> Result<(), LimitRefused> {
        let bytes_min = self.engine.limit_bytes_min();
        if bytes < bytes_min {
            return Err(LimitRefused::TooLow { bytes_min });
        }
        let bytes_max = self.engine.reserve_bytes();
        if bytes > bytes_max {
            return Err(LimitRefused::TooHigh { bytes_max });
        }
        let from = self.budget.resize(bytes);
        if from != bytes {
            self.host.limit_changed(LimitChange { from, to: bytes });
        }
        share_out(&self.budget, &self.options);
        Ok(())
    }

    #[inline]
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn host(&self) -> &dyn Host {
        &*self.host
    }

    #[inline]
    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    #[inline]
    pub(crate) fn auth_limits(&self) -> &Limits {
        &self.auth_limits
    }

    pub(crate) fn uptime_s(&self, now: Now) -> u32 {
        (now.mono_ns.saturating_sub(self.started_ns) / 1_000_000_000) as u32
    }

    /// Counters for one more worker. Those of a worker that has ended are used again, so that a
    /// thread per client does not collect them for ever.
    pub(crate) fn add_worker(&self) -> Arc<WorkerCounters> {
        let mut workers = lock(&self.workers);
        if let Some(free) = workers.iter().find(|worker| Arc::strong_count(worker) == 1) {
            return free.clone();
        }
        let counters = Arc::new(WorkerCounters::default());
        workers.push(counters.clone());
        counters
    }

    /// Ends all items in second `due_s`; with 0, a flush that was due is not.
    pub(crate) fn flush_at(&self, due_s: u32) {
        self.flush_due_s.store(due_s, Ordering::Relaxed);
    }

    /// Whether a delayed flush is due. Looked at when a batch begins.
    #[inline]
    pub(crate) fn is_flush_due(&self, now: Now) -> bool {
        let due_s = self.flush_due_s.load(Ordering::Relaxed);
        due_s != 0 && due_s <= now.expiry_s
    }

    /// Held by who flushes, from before it is in the first log until the cell knows of it.
    pub(crate) fn flush_order(&self) -> MutexGuard<'_, ()> {
        lock(&self.flush_order)
    }

    /// The same, unless another flush is being ordered.
    pub(crate) fn try_flush_order(&self) -> Option<MutexGuard<'_, ()>> {
        match self.flush_order.try_lock() {
            Ok(order) => Some(order),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether connections may hold `bytes` more, whether or not so much is free now.
    pub(crate) fn has_share_left(&self, bytes: u64) -> bool {
        self.budget.used(Owner::Connections) + bytes <= self.budget.max(Owner::Connections)
    }

    pub(crate) fn baseline(&self) -> Baseline {
        *lock(&self.baseline)
    }

    /// Makes `stats` count from zero again.
    pub(crate) fn reset(&self) {
        let now = Baseline {
            requests: self.counters(),
            engine: self.engine.counters(),
            connections: self.host.connections(),
        };
        *lock(&self.baseline) = now;
    }
}

/// Gives connections their part of the limit.
fn share_out(budget: &MemoryBudget, options: &Options) {
    budget.share(Owner::Connections, 0, budget.total() / options.connections_part.max(1));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
