//! From numbers to places along an axis, and the marks that stand there.
//!
//! A place is 0 at the beginning of the axis and 1 at its end. Invariant: `low < high`, so every
//! place is finite, whatever the values are.

use crate::figure::{Scale, short};

/// The distance of the hundredth percentile from the last one before it, in nines.
const PERCENTILE_END: f64 = 0.3;

/// About how many marks a linear axis has.
const MARKS: f64 = 5.0;

/// An axis with its range.
#[derive(Clone, Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Ruler {
    /// An axis that holds all of `values`.
    pub fn new(scale: Scale, values: impl Iterator<Item = f64> + Clone) -> Self {
        let finite = values.filter(|value| value.is_finite());
        let max = finite.clone().fold(f64::NEG_INFINITY, f64::max);
        let positive = finite.filter(|value| *value > 0.0);
        let (low, high) = match scale {
            Scale::Linear => {
                let step = nice_step(max.max(0.0));
                (0.0, ((max / step).ceil() * step).max(step))
            }
            Scale::Log => {
                let low = positive.fold(f64::INFINITY, f64::min);
                if !low.is_finite() {
                    return Self { scale, low: 0.0, high: 1.0 };
                }
                let (low, high) = (low.log10(), max.log10());
                // The ends of the axis are half powers of ten.
                let (low, high) = ((low * 2.0).floor() / 2.0, (high * 2.0).ceil() / 2.0);
                (low, high.max(low + 0.5))
            }
            Scale::Percentile => {
                let measured = positive.filter(|value| *value < 100.0).map(nines);
                (0.0, measured.fold(1.0, f64::max) + PERCENTILE_END)
            }
        };
        Self { scale, low, high }
    }

    /// Where `value` stands, 0 at the axis's beginning and 1 at its end.
    pub fn place(&self, value: f64) -> f64 {
        let at = match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Percentile if value >= 100.0 => self.high,
            Scale::Percentile => nines(value),
        };
        ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// Places and names of the marks.
    pub fn marks(&self) -> Vec<(f64, String)> {
        let values: Vec<f64> = match self.scale {
            Scale::Linear => {
                let step = nice_step(self.high);
                (0..=(self.high / step).round() as u32).map(|nth| f64::from(nth) * step).collect()
            }
            Scale::Log => {
                // Two powers or fewer leave space for the twos and fives between them.
                let digits: &[f64] =
                    if self.high - self.low > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let powers = self.low.floor() as i32..=self.high.ceil() as i32;
                let all =
                    powers.flat_map(|power| digits.iter().map(move |d| d * 10f64.powi(power)));
                all.filter(|value| (self.low - 1e-9..=self.high + 1e-9).contains(&value.log10()))
                    .collect()
            }
            Scale::Percentile => [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999]
                .into_iter()
                .filter(|value| nines(*value) <= self.high - PERCENTILE_END + 1e-9)
                .collect(),
        };
        let unit = if self.scale == Scale::Percentile { "%" } else { "" };
        let name = |value: f64| match self.scale {
            Scale::Percentile => format!("{value}{unit}"),
            _ => short(value),
        };
        let mut marks: Vec<(f64, String)> =
            values.into_iter().map(|value| (self.place(value), name(value))).collect();
        if self.scale == Scale::Percentile {
            marks.push((1.0, "max".to_string()));
        }
        marks
    }
}

/// Nines of a percentile: 0 for 0, 1 for 90, 2 for 99.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile.clamp(0.0, 99.999_999) / 100.0).log10()
}

/// A step of 1, 2 or 5 times a power of ten that leads to `max` in about [`MARKS`] steps.
fn nice_step(max: f64) -> f64 {
    if !(max > 0.0 && max.is_finite()) {
        return 1.0;
    }
    let rough = max / MARKS;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999);
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ruler: &Ruler) -> Vec<String> {
        ruler.marks().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn marks_are_round_numbers_within_the_axis() {
        for (scale, values, expected) in [
            (Scale::Linear, &[3.0, 47.0][..], &["0", "10", "20", "30", "40", "50"][..]),
            (Scale::Linear, &[0.0], &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            (Scale::Log, &[12.0, 90.0], &["10", "20", "50", "100"]),
            (Scale::Log, &[1.0, 30_000.0], &["1", "10", "100", "1000", "10k"]),
            (Scale::Log, &[], &["1", "2", "5", "10"]),
            (Scale::Percentile, &[0.0, 99.0, 100.0], &["0%", "50%", "90%", "99%", "max"]),
        ] {
            let ruler = Ruler::new(scale, values.iter().copied());
            assert_eq!(names(&ruler), expected, "{scale:?} {values:?}");
            for (place, name) in ruler.marks() {
                assert!((0.0..=1.0).contains(&place), "{name} at {place}");
            }
            for value in values {
                assert!((0.0..=1.0).contains(&ruler.place(*value)));
            }
        }
    }

    #[test]
    fn places_keep_the_order() {
        for scale in [Scale::Linear, Scale::Log, Scale::Percentile] {
            let values = [1.0, 5.0, 50.0, 99.0, 99.9, 100.0];
            let ruler = Ruler::new(scale, values.iter().copied());
            let places: Vec<f64> = values.iter().map(|value| ruler.place(*value)).collect();
            assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{scale:?} {places:?}");
        }
    }

    #[test]
    fn odd_numbers_do_no_harm() {
        for scale in [Scale::Linear, Scale::Log, Scale::Percentile] {
            let ruler = Ruler::new(scale, [f64::NAN, f64::INFINITY, 0.0, -1.0].into_iter());
            assert!(ruler.place(5.0).is_finite() && !ruler.marks().is_empty(), "{scale:?}");
        }
    }
}
