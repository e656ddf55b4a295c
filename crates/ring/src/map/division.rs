//! How a range is to be divided.

use crate::ids::CellId;
use serde::{Deserialize, Serialize};

/// How a range is to be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Division {
    /// The first slice of the new range, which ends where the old one has ended.
    pub slice: u16,
    /// Who is to lead the new range, and to replace a copy of the old one.
    pub cell: CellId,
}
