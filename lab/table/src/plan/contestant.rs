//! The servers that are compared: ours under each of its drivers, and a memcached if one is given.
//!
//! A name here is the same in reports, in names of files and after `--driver`. The order is that of
//! the report.

/// The most contestants: four drivers and a memcached.
pub(crate) const CONTESTANTS_MAX: usize = 5;

/// A server that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    /// One event loop over epoll.
    Epoll,
    /// One event loop, woken by real-time signals.
    Signal,
    /// Completions of io_uring.
    Uring,
    /// One blocking thread per client.
    Threads,
    /// The original, with one worker.
    Memcached,
}

/// Our drivers, in the order of the report.
pub(crate) const DRIVERS: [Contestant; 4] =
    [Contestant::Epoll, Contestant::Signal, Contestant::Uring, Contestant::Threads];

impl Contestant {
    /// Its name in reports, in names of files and after `--driver`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Signal => "signal",
            Self::Uring => "uring",
            Self::Threads => "threads",
            Self::Memcached => "memcached",
        }
    }

    /// Whether one thread does all of its work. The threads of the others wait for each other:
    /// those of `threads` by design, those of memcached when one of them does housekeeping.
    pub fn is_one_thread(self) -> bool {
        matches!(self, Self::Epoll | Self::Signal | Self::Uring)
    }

    /// Whether it can be started with a number of workers.
    pub fn has_workers(self) -> bool {
        self != Self::Threads
    }
}

/// All contestants of one report.
pub(crate) fn contestants(with_memcached: bool) -> Vec<Contestant> {
    let original = with_memcached.then_some(Contestant::Memcached);
    DRIVERS.into_iter().chain(original).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memcached_is_a_contestant_if_it_is_given() {
        assert_eq!(contestants(false), DRIVERS);
        assert_eq!(contestants(true).len(), CONTESTANTS_MAX);
        assert!(contestants(true).contains(&Contestant::Memcached));
    }
}
