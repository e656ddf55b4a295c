//! How a cell leaves its ring while it runs.

use serde::{Deserialize, Serialize};

/// How a cell leaves its ring while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaving {
    /// Its ranges become one with their neighbours. Otherwise they stay as they are, and come back
    /// to it once it has started again.
    pub is_absorbed: bool,
    /// It leaves also where no other cell can take its place as a copy.
    pub is_forced: bool,
}
