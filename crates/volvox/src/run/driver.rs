//! Which driver serves, and why.
//!
//! This file alone decides what `auto` means, and what serves where the system refuses io_uring.
//! The choice is made once, before anything listens, and does not change while the cell runs.

use std::io;

use crate::config::{Choice, Driver, Origin};

/// What `auto` means; `docs/decisions/0005-drivers.md` has the measurements.
pub const BEST: drivers::Driver = drivers::Driver::Epoll;

/// The driver that serves.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// The driver.
    pub driver: drivers::Driver,
    /// Why it is this one.
    pub reason: String,
    /// What an operator must know, if another driver was requested.
    pub warning: Option<String>,
}

impl Chosen {
    /// The driver to serve with where `origin` requests `wanted`. Tries io_uring if requested.
    #[must_use]
    pub fn new(wanted: Driver, origin: &Origin) -> Self {
        let probe = match wanted {
            Driver::Fixed(drivers::Driver::Uring) => drivers::probe_uring(),
            _ => Ok(()),
        };
        Self::probed(wanted, origin, probe)
    }

    fn probed(wanted: Driver, origin: &Origin, probe: io::Result<()>) -> Self {
        let (driver, reason, warning) = match (wanted, probe) {
            (Driver::Auto, _) => (BEST, "auto: runs on every Linux".to_owned(), None),
            (Driver::Fixed(driver), Ok(())) => (driver, origin.to_string(), None),
            (Driver::Fixed(_), Err(cause)) => (
                drivers::Driver::Epoll,
                format!("{origin} requests uring, which this system refuses"),
                Some(format!(
                    "server.driver uring: the system refuses io_uring ({cause}); epoll serves \
                     instead. io_uring needs Linux 6.1, kernel.io_uring_disabled = 0 and a \
                     container that allows io_uring_setup, io_uring_enter and io_uring_register"
                )),
            ),
        };
        Self { driver, reason, warning }
    }

    /// Its name, as in the setting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        Driver::Fixed(self.driver).name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_refuses_is_replaced() {
        let uring = Driver::Fixed(drivers::Driver::Uring);
        let flag = Origin::Flag("--driver".to_owned());
        let refused = "flag --driver requests uring, which this system refuses";
        let cases = [
            (Driver::Auto, Ok(()), "epoll", "auto: runs on every Linux"),
            (Driver::Fixed(drivers::Driver::Threads), Ok(()), "threads", "flag --driver"),
            (uring, Ok(()), "uring", "flag --driver"),
            (uring, Err(io::ErrorKind::PermissionDenied.into()), "epoll", refused),
            (uring, Err(io::ErrorKind::Unsupported.into()), "epoll", refused),
        ];
        for (wanted, probe, name, reason) in cases {
            let replaced = probe.is_err();
            let chosen = Chosen::probed(wanted, &flag, probe);
            assert_eq!((chosen.name(), chosen.reason.as_str()), (name, reason));
            assert_eq!(chosen.warning.is_some(), replaced, "{wanted:?}");
        }
        assert_eq!(Chosen::new(Driver::Auto, &flag).driver, BEST);
    }
}
