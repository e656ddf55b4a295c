//! The two pools of S3-FIFO and the copies of other cells' items, which share the segments.

/// Which of the queues of segments an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Pool {
    /// Where new items prove themselves.
    Small,
    /// Where items live that were requested again.
    Main,
    /// Items of slices of which this cell keeps a copy: nothing of it is ever evicted.
    Copies,
}

/// The small pool's part of all segments while memory fills for the first time, in percent.
pub(crate) const SMALL_PERCENT_FIRST: u64 = 10;

/// How many [`Pool`]s items are evicted from: the first ones.
pub(crate) const POOLS: usize = 2;

/// How many [`Pool`]s there are, each with a queue.
pub(crate) const QUEUES: usize = 3;
