//! What a thread has taken of the processors, and what it was kept from.
//!
//! A generator that waits for a core measures its own waiting as the server's latency. The kernel
//! counts that wait, so it can be told apart from idleness.

use std::ops::Sub;

use rustix::time::{ClockId, clock_gettime};

/// Times of one thread since it began, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// On a core.
    pub cpu_ns: u64,
    /// Ready to run, with no core given to it; 0 where the kernel does not count.
    pub starved_ns: u64,
}

impl Usage {
    /// Of the calling thread, until now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Self { cpu_ns, starved_ns: starved_ns(&schedstat).unwrap_or(0) }
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            starved_ns: self.starved_ns.saturating_sub(earlier.starved_ns),
        }
    }
}

/// The second of three numbers: time on a core, time waiting for one, turns.
fn starved_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_and_never_negative() {
        let first = Usage::now();
        assert!(first.cpu_ns > 0);
        assert_eq!(first - Usage::now(), Usage { cpu_ns: 0, starved_ns: 0 });
        assert_eq!(starved_ns("123 456 7\n"), Some(456));
        assert_eq!(starved_ns(""), None);
    }
}
