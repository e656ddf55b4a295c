//! What the threads of a process leave for each other.
//!
//! A worker that sleeps has announced the logs that its replies wait for, and a mark that rises
//! wakes only the workers that wait for its log, as in the product. A worker that is awake asks
//! what its replies wait for before it sleeps.

use service::{Finding, Mail};
use session::{LogId, WorkerId};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What comes to one worker.
#[derive(Default)]
struct Mailbox {
    mail: VecDeque<Mail>,
    /// The logs that it waits for while it sleeps.
    announced: Vec<LogId>,
    /// A mark of one of them has risen.
    is_released: bool,
}

/// What the threads of a process leave for each other.
#[derive(Default)]
pub(crate) struct Outside {
    boxes: Vec<Mailbox>,
    pub(crate) findings: Vec<Finding>,
}

impl Outside {
    /// Nothing yet, for this number of workers.
    pub(crate) fn new(workers: usize) -> Self {
        let boxes = (0..workers).map(|_| Mailbox::default()).collect();
        Self { boxes, findings: Vec::new() }
    }

    pub(crate) fn post(&mut self, worker: WorkerId, mail: Mail) {
        if let Some(to) = self.boxes.get_mut(usize::from(worker.0)) {
            to.mail.push_back(mail);
        }
    }

    /// Replies that wait for `log` may leave.
    pub(crate) fn release(&mut self, log: LogId) {
        for to in self.boxes.iter_mut().filter(|to| to.announced.contains(&log)) {
            to.is_released = true;
        }
    }

    /// Whether something has come to `worker`.
    pub(crate) fn has_come(&self, worker: usize) -> bool {
        !self.boxes[worker].mail.is_empty() || self.boxes[worker].is_released
    }

    /// `worker` is awake. Returns whether something has come to it.
    pub(crate) fn wakes(&mut self, worker: usize) -> bool {
        let has_come = self.has_come(worker);
        self.boxes[worker].announced.clear();
        self.boxes[worker].is_released = false;
        has_come
    }

    /// `worker` sleeps, and its replies wait for `logs`.
    pub(crate) fn sleeps(&mut self, worker: usize, logs: Vec<LogId>) {
        self.boxes[worker].announced = logs;
    }

    pub(crate) fn take_mail(&mut self, worker: usize) -> VecDeque<Mail> {
        std::mem::take(&mut self.boxes[worker].mail)
    }
}

pub(crate) fn lock(outside: &Mutex<Outside>) -> MutexGuard<'_, Outside> {
    outside.lock().unwrap_or_else(PoisonError::into_inner)
}
