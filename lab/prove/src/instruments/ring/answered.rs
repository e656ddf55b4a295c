//! How one request of a client of a ring has ended.

use serde::{Deserialize, Serialize};

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Answered, as it should be.
    Well,
    /// The server says that a change may or may not have been made.
    InDoubt,
    /// The server says that nothing was done.
    Refused,
    /// The connection was closed, or nothing was answered in time.
    Closed,
    /// A read does not show a change that was acknowledged.
    Lost,
    /// A read shows an item that was deleted.
    Resurrected,
    /// A read shows what was never written, or something that is no reply.
    Wrong,
}

/// One request. Times are by the clock that processes share.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    /// When it was sent.
    pub sent_ns: u64,
    /// When it had ended.
    pub done_ns: u64,
    /// How.
    pub ended: Ended,
}

impl Ended {
    /// What the line of an error means.
    pub fn of_error(line: &str) -> Self {
        if line.starts_with("SERVER_ERROR in doubt") {
            Self::InDoubt
        } else if line.starts_with("SERVER_ERROR") {
            Self::Refused
        } else {
            Self::Wrong
        }
    }

    /// Whether it is a promise broken, and not a request that failed.
    pub fn is_false(self) -> bool {
        matches!(self, Self::Lost | Self::Resurrected | Self::Wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_distinguished_by_their_words() {
        for (line, expected) in [
            ("SERVER_ERROR in doubt: the link to cell 2 has broken", Ended::InDoubt),
            ("SERVER_ERROR range 1 cannot be served: no cell leads it", Ended::Refused),
            ("ERROR", Ended::Wrong),
            ("NOT_STORED", Ended::Wrong),
        ] {
            assert_eq!(Ended::of_error(line), expected, "{line}");
        }
    }
}
