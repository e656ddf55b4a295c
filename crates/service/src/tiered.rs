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

use crate::press::Press;
use crate::replies::{log_of, several_of};
use crate::tasks::{Leaving, Task, Tasks};
use base::{Now, SliceId};
use effects::{LaneId, Place};
use session::{LogId, WorkerId};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tier::{
    Ack, Discard, GivenUp, Job, LiveRules, Member, Outcome, Rules, RulesError, Tier, TierReport,
    Wanted,
};

/// After a lookup has failed, no other one begins for this long.
const PAUSE_NS: u64 = 50_000_000;

/// How long a thread waits for a job, or for a sync, before it looks whether all has ended.
const WAIT: Duration = Duration::from_millis(50);

/// After how long a lookup ends that has failed for a reason that concerns its key alone.
const FAILED_NS: u64 = 100_000_000;

/// Wakes a worker: its parked requests run again.
type Wake = Box<dyn Fn(WorkerId) + Send + Sync>;

/// How the tier reaches the workers of a server.
pub struct TierReach {
    /// Wakes a worker: its parked requests run again.
    pub wake: Wake,
    /// Replies that wait for this log may leave.
    pub release: Box<dyn Fn(LogId) + Send + Sync>,
}

/// What the threads of a tier have to do at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressed {
    /// The journal is to be synced.
    pub syncs: bool,
    /// Something is to be written back.
    pub flushes: bool,
    /// Something is to be looked up, or is to leave memory.
    pub has_tasks: bool,
    /// A lookup has failed, and ends a little later.
    pub rests: bool,
}

/// What the workers of a cell and the threads of its tier share.
pub struct Tiered {
    tier: Arc<Tier>,
    tasks: Arc<Tasks>,
    /// Whether a sync is wanted at once.
    syncs: Press,
    /// Whether something is to be written back at once.
    flushes: Press,
    /// Whether everything is to be written back, also what is young: from the next sync on, and now
    /// that it is durable.
    wants_all: AtomicBool,
    flushes_all: AtomicBool,
    /// Why nothing was written back, the last time, if it was not.
    unflushed: Mutex<Option<String>>,
    /// Whether it is tried again at once.
    retries: Press,
    /// Rounds that were to write back everything, and have ended.
    full_rounds: AtomicU64,
    /// Whether what lies below is to be checked.
    checks: Press,
    wake: OnceLock<Wake>,
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
        let tasks = Arc::<Tasks>::default();
        let (of, rules) = (tasks.clone(), Arc::downgrade(&tier));
        tier.set_written_back(move |key, version| {
            let goes_around = |tier: Arc<Tier>| tier.rules().now().goes_around(key);
            if rules.upgrade().is_some_and(goes_around) {
                of.leave(Leaving { key: key.into(), version, is_certain: false });
            }
        });
        Self {
            tier,
            tasks,
            syncs: Press::default(),
            flushes: Press::default(),
            wants_all: AtomicBool::new(false),
            flushes_all: AtomicBool::new(false),
            unflushed: Mutex::default(),
            retries: Press::default(),
            full_rounds: AtomicU64::new(0),
            checks: Press::default(),
            wake: OnceLock::new(),
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

    /// How much a reply promises.
    #[inline]
    pub(crate) fn rules(&self) -> &LiveRules {
        self.tier.rules()
    }

    /// What the ring uses the tier by, if its cell is in one.
    #[inline]
    #[must_use]
    pub fn member(&self) -> Option<Member<'_>> {
        self.tier.member()
    }

    /// What the reply about each key waits for; `None` in a ring, where its range says that.
    #[inline]
    pub(crate) fn rules_of_replies(&self) -> Option<&LiveRules> {
        self.member().is_none().then(|| self.tier.rules())
    }

    /// Asks for other rules; the thread of the journal has them hold soon.
    pub(crate) fn want_rules(&self, rules: Rules) -> Result<(), RulesError> {
        self.tier.want_rules(rules)?;
        self.press();
        Ok(())
    }

    /// How it reaches the workers, once there is a server. The first call counts.
    pub fn set_reach(&self, reach: TierReach) {
        let TierReach { wake, release } = reach;
        let _ = self.wake.set(wake);
        let tier = Arc::downgrade(&self.tier);
        self.tier.set_notify(move |lane, _| {
            let most = tier.upgrade().map_or(Ack::Backend, |tier| tier.rules().ever());
            for level in Ack::ALL.iter().filter(|it| **it <= most).map(|it| it.level()) {
                release(log_of(level, Place { lane, position: 0 }));
                release(several_of(level));
            }
        });
    }

