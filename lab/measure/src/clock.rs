//! The clock that all processes of this machine share, so that what two of them saw can be joined.
//!
//! It is the kernel's monotonic clock, in nanoseconds; `Instant` is made of the same one.

use rustix::time::{ClockId, clock_gettime};

/// The time now.
#[must_use]
pub fn mono_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_go_back() {
        let first = mono_ns();
        assert!(first > 0 && mono_ns() >= first);
    }
}
