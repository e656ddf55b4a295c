//! A cell above a tier: what is not in memory is looked for below, and what changes is journaled.
//!
//! ```text
//! request -miss-> want --job--> a thread of the tier: load, install -> wake the worker
//!            |                                                            |
//!            +-- parks <--------------- runs again <----------------------+
//! ```
//!
//! A request that needs a key that is not in memory parks, and runs again when the key was looked
//! up: as if the item had been in memory all the time, or the key is known to be missing.
//!
//! Invariants: an item is installed only if its key was not changed since its lookup began; an
//! error below is never a miss.

use crate::cell::Cell;
use crate::effect_log::LEVEL;
use crate::replies::log_of;
use crate::worker::Worker;
use base::{Now, SliceId};
use effects::{LaneId, Place};
use engine::Filled;
use session::{LogId, WorkerId};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tier::{Job, Loaded, Outcome, Tier, Wanted};

/// After a lookup has failed, no other one begins for this long.
const PAUSE_NS: u64 = 50_000_000;

/// The same after one whose value found no space in memory just then.
const SOON_NS: u64 = 1_000_000;

/// How long a thread waits for a job, or for a sync, before it looks whether all has ended.
const WAIT: Duration = Duration::from_millis(50);

/// Times that a lookup is tried again whose key is being changed.
const TRIES_MAX: usize = 8;

/// How the tier reaches the workers of a server.
pub struct TierReach {
    /// Wakes a worker: its parked requests run again.
    pub wake: Box<dyn Fn(WorkerId) + Send + Sync>,
    /// Replies that wait for this log may leave.
    pub release: Box<dyn Fn(LogId) + Send + Sync>,
}

/// What the workers of a cell and the threads of its tier share.
pub struct Tiered {
    tier: Arc<Tier>,
    jobs: Mutex<VecDeque<Job>>,
    has_jobs: Condvar,
    /// Whether a sync is wanted at once.
    presses: Mutex<bool>,
    pressed: Condvar,
    reach: OnceLock<TierReach>,
    has_ended: AtomicBool,
    /// The same, for threads that rest.
    ended: Mutex<bool>,
    ends: Condvar,
    /// No lookup begins before this moment.
    paused_until_ns: AtomicU64,
    /// Why the last lookup failed, if it did.
    failure: Mutex<Option<String>>,
}

/// Whether a key that is not in memory is nowhere.
pub(crate) enum Below {
    /// It is.
    Missing,
    /// That is not known yet: the request parks.
    Later,
}

