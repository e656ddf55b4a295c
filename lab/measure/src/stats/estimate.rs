//! One value for several measurements, with the interval that holds the true one in 95 of 100
//! cases.
//!
//! The interval is Student's: it says honestly how little a few rounds tell, and of a single
//! measurement there is none. From eight values on, the least and the greatest fifth are left out
//! of the mean, and count as their inner neighbours in the interval (Tukey and McLaughlin, 1963): a
//! round that another program disturbed decides nothing. Why this and no resampling:
//! `docs/decisions/0009-one-laboratory.md`.
//!
//! A ratio is taken within each round and averaged as a logarithm, so that A over B is exactly the
//! inverse of B over A.

/// Of this many values one is left out of the mean at each end.
const TRIMMED: usize = 5;
/// The fewest values of which some are left out.
const TRIMMED_FROM: usize = 8;

/// Student's two-sided 95 % points for 1, 2, .. degrees of freedom.
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same for `freedom` degrees of freedom, from 1 on: off the table by the first terms of
/// Cornish and Fisher's series about the normal law, exact to a thousandth there.
fn t95(freedom: usize) -> f64 {
    const NORMAL: f64 = 1.959_964;
    T95.get(freedom - 1).copied().unwrap_or_else(|| {
        let (z, n) = (NORMAL, freedom as f64);
        z + (z.powi(3) + z) / (4.0 * n)
            + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
    })
}

/// A value with the interval that holds the true one in 95 cases of 100.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// The estimate itself.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Half the width of the interval.
    #[must_use]
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether the interval holds `value`.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The mean of `values` with its interval; none of fewer than two.
#[must_use]
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    if count < 2 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let left_out = if count < TRIMMED_FROM { 0 } else { count / TRIMMED };
    let kept = left_out..count - left_out;
    let value = average(&sorted[kept.clone()]);
    // What is left out is as far away as the nearest value that is kept.
    let (least, greatest) = (sorted[kept.start], sorted[kept.end - 1]);
    sorted[..kept.start].fill(least);
    sorted[kept.end..].fill(greatest);
    let middle = average(&sorted);
    let squares: f64 = sorted.iter().map(|each| (each - middle).powi(2)).sum();
    let share = kept.len() as f64 / count as f64;
    let error = (squares / (count - 1) as f64 / count as f64).sqrt() / share;
    let half = error * t95(kept.len() - 1);
    Some(Estimate { value, low: value - half, high: value + half })
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How many times `values` are `bases`, measured in pairs: the geometric mean of their ratios.
///
/// ```
/// let factor = measure::stats::ratio(&[2.1, 3.9, 6.0], &[1.0, 2.0, 3.0]).unwrap();
/// assert!(factor.holds(2.0));
/// assert!(factor.half_width() < 0.2);
/// ```
#[must_use]
pub fn ratio(values: &[f64], bases: &[f64]) -> Option<Estimate> {
    let pairs = values.iter().zip(bases).filter(|(value, base)| **value > 0.0 && **base > 0.0);
    let logs: Vec<f64> = pairs.map(|(value, base)| (value / base).ln()).collect();
    let Estimate { value, low, high } = mean(&logs)?;
    Some(Estimate { value: value.exp(), low: low.exp(), high: high.exp() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Mean 3, deviation sqrt(2.5), error sqrt(0.5), times 2.776.
        let Estimate { value, low, high } = mean(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(value, 3.0);
        assert!((low - 1.0371).abs() < 1e-3 && (high - 4.9629).abs() < 1e-3, "{low} {high}");
        assert_eq!(mean(&[7.0]), None);
        let same = mean(&[2.0; 40]).unwrap();
        assert_eq!((same.low, same.high), (2.0, 2.0));
    }

    #[test]
    fn the_law_continues_after_the_table() {
        for (freedom, point) in [
            (1, 12.706),
            (30, 2.042),
            (31, 2.040),
            (40, 2.021),
            (60, 2.000),
            (120, 1.980),
            (1_000, 1.962),
        ] {
            assert!((t95(freedom) - point).abs() < 1e-3, "{freedom}: {}", t95(freedom));
        }
    }

    #[test]
    fn ratios_are_paired_and_symmetric() {
        let Estimate { value, low, high } = ratio(&[2.0, 4.0, 8.0], &[1.0, 2.0, 4.0]).unwrap();
        assert!((value - 2.0).abs() < 1e-12 && (high - low).abs() < 1e-12);
        let one = ratio(&[3.0, 5.0], &[2.0, 4.0]).unwrap();
        let other = ratio(&[2.0, 4.0], &[3.0, 5.0]).unwrap();
        assert!((one.value * other.value - 1.0).abs() < 1e-12);
        assert!((one.low * other.high - 1.0).abs() < 1e-12);
        assert_eq!(ratio(&[1.0, 0.0], &[1.0, 1.0]), None);
    }

    #[test]
    fn one_bad_round_of_eight_and_two_of_ten_decide_nothing() {
        let steady = [1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 1.0];
        let mut disturbed = steady;
        disturbed[0] = 50.0;
        let (without, with) = (mean(&steady).unwrap(), mean(&disturbed).unwrap());
        assert!((without.value - with.value).abs() < 0.03, "{with:?}");
        assert!(with.holds(1.0) && with.half_width() < 0.1, "{with:?}");
        let worse = [&disturbed[..], &[40.0, 1.0]].concat();
        assert!(mean(&worse).unwrap().holds(1.0) && mean(&worse).unwrap().half_width() < 0.1);
        // Fewer rounds can spare none: the interval is as wide as it must be.
        assert!(mean(&disturbed[..7]).unwrap().half_width() > 10.0);
    }
}
