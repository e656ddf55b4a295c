//! What a thread has taken of the processors, and what it was kept from.
//!
//! A generator that waits for a core measures its own wait as latency of the server. The kernel
//! counts that wait, which distinguishes it from idleness. Time that the hypervisor takes is in no
//! thread's account; the machine's account has it. Times are nanoseconds.

use rustix::time::{ClockId, clock_gettime};

use measure::account::machine::stolen_ns;
use measure::account::process::Account;

/// CPU time of the calling thread.
#[inline]
pub(super) fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Times of one thread, and those that the hypervisor took from all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// On a core.
    pub cpu_ns: u64,
    /// Ready to run, without a core; 0 where the kernel does not count it.
    pub starved_ns: u64,
    /// Taken by the hypervisor; 0 where it does not say.
    pub stolen_ns: u64,
}

impl Usage {
    /// Of the calling thread, until now.
    pub fn now() -> Self {
        let starved_ns = Account::of_this_thread().waited_ns;
        Self { cpu_ns: cpu_ns(), starved_ns, stolen_ns: stolen_ns() }
    }

    /// What came after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            starved_ns: self.starved_ns.saturating_sub(earlier.starved_ns),
            stolen_ns: self.stolen_ns.saturating_sub(earlier.stolen_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_and_never_negative() {
        let first = Usage::now();
        assert!(first.cpu_ns > 0);
        assert_eq!(first.since(Usage::now()), Usage::default());
    }
}
