//! How fast changes are taken where the journal is nearly full: about as fast as segments are
//! freed.
//!
//! A segment is freed at once, and what waits would fill it at once: then it would wait for the
//! next one. So a part of the journal is left to be filled slowly.
//!
//! ```text
//! [ written, and not written back              | left      ]
//!                                    a quarter |-- paced --| full: what changes waits
//! ```
//!
//! The fewer segments are left, the slower it goes: with a sixteenth about as fast as they are
//! freed, with a quarter at twice that, so that what is left is not filled in one go.

use std::collections::VecDeque;

/// Changes are paced where less than this part of the journal is left.
const PACED_PART: u64 = 4;

/// Segments freed last, whose moments are known.
const FREED_MAX: usize = 9;

/// After so long without one that is freed, changes are not paced: nothing is written back. Where
/// they are freed more slowly, after this many times what lies between two of them in the mean.
const STALL_NS: u64 = 30_000_000_000;
const STALL_GAPS: u64 = 4;

/// What is not used of the pace is kept for so long, or from one look to the next. What was written
/// beyond it is made up for, as far as that is no more than this.
const KEPT_NS: u64 = 250_000_000;

/// The pace beside what is freed, where nothing is left; and how it rises with the part that is
/// left: to twice as much at a quarter.
const SLOWEST: f64 = 0.75;
const STEEPNESS: f64 = 5.0;

/// Bytes that may be written where changes are not paced.
pub(super) const UNPACED: u64 = u64::MAX;

/// What is seen of a journal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Segments freed since it began.
    pub(super) freed: u64,
    /// Segments that are left, and all: those that are in use too.
    pub(super) left: u64,
    pub(super) whole: u64,
    /// Bytes of records that a segment has.
    pub(super) segment: u64,
    /// Bytes of records written since it began.
    pub(super) written: u64,
}

/// How many bytes may be written, by the moments at which segments were freed.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Segments that were freed by the last look.
    freed: u64,
    /// When the last of them were, in the order of time.
    moments: VecDeque<u64>,
    /// The moment of the last look, and up to how many bytes might be written then; `None` where
    /// changes were not paced.
    last: Option<(u64, u64)>,
}

impl Pace {
    /// Up to how many bytes may be written in all by the next look.
    pub(super) fn look(&mut self, now_ns: u64, seen: &Seen) -> u64 {
        let new = (seen.freed - self.freed).min(FREED_MAX as u64) as usize;
        self.freed = seen.freed;
        self.moments.extend(std::iter::repeat_n(now_ns, new));
        self.moments.drain(..self.moments.len().saturating_sub(FREED_MAX));
        if self.moments.back().is_some_and(|last| now_ns.saturating_sub(*last) > self.stall_ns()) {
            self.moments.clear();
        }
        let rate = self.rate(now_ns, seen).filter(|_| seen.left * PACED_PART < seen.whole);
        let Some(rate) = rate else {
            self.last = None;
            return UNPACED;
        };
        let (before_ns, before) = self.last.unwrap_or((now_ns, seen.written));
        let since_ns = now_ns.saturating_sub(before_ns);
        let bytes = |ns: u64| (rate * ns as f64) as u64;
        // What nothing holds back, as removals, may outrun it.
        let before = before.max(seen.written.saturating_sub(bytes(KEPT_NS)));
        let most = seen.written + bytes(KEPT_NS.max(since_ns));
        let limit = before.saturating_add(bytes(since_ns)).min(most);
        self.last = Some((now_ns, limit));
        limit
    }

    /// After how long without one that is freed nothing is known of how fast that goes.
    fn stall_ns(&self) -> u64 {
        let gaps = self.moments.len().saturating_sub(1) as u64;
        let whole_ns =
            self.moments.back().zip(self.moments.front()).map_or(0, |(b, a)| b.saturating_sub(*a));
        let gap_ns = whole_ns.checked_div(gaps).unwrap_or(STALL_NS);
        STALL_NS.max(gap_ns * STALL_GAPS)
    }

