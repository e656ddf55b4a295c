//! Comparing servers whose speed drifts with the machine's mood.
//!
//! Contestants take turns, forwards in one round and backwards in the next (A B C, C B A, ...), so
//! a slow drift falls on all alike. Medians stand for each; the interval of a statistic comes from
//! resampling whole rounds, which keeps together what was measured together.

use anyhow::Result;

/// Resamples behind an interval.
const RESAMPLES: usize = 2000;
/// The share of resamples outside the interval, on each side.
const OUTSIDE: f64 = 0.025;

/// Measurements of one contestant, one a round.
pub type Series = Vec<f64>;

/// The range a statistic falls into in 95 of 100 resamples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Lets the contestants take turns; the result holds one series for each.
pub fn alternate(
    contestants: usize,
    rounds: usize,
    mut measure: impl FnMut(usize, usize) -> Result<f64>,
) -> Result<Vec<Series>> {
    let mut series = vec![Series::with_capacity(rounds); contestants];
    for round in 0..rounds {
        for turn in 0..contestants {
            let contestant = if round % 2 == 0 { turn } else { contestants - 1 - turn };
            series[contestant].push(measure(contestant, round)?);
        }
    }
    Ok(series)
}

/// The middle of the values; zero of none.
pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The distance between the quartiles as a share of the median.
pub fn spread(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

/// The geometric mean of positive values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (sum / values.len() as f64).exp()
}

/// A statistic of the medians of all series, with its 95 % interval.
pub fn statistic(series: &[Series], of: impl Fn(&[f64]) -> f64) -> (f64, Interval) {
    let rounds = series.first().map_or(0, Vec::len);
    let medians = |rounds: &[usize]| -> Vec<f64> {
        let pick = |one: &Series| rounds.iter().map(|at| one[*at]).collect::<Vec<_>>();
        series.iter().map(|one| median(&pick(one))).collect()
    };
    let all: Vec<usize> = (0..rounds).collect();
    let mut random = Random(0x5eed);
    let mut values = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        let picked: Vec<usize> = all.iter().map(|_| random.below(rounds)).collect();
        values.push(of(&medians(&picked)));
    }
    let interval =
        Interval { low: quantile(&values, OUTSIDE), high: quantile(&values, 1.0 - OUTSIDE) };
    (of(&medians(&all)), interval)
}

/// The value below which the given share of the values lies, between neighbours by proportion.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let position = share * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64)
}

/// A small seeded source of numbers (splitmix64): the same interval for the same measurements.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the limit; the bias of the remainder is below any limit used here.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_forwards_then_backwards() {
        let mut order = Vec::new();
        let series = alternate(3, 2, |contestant, round| {
            order.push(contestant);
            Ok((contestant * 10 + round) as f64)
        });
        assert_eq!(order, [0, 1, 2, 2, 1, 0]);
        assert_eq!(series.unwrap(), [[0.0, 1.0], [10.0, 11.0], [20.0, 21.0]]);
    }

    #[test]
    fn medians_and_spreads() {
        let cases = [
            (vec![3.0, 1.0, 2.0], 2.0, 0.5),
            (vec![4.0, 1.0, 2.0, 3.0], 2.5, 0.6),
            (vec![7.0], 7.0, 0.0),
        ];
        for (values, middle, wide) in cases {
            assert_eq!(median(&values), middle, "{values:?}");
            assert!((spread(&values) - wide).abs() < 1e-9, "{values:?}");
        }
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_holds_the_estimate_and_is_as_wide_as_the_noise() {
        let steady = [vec![2.0; 10], vec![1.0; 10]];
        let (estimate, interval) = statistic(&steady, |medians| medians[0] / medians[1]);
        assert_eq!((estimate, interval), (2.0, Interval { low: 2.0, high: 2.0 }));

        let noisy = [(0..20).map(|n| 2.0 + f64::from(n % 5) / 10.0).collect(), vec![1.0; 20]];
        let (estimate, interval) = statistic(&noisy, |medians| medians[0] / medians[1]);
        assert!(interval.low < estimate && estimate < interval.high, "{estimate} {interval:?}");
    }
}
