//! What a connection to another cell is for.

use ring::CellId;

/// What a connection to another cell is for, as the number of an order says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Requests to that cell.
    Asks(CellId),
    /// The log of a lane to that cell.
    Streams(CellId, u8),
    /// It has called.
    Called,
}

impl Role {
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Asks(cell) => u64::from(cell.0),
            Self::Streams(cell, lane) => 1 << 40 | u64::from(lane) << 32 | u64::from(cell.0),
            Self::Called => 2 << 40,
        }
    }

    pub(crate) fn of(number: u64) -> Self {
        let cell = CellId(number as u32);
        match number >> 40 {
            0 => Self::Asks(cell),
            1 => Self::Streams(cell, (number >> 32) as u8),
            _ => Self::Called,
        }
    }
}