    /// Bytes that may be written in a nanosecond. `None` where nothing is known of what is freed.
    fn rate(&self, now_ns: u64, seen: &Seen) -> Option<f64> {
        let (first, rest) = (self.moments.front()?, self.moments.len() - 1);
        let ns = now_ns.saturating_sub(*first);
        if rest == 0 || ns == 0 {
            return None;
        }
        let left = seen.left as f64 / seen.whole.max(1) as f64;
        let freed = rest as f64 * seen.segment as f64 / ns as f64;
        Some(freed * (SLOWEST + STEEPNESS * left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const SEGMENT: u64 = 1 << 20;

    fn seen(freed: u64, left: u64, written: u64) -> Seen {
        Seen { freed, left, whole: 16, segment: SEGMENT, written }
    }

    #[test]
    fn a_journal_with_room_is_not_paced_nor_one_that_nothing_is_written_back_from() {
        let mut pace = Pace::default();
        for second in 1..9 {
            assert_eq!(pace.look(second * SECOND, &seen(second, 4, 0)), UNPACED, "a quarter");
        }
        assert_ne!(pace.look(9 * SECOND, &seen(9, 3, 0)), UNPACED);
        assert_ne!(pace.look(9 * SECOND + STALL_NS, &seen(9, 3, 0)), UNPACED);
        assert_eq!(pace.look(9 * SECOND + STALL_NS + 1, &seen(9, 3, 0)), UNPACED);
        // The first that is freed then says nothing of how fast it goes.
        assert_eq!(pace.look(50 * SECOND, &seen(10, 0, 0)), UNPACED);
        assert_ne!(pace.look(51 * SECOND, &seen(11, 0, 0)), UNPACED);
    }

    #[test]
    fn changes_are_taken_as_fast_as_segments_are_freed() {
        // Freed every half a second; what is written takes all that it may.
        let (mut pace, mut written, mut at_ns) = (Pace::default(), 0, 0);
        let mut by_second = Vec::new();
        for second in 0..40 {
            let before = written;
            for tenth in 0..10 {
                at_ns += SECOND / 10;
                let freed = 2 * second + tenth / 5;
                let limit = pace.look(at_ns, &seen(freed, 1, written));
                if limit != UNPACED {
                    written = written.max(limit);
                }
            }
            by_second.push(written - before);
        }
        let is_near = |bytes: &u64| (SEGMENT * 3 / 2..SEGMENT * 5 / 2).contains(bytes);
        assert!(by_second[3..].iter().all(is_near), "{by_second:?}");
    }

    #[test]
    fn what_was_written_beyond_is_made_up_for_and_what_was_not_is_kept_for_a_moment() {
        let mut pace = Pace::default();
        let tenth = SECOND / 10;
        let mut looks = |tenths: u64, written| {
            pace.look(tenths * tenth, &seen(tenths.min(50) / 10, 2, written))
        };
        // A segment a second, and 11/8 of that may be written.
        let first = (10..=50).map(|at| looks(at, 0)).last().expect("there are some");
        assert!(first <= SEGMENT * 11 / 32, "of a quarter of a second: {first}");
        // What comes between two looks that are far from each other may all be written.
        let late = looks(80, 0);
        assert!((2 * SEGMENT..5 * SEGMENT).contains(&late), "{late}");
        let far = late + SEGMENT;
        assert!(looks(81, far) < far);
        assert!((82..85).map(|at| looks(at, far)).last().is_some_and(|limit| limit > far));
    }

    #[test]
    fn removals_that_outrun_it_leave_a_part_to_others() {
        let mut pace = Pace::default();
        // A segment a second is freed, and ten are removed.
        let removed = |at: u64| at * SEGMENT / 2;
        let limits = (20..200)
            .map(|at| (removed(at), pace.look(at * SECOND / 20, &seen(at / 20, 1, removed(at)))));
        let behind = limits.map(|(written, limit)| written.saturating_sub(limit)).max();
        assert!(behind.is_some_and(|bytes| bytes < SEGMENT), "{behind:?}");
    }

    #[test]
    fn a_journal_of_which_segments_are_freed_slowly_is_paced_too() {
        let mut pace = Pace::default();
        let mut limit = UNPACED;
        for minute in 1..9 {
            limit = pace.look(60 * minute * SECOND, &seen(minute, 1, 0));
        }
        assert_ne!(limit, UNPACED);
        assert_ne!(pace.look((480 + 240) * SECOND, &seen(8, 1, 0)), UNPACED);
        assert_eq!(pace.look((480 + 241) * SECOND, &seen(8, 1, 0)), UNPACED);
    }

    #[test]
    fn the_fewer_are_left_the_slower_it_goes() {
        let rate = |left| {
            let mut pace = Pace::default();
            pace.moments.extend([0, SECOND]);
            let rate = pace.rate(SECOND, &seen(0, left, 0)).expect("two were freed");
            (rate * 100.0 * SECOND as f64 / SEGMENT as f64).round()
        };
        assert_eq!([0, 2, 4].map(rate), [75.0, 138.0, 200.0], "in hundredths");
    }
}
