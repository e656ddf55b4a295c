//! The only clock of the server. A worker reads it once per wake-up and passes the time on.
//!
//! Both parts of [`Now`] come from one reading of the monotonic clock, so the expiry second never
//! goes back, and a change of the wall clock after the start changes nothing.
//!
//! Units: `mono_ns` is nanoseconds of the monotonic clock since about the start, `expiry_s` seconds
//! since 1970.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Now;
use rustix::event::Timespec;

/// How old the time of a [`CoarseClock`] may be.
const STEP: Duration = Duration::from_millis(1);

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// The time of one cell. Copies give the same time.
///
/// ```
/// let clock = drivers::Clock::new();
/// let first = clock.now();
/// assert!(clock.now().mono_ns >= first.mono_ns);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// A moment when the wall clock showed a full second, so that no reading needs a division.
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
    #[must_use]
    pub fn now(&self) -> Now {
        self.at(Instant::now())
    }

    fn at(&self, instant: Instant) -> Now {
        let since = instant.saturating_duration_since(self.origin);
        let mono_ns = since.as_secs() * SECOND_NS + u64::from(since.subsec_nanos());
        Now { mono_ns, expiry_s: (self.origin_s + since.as_secs()) as u32 }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// Whole seconds of the monotonic clock.
#[inline]
pub(crate) fn seconds(now: Now) -> u32 {
    (now.mono_ns / SECOND_NS) as u32
}

/// A span of time as the system takes it.
pub(crate) fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / SECOND_NS) as i64, tv_nsec: (ns % SECOND_NS) as i64 }
}

/// A clock that advances in steps of a millisecond, for a caller that reads it at every event.
///
/// Whether a step is due is one comparison with what the system returns. To compute a [`Now`] from
/// that takes several times as long as to ask for it.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    clock: Clock,
    step_at: Instant,
}

impl CoarseClock {
    /// A coarse clock set by `clock`, whose first step is due.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, step_at: clock.origin }
    }

    /// The present moment, if a step was due.
    #[inline]
    pub(crate) fn step(&mut self) -> Option<Now> {
        let instant = Instant::now();
        (instant >= self.step_at).then(|| self.step_to(instant))
    }

    #[cold]
    fn step_to(&mut self, instant: Instant) -> Now {
        self.step_at = instant + STEP;
        self.clock.at(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_clock_advances_when_a_step_is_due() {
        let clock = Clock::new();
        let mut coarse = CoarseClock::new(clock);
        let first = coarse.step().expect("the first step is due");
        coarse.step_at = Instant::now() + Duration::from_secs(3600);
        assert_eq!(coarse.step(), None);
        coarse.step_at = Instant::now();
        let second = coarse.step().expect("due");
        assert!(second.mono_ns >= first.mono_ns && clock.now().mono_ns >= second.mono_ns);
    }

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
