//! How far what is journaled is written back, and what is of no use any more for that.
//!
//! What is passed over because a newer change has taken its place may be lost only when that change
//! is durable. So a place that was reached counts when all is durable that the logs had by then.

use super::format::Spot;
use crate::sync::{Mutex, lock};

/// Records that are written back in their order: those of a lane, or what earlier starts have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Course {
    /// What earlier starts have left.
    Earlier,
    /// A lane.
    Lane(u8),
}

impl Course {
    pub(crate) fn lane(self) -> Option<u8> {
        match self {
            Self::Earlier => None,
            Self::Lane(lane) => Some(lane),
        }
    }
}

/// How far one course is written back.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Everything before this was looked at.
    reached: Spot,
    /// Everything before this counts when what is awaited is durable.
    waits: Spot,
    /// Everything before this is of no use any more.
    counts: Spot,
}

/// How far all courses are written back.
pub(crate) struct Progress {
    earlier: Mutex<Place>,
    lanes: Box<[Mutex<Place>]>,
    /// What the places wait for, by lane: that everything up to these positions is durable. `None`:
    /// nothing waits.
    awaited: Mutex<Option<Vec<u64>>>,
}

impl Progress {
    /// Of this number of lanes, of which nothing is written back.
    pub(crate) fn new(lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| Mutex::default()).collect();
        Self { earlier: Mutex::default(), lanes, awaited: Mutex::default() }
    }

    /// All courses: what is oldest first.
    pub(crate) fn courses(&self) -> impl Iterator<Item = Course> {
        let lanes = (0..self.lanes.len()).map(|lane| Course::Lane(lane as u8));
        [Course::Earlier].into_iter().chain(lanes)
    }

    fn place(&self, course: Course) -> &Mutex<Place> {
        match course {
            Course::Earlier => &self.earlier,
            Course::Lane(lane) => &self.lanes[usize::from(lane)],
        }
    }

    /// Everything of a course before this was looked at.
    pub(crate) fn reached(&self, course: Course) -> Spot {
        lock(self.place(course)).reached
    }

    /// Everything of a course before this is of no use any more.
    pub(crate) fn counts(&self, course: Course) -> Spot {
        lock(self.place(course)).counts
    }

    /// Everything of a course before `spot` is written back, durably, or superseded by what the
    /// logs have now.
    pub(crate) fn set_reached(&self, course: Course, spot: Spot) {
        lock(self.place(course)).reached = spot;
    }

    /// What was reached counts where all is durable that the logs had then. `ends`: up to where the
    /// logs have come, by lane. Returns whether more counts than before.
    pub(crate) fn settle(
        &self,
        ends: impl Fn() -> Vec<u64>,
        are_durable: impl Fn(&[u64]) -> bool,
    ) -> bool {
        let mut awaited = lock(&self.awaited);
        let mut counts_more = false;
        loop {
            match &*awaited {
                Some(positions) if !are_durable(positions) => break,
                Some(_) => {
                    self.courses().for_each(|course| {
                        let mut place = lock(self.place(course));
                        place.counts = place.waits;
                    });
                    *awaited = None;
                    counts_more = true;
                }
                None => {
                    let mut waits = false;
                    for course in self.courses() {
                        let mut place = lock(self.place(course));
                        waits |= place.reached > place.waits;
                        place.waits = place.reached;
                    }
                    if !waits {
                        break;
                    }
                    *awaited = Some(ends());
                }
            }
        }
        counts_more
    }
}
