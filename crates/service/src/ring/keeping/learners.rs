//! The cells that learn what this cell leads.

use super::learning::{Learning, Progress};
use super::led::Led;
use crate::ring::cell::{Finding, RingCell};
use crate::ring::copies::LEARNER_LATE_NS;
use crate::worker::Worker;
use base::Now;
use ring::{CellId, Map, RangeId};
use std::collections::BTreeMap;

/// A walk that no log takes anything of for this long is not tried again at once.
const STANDS_NS: u64 = 10_000_000;
/// How often the member hears of learners that are ready: what it is sent may find no place.
const FIND_NS: u64 = 100_000_000;

/// The cells that learn what this cell leads.
#[derive(Default)]
pub(crate) struct Learners {
    of: BTreeMap<RangeId, Learning>,
    /// By cell, the version of the map for which it is ready to learn.
    ready: BTreeMap<CellId, u64>,
    finds_at_ns: u64,
}

/// What a step of all learners has come to.
pub(crate) struct Stepped {
    /// One of them is sent changes, counts, or is ready from now on.
    pub(crate) changes: bool,
    /// There is more to do.
    pub(crate) goes_on: bool,
    /// Items are walked over for one of them.
    pub(crate) walks: bool,
    /// The same, of a range that has fewer copies than it may have.
    pub(crate) heals: bool,
}

impl Learners {
    /// Goes by `map` at the cell `me`.
    pub(crate) fn adopt(&mut self, map: &Map, me: CellId) {
        let led = map.ranges.iter().filter(|range| range.primary == me);
        let learners =
            led.filter_map(|range| Some((range.id, (range.learner?, range.learner_since))));
        let learners: BTreeMap<_, _> = learners.collect();
        self.of.retain(|id, it| learners.get(id) == Some(&(it.cell, it.since)));
        for (id, (cell, since)) in learners {
            self.of.entry(id).or_insert_with(|| Learning::new(cell, since));
        }
    }

    /// `cell` is ready to learn what the map of `version` wants it to.
    pub(crate) fn hear_ready(&mut self, cell: CellId, version: u64) {
        self.ready.insert(cell, version);
    }

    /// This cell leads `range` no more.
    pub(crate) fn end(&mut self, range: RangeId) {
        self.of.remove(&range);
    }

    /// The cell that is sent the changes of `range`, and learns it.
    pub(crate) fn sent(&self, range: RangeId) -> Option<CellId> {
        self.of.get(&range).filter(|it| it.is_sent()).map(|it| it.cell)
    }

    /// The same, if its acknowledgements count.
    pub(crate) fn counted(&self, range: RangeId) -> Option<CellId> {
        self.of.get(&range).filter(|it| it.is_counted()).map(|it| it.cell)
    }

    /// Whether some are sent changes, and are not ready.
    pub(crate) fn go_on(&self) -> bool {
        self.of.values().any(|it| it.is_sent() && !it.is_ready())
    }

    /// Takes the next step of each that learns something of what is `led`: nothing is learned of
    /// what this cell does not lead yet.
    pub(crate) fn step(
        &mut self,
        led: &[Led<'_>],
        ring: &RingCell,
        worker: &mut Worker,
        now: Now,
    ) -> Stepped {
        let copies = ring.copies();
        let mut stepped = Stepped { changes: false, goes_on: false, walks: false, heals: false };
        let copies_possible = ring.map().copies_possible();
        for Led { range, .. } in led {
            let Some(learning) = self.of.get_mut(&range.id) else { continue };
            if matches!(learning.progress, Progress::Waiting) {
                let ready = self.ready.get(&learning.cell).copied().unwrap_or(0);
                if ready >= learning.since {
                    learning.progress = Progress::States(0);
                    stepped.changes = true;
                }
                continue;
            }
            let Some(copy) = copies.iter().find(|copy| copy.cell == learning.cell) else {
                // A log had no place for its reader: it is tried again, and, after a while, another
                // cell, which may read the logs already.
                learning.notes(false, now);
                if learning.stands_ns(now) >= LEARNER_LATE_NS {
                    let (cell, range) = (learning.cell, Some(range.id));
                    ring.find(Finding::Refuses { cell, range });
                }
                stepped.changes = true;
                continue;
            };
            if !matches!(learning.progress, Progress::Walking(_)) {
                learning.notes(true, now);
            }
            let others = range.copies.iter().map(|cell| copies.iter().find(|it| it.cell == *cell));
            let Some(others) = others.collect::<Option<Vec<_>>>() else { continue };
            let with = (copy, &others[..]);
            stepped.changes |= learning.step(range.slices(), with, (ring, worker), now);
            let waits = learning.is_ready() || learning.waits_for_below();
            stepped.goes_on |= !waits && learning.stands_ns(now) < STANDS_NS;
            let walks = matches!(learning.progress, Progress::Walking(_));
            stepped.walks |= walks;
            stepped.heals |= walks && range.is_short(copies_possible);
        }
        stepped
    }

    /// Lets the member know of those that are ready, and of cells whose journals are not needed any
    /// more, since this cell leads the range.
    pub(crate) fn find_ready(&self, led: &[Led<'_>], ring: &RingCell) {
        for Led { range, .. } in led {
            for cell in &range.journals {
                ring.find(Finding::Refuses { cell: *cell, range: Some(range.id) });
            }
            if let Some(learning) = self.of.get(&range.id).filter(|it| it.is_ready()) {
                let (at, cell) = (range.stamp(), learning.cell);
                ring.find(Finding::CaughtUp { at, cell });
            }
        }
    }

    /// The same again, if it was a while ago; reports show then how much the others have learned.
    pub(crate) fn find_ready_again(&mut self, led: &[Led<'_>], ring: &RingCell, now: Now) {
        if now.mono_ns >= self.finds_at_ns {
            self.finds_at_ns = now.mono_ns + FIND_NS;
            self.find_ready(led, ring);
            let learned = led.iter().filter_map(|Led { range, .. }| {
                let learning = self.of.get(&range.id)?;
                Some((range.id, learning.learned(range.slices(), now)))
            });
            ring.see_learned(learned.collect());
        }
    }

    /// Lets the member know of copies that hold up those who write, and of learners that have no
    /// memory for what they are to learn, and get none by eviction.
    pub(crate) fn find_late(&self, ring: &RingCell, now: Now) {
        for copy in ring.copies().iter() {
            let cell = copy.cell;
            let of_cell = || self.of.iter().filter(|(_, learning)| learning.cell == cell);
            if copy.is_late(&ring.log.lanes, of_cell().count() > 0, now.mono_ns) {
                ring.find(Finding::Refuses { cell, range: None });
            }
            let stand = of_cell().filter(|(_, it)| it.stands_ns(now) >= LEARNER_LATE_NS);
            for (id, _) in stand.filter(|_| copy.says_full()) {
                ring.find(Finding::Refuses { cell, range: Some(*id) });
            }
        }
    }
}
