//! Why an attempt at a request has stopped, and why the request failed.

use crate::obstacle::Obstacle;
use base::Refused;

/// Why a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// It may be tried again later.
    Later(Obstacle),
    /// Memory is full, and nothing more can be evicted.
    NoSpace,
    /// The sink takes no effect as long as this.
    TooLarge,
}

/// Why an attempt has stopped before it changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Space is short: this many segments must be free before it can succeed.
    NeedSpace { segments: usize },
    /// The budget has no memory for a buffer of this many bytes.
    NeedBuffer { bytes: u64 },
    /// The sink does not take its effect.
    Refused(Refused),
    /// It knows more now: the next one may succeed at once.
    Again,
}

impl Stopped {
    pub(crate) const NEEDS_ONE: Self = Self::NeedSpace { segments: 1 };
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}
