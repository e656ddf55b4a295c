//! Groups of keys that cannot be written back while others can, as where a page of them is lost or
//! another cell leads them: they rest for a while, and all others are written back meanwhile.
//!
//! ```text
//! course   ... written back | some are held, the others written back | not gone through
//!                        reached                                   ahead
//! ```
//!
//! A course is not reached beyond the first record that is held, so nothing of it is free.

use crate::journal::{Course, Spot};
use std::collections::{HashMap, HashSet};

/// How long a group rests of which a page is not what was written, in nanoseconds.
pub(crate) const LOST_NS: u64 = 5_000_000_000;

/// How long one rests that this cell does not lead below: it is about to.
pub(crate) const NOT_LED_NS: u64 = 100_000_000;

/// How long one rests that another cell leads, and writes back.
pub(crate) const ELSEWHERE_NS: u64 = 500_000_000;

/// The groups that rest, and how far courses were gone through beyond what is held of them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By the first slice of each.
    groups: HashMap<usize, Rest>,
    ahead: HashMap<Course, Spot>,
}

/// How a group rests: from the next round on, so that in this one others are written back, however
/// long it takes until then.
#[derive(Debug)]
struct Rest {
    ns: u64,
    until_ns: Option<u64>,
    /// `None`: nothing is wrong with it.
    why: Option<String>,
}

impl Held {
    /// The groups that still rest. Where one has rested, courses are gone through from what is held
    /// of them on.
    pub(crate) fn resting(&mut self, now_ns: u64) -> HashSet<usize> {
        let before = self.groups.len();
        self.groups.retain(|_, rest| now_ns < *rest.until_ns.get_or_insert(now_ns + rest.ns));
        if self.groups.len() < before {
            self.ahead.clear();
        }
        self.groups.keys().copied().collect()
    }

    /// A group rests in the next rounds, for so long.
    pub(crate) fn hold(&mut self, group: usize, ns: u64, why: Option<String>) {
        self.groups.insert(group, Rest { ns, until_ns: None, why });
    }

    /// This cell leads others than it did: what rests because another one led it rests no more.
    pub(crate) fn leads_others(&mut self) {
        self.groups.retain(|_, rest| rest.why.is_some());
        self.ahead.clear();
    }

    /// Why one of those that rest does, if something is wrong with it.
    pub(crate) fn why(&self) -> Option<String> {
        let faults = self.groups.iter().filter(|(_, rest)| rest.why.is_some());
        faults.min_by_key(|(group, _)| **group).and_then(|(_, rest)| rest.why.clone())
    }

    /// From where on a course is gone through that is `reached` up to there.
    pub(crate) fn from(&self, course: Course, reached: Spot) -> Spot {
        self.ahead.get(&course).copied().map_or(reached, |ahead| ahead.max(reached))
    }

    /// A course was gone through up to `spot`, and some of it is `held` from there on. Returns up
    /// to where it is reached; `None`: that stays.
    pub(crate) fn goes_on(
        &mut self,
        course: Course,
        spot: Spot,
        held: Option<Spot>,
    ) -> Option<Spot> {
        let is_ahead = self.ahead.contains_key(&course);
        if is_ahead || held.is_some() {
            self.ahead.insert(course, spot);
        }
        (!is_ahead).then_some(held.unwrap_or(spot))
    }
}
