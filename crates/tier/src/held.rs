//! Groups of keys that cannot be written back while others can, as where a page of them is lost or
//! another cell leads them: they rest for a while, and all others are written back meanwhile.
//!
//! ```text
//! course   ... written back | some are held, the others written back | not gone through
//!                        reached                                   ahead
//! ```
//!
//! A course is not reached beyond the first record that is held, so nothing of it is free.

use crate::index::{Kind, Place};
use crate::journal::{Course, Spot};
use crate::key::KeyHash;
use std::collections::{HashMap, HashSet};

/// How long a group rests of which a page is not what was written, in nanoseconds.
pub(crate) const LOST_NS: u64 = 5_000_000_000;

/// How long one rests that this cell does not lead below: it is about to.
pub(crate) const NOT_LED_NS: u64 = 100_000_000;

/// How long one rests that another cell leads, and writes back.
pub(crate) const ELSEWHERE_NS: u64 = 2_000_000_000;

/// The groups that rest, and how far courses were gone through beyond what is held of them.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// By the first slice of each.
    groups: HashMap<usize, Rest>,
    ahead: HashMap<Course, Ahead>,
    /// Courses are to be gone through from what is held of them on, from the next round.
    begins_again: bool,
    /// When it was looked last whether what another cell leads is still held.
    looked_ns: u64,
}

/// How far a course was gone through, and what is held of it first.
#[derive(Debug)]
struct Ahead {
    spot: Spot,
    first: Option<First>,
}

/// A record that is held: what the index had of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) spot: Spot,
    pub(crate) hash: KeyHash,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
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
    /// The groups that still rest. Where one has rested that had failed, courses are gone through
    /// from what is held of them on; and at times those of which the first is not `held` any more,
    /// as another cell has written it back.
    pub(crate) fn resting(
        &mut self,
        now_ns: u64,
        is_held: impl Fn(&First) -> bool,
    ) -> HashSet<usize> {
        let mut begins_again = std::mem::take(&mut self.begins_again);
        self.groups.retain(|_, rest| {
            let rests = now_ns < *rest.until_ns.get_or_insert(now_ns + rest.ns);
            begins_again |= !rests && rest.why.is_some();
            rests
        });
        if begins_again {
            self.ahead.clear();
        } else if now_ns >= self.looked_ns + ELSEWHERE_NS {
            self.looked_ns = now_ns;
            self.ahead.retain(|_, ahead| ahead.first.as_ref().is_some_and(&is_held));
        }
        self.groups.keys().copied().collect()
    }

    /// A group rests in the next rounds, for so long.
    pub(crate) fn hold(&mut self, group: usize, ns: u64, why: Option<String>) {
        self.groups.insert(group, Rest { ns, until_ns: None, why });
    }

    /// This cell leads others than it did: what rests because another one led it rests no more,
    /// from the next round on. What is gathered in the present one may lie beyond what is held.
    pub(crate) fn leads_others(&mut self) {
        self.groups.retain(|_, rest| rest.why.is_some());
        self.begins_again = true;
    }

    /// Why one of those that rest does, if something is wrong with it.
    pub(crate) fn why(&self) -> Option<String> {
        let faults = self.groups.iter().filter(|(_, rest)| rest.why.is_some());
        faults.min_by_key(|(group, _)| **group).and_then(|(_, rest)| rest.why.clone())
    }

    /// From where on a course is gone through that is `reached` up to there.
    pub(crate) fn from(&self, course: Course, reached: Spot) -> Spot {
        self.ahead.get(&course).map_or(reached, |ahead| ahead.spot.max(reached))
    }

    /// A course was gone through up to `spot`, and some of it is `held` from there on. Returns up
    /// to where it is reached; `None`: that stays.
    pub(crate) fn goes_on(
        &mut self,
        course: Course,
        spot: Spot,
        held: Option<First>,
    ) -> Option<Spot> {
        let before = self.ahead.get(&course).map(|ahead| ahead.first);
        if before.is_some() || held.is_some() {
            self.ahead.insert(course, Ahead { spot, first: before.unwrap_or(held) });
        }
        before.is_none().then_some(held.map_or(spot, |held| held.spot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_stays_so_when_this_cell_leads_others_in_the_middle_of_a_round() {
        let (mut held, course) = (Held::default(), Course::Lane(0));
        let spot = |offset| Spot { segment: 1, offset };
        let place = Place { segment: 1, offset: 20, bytes: 5 };
        let first = First { spot: spot(10), hash: KeyHash::from_raw(3), place, kind: Kind::Value };
        let _ = held.resting(ELSEWHERE_NS, |_| true);
        held.hold(7, ELSEWHERE_NS, None);
        assert_eq!(held.goes_on(course, spot(90), Some(first)), Some(spot(10)));
        // The next round goes on from there.
        assert!(held.resting(ELSEWHERE_NS + 1, |_| false).contains(&7));
        assert_eq!(held.from(course, spot(10)), spot(90));
        held.leads_others();
        assert_eq!(held.goes_on(course, spot(95), None), None, "it is reached beyond what is held");
        assert!(held.resting(ELSEWHERE_NS + 2, |_| true).is_empty());
        assert_eq!(held.from(course, spot(10)), spot(10));
        // What another cell writes back is looked at again at times, and where it is held no more.
        assert_eq!(held.goes_on(course, spot(96), Some(first)), Some(spot(10)));
        for (at_ns, is_held, from) in [(3, false, 96), (4 * ELSEWHERE_NS, true, 96)] {
            let _ = held.resting(at_ns, |_| is_held);
            assert_eq!(held.from(course, spot(10)), spot(from));
        }
        let _ = held.resting(5 * ELSEWHERE_NS, |first| first.hash != KeyHash::from_raw(3));
        assert_eq!(held.from(course, spot(10)), spot(10));
    }
}
