//! Summaries of some values: median, quantiles, range, spread, geometric mean.
//!
//! Nothing is said of no values: those functions return `None` there.

/// The middle of `values`.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which `share` of the values lie, interpolated between neighbours.
#[must_use]
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (position - below as f64))
}

/// The least and the greatest of `values`.
#[must_use]
pub fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().min_by(f64::total_cmp)?;
    let high = values.iter().copied().max_by(f64::total_cmp)?;
    Some((low, high))
}

/// The distance between the quartiles as a share of the median.
#[must_use]
pub fn spread(values: &[f64]) -> Option<f64> {
    Some((quantile(values, 0.75)? - quantile(values, 0.25)?) / median(values)?)
}

/// The geometric mean of positive values.
#[must_use]
pub fn geometric_mean(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (sum / values.len() as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        for (values, middle, wide) in [
            (&[3.0, 1.0, 2.0][..], 2.0, 0.5),
            (&[4.0, 1.0, 2.0, 3.0], 2.5, 0.6),
            (&[9.0, 1.0], 5.0, 0.8),
            (&[7.0], 7.0, 0.0),
        ] {
            assert_eq!(median(values), Some(middle), "{values:?}");
            assert!((spread(values).unwrap() - wide).abs() < 1e-9, "{values:?}");
        }
        assert_eq!((median(&[]), spread(&[]), range(&[])), (None, None, None));
    }

    #[test]
    fn ranges_and_geometric_means() {
        assert_eq!(range(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-9);
    }
}
