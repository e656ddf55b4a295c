//! A distribution of latencies: the percentiles by name, and the curve through them.
//!
//! Latencies are microseconds with three digits after the point. Invariant: the curve rises, and a
//! percentile in it rests on one request at least.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three digits after the point: nanoseconds of a microsecond.
pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The percentiles of the curve.
const CURVE: [f64; 20] = [
    0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99, 99.995, 99.999, 99.9999, 100.0,
];

/// A distribution in microseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[allow(missing_docs, reason = "each field is the percentile it is named after")]
pub struct Latency {
    pub count: u64,
    pub mean_us: f64,
    pub min_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub p9999_us: f64,
    pub max_us: f64,
    /// Pairs of percentile and microseconds, rising. Each percentile has a request beyond it,
    /// except the last, which is 100.
    pub curve: Vec<(f64, f64)>,
}

impl Latency {
    /// The distribution of `latencies_ns`; none if it is empty.
    #[must_use]
    pub fn of(latencies_ns: &Histogram<u64>) -> Option<Self> {
        if latencies_ns.is_empty() {
            return None;
        }
        let at = |quantile| round(latencies_ns.value_at_quantile(quantile) as f64 / 1e3);
        let has_request =
            |percentile: &f64| *percentile == 100.0 || beyond(latencies_ns, *percentile) >= 1.0;
        let curve = CURVE.into_iter().filter(has_request);
        Some(Self {
            count: latencies_ns.len(),
            mean_us: round(latencies_ns.mean() / 1e3),
            min_us: round(latencies_ns.min() as f64 / 1e3),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p999_us: at(0.999),
            p9999_us: at(0.9999),
            max_us: round(latencies_ns.max() as f64 / 1e3),
            curve: curve.map(|percentile| (percentile, at(percentile / 100.0))).collect(),
        })
    }
}

/// The number of latencies beyond a percentile.
fn beyond(latencies_ns: &Histogram<u64>, percentile: f64) -> f64 {
    // A thousandth against the rounding of the percentile.
    latencies_ns.len() as f64 * (100.0 - percentile) / 100.0 + 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_ends_where_the_count_ends() {
        let mut latencies_ns = Histogram::new(3).unwrap();
        for us in 1..=1_000u64 {
            latencies_ns.record(us * 1_000).unwrap();
        }
        let latency = Latency::of(&latencies_ns).unwrap();
        let percentiles: Vec<f64> =
            latency.curve.iter().map(|(percentile, _)| *percentile).collect();
        assert_eq!(percentiles[percentiles.len() - 3..], [99.5, 99.9, 100.0]);
        assert!(latency.curve.windows(2).all(|pair| pair[0].1 <= pair[1].1));
        assert!((latency.p95_us - 950.0).abs() < 1.0, "{latency:?}");
        assert!(Latency::of(&Histogram::new(3).unwrap()).is_none());
    }
}
