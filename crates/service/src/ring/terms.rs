//! The ranges that this cell leads, each with a level of the logs: whether it may answer, and until
//! when.
//!
//! ```text
//! free --begin--> leads, may answer until `until_ns` --end--> over: replies that wait are in doubt
//!  ^                                                            |
//!  +------- after 10 s; half a second if it was sealed ---------+
//! ```
//!
//! A level is used again only when no reply can wait for it any more. So a reply that was composed
//! under one leadership never leaves because of another. Where a leadership was sealed, all of its
//! replies may leave, and only have to.

use effects::{LEVELS, Level, Levels};
use ring::RangeId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a level is not used again. No reply waits for so long.
const REST_NS: u64 = 10_000_000_000;
/// The same after a leadership of which all replies may leave: as long as a worker may take.
const SEALED_REST_NS: u64 = 500_000_000;

/// Above a tier: what replies wait for at d0, the journal of this cell. It is of no leadership.
pub(crate) const OF_JOURNAL: Level = Level::new(LEVELS as u8 - 1).expect("there is a last level");

/// One leadership: a range in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) range: RangeId,
    pub(crate) epoch: u32,
}

#[derive(Clone, Copy)]
enum Place {
    Free,
    Held(Term),
    /// To be used again after this time.
    Over(u64),
}

/// All leaderships of this cell.
pub(crate) struct Terms {
    until_ns: [AtomicU64; LEVELS],
    stops_at_s: [AtomicU32; LEVELS],
    places: Mutex<[Place; LEVELS]>,
}

impl Terms {
    pub(crate) fn new() -> Self {
        let places = Mutex::new([Place::Free; LEVELS]);
        Self { until_ns: Default::default(), stops_at_s: Default::default(), places }
    }

    /// Until when this cell may answer at `level`.
    #[inline(always)]
    pub(crate) fn until_ns(&self, level: Level) -> u64 {
        self.until_ns[level.index()].load(Ordering::Acquire)
    }

    /// From which second on nothing is answered at `level`: a delayed flush is due then that was
    /// not carried out yet.
    #[inline(always)]
    pub(crate) fn stops_at_s(&self, level: Level) -> u32 {
        self.stops_at_s[level.index()].load(Ordering::Acquire)
    }

    /// Sets that second. A new level answers nothing before this was called.
    pub(crate) fn stop_at_s(&self, level: Level, second: u32) {
        self.stops_at_s[level.index()].store(second, Ordering::Release);
    }

    /// A level for `term`, which may answer until `until_ns`. `None` if all are in use.
    pub(crate) fn begin(&self, term: Term, until_ns: u64, now_ns: u64) -> Option<Level> {
        let mut places = self.lock();
        let is_free = |place: &Place| match place {
            Place::Free => true,
            Place::Held(_) => false,
            Place::Over(until_ns) => now_ns > *until_ns,
        };
        let at = places[..OF_JOURNAL.index()].iter().position(is_free)?;
        places[at] = Place::Held(term);
        self.stops_at_s[at].store(0, Ordering::Release);
        self.until_ns[at].store(until_ns, Ordering::Release);
        Level::new(at as u8)
    }

    /// The level of `term`.
    pub(crate) fn level(&self, term: Term) -> Option<Level> {
        Self::find(&self.lock(), term)
    }

    /// `term` is over. Returns its level. Where it `is_sealed`, all that was executed for it was
    /// executed before, and may leave as long as the lease lasts.
    pub(crate) fn end(&self, term: Term, is_sealed: bool, now_ns: u64) -> Option<Level> {
        let mut places = self.lock();
        let level = Self::find(&places, term)?;
        if !is_sealed {
            self.until_ns[level.index()].store(0, Ordering::Release);
        }
        let rest_ns = if is_sealed { SEALED_REST_NS } else { REST_NS };
        places[level.index()] = Place::Over(now_ns + rest_ns);
        Some(level)
    }

    /// The levels of all terms that are held.
    pub(crate) fn held(&self) -> Levels {
        let mut levels = Levels::default();
        for (at, place) in self.lock().iter().enumerate() {
            if let (Place::Held(_), Some(level)) = (place, Level::new(at as u8)) {
                levels.insert(level);
            }
        }
        levels
    }

    /// How many terms are held.
    pub(crate) fn count(&self) -> usize {
        self.lock().iter().filter(|place| matches!(place, Place::Held(_))).count()
    }

    /// Sets until when `term` may answer, if it is held.
    pub(crate) fn extend(&self, term: Term, until_ns: u64) {
        let places = self.lock();
        if let Some(level) = Self::find(&places, term) {
            self.until_ns[level.index()].store(until_ns, Ordering::Release);
        }
    }

    fn find(places: &[Place; LEVELS], term: Term) -> Option<Level> {
        let is = |place: &Place| matches!(place, Place::Held(held) if *held == term);
        Level::new(places.iter().position(is)? as u8)
    }

    fn lock(&self) -> MutexGuard<'_, [Place; LEVELS]> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_rests_before_it_is_used_again_and_hears_nothing_of_its_old_term() {
        let terms = Terms::new();
        let term = |epoch| Term { range: RangeId(1), epoch };
        for epoch in 0..OF_JOURNAL.index() as u32 {
            let level = terms.begin(term(epoch), 5, 0).expect("there are as many");
            assert_eq!(terms.until_ns(level), 5);
            assert_ne!(level, OF_JOURNAL);
        }
        assert_eq!(terms.begin(term(99), 5, 0), None);
        let level = terms.end(term(3), false, 100).expect("it is held");
        assert_eq!(terms.until_ns(level), 0);
        assert_eq!(terms.begin(term(99), 5, 100 + REST_NS), None);
        assert_eq!(terms.begin(term(99), 7, 101 + REST_NS), Some(level));
        // One whose replies may all leave rests as long as that takes.
        let sealed = terms.end(term(4), true, 100).expect("it is held");
        assert_eq!(terms.until_ns(sealed), 5);
        assert_eq!(terms.begin(term(98), 7, 100 + SEALED_REST_NS), None);
        assert_eq!(terms.begin(term(98), 7, 101 + SEALED_REST_NS), Some(sealed));
        terms.extend(term(3), u64::MAX);
        assert_eq!((terms.until_ns(level), terms.level(term(3))), (7, None));
    }
}
