//! Lengths as they were measured in public: distributions with the parameters of papers.
//!
//! ```text
//! etc        values at Facebook, pool ETC: a table up to 14 bytes, a Pareto law from 15 on
//! etc-keys   keys of the same pool: a generalised extreme value law
//! twitter    values at Twitter: a log-normal law through the published median and quartile
//! ```
//!
//! ETC: Atikoglu, Xu, Frachtenberg, Jiang, Paleczny, "Workload Analysis of a Large-Scale Key-Value
//! Store", SIGMETRICS 2012, section 5. Twitter: Yang, Yue, Rashmi, "A large scale analysis of
//! hundreds of in-memory cache clusters at Twitter", OSDI 2020, section 4: mean value sizes of
//! its clusters lie between 10 bytes and 10 KB, half of them below 230 bytes and a quarter below
//! 100. The paper gives no formula; the law through these figures is ours.
//!
//! Lengths are bytes. Invariant: a length is a function of a hash alone, within the stated range.

/// Probabilities of values of 0 to 14 bytes at ETC.
const ETC_SMALL: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837,
    0.00837, 0.08989, 0.00092, 0.00326, 0.01980,
];

/// Scale and shape of the Pareto law of the other values.
const ETC_VALUE: (f64, f64) = (214.476, 0.348_238);

/// Place, scale and shape of the extreme value law of keys.
const ETC_KEY: (f64, f64, f64) = (30.7984, 8.20449, 0.078_688);

/// Median of values at Twitter, and the width of the law that puts a quarter below 100 bytes:
/// ln(230 / 100) divided by 0.6745, the quartile of the normal law.
const TWITTER: (f64, f64) = (230.0, 1.2349);

/// The longest value of a shape: what memcached stores by default.
const VALUE_BYTES_MAX: f64 = 1_000_000.0;

/// The range of values at Twitter.
const TWITTER_BYTES: (f64, f64) = (10.0, 10_240.0);

/// The longest key of the protocol.
const KEY_BYTES_MAX: f64 = 250.0;

/// A published distribution of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Values of Facebook's ETC pool.
    EtcValues,
    /// Keys of the same pool.
    EtcKeys,
    /// Values at Twitter.
    TwitterValues,
}

impl Shape {
    /// The shape of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "etc" => Some(Self::EtcValues),
            "etc-keys" => Some(Self::EtcKeys),
            "twitter" => Some(Self::TwitterValues),
            _ => None,
        }
    }

    /// The length that belongs to `hash`.
    #[must_use]
    pub fn of(self, hash: u64) -> u32 {
        let bytes = match self {
            Self::EtcValues => etc_value(unit(hash)),
            Self::EtcKeys => {
                let (place, scale, shape) = ETC_KEY;
                let bytes = place + scale / shape * ((-unit(hash).ln()).powf(-shape) - 1.0);
                bytes.clamp(1.0, KEY_BYTES_MAX)
            }
            Self::TwitterValues => {
                let (median, width) = TWITTER;
                let bytes = median * (width * normal(hash)).exp();
                bytes.clamp(TWITTER_BYTES.0, TWITTER_BYTES.1)
            }
        };
        bytes as u32
    }

    /// The longest length it can give.
    #[must_use]
    pub fn max(self) -> u32 {
        let bytes = match self {
            Self::EtcValues => VALUE_BYTES_MAX,
            Self::EtcKeys => KEY_BYTES_MAX,
            Self::TwitterValues => TWITTER_BYTES.1,
        };
        bytes as u32
    }
}

/// The length at which the distribution of ETC's values passes `point`.
fn etc_value(point: f64) -> f64 {
    let mut sum = 0.0;
    for (bytes, share) in ETC_SMALL.iter().enumerate() {
        sum += share;
        if point < sum {
            return bytes as f64;
        }
    }
    let (scale, shape) = ETC_VALUE;
    // What is left of the probability, from 1 at 15 bytes down to 0.
    let left = ((1.0 - point) / (1.0 - sum)).max(f64::MIN_POSITIVE);
    let bytes = ETC_SMALL.len() as f64 + scale / shape * (left.powf(-shape) - 1.0);
    bytes.min(VALUE_BYTES_MAX)
}

/// A number strictly between 0 and 1.
fn unit(hash: u64) -> f64 {
    ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// A normally distributed number of mean 0 and width 1, from the two halves of `hash`.
fn normal(hash: u64) -> f64 {
    let half = |bits: u32| (f64::from(bits) + 0.5) / (1u64 << 32) as f64;
    let (radius, turn) = (half((hash >> 32) as u32), half(hash as u32));
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * turn).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::rng::mix;

    /// Lengths for this number of hashes, in order.
    fn drawn(shape: Shape) -> Vec<u32> {
        let mut lengths: Vec<u32> = (0..200_000).map(|number| shape.of(mix(number))).collect();
        lengths.sort_unstable();
        lengths
    }

    fn share_below(lengths: &[u32], bound: u32) -> f64 {
        lengths.partition_point(|length| *length < bound) as f64 / lengths.len() as f64
    }

    #[test]
    fn shares_are_those_of_the_papers() {
        // Expected shares follow from the published figures by hand, not from the code above.
        for (shape, bound, expected) in [
            (Shape::EtcValues, 2, 0.00583),
            (Shape::EtcValues, 3, 0.18403),
            (Shape::EtcValues, 15, 0.44155),
            // 1 - 0.55845 * (1 + 0.348238 * 485 / 214.476) ^ (-1 / 0.348238)
            (Shape::EtcValues, 500, 0.89465),
            // exp(-(1 + 0.078688 * (31 - 30.7984) / 8.20449) ^ (-1 / 0.078688))
            (Shape::EtcKeys, 31, 0.37691),
            (Shape::TwitterValues, 100, 0.25),
            (Shape::TwitterValues, 230, 0.5),
        ] {
            let seen = share_below(&drawn(shape), bound);
            assert!((seen - expected).abs() < 0.005, "{shape:?} below {bound}: {seen}");
        }
    }

    #[test]
    fn no_hash_leaves_the_range() {
        for shape in [Shape::EtcValues, Shape::EtcKeys, Shape::TwitterValues] {
            for hash in [0, 1, u64::MAX, u64::MAX - 1, 1 << 63, u64::from(u32::MAX)] {
                let length = shape.of(hash);
                assert!(length <= shape.max(), "{shape:?} {hash}: {length}");
            }
        }
    }

    #[test]
    fn shapes_have_names() {
        for name in ["etc", "etc-keys", "twitter"] {
            assert!(Shape::named(name).is_some(), "{name}");
        }
        assert_eq!(Shape::named("300"), None);
    }
}
