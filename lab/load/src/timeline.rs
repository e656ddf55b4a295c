//! How many replies came when: one count for every tenth of a second of the measured window.
//!
//! It counts once per readable event, not per request. Bound: `SLOTS_MAX` slots, more than a day;
//! later replies are in the totals only. Times are nanoseconds since the beginning of the window.

/// Length of a slot, in nanoseconds.
pub const SLOT_NS: u64 = 100_000_000;

/// The most slots.
const SLOTS_MAX: usize = 1 << 20;

/// Replies by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    slots: Vec<u64>,
}

impl Timeline {
    /// Counts `replies` that came `at_ns` after the beginning of the window.
    #[inline]
    pub fn add(&mut self, at_ns: u64, replies: u64) {
        let slot = (at_ns / SLOT_NS) as usize;
        if slot >= self.slots.len() {
            self.grow(slot);
        }
        if let Some(count) = self.slots.get_mut(slot) {
            *count += replies;
        }
    }

    #[cold]
    fn grow(&mut self, slot: usize) {
        if slot < SLOTS_MAX {
            self.slots.resize(slot + 1, 0);
        }
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if other.slots.len() > self.slots.len() {
            self.slots.resize(other.slots.len(), 0);
        }
        for (mine, theirs) in self.slots.iter_mut().zip(&other.slots) {
            *mine += theirs;
        }
    }

    /// Replies per second in at most `points_max` equal stretches of a window, and the length of a
    /// stretch in seconds. A stretch that the window does not fill is left out.
    #[must_use]
    pub fn rates(&self, window_ns: u64, points_max: usize) -> (f64, Vec<f64>) {
        let whole = (window_ns / SLOT_NS) as usize;
        let merged = whole.div_ceil(points_max.max(1)).max(1);
        let stretch_s = merged as f64 * SLOT_NS as f64 / 1e9;
        let count = |from: usize| {
            let slots = self.slots.iter().skip(from * merged).take(merged);
            slots.sum::<u64>() as f64 / stretch_s
        };
        (stretch_s, (0..whole / merged).map(count).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_become_rates() {
        let mut one = Timeline::default();
        for slot in 0..10 {
            one.add(slot * SLOT_NS + 5, slot);
        }
        let mut two = Timeline::default();
        two.add(0, 7);
        two.merge(&one);
        assert_eq!(two.rates(10 * SLOT_NS, 5).1, [40.0, 25.0, 45.0, 65.0, 85.0]);
        // The last slot is not filled by the window, and nine slots in pairs leave one over.
        assert_eq!(two.rates(10 * SLOT_NS - 1, 5), (0.2, vec![40.0, 25.0, 45.0, 65.0]));
        assert_eq!(two.rates(0, 5).1, Vec::<f64>::new());
        // A stretch without any reply is a rate of zero, not a gap.
        assert_eq!(one.rates(12 * SLOT_NS, 100).1[10..], [0.0, 0.0]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut timeline = Timeline::default();
        timeline.add(u64::MAX, 1);
        assert_eq!(timeline, Timeline::default());
    }
}
