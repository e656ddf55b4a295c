//! Settings that are one word out of a few.
//!
//! The words are those of the file, the environment and the flags; each value has exactly one.

use super::field::Choice;
use ring::{Durability, Reads};
use tier::Ack;

/// How bytes are moved between sockets and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// The program chooses.
    Auto,
    /// The user chooses this one.
    Fixed(drivers::Driver),
}

impl Choice for Driver {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("epoll", Self::Fixed(drivers::Driver::Epoll)),
        ("signal", Self::Fixed(drivers::Driver::Signal)),
        ("uring", Self::Fixed(drivers::Driver::Uring)),
        ("threads", Self::Fixed(drivers::Driver::Threads)),
    ];
}

/// Whether a cell keeps a log of effects that nobody but itself reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectLog {
    /// It keeps none.
    Off,
    /// It keeps one.
    On,
    /// It keeps one, and replies wait for it.
    Gated,
}

impl Choice for EffectLog {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("on", Self::On), ("gated", Self::Gated)];
}

impl Choice for Ack {
    const NAMES: &'static [(&'static str, Self)] = tier::ACK_NAMES;
}

impl Choice for Durability {
    const NAMES: &'static [(&'static str, Self)] =
        &[("d0", Self::D0), ("d1", Self::D1), ("d2", Self::D2)];
}

impl Choice for Reads {
    const NAMES: &'static [(&'static str, Self)] =
        &[("lease", Self::Lease), ("fence", Self::Fence)];
}

/// How much is logged: each level includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What stops the cell or loses work.
    Error,
    /// What an operator should look at.
    Warn,
    /// Start, stop, and changes of settings.
    Info,
    /// What a developer looks for; nothing is logged at this level in this version.
    Debug,
    /// The same, in more detail.
    Trace,
}

impl Choice for Level {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl Level {
    /// The level for memcached's verbosity `count`, as in `-vv` or `verbosity 2`.
    #[must_use]
    pub fn of_verbosity(count: u64) -> Self {
        match count {
            0 => Self::Warn,
            1 => Self::Info,
            2 => Self::Debug,
            _ => Self::Trace,
        }
    }

    /// The verbosity that memcached would report for this level.
    #[must_use]
    pub fn verbosity(self) -> u64 {
        match self {
            Self::Error | Self::Warn => 0,
            Self::Info => 1,
            Self::Debug => 2,
            Self::Trace => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbosity_and_level_agree() {
        for count in 0..=3 {
            assert_eq!(Level::of_verbosity(count).verbosity(), count);
        }
        assert_eq!(Level::of_verbosity(9), Level::Trace);
    }
}
