//! The longest frame, and the most lanes.

use crate::wire::LENGTH_BYTES;

/// The longest frame of all, in bytes: the longest value that a request can announce, the longest
/// line before it, and what its fields take.
pub const FRAME_BYTES_MAX: usize = (1 << 31) + (1 << 20) + 64;

const _: () = assert!(FRAME_BYTES_MAX - LENGTH_BYTES <= u32::MAX as usize);

/// Most lanes of a cell.
pub const LANES_MAX: u8 = 64;
