//! The clocks of a machine: a monotonic one, which has its own zero and runs faster or slower than
//! true time, and one on the wall, which may be wrong.

/// The second of the wall clocks that are right at the true time 0.
const EXPIRY_S: u64 = 1_800_000_000;
pub(crate) const SECOND_NS: u64 = 1_000_000_000;
const MILLION: u64 = 1_000_000;

/// The clocks of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    offset_ns: u64,
    /// Millionths of a second that pass on it in a true second.
    rate: u64,
    /// By how many seconds the wall clock is wrong.
    wrong_s: i64,
}

impl Clock {
    /// A clock that shows `offset_ns` at the true time 0, and on which `rate` microseconds pass in
    /// each true second. The wall clock is wrong by `wrong_s`.
    pub(crate) fn new(offset_ns: u64, rate: u64, wrong_s: i64) -> Self {
        Self { offset_ns, rate, wrong_s }
    }

    /// It jumps ahead by an hour.
    pub(crate) fn jump(&mut self) {
        self.offset_ns += 3_600 * SECOND_NS;
    }

    /// The latest second that any cell of the ring may follow at the true time `true_ns`, where the
    /// founder's clock is wrong by `wrong_s` and no clock has jumped.
    pub(crate) fn latest_s(founder: &Self, true_ns: u64) -> u64 {
        founder.wall_ns(true_ns + true_ns / 16) / SECOND_NS + 2
    }

    /// What it shows at the true time `true_ns`.
    pub(crate) fn mono_ns(&self, true_ns: u64) -> u64 {
        let passed_ns = (u128::from(true_ns) * u128::from(self.rate) / u128::from(MILLION)) as u64;
        self.offset_ns + passed_ns
    }

    /// What the wall clock shows then, in nanoseconds since 1970.
    pub(crate) fn wall_ns(&self, true_ns: u64) -> u64 {
        EXPIRY_S.saturating_add_signed(self.wrong_s) * SECOND_NS + true_ns
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
            let clock = Clock::new(5_000, rate, 0);
            for mono_ns in [5_001, 77_777, 123_456_789_012] {
                let true_ns = clock.when(mono_ns);
                assert!(clock.mono_ns(true_ns) >= mono_ns);
                assert!(clock.mono_ns(true_ns - 1) < mono_ns);
            }
        }
    }
}
