//! Segments: equal pieces of the pool, filled from the front, evicted as a whole.
//!
//! ```text
//! uncommitted -> free -> open -> sealed -> draining -> limbo -> free
//!                                                         \-> uncommitted (memory given back)
//! ```
//!
//! * open: items are carved off its end, without a lock, by whoever writes;
//! * sealed: full, in the queue of its pool, oldest first;
//! * draining: one walker looks at each item and moves or drops it;
//! * limbo: nothing points into it, but a batch that began earlier may still read it.
//!
//! There is deliberately no edge from draining back to sealed. What is carved is written before
//! the batch ends, so a sealed segment may be walked once the epoch of its sealing has passed.

mod header;
mod queue;
mod reuse;
mod table;

pub(crate) use reuse::Victim;
pub(crate) use table::{Census, Purpose, Segments, Stream};

use crate::config::Geometry;

/// Number of a segment, counted from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentId(pub(crate) u32);

/// Place of an item: words from the start of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addr(pub(crate) u64);

impl Addr {
    /// The segment it lies in.
    #[inline]
    pub(crate) fn segment(self, geometry: &Geometry) -> SegmentId {
        SegmentId((self.0 >> geometry.segment_shift) as u32)
    }
}

/// The two queues of S3-FIFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Pool {
    /// Where new items prove themselves.
    Small,
    /// Where items live that were asked for again.
    Main,
}

/// The small pool's part of all segments while memory fills for the first time, in percent.
pub(crate) const SMALL_PERCENT_FIRST: u64 = 10;

/// How many [`Pool`]s there are.
pub(crate) const POOLS: usize = 2;
