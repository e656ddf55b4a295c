//! What a cell asks of the coordinator, and what can come of it.
//!
//! A proposal has three outcomes, and they are kept apart. A verdict is certain. `Unavailable` is
//! certain too: the command was not applied and never will be. `Unknown` is neither, and no read
//! settles it, because a command that is on its way can still be applied after the read. The
//! proposer settles it by a command of its own about the same range, such as `Command::Settle`.

use crate::disk::DiskFailure;
use ring::{Command, Map, Verdict};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long a call takes at most.
pub const DEADLINE: Duration = Duration::from_secs(2);

/// How many calls of one cell are under way at once; further ones wait.
pub const CALLS_MAX: usize = 256;

/// What came of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command was compared with the map, and applied or refused.
    Verdict(Verdict),
    /// It may have been applied, or be applied later, or never.
    Unknown,
    /// It was not applied and will not be.
    Unavailable(Unavailable),
}

impl Outcome {
    /// Whether the command is known to have been applied.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Verdict(Verdict::Applied { .. }))
    }
}

/// Why the coordinator cannot do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// No leader was found before the deadline, or none that could reach more than half of the
    /// voters.
    NoLeader,
    /// The deadline passed before this cell had applied what it was to read.
    Behind,
    /// [`CALLS_MAX`] calls of this cell were under way until the deadline.
    Busy,
    /// This cell is being stopped.
    Stopped,
    /// This cell could not write, so it takes no part any more.
    Storage(DiskFailure),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLeader => {
                write!(f, "no leader within {DEADLINE:?}: more than half of the voters must run")
            }
            Self::Behind => write!(f, "the map did not arrive within {DEADLINE:?}: ask again"),
            Self::Busy => {
                write!(f, "{CALLS_MAX} calls were under way for {DEADLINE:?}: ask less often")
            }
            Self::Stopped => f.write_str("this cell is being stopped"),
            Self::Storage(failure) => failure.fmt(f),
        }
    }
}

/// The one place where the map of a ring changes.
pub trait Coordinator: Send + Sync + 'static {
    /// Proposes a command. Ends within [`DEADLINE`].
    fn propose(&self, command: Command) -> impl Future<Output = Outcome> + Send;

    /// The map with all commands that were applied before this call. Ends within [`DEADLINE`].
    fn read(&self) -> impl Future<Output = Result<Arc<Map>, Unavailable>> + Send;

    /// The newest map that this cell has. Its version never falls; versions may be skipped by a
    /// receiver that does not look at each.
    fn watch(&self) -> watch::Receiver<Arc<Map>>;
}
