//! The one seeded source of numbers, for workloads and for random tests.
//!
//! A run is named by its seed: the same seed gives the same requests on every machine and in every
//! release. So the generator is written here and not taken from a library, which may change it. It
//! is SplitMix64: one addition and one mix per number, full period, ready from the first number.
//! Lanes of one seed are independent, for threads and connections that draw side by side.

/// 2^64 divided by the golden ratio, made odd.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// A bijection of 64-bit numbers that spreads every input bit over all output bits.
#[inline]
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A sequence of numbers that is a function of its seed and lane.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// The sequence of `seed` for `lane`; different lanes are independent.
    ///
    /// ```
    /// use measure::rng::Rng;
    /// assert_eq!(Rng::new(7, 0).next_u64(), Rng::new(7, 0).next_u64());
    /// assert_ne!(Rng::new(7, 0).next_u64(), Rng::new(7, 1).next_u64());
    /// ```
    #[must_use]
    pub fn new(seed: u64, lane: u64) -> Self {
        Self { state: mix(seed.wrapping_add(mix(lane.wrapping_add(STEP)))) }
    }

    /// The next number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number below `bound` and a fraction of 32 bits that is independent of it.
    ///
    /// `bound` stays below 2^32, so the bias of the multiplication is below 2^-32.
    #[inline]
    pub fn below_with_fraction(&mut self, bound: u64) -> (u64, u32) {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        ((product >> 64) as u64, (product >> 32) as u32)
    }

    /// A number below `bound`, which stays below 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        self.below_with_fraction(bound).0
    }

    /// A number in (0, 1], so that its logarithm is finite.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_fixed_for_ever() {
        let mut rng = Rng::new(1, 0);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        let expected = [132316291454871238, 3579482929141750529, 7818441351900543583];
        assert_eq!(first, expected, "a changed generator changes every run that was recorded");
    }

    #[test]
    fn bounds_hold_and_the_spread_is_even() {
        let mut rng = Rng::new(7, 3);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.below(10) as usize] += 1;
            let unit = rng.unit();
            assert!(unit > 0.0 && unit <= 1.0);
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn lanes_differ() {
        assert_ne!(Rng::new(1, 0).next_u64(), Rng::new(1, 1).next_u64());
        assert_ne!(Rng::new(1, 0).next_u64(), Rng::new(2, 0).next_u64());
    }
}
