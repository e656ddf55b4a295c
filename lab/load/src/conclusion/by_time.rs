//! Latencies over time, as a report has them.
//!
//! Latencies are microseconds with three digits after the point. Seconds and slots without a
//! request are there, with zeros.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::latency::round;
use crate::by_time::{ByTime, SLOT_NS};
use report::figure::Table;

/// Latencies over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ByTimeText {
    /// When the window began, by the kernel's monotonic clock, which all processes share.
    pub began_mono_ns: u64,
    /// One after the other.
    pub seconds: Vec<SecondText>,
    /// Length of a slot.
    pub slot_ms: f64,
    /// The longest latency of the requests that were answered in each slot.
    pub worst_us: Vec<f64>,
    /// Open loop: the longest time that a request which was sent in the slot had waited for the
    /// generator.
    pub own_delay_us: Vec<f64>,
}

/// The requests that were answered within one second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each field is the percentile it is named after")]
pub struct SecondText {
    pub count: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

fn us(ns: u64) -> f64 {
    round(ns as f64 / 1e3)
}

impl SecondText {
    fn of(latencies_ns: &Histogram<u64>) -> Self {
        let at = |quantile| us(latencies_ns.value_at_quantile(quantile));
        Self {
            count: latencies_ns.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(latencies_ns.max()),
        }
    }
}

impl ByTimeText {
    /// A row for every second.
    pub(super) fn table(&self) -> Table {
        let row = |(nth, second): (usize, &SecondText)| {
            let SecondText { count, p50_us, p99_us, p999_us, max_us } = *second;
            let cells = [p50_us, p99_us, p999_us, max_us].map(|us| format!("{us:.1}"));
            let name = std::iter::once(nth.to_string());
            name.chain(cells).chain([count.to_string()]).collect()
        };
        let head = ["second, us", "p50", "p99", "p99.9", "max", "count"];
        let rows = self.seconds.iter().enumerate().map(row).collect();
        Table { rows, ..Table::new("Latencies by second", &head) }
    }

    pub(super) fn of(by_time: &ByTime, began_mono_ns: u64) -> Self {
        Self {
            began_mono_ns,
            seconds: by_time.seconds().iter().map(SecondText::of).collect(),
            slot_ms: SLOT_NS as f64 / 1e6,
            worst_us: by_time.slots().iter().map(|slot| us(slot.latency_ns)).collect(),
            own_delay_us: by_time.slots().iter().map(|slot| us(slot.own_delay_ns)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_has_its_slot_and_its_second() {
        let mut by_time = ByTime::default();
        (1..=1000).for_each(|us| by_time.answered(1_500_000_000, us * 1_000));
        by_time.sent(1_498_000_000, 250_000);
        let text = ByTimeText::of(&by_time, 7);
        let second = text.seconds[1];
        assert_eq!((text.began_mono_ns, text.seconds[0].count, second.count), (7, 0, 1_000));
        assert!((second.p50_us - 500.0).abs() < 5.0 && (second.p999_us - 999.0).abs() < 10.0);
        assert_eq!((text.table().rows.len(), text.table().rows[1][5].as_str()), (2, "1000"));
        assert_eq!((text.worst_us[750], text.own_delay_us[749], text.slot_ms), (1e3, 250.0, 2.0));
    }
}
