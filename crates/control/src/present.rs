//! Which cells run: the coordinator is given them, so that the leader keeps the right voters.
//!
//! Each time this wakes the thread of the coordinator. So it is given what has changed, and the
//! same again while something is left to do, or after a second.

use ring::CellId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A cell counts as one that runs for this time after it was heard: who votes does not change with
/// each pause.
const ABSENT_NS: u64 = 5_000_000_000;
/// How often the coordinator is given what it knows.
const AGAIN_NS: u64 = 1_000_000_000;

/// What it is given, and what decides what it does about that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Says {
    present: Vec<CellId>,
    version: u64,
    leader: Option<CellId>,
}

/// Which cells run, and what the coordinator was given of that.
#[derive(Default)]
pub(crate) struct Present {
    /// When each was heard last.
    heard: BTreeMap<CellId, u64>,
    /// Whether it is known which cells there are.
    has_met: bool,
    said: Says,
    /// When that must be said again.
    again_at_ns: u64,
    under_way: Arc<UnderWay>,
}

/// What the coordinator was given last, until it has carried that out.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    is_under_way: AtomicBool,
    has_more: AtomicBool,
}

impl UnderWay {
    /// It is over. `is_done`: nothing is left to do.
    pub(crate) fn ends(&self, is_done: bool) {
        self.has_more.store(!is_done, Ordering::Release);
        self.is_under_way.store(false, Ordering::Release);
    }
}

impl Present {
    /// There are these cells. All of those that are known first may run.
    pub(crate) fn meet(&mut self, cells: impl ExactSizeIterator<Item = CellId>, now_ns: u64) {
        if !self.has_met && cells.len() > 0 {
            self.has_met = true;
            self.hear(cells, now_ns);
        }
    }

    /// These cells are heard now.
    pub(crate) fn hear(&mut self, cells: impl Iterator<Item = CellId>, now_ns: u64) {
        self.heard.extend(cells.map(|cell| (cell, now_ns)));
        self.heard.retain(|_, at_ns| now_ns.saturating_sub(*at_ns) < ABSENT_NS);
    }

    /// What the coordinator is to be given now, of the map of `version` and of this `leader`. What
    /// is returned with it ends when that is carried out.
    pub(crate) fn due(
        &mut self,
        version: u64,
        leader: Option<CellId>,
        now_ns: u64,
    ) -> Option<(Vec<CellId>, Arc<UnderWay>)> {
        if self.under_way.is_under_way.load(Ordering::Acquire) {
            return None;
        }
        let present: Vec<_> = self.heard.keys().copied().collect();
        let says = Says { present: present.clone(), version, leader };
        let has_more = self.under_way.has_more.load(Ordering::Acquire);
        if says == self.said && !has_more && now_ns < self.again_at_ns {
            return None;
        }
        (self.said, self.again_at_ns) = (says, now_ns + AGAIN_NS);
        self.under_way.is_under_way.store(true, Ordering::Release);
        Some((present, self.under_way.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: CellId = CellId(1);
    const B: CellId = CellId(2);

    #[test]
    fn the_coordinator_is_given_what_is_new_and_what_is_left_to_do() {
        let mut present = Present::default();
        present.hear([A, B].into_iter(), 0);
        // Version, leader, when, and whether what was given before was carried out whole.
        let cases = [
            ((1, None, 0, true), true),
            ((1, None, AGAIN_NS - 1, true), false),
            ((2, None, AGAIN_NS - 1, true), true),
            ((2, Some(A), AGAIN_NS - 1, true), true),
            ((2, Some(A), AGAIN_NS, true), false),
            ((2, Some(A), AGAIN_NS, false), true),
            ((2, Some(A), 2 * AGAIN_NS - 1, true), false),
            ((2, Some(A), 2 * AGAIN_NS, true), true),
        ];
        for ((version, leader, now_ns, is_done), is_due) in cases {
            present.under_way.ends(is_done);
            let due = present.due(version, leader, now_ns);
            assert_eq!(due.is_some(), is_due, "{version} {leader:?} {now_ns} {is_done}");
            assert!(due.is_none_or(|(present, _)| present == [A, B]));
        }
        assert!(present.due(9, None, 9 * AGAIN_NS).is_none(), "the last one is not over");
    }

    #[test]
    fn all_cells_that_are_known_first_may_run() {
        let mut present = Present::default();
        let given = |present: &mut Present, now_ns| {
            let due = present.due(1, None, now_ns).map(|(cells, under_way)| {
                under_way.ends(true);
                cells
            });
            due.expect("it is due")
        };
        present.meet([].into_iter(), 0);
        present.hear(std::iter::once(A), 0);
        assert_eq!(given(&mut present, 0), [A]);
        // The first map comes when voters are found.
        present.meet([A, B].into_iter(), AGAIN_NS);
        assert_eq!(given(&mut present, AGAIN_NS), [A, B]);
        present.hear(std::iter::once(A), AGAIN_NS + ABSENT_NS - 1);
        assert_eq!(given(&mut present, AGAIN_NS + ABSENT_NS - 1), [A, B]);
        present.meet([A, B].into_iter(), 2 * AGAIN_NS + ABSENT_NS);
        present.hear(std::iter::once(A), 2 * AGAIN_NS + ABSENT_NS);
        assert_eq!(given(&mut present, 2 * AGAIN_NS + ABSENT_NS), [A], "it was not heard");
    }

    #[test]
    fn a_cell_runs_for_a_while_after_it_was_heard() {
        let mut present = Present::default();
        present.hear([A, B].into_iter(), 0);
        let mut given = |now_ns| {
            present.hear(std::iter::once(A), now_ns);
            let due = present.due(1, None, now_ns);
            due.map(|(present, under_way)| {
                under_way.ends(true);
                present
            })
        };
        assert_eq!(given(ABSENT_NS - 1), Some(vec![A, B]));
        assert_eq!(given(ABSENT_NS), Some(vec![A]));
    }
}
