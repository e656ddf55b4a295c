//! The time in which the process runs.
//!
//! A cell that was stopped for a while finds, once it runs again, that others have not answered for
//! so long. They could not: it has not read what they said.

use base::Now;

/// A keeper that is called so much later than it should be was stopped.
const STOPPED_NS: u64 = 100_000_000;

/// The time in which the process runs, as its keeper sees it.
#[derive(Default)]
pub(crate) struct Awake {
    /// When it is to be called at the latest; 0: that is not known.
    due_ns: u64,
    /// For how long it was stopped, all together.
    stopped_ns: u64,
}

impl Awake {
    /// It waits for `wait_ns` now, at most.
    pub(crate) fn waits(&mut self, now: Now, wait_ns: u64) {
        self.due_ns = now.mono_ns.saturating_add(wait_ns);
    }

    /// It is called `now`. Returns the time without that in which it was stopped.
    pub(crate) fn time(&mut self, now: Now) -> Now {
        let late_ns = now.mono_ns.saturating_sub(self.due_ns);
        if self.due_ns != 0 && late_ns >= STOPPED_NS {
            self.stopped_ns += late_ns;
        }
        self.due_ns = 0;
        self.at(now)
    }

    /// The same at `now`, of a call that goes on.
    pub(crate) fn at(&self, now: Now) -> Now {
        Now { mono_ns: now.mono_ns.saturating_sub(self.stopped_ns), ..now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_stands_while_the_process_is_stopped() {
        let mut awake = Awake::default();
        let at = |mono_ns| Now { mono_ns, expiry_s: 1 };
        assert_eq!(awake.time(at(9_000_000_000)), at(9_000_000_000), "nothing is known");
        awake.waits(at(9_000_000_000), 1_000_000_000);
        assert_eq!(awake.time(at(9_500_000_000)), at(9_500_000_000), "it was woken");
        awake.waits(at(9_500_000_000), 1_000_000_000);
        let late_ns = 10_500_000_000 + STOPPED_NS - 1;
        assert_eq!(awake.time(at(late_ns)), at(late_ns), "it is busy");
        awake.waits(at(20_000_000_000), 1_000_000);
        assert_eq!(awake.time(at(25_001_000_000)), at(20_001_000_000), "it was stopped");
        assert_eq!(awake.at(at(25_001_000_001)), at(20_001_000_001));
        assert_eq!(awake.time(at(30_000_000_000)), at(25_000_000_000), "it has not waited since");
    }
}
