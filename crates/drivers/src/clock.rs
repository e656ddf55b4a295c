//! The only clock of the server. It is read once per wake-up; everything else is told.
//!
//! Both parts of [`Now`] come from one reading of the monotonic clock, so expiry time never goes
//! back, and a change of the wall clock after the start changes nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Now;

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// Tells the time of one cell. Copies tell the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// A moment when the wall clock showed a full second, which spares a division per reading.
    origin: Instant,
    /// That second, since 1970.
    origin_s: u64,
}

impl Clock {
    /// A clock set by the wall clock, now.
    #[must_use]
    pub fn new() -> Self {
        let now = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let fraction = Duration::from_nanos(wall.subsec_nanos().into());
        Self { origin: now.checked_sub(fraction).unwrap_or(now), origin_s: wall.as_secs() }
    }

    /// The present moment.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Now {
        let since = self.origin.elapsed();
        let mono_ns = since.as_secs() * SECOND_NS + u64::from(since.subsec_nanos());
        Now { mono_ns, expiry_s: (self.origin_s + since.as_secs()) as u32 }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_the_wall_and_never_goes_back() {
        let clock = Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let first = clock.now();
        assert!(u64::from(first.expiry_s).abs_diff(wall) <= 2);
        let second = clock.now();
        assert!(second.mono_ns >= first.mono_ns && second.expiry_s >= first.expiry_s);
    }
}
