//! What the threads of a tier that look up have to do.

use base::Version;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tier::Job;

/// Items that are to leave memory, at most. One for which there is no place here stays.
const LEAVING_MAX: usize = 16_384;

/// One thing to do.
pub(crate) enum Task {
    /// A lookup.
    LookUp(Job),
    /// The item of a key leaves memory, unless it is newer than this.
    Leave(Box<[u8]>, Version),
}

/// What is to be done, in its order.
#[derive(Default)]
pub(crate) struct Tasks {
    queue: Mutex<Queue>,
    has_some: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    leaving: usize,
}

impl Tasks {
    /// Adds a lookup. How many there are is bounded by what is looked up at once.
    pub(crate) fn look_up(&self, job: Job) {
        self.lock().tasks.push_back(Task::LookUp(job));
        self.has_some.notify_one();
    }

    /// Has an item leave memory, if there is a place for that here.
    pub(crate) fn leave(&self, key: &[u8], version: Version) {
        let mut queue = self.lock();
        if queue.leaving < LEAVING_MAX {
            queue.leaving += 1;
            queue.tasks.push_back(Task::Leave(key.into(), version));
            self.has_some.notify_one();
        }
    }

    /// The next one, for which it waits for `most`, or until it `has_ended`.
    pub(crate) fn next(&self, most: Duration, has_ended: impl Fn() -> bool) -> Option<Task> {
        let waits = |queue: &mut Queue| queue.tasks.is_empty() && !has_ended();
        let waited = self.has_some.wait_timeout_while(self.lock(), most, waits);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        let task = queue.tasks.pop_front();
        if matches!(task, Some(Task::Leave(..))) {
            queue.leaving -= 1;
        }
        task
    }

    /// Wakes all that wait.
    pub(crate) fn wake(&self) {
        self.has_some.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_leave_in_their_order_and_no_more_of_them_wait_than_there_are_places() {
        let tasks = Tasks::default();
        let next = || tasks.next(Duration::ZERO, || false);
        for version in 1..=LEAVING_MAX as u64 + 2 {
            tasks.leave(b"key", Version::from_raw(version));
        }
        for expected in 1..=LEAVING_MAX as u64 {
            let Some(Task::Leave(_, version)) = next() else { panic!("there is one more") };
            assert_eq!(version.raw(), expected);
        }
        assert!(next().is_none());
        tasks.leave(b"key", Version::from_raw(7));
        assert!(next().is_some(), "there are places again");
    }
}
