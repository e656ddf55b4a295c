//! How a journal is laid out: the length of its segments, and how many there are.

use super::lane::{BATCH_BYTES_MAX, CHECKPOINT_BYTES_MAX};

/// A segment is at most this long.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// A lane has at least this many segments.
const SEGMENTS_PER_LANE: u64 = 16;

/// Bytes besides the value in a batch with one change, or more.
const BESIDES_VALUE: u64 = 64 << 10;

/// How a journal is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of a segment.
    pub(crate) segment: u32,
    /// Most segments.
    pub(crate) count: usize,
    /// Bytes of the longest batch of changes.
    pub(crate) batch: u32,
}

impl Layout {
    /// The layout of a journal of `bytes`, for this number of lanes and such longest values. The
    /// error is the least number of bytes that is enough.
    pub(crate) fn of(bytes: u64, lanes: usize, value_bytes_max: u64) -> Result<Self, u64> {
        let lanes = lanes as u64;
        let one = value_bytes_max + BESIDES_VALUE;
        // The checkpoint that it begins with, that of a flush of all, or of the beginning, and two
        // of the longest values, with what stands beside them.
        let least = 2 * CHECKPOINT_BYTES_MAX as u64 + 2 * one;
        let segment = (bytes / lanes / SEGMENTS_PER_LANE).min(SEGMENT_BYTES_MAX);
        if segment < least {
            return Err(least * lanes * SEGMENTS_PER_LANE);
        }
        let segment = segment / 4096 * 4096;
        let batch = one.max(BATCH_BYTES_MAX as u64).min(segment) as u32;
        Ok(Self { segment: segment as u32, count: (bytes / segment) as usize, batch })
    }
}
