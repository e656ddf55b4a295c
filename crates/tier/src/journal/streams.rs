//! How far a start has read each lane of each earlier one.

use super::format::{BATCH_HEAD_BYTES, BatchHead, Spot};
use std::collections::VecDeque;

/// A batch that may not be durable.
pub(super) struct Open {
    last: u64,
    pub(super) at: Spot,
    pub(super) payload: u32,
    /// Where it lay before anything was written once more.
    pub(super) origin: Spot,
}

/// How far one lane of one start has been read.
#[derive(Default)]
pub(super) struct Stream {
    /// The next position; 0 before the first batch.
    pub(super) next: u64,
    durable: u64,
    pub(super) open: VecDeque<Open>,
    /// The end of what counts.
    pub(super) end: Spot,
    /// The position that is missing, where the lane has ended before its last batch.
    pub(super) missing: Option<u64>,
}

impl Stream {
    /// A lane of which nothing counts that stands at `spot` or after it.
    pub(super) fn at(spot: Spot) -> Self {
        Self { end: spot, ..Self::default() }
    }

    /// The next batch of records stands at `at`.
    pub(super) fn push(&mut self, at: Spot, head: &BatchHead) {
        self.next = head.first + u64::from(head.span);
        self.durable = self.durable.max(head.durable);
        let origin = head.origin.unwrap_or(at);
        self.open.push_back(Open { last: self.next - 1, at, payload: head.payload, origin });
        while let Some(open) = self.open.pop_front_if(|open| open.last <= self.durable) {
            let offset = open.at.offset + BATCH_HEAD_BYTES as u32 + open.payload;
            self.end = Spot { offset, ..open.at };
        }
    }
}
