//! Who is measured: our cell under each of its drivers, and a memcached where one is given.

/// The most contestants: four drivers and a memcached.
pub(crate) const CONTESTANTS_MAX: usize = 5;

/// A server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Contestant {
    /// One event loop over epoll.
    Epoll,
    /// One event loop woken by real-time signals.
    Signal,
    /// Completions of io_uring.
    Uring,
    /// A thread per client, blocking.
    Threads,
    /// The original, one worker.
    Memcached,
}

/// Our drivers, in the order of the report.
pub(crate) const DRIVERS: [Contestant; 4] =
    [Contestant::Epoll, Contestant::Signal, Contestant::Uring, Contestant::Threads];

impl Contestant {
    /// As reports, files and `--driver` name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::Signal => "signal",
            Self::Uring => "uring",
            Self::Threads => "threads",
            Self::Memcached => "memcached",
        }
    }

    /// Whether one thread does all of it: others wait for threads of their own, by design or, at
    /// memcached, for housekeeping.
    pub fn is_one_thread(self) -> bool {
        matches!(self, Self::Epoll | Self::Signal | Self::Uring)
    }

    /// Whether a number of workers means something to it.
    pub fn has_workers(self) -> bool {
        self != Self::Threads
    }
}

/// Everybody who takes part.
pub(crate) fn contestants(with_memcached: bool) -> Vec<Contestant> {
    let original = with_memcached.then_some(Contestant::Memcached);
    DRIVERS.into_iter().chain(original).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memcached_takes_part_where_it_is_given() {
        assert_eq!(contestants(false), DRIVERS);
        assert_eq!(contestants(true).len(), CONTESTANTS_MAX);
        assert!(contestants(true).contains(&Contestant::Memcached));
    }
}
