//! What a thread of the tier looks up below with: it loads an item, and installs it in memory.

use crate::cell::Cell;
use crate::tasks::{Leaving, Task};
use crate::tiered::Tiered;
use crate::worker::Worker;
use base::Now;
use engine::Filled;
use std::sync::Arc;
use std::time::Duration;
use tier::{Failure, Job, Loaded, Outcome};

/// After a lookup whose value found no space in memory just then, no other one begins for this
/// long.
const SOON_NS: u64 = 1_000_000;

/// How long a lookup rests whose key is being changed.
const RETRY: Duration = Duration::from_micros(200);

/// Times that a lookup is tried again whose key is being changed.
const TRIES_MAX: usize = 8;

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

    /// Waits a little for something to do, and does it. Returns whether there may be more to do.
    pub fn run(&mut self, now: impl Fn() -> Now) -> bool {
        let task = self.tiered.next_task(&now);
        self.carry_out(task, now);
        !self.tiered.has_ended()
    }

    /// Does what there is to do next, if there is anything, and does not wait for it.
    pub fn step(&mut self, now: impl Fn() -> Now) {
        let task = self.tiered.tasks().next(Duration::ZERO, || now().mono_ns, || true);
        self.carry_out(task, now);
    }

    fn carry_out(&mut self, task: Option<Task>, now: impl Fn() -> Now) {
        match task {
            Some(Task::LookUp(job)) => self.look_up(job, now),
            Some(Task::Leave(leaving)) => self.drop_item(leaving, now),
            Some(Task::End(job)) => self.tiered.finish(job, Outcome::Failed, now()),
            None => {}
        }
    }

    /// Drops an item from memory. Where that is not possible just then, it stays, as what was read
    /// does, or it is tried again.
    fn drop_item(&mut self, leaving: Leaving, now: impl Fn() -> Now) {
        let mut is_dropped = false;
        // What was given up may have been touched since.
        let version = Some(leaving.version).filter(|_| !leaving.is_certain);
        for _ in 0..TRIES_MAX {
            self.worker.begin(now());
            is_dropped = self.worker.drop_item(&leaving.key, version, now());
            self.worker.end();
            if is_dropped {
                break;
            }
            self.tiered.rest(RETRY);
        }
        if !is_dropped && leaving.is_certain {
            self.tiered.tasks().leave(leaving);
        }
        self.tiered.tasks().has_left();
    }

    fn look_up(&mut self, job: Job, now: impl Fn() -> Now) {
        let (mut outcome, mut is_of_key) = (Outcome::Failed, false);
        for _ in 0..TRIES_MAX {
            match self.tiered.tier().load(&job, now()) {
                Ok(Loaded::Again) => {
                    self.tiered.write();
                    self.tiered.rest(RETRY);
                }
                Ok(Loaded::Missing) => {
                    outcome = Outcome::Missing;
                    break;
                }
                Ok(Loaded::Item(stored)) => {
                    (outcome, is_of_key) = self.install(&job, &stored, now());
                    break;
                }
                Err(error) => {
                    // Of another key it may be found out.
                    if let (Some(below), Failure::TakenOver) = (self.tiered.member(), error.failure)
                    {
                        below.lead_again();
                        self.tiered.press_flusher();
                    }
                    is_of_key = matches!(
                        error.failure,
                        Failure::Corrupt
                            | Failure::Permanent
                            | Failure::TakenOver
                            | Failure::NotLed
                    );
                    self.tiered.failed(error.to_string(), now(), is_of_key);
                    break;
                }
            }
        }
        if outcome != Outcome::Failed {
            self.tiered.succeeded();
        }
        match is_of_key {
            true => self.tiered.finish_later(job, now()),
            false => self.tiered.finish(job, outcome, now()),
        }
    }

    /// Puts an item into memory, unless its key was changed since the lookup began. Returns what
    /// came of it, and whether it failed for a reason that concerns this key alone.
    fn install(&mut self, job: &Job, stored: &tier::Stored, now: Now) -> (Outcome, bool) {
        self.worker.begin(now);
        let tier = self.tiered.tier().clone();
        let filled = self.worker.fill(job.key(), stored, now, &mut || tier.admits(job));
        self.worker.end();
        match filled {
            Filled::Done | Filled::Stale | Filled::Refused => (Outcome::Loaded, false),
            Filled::NoSpace | Filled::TooLarge => {
                let what = "memory has no space for a value from below".to_owned();
                self.tiered.failed(what, now, true);
                (Outcome::Failed, true)
            }
            Filled::Later(_) => {
                self.tiered.pause(now, SOON_NS);
                (Outcome::Failed, false)
            }
        }
    }
}
