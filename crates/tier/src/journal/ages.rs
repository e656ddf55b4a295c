//! Since when what a segment holds has been durable.

use std::collections::VecDeque;

/// Ends that are known, each with its moment. Where there are more, each second one is joined with
/// the next: what it had counts as durable since then.
const AGES_MAX: usize = 256;

/// The least time between two of them, in nanoseconds.
const STEP_NS: u64 = 250_000_000;

/// Ends of what was durable at a moment, both rising.
#[derive(Debug, Default)]
pub(super) struct Ages(VecDeque<(u32, u64)>);

impl Ages {
    /// Everything up to `end` is durable, since `now_ns` or before.
    pub(super) fn note(&mut self, end: u32, now_ns: u64) {
        match self.0.back_mut() {
            Some((last, at_ns)) if now_ns < *at_ns + STEP_NS || *last >= end => {
                *last = end.max(*last);
            }
            _ => self.0.push_back((end, now_ns)),
        }
        if self.0.len() > AGES_MAX {
            let mut after = self.0.len();
            self.0.retain(|_| {
                after -= 1;
                after.is_multiple_of(2)
            });
        }
    }

    /// The end of what has been durable since `before_ns`; `None` where nothing was noted.
    pub(super) fn since(&self, before_ns: u64) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let old = self.0.iter().take_while(|(_, at_ns)| *at_ns <= before_ns).last();
        Some(old.map_or(0, |(end, _)| *end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_has_been_durable_for_long_is_known_however_long_it_goes_on() {
        let mut ages = Ages::default();
        assert_eq!(ages.since(u64::MAX), None);
        for at in 1..=1_000 {
            ages.note(at, u64::from(at) * SECOND);
        }
        assert_eq!(ages.since(u64::MAX), Some(1_000));
        assert_eq!(ages.since(SECOND / 2), Some(0));
        // What was joined counts as a little younger: the older, the more.
        for before in [990, 500, 200] {
            let end = ages.since(before * SECOND).expect("some was noted");
            let least = before as u32 - (1_000 - before as u32) / 8;
            assert!((least..=before as u32).contains(&end), "{before}: {end}");
        }
    }

    #[test]
    fn what_comes_soon_after_is_as_old() {
        let mut ages = Ages::default();
        ages.note(10, SECOND);
        ages.note(20, SECOND + STEP_NS - 1);
        assert_eq!(ages.since(SECOND), Some(20));
        ages.note(30, SECOND + STEP_NS);
        assert_eq!((ages.since(SECOND), ages.since(2 * SECOND)), (Some(20), Some(30)));
    }
}
