//! What the requests of a fault say of it: when it was over, and what failed outside it.

use std::collections::BTreeMap;

use crate::instruments::{Answered, Ended};
use measure::stats::quantile;

/// Milliseconds between two moments.
pub fn ms(from_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(from_ns) as f64 / 1e6
}

/// When the first request had succeeded that was sent after a moment.
pub fn first_ns<'a>(seen: impl IntoIterator<Item = &'a Answered>, since_ns: u64) -> Option<u64> {
    let well = seen.into_iter().filter(|one| one.ended == Ended::Well && one.sent_ns >= since_ns);
    well.map(|one| one.done_ns).min()
}

/// Requests that lie before or after a failover, and how many of them failed.
pub fn outside<'a>(
    seen: impl Iterator<Item = &'a Answered>,
    fault_ns: u64,
    end_ns: u64,
) -> [u64; 2] {
    let outside = seen.filter(|one| one.done_ns < fault_ns || one.sent_ns > end_ns);
    outside
        .fold([0, 0], |[all, failed], one| [all + 1, failed + u64::from(one.ended != Ended::Well)])
}

/// How many requests have ended so.
pub fn counts(all: impl Iterator<Item = Ended>) -> BTreeMap<Ended, u64> {
    let mut counts = BTreeMap::new();
    all.for_each(|ended| *counts.entry(ended).or_default() += 1);
    counts
}

/// The middle, the 99th of a hundred and the longest, in words.
pub fn times(found: &[f64]) -> String {
    let of = |share: f64| quantile(found, share).unwrap_or(0.0);
    let number = |ms: f64| if ms < 10.0 { format!("{ms:.1}") } else { format!("{ms:.0}") };
    let [p50, p99, longest] = [of(0.5), of(0.99), of(1.0)].map(number);
    format!("p50 {p50} p99 {p99} max {longest} ms of {}", found.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(sent_ms: u64, done_ms: u64, ended: Ended) -> Answered {
        Answered { sent_ns: sent_ms * 1_000_000, done_ns: done_ms * 1_000_000, ended }
    }

    #[test]
    fn only_requests_after_the_fault_show_when_it_is_over() {
        let all = [
            seen(90, 130, Ended::Well),
            seen(110, 180, Ended::InDoubt),
            seen(150, 170, Ended::Well),
            seen(140, 190, Ended::Well),
        ];
        assert_eq!(first_ns(&all, 100_000_000), Some(170_000_000));
        assert_eq!(first_ns(&all[..2], 100_000_000), None);
    }

    #[test]
    fn what_touches_the_failover_is_not_outside() {
        let all = [
            seen(1, 99, Ended::Well),
            seen(1, 101, Ended::Closed),
            seen(150, 160, Ended::Refused),
            seen(199, 300, Ended::InDoubt),
            seen(201, 300, Ended::InDoubt),
        ];
        assert_eq!(outside(all.iter(), 100_000_000, 200_000_000), [2, 1]);
    }

    #[test]
    fn times_are_said_with_their_number() {
        assert_eq!(times(&[1.0, 2.0, 30.0]), "p50 2.0 p99 29 max 30 ms of 3");
    }
}
