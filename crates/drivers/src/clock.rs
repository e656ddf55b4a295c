//! The only clock of the server. It is read once per wake-up; everything else is told.
//!
//! Both parts of [`Now`] come from one reading of the monotonic clock, so expiry time never goes
//! back, and a change of the wall clock after the start changes nothing.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Now;

/// How far the time of a [`CoarseClock`] may be behind the clock.
const STEP: Duration = Duration::from_millis(1);

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

/// A clock whose hand goes in steps of a millisecond, for whoever looks at every event.
///
/// Whether a step is due is one comparison with what the system says; to turn that into a
/// [`Now`] takes several times as long as to ask for it.
#[derive(Debug)]
pub(crate) struct CoarseClock {
    clock: Clock,
    step_at: Instant,
}

impl CoarseClock {
    /// A watch set by `clock`, whose first step is due.
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
    fn a_watch_goes_when_a_step_is_due() {
        let clock = Clock::new();
        let mut watch = CoarseClock::new(clock);
        let first = watch.step().expect("the first step is due");
        watch.step_at = Instant::now() + Duration::from_secs(3600);
        assert_eq!(watch.step(), None);
        watch.step_at = Instant::now();
        let second = watch.step().expect("due");
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
