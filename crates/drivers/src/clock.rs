//! The only clock of the server. A worker reads it once per wake-up and passes the time on.
//!
//! Both parts of [`Now`] come from one reading of the monotonic clock, so the expiry second never
//! goes back, and a change of the wall clock after the start changes nothing. In a ring the second
//! is that of the ring: [`Clock::expiry`] sets it.
//!
//! Units: `mono_ns` is nanoseconds of the monotonic clock since the machine was started, so that an
//! earlier process of the cell has no later time. `expiry_s` is seconds since 1970.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{ExpiryClock, Now};
use nix::time::{ClockId, clock_gettime};
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
#[derive(Clone, Debug)]
pub struct Clock {
    /// When the monotonic clock showed 0.
    origin: Instant,
    expiry: Arc<ExpiryClock>,
}

impl Clock {
    /// A clock set by the wall clock, now.
    #[must_use]
    pub fn new() -> Self {
        let (now, since) = (Instant::now(), clock_gettime(ClockId::CLOCK_MONOTONIC));
        let since = since.map_or(Duration::ZERO, Duration::from);
        let origin = now.checked_sub(since).unwrap_or(now);
        let expiry = ExpiryClock::new(Self::wall_ns(), mono_ns(now, origin));
        Self { origin, expiry: Arc::new(expiry) }
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Now {
        self.at(Instant::now())
    }

    /// What gives the expiry second.
    #[must_use]
    pub fn expiry(&self) -> &Arc<ExpiryClock> {
        &self.expiry
    }

    /// What the wall clock shows now, in nanoseconds since 1970.
    #[must_use]
    pub fn wall_ns() -> u64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX)
    }

    #[inline]
    fn at(&self, instant: Instant) -> Now {
        self.expiry.at(mono_ns(instant, self.origin))
    }
}

#[inline]
fn mono_ns(instant: Instant, origin: Instant) -> u64 {
    let since = instant.saturating_duration_since(origin);
    since.as_secs() * SECOND_NS + u64::from(since.subsec_nanos())
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
        Self { step_at: clock.origin, clock }
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
        let mut coarse = CoarseClock::new(clock.clone());
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