impl Tiered {
    pub(crate) fn new(tier: Arc<Tier>) -> Self {
        Self {
            tier,
            jobs: Mutex::default(),
            has_jobs: Condvar::new(),
            presses: Mutex::new(false),
            pressed: Condvar::new(),
            reach: OnceLock::new(),
            has_ended: AtomicBool::new(false),
            ended: Mutex::new(false),
            ends: Condvar::new(),
            paused_until_ns: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// The tier.
    #[must_use]
    pub fn tier(&self) -> &Arc<Tier> {
        &self.tier
    }

    /// How it reaches the workers, once there is a server. The first call counts.
    pub fn set_reach(&self, reach: TierReach) {
        let _ = self.reach.set(reach);
    }

    /// Ends the threads.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        *lock(&self.ended) = true;
        self.ends.notify_all();
        self.has_jobs.notify_all();
        self.pressed.notify_all();
    }

    /// Whether [`Tiered::end`] was called.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Wants a key that is not in memory, for a request of `worker`.
    pub(crate) fn want(&self, slice: SliceId, key: &[u8], worker: WorkerId, now: Now) -> Below {
        if now.mono_ns < self.paused_until_ns.load(Ordering::Relaxed) {
            return Below::Later;
        }
        match self.tier.want(slice, key, worker.0, now) {
            Wanted::Missing => return Below::Missing,
            Wanted::Waits | Wanted::Busy => {}
            Wanted::Job(job) => {
                lock(&self.jobs).push_back(job);
                self.has_jobs.notify_one();
            }
        }
        Below::Later
    }

    /// Writes what the logs have, at the end of a batch.
    #[inline]
    pub(crate) fn end_batch(&self) {
        if self.tier.ack() != tier::Ack::Memory {
            self.write();
        }
    }

    /// Writes what the logs have, and wakes whoever waits for that.
    pub fn write(&self) {
        let mut has_written = false;
        self.tier.write(|lane| {
            has_written = true;
            self.release(lane);
        });
        if has_written && self.tier.presses() {
            self.press();
        }
    }

    /// Has the journal synced at once.
    fn press(&self) {
        let mut presses = lock(&self.presses);
        if !std::mem::replace(&mut *presses, true) {
            self.pressed.notify_one();
        }
    }

    fn release(&self, lane: LaneId) {
        if let Some(reach) = self.reach.get() {
            (reach.release)(log_of(LEVEL, Place { lane, position: 0 }));
        }
    }

    /// Waits until the journal should be synced: at once, or after `most`. Returns early where all
    /// has ended.
    pub fn wait_to_sync(&self, most: Duration) {
        let presses = lock(&self.presses);
        let waits = |presses: &mut bool| !*presses && !self.has_ended();
        let waited = self.pressed.wait_timeout_while(presses, most, waits);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Waits for so long, or until all has ended.
    pub fn rest(&self, pause: Duration) {
        let ended = lock(&self.ended);
        let waits = |ended: &mut bool| !*ended;
        drop(self.ends.wait_timeout_while(ended, pause, waits));
    }

    /// Writes what the logs have, and makes it durable. Called by one thread.
    pub fn sync(&self, now: Now) {
        self.write();
        self.tier.sync(now, |lane| self.release(lane));
    }

    /// Why a request that needs a key from below cannot be answered.
    pub(crate) fn obstacle(&self) -> String {
        let mut line = "tier busy".to_owned();
        if let Some(failure) = &*lock(&self.failure) {
            let _ = write!(line, ": {failure}");
        }
        line
    }

    fn failed(&self, what: String, now: Now) {
        *lock(&self.failure) = Some(what);
        self.pause(now, PAUSE_NS);
    }

    fn pause(&self, now: Now, pause_ns: u64) {
        self.paused_until_ns.fetch_max(now.mono_ns + pause_ns, Ordering::Relaxed);
    }

    fn next_job(&self) -> Option<Job> {
        let jobs = lock(&self.jobs);
        let waits = |jobs: &mut VecDeque<Job>| jobs.is_empty() && !self.has_ended();
        let waited = self.has_jobs.wait_timeout_while(jobs, WAIT, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.pop_front()
    }
}

/// What a thread of the tier looks up below with.
pub struct Loader {
    worker: Worker,
    tiered: Arc<Tiered>,
}

impl Loader {
    /// For one thread of the tier of `cell`; `None` if the cell has no tier.
    #[must_use]
    pub fn new(cell: Arc<Cell>) -> Option<Self> {
        let tiered = cell.tiered()?.clone();
        Some(Self { worker: Worker::new(cell), tiered })
    }

    /// Waits a little for a lookup, and carries it out. Returns whether there may be more to do.
    pub fn run(&mut self, now: impl Fn() -> Now) -> bool {
        if let Some(job) = self.tiered.next_job() {
            self.carry_out(job, now);
        }
        !self.tiered.has_ended()
    }

    fn carry_out(&mut self, job: Job, now: impl Fn() -> Now) {
        let mut outcome = Outcome::Failed;
        for _ in 0..TRIES_MAX {
            match self.tiered.tier.load(&job, now()) {
                Ok(Loaded::Again) => self.tiered.write(),
                Ok(Loaded::Missing) => {
                    outcome = Outcome::Missing;
                    break;
                }
                Ok(Loaded::Item(stored)) => {
                    outcome = self.install(&job, &stored, now());
                    break;
                }
                Err(error) => {
                    self.tiered.failed(error.to_string(), now());
                    break;
                }
            }
        }
        if outcome != Outcome::Failed {
            lock(&self.tiered.failure).take();
        }
        let finished = self.tiered.tier.finish(job, outcome, now());
        if let Some(reach) = self.tiered.reach.get() {
            finished.waiters.iter().for_each(|worker| (reach.wake)(WorkerId(worker)));
        }
    }

    /// Puts an item into memory, unless its key was changed since the lookup began.
    fn install(&mut self, job: &Job, stored: &tier::Stored, now: Now) -> Outcome {
        self.worker.begin(now);
        let tier = self.tiered.tier.clone();
        let filled = self.worker.fill(job.key(), stored, now, &mut || tier.admits(job));
        self.worker.end();
        match filled {
            Filled::Done | Filled::Stale | Filled::Refused => Outcome::Loaded,
            Filled::NoSpace | Filled::TooLarge => {
                self.tiered.failed("memory has no space for a value from below".to_owned(), now);
                Outcome::Failed
            }
            Filled::Later(_) => {
                self.tiered.pause(now, SOON_NS);
                Outcome::Failed
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
