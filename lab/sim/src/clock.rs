//! The clock of one cell: it has its own zero, and runs faster or slower than true time.

use base::Now;

/// The second of the expiry clock at the true time 0. All cells agree on it: the expiry clock of a
/// ring is one.
const EXPIRY_S: u32 = 1_800_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const MILLION: u64 = 1_000_000;

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ns: u64,
    /// Millionths of a second that pass on it in a true second.
    rate: u64,
}

impl Clock {
    /// A clock that shows `offset_ns` at the true time 0, and on which `rate` microseconds pass in
    /// each true second.
    pub(crate) fn new(offset_ns: u64, rate: u64) -> Self {
        Self { offset_ns, rate }
    }

    /// What it shows at the true time `true_ns`.
    pub(crate) fn at(&self, true_ns: u64) -> Now {
        let passed_ns = (u128::from(true_ns) * u128::from(self.rate) / u128::from(MILLION)) as u64;
        let expiry_s = EXPIRY_S + (true_ns / SECOND_NS) as u32;
        Now { mono_ns: self.offset_ns + passed_ns, expiry_s }
    }

    /// The first true time at which it shows `mono_ns` or more.
    pub(crate) fn when(&self, mono_ns: u64) -> u64 {
        let passed_ns = mono_ns.saturating_sub(self.offset_ns);
        let true_ns = (u128::from(passed_ns) * u128::from(MILLION)).div_ceil(self.rate.into());
        u64::try_from(true_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_comes_when_the_clock_shows_it() {
        for rate in [MILLION, 950_000, 1_050_000, 999_999] {
            let clock = Clock::new(5_000, rate);
            for mono_ns in [5_001, 77_777, 123_456_789_012] {
                let true_ns = clock.when(mono_ns);
                assert!(clock.at(true_ns).mono_ns >= mono_ns);
                assert!(clock.at(true_ns - 1).mono_ns < mono_ns);
            }
        }
    }
}
