//! Which driver serves: the one place where `auto` is decided, and where one that the system does
//! not allow is replaced.

use crate::config::Driver;

/// What `auto` means: the driver that costs least CPU per request as measured, see
/// `docs/decisions/0005-drivers.md`.
pub const BEST: drivers::Driver = drivers::Driver::Epoll;

/// The driver to serve with where `wanted` is set; says so in the log when it is another.
#[must_use]
pub fn choose(wanted: Driver) -> drivers::Driver {
    match wanted {
        Driver::Auto => BEST,
        Driver::Epoll => drivers::Driver::Epoll,
        Driver::Signal => drivers::Driver::Signal,
        Driver::Threads => drivers::Driver::Threads,
        Driver::Uring => allowed(drivers::probe_uring()),
    }
}

/// The driver that serves where `wanted` is set, as a setting; without a word in the log.
#[must_use]
pub fn serving(wanted: Driver) -> Driver {
    let chosen = match wanted {
        Driver::Uring if drivers::probe_uring().is_err() => drivers::Driver::Epoll,
        Driver::Uring => drivers::Driver::Uring,
        Driver::Auto => BEST,
        Driver::Epoll | Driver::Signal | Driver::Threads => return wanted,
    };
    match chosen {
        drivers::Driver::Epoll => Driver::Epoll,
        drivers::Driver::Signal => Driver::Signal,
        drivers::Driver::Uring => Driver::Uring,
        drivers::Driver::Threads => Driver::Threads,
    }
}

fn allowed(probed: std::io::Result<()>) -> drivers::Driver {
    match probed {
        Ok(()) => drivers::Driver::Uring,
        Err(cause) => {
            tracing::warn!(
                "server.driver uring: the system does not allow io_uring ({cause}); epoll serves \
                 instead. It needs Linux 6.1, kernel.io_uring_disabled = 0 and a container that \
                 lets io_uring_setup, io_uring_enter and io_uring_register pass"
            );
            drivers::Driver::Epoll
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_allowed_is_replaced() {
        let cases = [
            (Ok(()), drivers::Driver::Uring),
            (Err(std::io::ErrorKind::PermissionDenied.into()), drivers::Driver::Epoll),
            (Err(std::io::ErrorKind::Unsupported.into()), drivers::Driver::Epoll),
        ];
        for (probed, expected) in cases {
            assert_eq!(allowed(probed), expected);
        }
        assert_eq!(choose(Driver::Auto), BEST);
    }

    #[test]
    fn what_is_told_is_what_serves() {
        for wanted in [Driver::Auto, Driver::Epoll, Driver::Signal, Driver::Uring, Driver::Threads]
        {
            assert_eq!(choose(serving(wanted)), choose(wanted), "{wanted:?}");
            assert_ne!(serving(wanted), Driver::Auto);
        }
    }
}
