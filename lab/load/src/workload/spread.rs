//! A number that differs between items: one value, an even range, or a weighted list.
//!
//! Used for lengths of keys and values, for lifetimes and for the number of keys in a get.
//! Invariant: the number is a function of a hash, so the same key always has the same one.
//!
//! ```text
//! 300                 always 300
//! uniform:10-900      any number from 10 to 900, evenly
//! 100:9,1000          100 in nine cases of ten, else 1000 (weight 1)
//! etc                 a published distribution, see [`Shape`]
//! ```

use std::str::FromStr;

use super::shape::Shape;

/// The most entries of a list.
const LIST_MAX: usize = 1_024;

/// How numbers are distributed over items.
///
/// ```
/// use load::workload::Spread;
///
/// let spread: Spread = "100:9,1000".parse()?;
/// assert_eq!((spread.max(), spread.of(0)), (1_000, 100));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The same for every item.
    Fixed(u32),
    /// Any number from the first to the second, both included.
    Uniform(u32, u32),
    /// Numbers with the running sum of their weights.
    List(Vec<(u32, u64)>),
    /// A published distribution of lengths.
    Shape(Shape),
}

impl Spread {
    /// The number that belongs to `hash`.
    #[inline]
    #[must_use]
    pub fn of(&self, hash: u64) -> u32 {
        match self {
            Self::Fixed(number) => *number,
            Self::Uniform(low, high) => low + scale(hash, u64::from(high - low) + 1) as u32,
            Self::List(entries) => {
                let total = entries.last().map_or(1, |(_, sum)| *sum);
                let point = scale(hash, total);
                entries[entries.partition_point(|(_, sum)| *sum <= point)].0
            }
            Self::Shape(shape) => shape.of(hash),
        }
    }

    /// The largest number it can give.
    #[must_use]
    pub fn max(&self) -> u32 {
        match self {
            Self::Fixed(number) | Self::Uniform(_, number) => *number,
            Self::List(entries) => entries.iter().map(|(number, _)| *number).max().unwrap_or(0),
            Self::Shape(shape) => shape.max(),
        }
    }
}

/// Maps a hash evenly to a number below `bound`.
#[inline]
fn scale(hash: u64, bound: u64) -> u64 {
    ((u128::from(hash) * u128::from(bound)) >> 64) as u64
}

fn number(text: &str) -> Result<u32, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is no whole number from 0 to {}", u32::MAX))
}

impl FromStr for Spread {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(shape) = Shape::named(text) {
            return Ok(Self::Shape(shape));
        }
        if let Some(range) = text.strip_prefix("uniform:") {
            let (low, high) = range
                .split_once('-')
                .ok_or_else(|| format!("{text:?}: a range is written uniform:LOW-HIGH"))?;
            let (low, high) = (number(low)?, number(high)?);
            if low > high {
                return Err(format!("{text:?}: {low} is above {high}; put the smaller first"));
            }
            return Ok(Self::Uniform(low, high));
        }
        if !text.contains([',', ':']) {
            return number(text).map(Self::Fixed);
        }
        let mut entries = Vec::new();
        let mut sum = 0;
        for entry in text.split(',') {
            let (value, weight) = entry.split_once(':').unwrap_or((entry, "1"));
            let weight = number(weight)?;
            if weight == 0 {
                return Err(format!("{entry:?} has weight 0; leave it out"));
            }
            sum += u64::from(weight);
            entries.push((number(value)?, sum));
        }
        if entries.len() > LIST_MAX {
            return Err(format!("a list of {} entries; the limit is {LIST_MAX}", entries.len()));
        }
        Ok(Self::List(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::rng::mix;

    #[test]
    fn spreads_parse_and_choose() {
        let cases = [
            ("300", Spread::Fixed(300), 300),
            ("uniform:10-12", Spread::Uniform(10, 12), 12),
            ("100:9,1000", Spread::List(vec![(100, 9), (1000, 10)]), 1000),
            ("twitter", Spread::Shape(Shape::TwitterValues), 10_240),
        ];
        for (text, expected, max) in cases {
            let spread: Spread = text.parse().unwrap();
            assert_eq!(spread, expected);
            assert_eq!(spread.max(), max);
        }
        let list: Spread = "100:9,1000".parse().unwrap();
        let small = (0..10_000).filter(|hash| list.of(mix(*hash)) == 100).count();
        assert!((8_800..9_200).contains(&small), "{small}");
        let range: Spread = "uniform:10-12".parse().unwrap();
        let mut seen: Vec<u32> = (0..100).map(|hash| range.of(mix(hash))).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [10, 11, 12]);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("", "no whole number"),
            ("-1", "no whole number"),
            ("uniform:5", "LOW-HIGH"),
            ("uniform:9-5", "above"),
            ("10:0", "weight 0"),
            ("10,x", "no whole number"),
            ("99999999999", "no whole number"),
        ] {
            let error = text.parse::<Spread>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
