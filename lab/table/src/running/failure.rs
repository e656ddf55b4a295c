//! Why a measurement has no figures.
//!
//! Its text becomes the reason in the finding, so it names what was seen and what helps. Only a
//! disturbance is worth another attempt.

use std::fmt;

use measure::Error;

/// The end of a measurement without figures.
#[derive(Debug)]
pub(super) enum Failure {
    /// No reply was wrong, but there is no figure: the machine stood still, or other programs used
    /// all of it. The text says what was seen.
    Disturbed(String),
    /// A server could not be used, or the generator could not run.
    Broken(Error),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disturbed(seen) => write!(
                f,
                "{seen}: the machine stood still, or other programs used all of it; measure again \
                 when it is idle"
            ),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}
