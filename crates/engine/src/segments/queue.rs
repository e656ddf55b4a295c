//! A queue of segments, linked through their headers: oldest first.
//!
//! Any segment can be removed, and nothing is allocated. The caller holds the lock of the table,
//! and a segment is in one queue at most.

use super::addr::SegmentId;
use super::header::Header;
use crate::sync::Ordering;

/// Neighbour fields hold the number of the segment plus one; zero is the end of the queue.
const END: u32 = 0;

#[derive(Default)]
pub(super) struct Queue {
    first: u32,
    last: u32,
    len: usize,
}

/// How a queue finds the header of a segment.
pub(super) trait Headers {
    fn header(&self, id: SegmentId) -> Header<'_>;
}

fn links(headers: &impl Headers, link: u32) -> (u32, u32) {
    let word = headers.header(SegmentId(link - 1)).links().load(Ordering::Relaxed);
    (word as u32, (word >> 32) as u32)
}

fn set_links(headers: &impl Headers, link: u32, previous: u32, next: u32) {
    let word = u64::from(previous) | u64::from(next) << 32;
    headers.header(SegmentId(link - 1)).links().store(word, Ordering::Relaxed);
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn first(&self) -> Option<SegmentId> {
        (self.first != END).then(|| SegmentId(self.first - 1))
    }

    pub(super) fn push(&mut self, headers: &impl Headers, id: SegmentId) {
        let link = id.0 + 1;
        set_links(headers, link, self.last, END);
        if self.last == END {
            self.first = link;
        } else {
            let (previous, _) = links(headers, self.last);
            set_links(headers, self.last, previous, link);
        }
        self.last = link;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, headers: &impl Headers, id: SegmentId) {
        let link = id.0 + 1;
        let (previous, next) = links(headers, link);
        if previous == END {
            self.first = next;
        } else {
            let (before, _) = links(headers, previous);
            set_links(headers, previous, before, next);
        }
        if next == END {
            self.last = previous;
        } else {
            let (_, after) = links(headers, next);
            set_links(headers, next, previous, after);
        }
        set_links(headers, link, END, END);
        self.len -= 1;
    }
}
