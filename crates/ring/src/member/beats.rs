//! When the next heartbeats are due, and whom they go to.
//!
//! ```text
//! sent                 25 ms                  50 ms
//! |-- not sent again ---|-- with those of others --|-- by themselves
//!
//! each time: all that share a range, and of the others the next OTHERS_AT_ONCE
//! ```
//!
//! A cell that hears another sends its own with that, if they are due soon. So all cells come to
//! send at one time, and each wakes up once to send and to hear the others, not once for each.
//! What a cell sends does not depend on how many cells there are.

use super::leases::{BEAT_NS, JOIN_NS, LOST_NS};
use crate::ids::CellId;

/// How many of the cells that share no range are sent a heartbeat each time.
const OTHERS_AT_ONCE: usize = 2;

/// In which time one of `cells` sends each other a heartbeat at least.
pub(super) fn rounds_ns(cells: usize) -> u64 {
    let others = cells.saturating_sub(1);
    others.div_ceil(OTHERS_AT_ONCE).max(1) as u64 * BEAT_NS
}

/// By how much longer a cell may be silent that sends its heartbeats here in turn, in a ring of
/// `cells`.
pub(super) fn slack_ns(cells: usize) -> u64 {
    2 * (rounds_ns(cells) - BEAT_NS)
}

/// How long after its end a cell counts as lost everywhere in a ring of `cells`.
#[must_use]
pub fn lost_after_ns(cells: usize) -> u64 {
    LOST_NS + slack_ns(cells)
}

/// The rhythm of the heartbeats.
#[derive(Default)]
pub(super) struct Beats {
    next_ns: u64,
    /// All are to hear the next ones.
    is_for_all: bool,
    /// Of the cells that are sent some in turn, the latest.
    latest: CellId,
}

impl Beats {
    /// Whether heartbeats are due; `has_heard`: another cell has just sent its own. If so, the next
    /// ones are later.
    pub(super) fn are_due(&mut self, now_ns: u64, has_heard: bool) -> bool {
        let early_ns = if has_heard { BEAT_NS - JOIN_NS } else { 0 };
        let are_due = now_ns + early_ns >= self.next_ns;
        if are_due {
            self.next_ns = now_ns + BEAT_NS;
        }
        are_due
    }

    /// When they are due by themselves.
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// They are due now: something has changed that others should know.
    pub(super) fn hurry(&mut self) {
        self.next_ns = 0;
    }

    /// They are due now, and all should know.
    pub(super) fn hurry_to_all(&mut self) {
        self.is_for_all = true;
        self.hurry();
    }

    /// Whom those that are due go to, of `cells`, in the order of their numbers, with whether each
    /// is sent all of them.
    pub(super) fn receivers(&mut self, cells: impl Iterator<Item = (CellId, bool)>) -> Vec<CellId> {
        let is_for_all = std::mem::take(&mut self.is_for_all);
        let is_sent_all = |(_, is_sent): &(CellId, bool)| is_for_all || *is_sent;
        let (all, others): (Vec<_>, Vec<_>) = cells.partition(is_sent_all);
        let first = others.partition_point(|(cell, _)| *cell <= self.latest);
        let in_turn = others.iter().cycle().skip(first).take(others.len().min(OTHERS_AT_ONCE));
        let in_turn: Vec<_> = in_turn.map(|(cell, _)| *cell).collect();
        self.latest = in_turn.last().copied().unwrap_or(self.latest);
        all.into_iter().map(|(cell, _)| cell).chain(in_turn).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_share_no_range_hear_it_in_turn_and_each_within_its_time() {
        let cells = |others: u32| (2..2 + others).map(|id| (CellId(id), id % 10 == 2));
        let mut beats = Beats::default();
        let mut next = |others| {
            let mut ids: Vec<_> = beats.receivers(cells(others)).iter().map(|it| it.0).collect();
            ids.sort_unstable();
            ids
        };
        assert_eq!(next(3), [2, 3, 4], "all of two others");
        assert_eq!(next(5), [2, 5, 6]);
        assert_eq!(next(5), [2, 3, 4]);
        assert_eq!(next(4), [2, 3, 5], "after the last one comes the first one");
        assert_eq!(next(1), [2]);
        for others in [1, 2, 4, 9, 99] {
            let rounds = rounds_ns(others as usize + 1) / BEAT_NS;
            let mut heard: Vec<_> = (0..rounds).flat_map(|_| next(others)).collect();
            heard.sort_unstable();
            heard.dedup();
            assert_eq!(heard.len(), others as usize);
        }
    }

    #[test]
    fn what_all_should_know_they_hear_at_once() {
        let mut beats = Beats::default();
        assert!(beats.are_due(BEAT_NS, false) && !beats.are_due(BEAT_NS, true));
        beats.hurry_to_all();
        assert!(beats.are_due(BEAT_NS, false));
        let cells = || (2..20).map(|id| (CellId(id), false));
        assert_eq!(beats.receivers(cells()).len(), 18);
        assert_eq!(beats.receivers(cells()).len(), OTHERS_AT_ONCE, "once");
    }

    #[test]
    fn heartbeats_join_those_of_others_but_not_before_half_of_their_time() {
        let due = |after_ns, has_heard| {
            let mut beats = Beats::default();
            assert!(beats.are_due(BEAT_NS, false), "the first ones");
            let are_due = beats.are_due(BEAT_NS + after_ns, has_heard);
            assert_eq!(beats.next_ns() > 2 * BEAT_NS, are_due && after_ns > 0);
            are_due
        };
        let cases = [
            (0, true, false),
            (JOIN_NS - 1, true, false),
            (JOIN_NS, true, true),
            (JOIN_NS, false, false),
            (BEAT_NS - 1, false, false),
            (BEAT_NS, false, true),
        ];
        for (after_ns, has_heard, expected) in cases {
            assert_eq!(due(after_ns, has_heard), expected, "{after_ns} {has_heard}");
        }
    }
}
