//! Why an engine could not be made. A message names the value, the limit and the remedy.

use crate::config::LIMIT_BYTES_MIN;
use std::fmt;

/// Why an engine could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The limit is below [`LIMIT_BYTES_MIN`].
    LimitTooLow {
        /// The limit that was requested.
        limit_bytes: u64,
    },
    /// The budget has too little left for the fixed parts.
    BudgetTooSmall {
        /// What they need.
        needed_bytes: u64,
    },
    /// The kernel refused address space.
    Reserve(std::io::Error),
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LimitTooLow { limit_bytes } => write!(
                f,
                "a memory limit of {limit_bytes} bytes is too low: give at least {LIMIT_BYTES_MIN}"
            ),
            Self::BudgetTooSmall { needed_bytes } => write!(
                f,
                "the budget has no {needed_bytes} bytes for the index: raise the memory limit"
            ),
            Self::Reserve(error) => write!(
                f,
                "address space for the pool was refused ({error}): lower the memory limit, \
                 or raise the limit of the process (ulimit -v)"
            ),
        }
    }
}

impl std::error::Error for EngineError {}
