//! Latencies by time: the distribution of every second, and the worst of every slot.
//!
//! It is kept only where it is requested (`--by-time`), so that other runs do not pay for it. A
//! request counts when its reply arrives; how late the generator sent a request counts when it
//! sent it. Bound: [`SECONDS_MAX`] seconds; what comes later is in the totals only. Times are
//! nanoseconds since the beginning of the window.

use hdrhistogram::Histogram;

/// Length of a slot, in nanoseconds.
pub const SLOT_NS: u64 = 2_000_000;
/// The most seconds.
const SECONDS_MAX: usize = 600;
/// The longest latency that a second distinguishes, in nanoseconds.
const LATENCY_MAX_NS: u64 = 60_000_000_000;
/// Digits that are exact in the distribution of a second: enough for a percentile.
const LATENCY_DIGITS: u8 = 2;
const NS_PER_S: u64 = 1_000_000_000;

/// The worst of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// The longest latency of the requests that were answered in the slot.
    pub latency_ns: u64,
    /// The longest time that a request which was sent in the slot had waited for the generator.
    pub own_delay_ns: u64,
}

/// Latencies by time.
#[derive(Clone, Debug, Default)]
pub struct ByTime {
    seconds: Vec<Histogram<u64>>,
    slots: Vec<Worst>,
}

fn second() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, LATENCY_DIGITS)
        .expect("invariant: the histogram accepts these bounds")
}

impl ByTime {
    /// Counts a request that was answered at `at_ns`.
    pub fn answered(&mut self, at_ns: u64, latency_ns: u64) {
        let nth = (at_ns / NS_PER_S) as usize;
        if nth >= SECONDS_MAX {
            return;
        }
        if nth >= self.seconds.len() {
            self.seconds.resize_with(nth + 1, second);
        }
        self.seconds[nth].saturating_record(latency_ns);
        let worst = &mut self.slot(at_ns).latency_ns;
        *worst = latency_ns.max(*worst);
    }

    /// Counts a request that was sent at `at_ns`, after it had waited for the generator.
    pub fn sent(&mut self, at_ns: u64, own_delay_ns: u64) {
        if at_ns / NS_PER_S < SECONDS_MAX as u64 {
            let worst = &mut self.slot(at_ns).own_delay_ns;
            *worst = own_delay_ns.max(*worst);
        }
    }

    /// The slot of a time before the last second.
    fn slot(&mut self, at_ns: u64) -> &mut Worst {
        let nth = (at_ns / SLOT_NS) as usize;
        if nth >= self.slots.len() {
            self.slots.resize(nth + 1, Worst::default());
        }
        &mut self.slots[nth]
    }

    /// The distribution of each second.
    #[must_use]
    pub fn seconds(&self) -> &[Histogram<u64>] {
        &self.seconds
    }

    /// The worst of each slot.
    #[must_use]
    pub fn slots(&self) -> &[Worst] {
        &self.slots
    }

    /// Adds everything that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if other.seconds.len() > self.seconds.len() {
            self.seconds.resize_with(other.seconds.len(), second);
        }
        for (mine, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            mine.add(theirs).expect("invariant: all histograms have the same bounds");
        }
        if other.slots.len() > self.slots.len() {
            self.slots.resize(other.slots.len(), Worst::default());
        }
        for (mine, theirs) in self.slots.iter_mut().zip(&other.slots) {
            mine.latency_ns = mine.latency_ns.max(theirs.latency_ns);
            mine.own_delay_ns = mine.own_delay_ns.max(theirs.own_delay_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_in_its_second_and_its_slot() {
        let (mut one, mut two) = (ByTime::default(), ByTime::default());
        one.answered(5, 1_000);
        one.answered(2 * NS_PER_S + SLOT_NS, 7_000);
        two.answered(2 * NS_PER_S + SLOT_NS, 9_000);
        two.sent(2 * NS_PER_S, 300);
        one.merge(&two);
        let counts: Vec<u64> = one.seconds().iter().map(Histogram::len).collect();
        assert_eq!(counts, [1, 0, 2]);
        let slots = one.slots();
        assert_eq!((slots[0].latency_ns, slots[1_001].latency_ns), (1_000, 9_000));
        assert_eq!((slots[1_000].own_delay_ns, slots.len()), (300, 1_002));
    }

    #[test]
    fn memory_is_bounded() {
        let mut one = ByTime::default();
        one.answered(u64::MAX, 1);
        one.sent(u64::MAX, 1);
        assert!(one.seconds().is_empty() && one.slots().is_empty());
    }
}
