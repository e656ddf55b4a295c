//! The moment of a call, and the second that expiry times are compared with.
//!
//! The drivers and the binary read clocks; all other crates receive [`Now`] as an argument and
//! never read a clock. So a test sets the time. All requests of a batch see the same one, but in a
//! ring, where [`ExpiryClock::of_request`] may give a later second.
//!
//! Units: nanoseconds and seconds, as the names of the fields say. Neither clock goes back.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Two clocks, read together once per batch of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds of a monotonic clock. Where it starts is not defined: only differences count.
    pub mono_ns: u64,
    /// Seconds since 1970 on the one clock of the ring, or of the cell that is in none, that expiry
    /// times are compared with. It never goes back, even if the wall clock does.
    pub expiry_s: u32,
}

/// The expiry clock of a cell: it follows the monotonic clock, from a second that was set once.
///
/// ```text
/// own second  = (monotonic clock + ahead) / 1 s     what this cell says to others
/// shown       = min(own second, ceiling)            what a batch begins with
/// executed    = min(max(shown, any before), ceiling) what a request of a ring is executed at
/// ```
///
/// Invariants: after [`ExpiryClock::take`] no second goes back, and the ceiling is a second that
/// has begun here. A cell that is in no ring never calls it, and shows its own second.
#[derive(Debug)]
pub struct ExpiryClock {
    /// How far the clock is ahead of the monotonic one.
    ahead_ns: AtomicU64,
    ceiling_s: AtomicU32,
    /// The latest second with which a batch has come, since the process began.
    batch_s: AtomicU32,
}

impl ExpiryClock {
    /// A clock that shows `unix_ns`, nanoseconds since 1970, when the monotonic clock shows
    /// `mono_ns`.
    #[must_use]
    pub fn new(unix_ns: u64, mono_ns: u64) -> Self {
        let ahead_ns = AtomicU64::new(unix_ns.saturating_sub(mono_ns));
        Self { ahead_ns, ceiling_s: AtomicU32::new(u32::MAX), batch_s: AtomicU32::new(0) }
    }

    /// The moment of requests.
    #[inline]
    #[must_use]
    pub fn at(&self, mono_ns: u64) -> Now {
        let expiry_s = self.own_s(mono_ns).min(self.ceiling_s.load(Ordering::Relaxed));
        Now { mono_ns, expiry_s }
    }

    /// The moment at which to execute a request of a batch that began at `now`. Its second is not
    /// earlier than that of any request before it.
    ///
    /// A worker takes the time once for a batch. One that was stopped receives more in that batch
    /// when others have long answered in a later second; what has expired for their clients stays
    /// expired for its own. A client that was shown something, and asks again, finds that second
    /// stored here: the store comes before the reply, the load after the question. A batch that
    /// began before the time of the ring was taken goes by that time, too.
    #[inline]
    #[must_use]
    pub fn of_request(&self, now: Now) -> Now {
        let latest_s = self.batch_s.load(Ordering::Relaxed);
        if now.expiry_s > latest_s {
            self.batch_s.fetch_max(now.expiry_s, Ordering::Relaxed);
        }
        let ceiling_s = self.ceiling_s.load(Ordering::Relaxed);
        Now { expiry_s: now.expiry_s.max(latest_s).min(ceiling_s), ..now }
    }

    /// The second of this cell, whether or not it may be shown.
    #[inline]
    #[must_use]
    pub fn own_s(&self, mono_ns: u64) -> u32 {
        ((mono_ns + self.ahead_ns.load(Ordering::Relaxed)) / SECOND_NS) as u32
    }

    /// Takes `second` as the time of the ring, which begins now. Only before anything is served.
    pub fn take(&self, second: u32, mono_ns: u64) {
        self.ahead_ns.store(Self::ahead(second, mono_ns), Ordering::Relaxed);
        self.ceiling_s.store(second, Ordering::Relaxed);
    }

    /// Sets the clock to `second`, which begins now: for a cell that is in no ring, before anything
    /// is served.
    pub fn set(&self, second: u32, mono_ns: u64) {
        self.ahead_ns.store(Self::ahead(second, mono_ns), Ordering::Relaxed);
    }

    /// `second` has begun in the ring: it has here, too. One that is past changes nothing.
    pub fn follow(&self, second: u32, mono_ns: u64) {
        self.ahead_ns.fetch_max(Self::ahead(second, mono_ns), Ordering::Relaxed);
    }

    /// Requests may be shown `second`, once it has begun.
    pub fn raise(&self, second: u32) {
        self.ceiling_s.fetch_max(second, Ordering::Relaxed);
    }

    fn ahead(second: u32, mono_ns: u64) -> u64 {
        (u64::from(second) * SECOND_NS).saturating_sub(mono_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_NS;

    #[test]
    fn a_cell_in_no_ring_counts_from_where_it_was_set() {
        let clock = ExpiryClock::new(1_000 * S + S / 2, 7 * S);
        let seconds = [7 * S, 7 * S + S / 2 - 1, 7 * S + S / 2, 10 * S].map(|at| clock.at(at));
        assert_eq!(seconds.map(|now| now.expiry_s), [1_000, 1_000, 1_001, 1_003]);
        assert_eq!(seconds[3].mono_ns, 10 * S);
    }

    #[test]
    fn a_request_is_executed_in_no_earlier_second_than_one_before_it_and_in_none_above_the_ceiling()
    {
        let clock = ExpiryClock::new(5_000 * S, 0);
        let second = |expiry_s| clock.of_request(Now { mono_ns: 7, expiry_s }).expiry_s;
        assert_eq!([5_000, 5_002, 5_001].map(second), [5_000, 5_002, 5_002]);
        // The time of the ring is taken; one batch has begun before.
        clock.take(1_000, 8 * S);
        assert_eq!([5_003, 1_000].map(second), [1_000, 1_000]);
        clock.raise(1_001);
        assert_eq!(second(1_000), 1_001);
    }

    #[test]
    fn the_second_of_the_ring_is_taken_whole_and_followed_forward_only() {
        let clock = ExpiryClock::new(5_000 * S, 7 * S);
        clock.take(1_000, 8 * S);
        assert_eq!((clock.own_s(8 * S), clock.own_s(9 * S - 1)), (1_000, 1_000));
        // A second that has begun elsewhere begins here: what was left of the one before is lost,
        // not added to what comes.
        clock.follow(1_001, 8 * S + 9 * S / 10);
        assert_eq!(clock.own_s(8 * S + 9 * S / 10), 1_001);
        assert_eq!(clock.own_s(9 * S + 9 * S / 10 - 1), 1_001);
        clock.follow(1_000, 8 * S + 9 * S / 10);
        assert_eq!(clock.own_s(9 * S + 9 * S / 10), 1_002);
    }

    #[test]
    fn requests_are_shown_no_second_that_may_not_be_shown() {
        let clock = ExpiryClock::new(5_000 * S, 0);
        assert_eq!(clock.at(3 * S).expiry_s, 5_003, "no ring, no ceiling");
        clock.take(1_000, 0);
        assert_eq!((clock.at(3 * S).expiry_s, clock.own_s(3 * S)), (1_000, 1_003));
        clock.raise(1_002);
        clock.raise(1_001);
        assert_eq!(clock.at(3 * S).expiry_s, 1_002);
        clock.raise(1_009);
        assert_eq!(clock.at(3 * S).expiry_s, 1_003);
    }
}
