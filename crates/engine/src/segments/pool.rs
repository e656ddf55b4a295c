//! The two pools of S3-FIFO, which share the segments.

/// Which of the two queues of segments an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Pool {
    /// Where new items prove themselves.
    Small,
    /// Where items live that were requested again.
    Main,
}

/// The small pool's part of all segments while memory fills for the first time, in percent.
pub(crate) const SMALL_PERCENT_FIRST: u64 = 10;

/// How many [`Pool`]s there are.
pub(crate) const POOLS: usize = 2;
