//! Who reads the logs of this cell, and what its replies wait for: the copies of what it leads, and
//! what holds back a new leadership.
//!
//! Invariants: a level loses a mark only after its leadership has ended or the map has dropped the
//! copy; one whose life has ended is waited for until the map has dropped its journal, too. A range
//! with a copy in sync that does not read the logs is not served.

use super::hold::Hold;
use super::learners::Learners;
use super::led::Led;
use crate::ring::cell::{Finding, RingCell};
use crate::ring::copies::{Copy, LEARNER_LATE_NS, READINGS_BITS};
use crate::ring::terms::Term;
use base::{Now, SliceRange};
use effects::{JoinError, Lanes, Mark};
use ring::{CellId, Map, RangeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the member hears of copies that get no place.
const FIND_NS: u64 = 100_000_000;

/// Who reads the logs of this cell.
#[derive(Default)]
pub(crate) struct Readers {
    holds: Vec<Hold>,
    /// Ranges with copies in sync that do not read the logs, and these.
    unread: BTreeMap<RangeId, Vec<CellId>>,
    /// Since when there are any; 0: there are none.
    unread_since_ns: u64,
    /// How often the logs were begun to be read.
    readings: u64,
}

impl Readers {
    /// Whether `range` may be served: all of its copies read the logs.
    pub(crate) fn all_read(&self, range: RangeId) -> bool {
        !self.unread.contains_key(&range)
    }

    /// Whether some copy lacks a place in the logs.
    pub(crate) fn lack_places(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Lets the member know of copies that get no place in the logs, once that lasts: what they
    /// copy is not served.
    pub(crate) fn find_unread(&mut self, ring: &RingCell, now: Now) {
        if self.unread.is_empty() {
            self.unread_since_ns = 0;
            return;
        }
        if self.unread_since_ns == 0 {
            self.unread_since_ns = now.mono_ns;
        }
        if now.mono_ns.saturating_sub(self.unread_since_ns) < LEARNER_LATE_NS {
            return;
        }
        self.unread_since_ns = now.mono_ns - LEARNER_LATE_NS + FIND_NS;
        for (range, cells) in &self.unread {
            for cell in cells {
                ring.find(Finding::Refuses { cell: *cell, range: Some(*range) });
            }
        }
    }

    /// Holds back what is written under `term` until that time, if it is to come.
    ///
    /// # Errors
    /// If a log has no place for a reader.
    pub(crate) fn hold(
        &mut self,
        term: Term,
        until_ns: u64,
        lanes: &Lanes,
        now: Now,
    ) -> Result<(), JoinError> {
        if until_ns > now.mono_ns {
            self.holds.push(Hold::begin(term, until_ns, lanes)?);
        }
        Ok(())
    }

    /// Holds back nothing of `term`, which was not begun. No level counts on it.
    pub(crate) fn let_go(&mut self, term: Term, lanes: &Lanes) {
        self.holds.extract_if(.., |hold| hold.term == term).for_each(|hold| hold.end(lanes));
    }

    /// Whether what is written under `term` is held back.
    pub(crate) fn holds_back(&self, term: Term) -> bool {
        self.holds.iter().any(|hold| hold.term == term)
    }

    /// When the next hold ends, in nanoseconds of the monotonic clock.
    pub(crate) fn holds_until_ns(&self) -> u64 {
        self.holds.iter().map(|hold| hold.until_ns).min().unwrap_or(u64::MAX)
    }

    /// Ends the holds that are over: what was written may be acknowledged.
    pub(crate) fn end_holds(
        &mut self,
        led: &[Led<'_>],
        learners: &Learners,
        ring: &RingCell,
        now: Now,
    ) {
        let over: Vec<_> = self.holds.extract_if(.., |hold| hold.until_ns <= now.mono_ns).collect();
        if !over.is_empty() {
            self.set_levels(led, learners, &ring.copies(), ring);
            over.into_iter().for_each(|hold| hold.end(&ring.log.lanes));
        }
    }

    /// The copies that there should be by `map`: of what is `led`, of learners, and those with whom
    /// tails are `exchanged`. Those that are right stay.
    pub(crate) fn renew(
        &mut self,
        led: &[Led<'_>],
        learners: &Learners,
        exchanged: impl Iterator<Item = CellId>,
        (map, ring): (&Map, &RingCell),
    ) -> Vec<Arc<Copy>> {
        let mut wanted: BTreeMap<CellId, Vec<SliceRange>> = BTreeMap::new();
        for Led { range, .. } in led {
            for cell in range.copies.iter().copied().chain(learners.sent(range.id)) {
                wanted.entry(cell).or_default().push(range.slices());
            }
        }
        exchanged.for_each(|cell| {
            wanted.entry(cell).or_default();
        });
        let old = ring.copies();
        let journals: BTreeSet<_> =
            led.iter().flat_map(|it| it.range.journals.iter().copied()).collect();
        let journals: Vec<_> = journals.iter().filter(|it| !wanted.contains_key(it)).collect();
        let ended = old.iter().filter(|copy| journals.contains(&&copy.cell)).cloned();
        let ended: Vec<_> = ended.collect();
        let of_all: Vec<_> = wanted.values().flatten().copied().collect();
        let is_shared = |slices: &SliceRange| of_all.iter().filter(|it| *it == slices).count() > 1;
        let mut copies = Vec::new();
        for (cell, slices) in wanted {
            // Without a place in the logs, what it copies is not served until it has one.
            let Some(copy) = self.copy(cell, map, ring) else { continue };
            let is_in_sync = led.iter().any(|it| it.range.copies.contains(&cell));
            let has_others = slices.iter().any(is_shared);
            copy.set_slices(slices, (has_others, is_in_sync));
            copies.push(copy);
        }
        // They pass nothing any more. What waits for them waits until the map has dropped them.
        ended.iter().for_each(|copy| copy.set_slices(Vec::new(), (false, true)));
        copies.extend(ended);
        let reads = |cell: &CellId| copies.iter().any(|copy| copy.cell == *cell);
        let unread = led.iter().map(|Led { range, .. }| {
            (range.id, range.copies.iter().copied().filter(|cell| !reads(cell)).collect())
        });
        self.unread = unread.filter(|(_, cells): &(_, Vec<_>)| !cells.is_empty()).collect();
        copies
    }

    /// The copy at `cell`, as `map` knows it: the present one, or one that begins to read the logs.
    /// `None` if too many read them.
    fn copy(&mut self, cell: CellId, map: &Map, ring: &RingCell) -> Option<Arc<Copy>> {
        let of = map.cells.get(&cell)?;
        let (life, links) = (of.started.incarnation.0, of.started.addresses.links);
        let old = ring.copies();
        let known = old.iter().find(|copy| copy.cell == cell && copy.incarnation == life);
        if let Some(known) = known {
            return Some(known.clone());
        }
        let log = ring.identity.incarnation << READINGS_BITS | (self.readings + 1);
        let copy = Copy::begin((cell, life, links), log, &ring.log.lanes).ok()?;
        self.readings += 1;
        Some(Arc::new(copy))
    }

    /// Makes each level wait for the copies in sync, for learners that count, and for holds.
    pub(crate) fn set_levels(
        &self,
        led: &[Led<'_>],
        learners: &Learners,
        copies: &[Arc<Copy>],
        ring: &RingCell,
    ) {
        let (log, lanes) = (&ring.log, &ring.log.lanes);
        for it in led {
            let (range, level) = (it.range, it.level);
            let is_alone = range.copies.is_empty() && range.journals.is_empty();
            if is_alone {
                log.set_alone(level, true);
            }
            let counted = learners.counted(range.id);
            let cells = range.copies.iter().chain(&range.journals).copied();
            let cells: Vec<_> = cells.chain(counted).collect();
            let hold = self.holds.iter().find(|hold| hold.term == it.term());
            for (lane, of_lane) in lanes.logs() {
                let of = copies.iter().filter(|copy| cells.contains(&copy.cell));
                let readers = of.map(|copy| copy.readers[lane.index()].0);
                let held = hold.and_then(|hold| hold.readers.get(lane.index()).copied());
                let acknowledged = readers.chain(held).map(|it| (it, Mark::Acknowledged));
                let journal = ring.below().and_then(|below| below.waits_for(lane));
                let marks: Vec<_> = acknowledged.chain(journal).collect();
                of_lane.set_level(level, &marks);
            }
            if !is_alone {
                log.set_alone(level, false);
            }
            lanes.logs().for_each(|(lane, _)| ring.release_level(lane, level));
        }
    }
}