    /// How it reaches the workers of a cell in a ring: `wake` has the parked requests of one run
    /// again, `notify` knows of a lane of which more is written, or durable, and whether the cell
    /// copies what is in it. The first call counts.
    pub(crate) fn set_reach_of_ring(
        &self,
        wake: Wake,
        notify: impl Fn(LaneId, bool) + Send + Sync + 'static,
    ) {
        let _ = self.wake.set(wake);
        self.tier.set_notify(notify);
    }

    /// Ends the threads.
    pub fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        *lock(&self.ended) = true;
        self.ends.notify_all();
        self.tasks.wake();
        [&self.syncs, &self.flushes, &self.retries, &self.checks]
            .iter()
            .for_each(|press| press.wake());
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
            Wanted::Job(job) => self.tasks.look_up(job),
        }
        Below::Later
    }

    /// Writes what the logs have, at the end of a batch. `waits`: a reply of it waits until the
    /// journal is durable.
    #[inline]
    pub(crate) fn end_batch(&self, waits: bool) {
        match self.rules().most() {
            Ack::Memory => self.tier.write_much(),
            Ack::Os | Ack::Disk | Ack::Backend => self.tier.write(),
        }
        if self.tier.presses() || waits && self.tier.is_behind() {
            self.press();
        }
    }

    /// Writes what the logs have, and wakes the workers that wait for that.
    pub fn write(&self) {
        self.tier.write();
    }

    /// Has the journal synced at once.
    pub(crate) fn press(&self) {
        self.syncs.press();
    }

    /// Has the journal synced at once where floors are to be on the disk.
    pub(crate) fn press_for_floors(&self) {
        if self.member().is_some_and(|member| member.has_floors_to_save()) {
            self.press();
        }
    }

    /// Waits until the journal should be synced at once, which it returns, or for `most`. Returns
    /// early where all has ended.
    pub fn wait_to_sync(&self, most: Duration) -> bool {
        self.syncs.wait(most, || self.has_ended())
    }

    /// Waits until something is to be written back: at once, or after `most`. Returns early where
    /// all has ended.
    pub fn wait_to_flush(&self, most: Duration) {
        self.flushes.wait(most, || self.has_ended());
    }

    /// What its threads have to do at once: for who takes their steps one by one, and lets none of
    /// them wait.
    #[must_use]
    pub fn pressed(&self) -> Pressed {
        Pressed {
            syncs: self.syncs.is_pressed(),
            flushes: self.flushes.is_pressed(),
            has_tasks: self.tasks.has_any(),
            rests: self.tasks.rests(),
        }
    }

    /// Has the thread that writes back look at once what there is to do.
    pub(crate) fn press_flusher(&self) {
        self.flushes.press();
    }

    /// Has everything written back at once that is dirty now. It is durable first.
    pub(crate) fn want_all(&self) {
        self.wants_all.store(true, Ordering::Release);
        self.press();
    }

    /// The same, and nothing that has failed before is in the way: neither the pause until it is
    /// tried again, nor that of lookups.
    pub(crate) fn retry(&self) {
        self.paused_until_ns.store(0, Ordering::Relaxed);
        self.want_all();
        self.retries.press();
    }

    /// Asks for changes to be given up. Returns false where others are just being given up.
    pub(crate) fn discard(&self, which: Discard) -> bool {
        let is_taken = self.tier.discard(which);
        // The thread that writes back may rest after an error, or wait.
        self.retries.press();
        self.flushes.press();
        is_taken
    }

    /// Gives up what is wanted, as far as that is possible now. Called by the thread that writes
    /// back.
    pub fn carry_out_discards(&self, now: Now) {
        let waits = self.tier.carry_out_discards(now, |given_up| {
            let GivenUp { key, version, .. } = given_up;
            self.tasks.leave(Leaving { key: key.clone(), version: *version, is_certain: true });
        });
        if waits {
            self.press();
        }
    }

    /// Asks for a check of all that lies below the memory. Returns false where one is under way.
    pub(crate) fn want_check(&self) -> bool {
        let is_taken = self.tier.want_check();
        self.checks.press();
        is_taken
    }

    /// Waits until a check is asked for, which it carries out, or for `most`. Returns early where
    /// all has ended. Called by a thread of its own.
    pub fn wait_to_check(&self, most: Duration) {
        if self.checks.wait(most, || self.has_ended()) {
            self.tier.check(|pause| {
                self.rest(pause);
                !self.has_ended()
            });
        }
    }

    /// What the threads that look up have to do.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Waits for so long until it is tried again to write back. Returns whether that is wanted at
    /// once. Returns early where all has ended.
    #[must_use]
    pub fn wait_to_retry(&self, pause: Duration) -> bool {
        self.retries.wait(pause, || self.has_ended())
    }

    /// A round that was to write back everything has ended.
    pub fn note_full_round(&self) {
        self.full_rounds.fetch_add(1, Ordering::Release);
    }

    /// Rounds that were to write back everything, and have ended.
    pub(crate) fn full_rounds(&self) -> u64 {
        self.full_rounds.load(Ordering::Acquire)
    }

    /// Whether everything is to be written back now, which is durable: asked once.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.flushes_all.swap(false, Ordering::AcqRel)
    }

    /// Notes why nothing was written back just now; `None`: nothing was in the way.
    pub fn set_unflushed(&self, why: Option<String>) {
        *lock(&self.unflushed) = why;
    }

    /// Something was written back: its room is free after the next sync, for which changes may wait
    /// where much is dirty.
    pub fn has_flushed(&self) {
        if self.tier.is_urgent() {
            self.press();
        }
    }

    /// Why nothing was written back, the last time, if it was not.
    pub(crate) fn unflushed(&self) -> Option<String> {
        lock(&self.unflushed).clone()
    }

    /// Waits for so long, or until all has ended.
    pub fn rest(&self, pause: Duration) {
        let ended = lock(&self.ended);
        let waits = |ended: &mut bool| !*ended;
        drop(self.ends.wait_timeout_while(ended, pause, waits));
    }

    /// Writes what the logs have, and makes it durable. Called by one thread.
    pub fn sync(&self, now: Now) {
        // Before it begins: what was dirty when all was wanted is durable after it.
        let wants_all = self.wants_all.swap(false, Ordering::AcqRel);
        self.tier.sync(now);
        if wants_all {
            self.flushes_all.store(true, Ordering::Release);
        }
        let is_wanted = self.tier.writes_through() || wants_all;
        if is_wanted {
            self.press_flusher();
        }
    }

    /// Why a request that needs a key from below cannot be answered.
    pub(crate) fn obstacle(&self) -> String {
        let failure = lock(&self.failure);
        format!("tier busy: {}", failure.as_deref().unwrap_or("the database has not answered yet"))
    }

    /// Why no change is taken now.
    pub(crate) fn fullness(&self) -> String {
        let report = self.tier.report();
        if let Some(failure) = report.failure {
            return format!("tier read-only: {failure}");
        }
        let TierReport { dirty_keys, dirty_keys_max, journal_bytes, journal_bytes_max, .. } =
            report;
        let refusal = report.unprepared.map(|why| format!("; {why}")).unwrap_or_default();
        let through = match report.through {
            0 => String::new(),
            count => format!("{count} changes wait until they are below, "),
        };
        format!(
            "tier full: {through}{dirty_keys} of {dirty_keys_max} keys wait to be written back, \
             {journal_bytes} of {journal_bytes_max} bytes of the journal are in use{refusal}"
        )
    }

    /// A lookup has failed; for a reason that concerns its key alone, if it `is_of_key`.
    pub(crate) fn failed(&self, what: String, now: Now, is_of_key: bool) {
        *lock(&self.failure) = Some(what);
        if !is_of_key {
            self.pause(now, PAUSE_NS);
        }
    }

    /// No lookup begins for so long.
    pub(crate) fn pause(&self, now: Now, pause_ns: u64) {
        self.paused_until_ns.fetch_max(now.mono_ns + pause_ns, Ordering::Relaxed);
    }

    /// A lookup has not failed.
    pub(crate) fn succeeded(&self) {
        lock(&self.failure).take();
    }

    /// Ends a lookup, and wakes the workers that wait for it.
    pub(crate) fn finish(&self, job: Job, outcome: Outcome, now: Now) {
        let finished = self.tier.finish(job, outcome, now);
        if let Some(wake) = self.wake.get() {
            finished.waiters.iter().for_each(|worker| wake(WorkerId(worker)));
        }
    }

    /// What to do next, for which it waits a little.
    pub(crate) fn next_task(&self, now: impl Fn() -> Now) -> Option<Task> {
        self.tasks.next(WAIT, || now().mono_ns, || self.has_ended())
    }

    /// Ends a lookup that has failed for a reason that concerns its key alone, a little later: a
    /// request that waits for it begins another one then.
    pub(crate) fn finish_later(&self, job: Job, now: Now) {
        self.tasks.end_at(now.mono_ns + FAILED_NS, job);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
