//! Ranges that this cell is to hand over, to divide, or to make one of: it serves them no more, and
//! its log of them ends.
//!
//! ```text
//! Routes    until no worker goes by routes by which this cell serves the range
//! Batches   it is only a copy here: until all batches have ended that may still evict of it
//! Copies    until all copies have all of the log, and above a tier the own journal has it
//! Sealed    the map may make the copy the primary, or two ranges of it, or one of it and another
//! ```
//!
//! Where the map changes otherwise, or it is certain that the range is not handed over now, it is
//! served again. While it still is to move, that is tried once more after a rest, and after another
//! change of the range.
//!
//! Invariants: while a range is sealed nobody changes it here, nothing of it is begun to be written
//! back, and every reply about it may leave.
//! No state of a range is sealed twice: what was said of the first time may come late.

use super::led::Led;
use super::readers::Readers;
use crate::ring::cell::{Finding, RingCell};
use crate::ring::terms::OF_JOURNAL;
use crate::worker::Worker;
use base::Now;
use engine::{Moment, Role};
use ring::{Map, Range, RangeId, Stamp};
use std::collections::BTreeMap;
use tier::Member;

/// How long a range is served at least before it is tried again to hand it over.
const REST_NS: u64 = 500_000_000;
/// How often the member hears of what is sealed: what it is sent may find no place.
const FIND_NS: u64 = 100_000_000;

/// How far it is.
enum Progress {
    Routes,
    Batches(Moment),
    /// By lane, the position up to which the copies must have come.
    Copies(Vec<u64>),
    Sealed,
}

/// The ranges that this cell serves no more, because they are to become others.
#[derive(Default)]
pub(crate) struct Sealing {
    of: BTreeMap<RangeId, (Stamp, Progress)>,
    /// By range that is served again, until when.
    rests: BTreeMap<RangeId, u64>,
    /// Ranges that are served again as they were sealed.
    given_up: BTreeMap<RangeId, Stamp>,
    finds_at_ns: u64,
}

impl Sealing {
    /// Whether `range` is not served.
    pub(crate) fn has(&self, range: RangeId) -> bool {
        self.of.contains_key(&range)
    }

    /// Whether some are not served, or are to be tried again.
    pub(crate) fn goes_on(&self) -> bool {
        !self.of.is_empty() || !self.rests.is_empty()
    }

    /// Begins with those of `led` that are to move, and do not rest. Returns whether there are any.
    pub(crate) fn begin(&mut self, led: &[Led<'_>], now: Now) -> bool {
        let is_wanted = Range::is_to_be_sealed;
        let moves = |id: &RangeId| led.iter().any(|it| it.range.id == *id && is_wanted(it.range));
        self.rests.retain(|id, until_ns| now.mono_ns < *until_ns && moves(id));
        let stands = |id: &RangeId, at: &Stamp| {
            led.iter().any(|it| it.range.id == *id && it.range.stamp() == *at)
        };
        self.given_up.retain(|id, at| stands(id, at));
        let mut begins = false;
        let is_led = |id: RangeId| led.iter().any(|it| it.range.id == id);
        let waits = |id| self.rests.contains_key(&id) || self.given_up.contains_key(&id);
        // Of two that are to become one, none is sealed without the other.
        let may_begin = |range: &&Range| {
            !waits(range.id) && range.unites_with.is_none_or(|id| is_led(id) && !waits(id))
        };
        let wanted = led.iter().map(|it| it.range).filter(|range| is_wanted(range));
        let wanted: Vec<_> = wanted.filter(may_begin).collect();
        for range in wanted {
            if !self.has(range.id) {
                self.of.insert(range.id, (range.stamp(), Progress::Routes));
                begins = true;
            }
        }
        begins
    }

    /// Ends with what is another in `map` than it was. Returns these ranges, and whether each was
    /// sealed.
    pub(crate) fn adopt(&mut self, map: &Map, now: Now) -> BTreeMap<RangeId, bool> {
        let stands = |at: Stamp| map.range(at.range).is_some_and(|range| range.stamp() == at);
        let others = self.of.values().map(|(at, _)| *at).filter(|at| !stands(*at));
        let others: Vec<_> = others.collect();
        others.into_iter().filter_map(|at| Some((at.range, self.end(at, now)?))).collect()
    }

    /// The range is not handed over, divided or united as `at` says. Returns whether it was to be.
    pub(crate) fn give_up(&mut self, at: Stamp, now: Now) -> bool {
        let is_given_up = self.end(at, now).is_some();
        if is_given_up {
            self.given_up.insert(at.range, at);
        }
        is_given_up
    }

    /// Returns whether it was sealed, if it was to be.
    fn end(&mut self, at: Stamp, now: Now) -> Option<bool> {
        self.of.get(&at.range).filter(|(sealed_at, _)| *sealed_at == at)?;
        let (_, progress) = self.of.remove(&at.range)?;
        self.rests.insert(at.range, now.mono_ns + REST_NS);
        Some(matches!(progress, Progress::Sealed))
    }

    /// Takes the next step of each; `has_old_routes`: workers may go by routes of before. Returns
    /// whether there is more to do soon.
    pub(crate) fn step(
        &mut self,
        led: &[Led<'_>],
        (readers, has_old_routes): (&Readers, bool),
        (ring, worker): (&RingCell, &mut Worker),
        now: Now,
    ) -> bool {
        let finds = now.mono_ns >= self.finds_at_ns;
        let mut goes_on = false;
        for it in led {
            let Some((at, progress)) = self.of.get_mut(&it.range.id) else { continue };
            let (engine, pin) = worker.engine();
            let was_sealed = matches!(progress, Progress::Sealed);
            match progress {
                // What an earlier primary may still show is shown before.
                Progress::Routes if !has_old_routes && !readers.holds_back(it.term()) => {
                    engine.set_role(pin, it.range.slices(), Role::Copy);
                    // What is on its way below may land there until the next primary takes over.
                    ring.below().into_iter().for_each(|below| below.leave(it.range.slices()));
                    *progress = Progress::Batches(pin.moment());
                }
                Progress::Batches(moment) if pin.has_passed(*moment) => {
                    *progress = Progress::Copies(ring.log.lanes.ends());
                }
                Progress::Copies(ends) => {
                    let copies = ring.copies();
                    let has_all = |cell: &ring::CellId| {
                        copies.iter().any(|copy| copy.cell == *cell && copy.has_acked(ends))
                    };
                    if it.range.copies.iter().all(has_all) && has_journaled(ring, ends) {
                        *progress = Progress::Sealed;
                    }
                }
                _ => {}
            }
            let is_sealed = matches!(progress, Progress::Sealed);
            if is_sealed && (finds || !was_sealed) {
                self.finds_at_ns = now.mono_ns + FIND_NS;
                ring.find(Finding::Sealed { at: *at });
            }
            goes_on |= !is_sealed;
        }
        goes_on
    }
}

/// Whether all replies may leave that wait for the journal of this cell, and are about what its
/// logs have up to these ends; or none may, since the disk has refused for good.
fn has_journaled(ring: &RingCell, ends: &[u64]) -> bool {
    let mut logs = ring.log.lanes.logs().zip(ends);
    let waits = |below: Member<'_>| !below.has_failed();
    !ring.below().is_some_and(waits) || logs.all(|((_, log), end)| log.passed(OF_JOURNAL, *end))
}
