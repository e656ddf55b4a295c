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
    /// An item leaves memory.
    Leave(Leaving),
    /// A lookup that has failed ends.
    End(Job),
}

/// An item that is to leave memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    /// Its key.
    pub(crate) key: Box<[u8]>,
    /// Unless it is newer than this, or is to leave for certain.
    pub(crate) version: Version,
    /// Whether it must not stay, because it was given up.
    pub(crate) is_certain: bool,
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
    /// Lookups that have failed, and when each ends: the next one of its key begins after that.
    resting: VecDeque<(u64, Job)>,
}

impl Queue {
    /// How long until one that rests is to end.
    fn rests(&self, now_ns: u64) -> Option<Duration> {
        let first = self.resting.front();
        first.map(|(until_ns, _)| Duration::from_nanos(until_ns.saturating_sub(now_ns)))
    }
}

impl Tasks {
    /// Adds a lookup. How many there are is bounded by what is looked up at once.
    pub(crate) fn look_up(&self, job: Job) {
        self.lock().tasks.push_back(Task::LookUp(job));
        self.has_some.notify_one();
    }

    /// Has a lookup that has failed end at a moment, no earlier than those before it. How many
    /// there are is bounded by what is looked up at once.
    pub(crate) fn end_at(&self, until_ns: u64, job: Job) {
        self.lock().resting.push_back((until_ns, job));
        self.has_some.notify_one();
    }

    /// Has an item leave memory, if there is a place for that here, or if that is certain: how many
    /// of those there are is bounded by what is given up at once.
    pub(crate) fn leave(&self, leaving: Leaving) {
        let mut queue = self.lock();
        if leaving.is_certain || queue.leaving < LEAVING_MAX {
            queue.leaving += 1;
            queue.tasks.push_back(Task::Leave(leaving));
            self.has_some.notify_one();
        }
    }

    /// An item has left memory, or stays.
    pub(crate) fn has_left(&self) {
        self.lock().leaving -= 1;
    }

    /// Items that are to leave memory, and have not yet.
    pub(crate) fn leaving(&self) -> usize {
        self.lock().leaving
    }

    /// Whether there is any.
    pub(crate) fn has_any(&self) -> bool {
        !self.lock().tasks.is_empty()
    }

    /// Whether a lookup that has failed is to end.
    pub(crate) fn rests(&self) -> bool {
        !self.lock().resting.is_empty()
    }

    /// The next one, for which it waits for `most`, or until it `has_ended`.
    pub(crate) fn next(
        &self,
        most: Duration,
        now_ns: impl Fn() -> u64,
        has_ended: impl Fn() -> bool,
    ) -> Option<Task> {
        let queue = self.lock();
        let most = queue.rests(now_ns()).map_or(most, |rests| rests.min(most));
        let waits = |queue: &mut Queue| queue.tasks.is_empty() && !has_ended();
        let waited = self.has_some.wait_timeout_while(queue, most, waits);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        if queue.rests(now_ns()).is_some_and(|rests| rests.is_zero()) {
            return queue.resting.pop_front().map(|(_, job)| Task::End(job));
        }
        queue.tasks.pop_front()
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
        let next = || match tasks.next(Duration::ZERO, || 0, || false) {
            Some(Task::Leave(leaving)) => Some(leaving.version.raw()),
            _ => None,
        };
        let leave = |version: u64, is_certain| {
            let (key, version) = (b"key"[..].into(), Version::from_raw(version));
            tasks.leave(Leaving { key, version, is_certain });
        };
        let most = LEAVING_MAX as u64;
        (1..=most + 2).for_each(|version| leave(version, false));
        leave(most + 3, true);
        let left: Vec<_> = std::iter::from_fn(next).collect();
        assert_eq!(left, (1..=most).chain([most + 3]).collect::<Vec<_>>());
        leave(1, false);
        assert_eq!((next(), tasks.leaving()), (None, LEAVING_MAX + 1), "they have not left yet");
        (0..=LEAVING_MAX).for_each(|_| tasks.has_left());
        leave(7, false);
        assert_eq!((next(), tasks.leaving()), (Some(7), 1), "there are places again");
    }
}
