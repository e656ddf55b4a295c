//! What the copies of what a cell leads are to know of what it has written back.

use super::cell::RingCell;
use super::copies::WRITTEN_BACK_KIND;
use effects::{LANES_MAX, WorkerSink};
use std::collections::VecDeque;
use std::sync::Arc;
use tier::{WrittenBack, encode_written_back};

/// Bytes of an entry that says what was written back, at most, but for the last key.
const ENTRY_BYTES: usize = 4 << 10;

/// Lets the copies of what this cell leads know what was written back.
pub struct WrittenBackEntries {
    ring: Arc<RingCell>,
    sink: WorkerSink,
    /// What no log has taken yet: that of one round of the flusher.
    waiting: VecDeque<WrittenBack>,
}

impl WrittenBackEntries {
    /// For the thread that writes back, above a tier.
    #[must_use]
    pub fn new(ring: Arc<RingCell>) -> Self {
        let sink = WorkerSink::new(ring.log.lanes.clone());
        Self { ring, sink, waiting: VecDeque::new() }
    }

    /// Appends what was written back since the last time. False while a log does not take all of
    /// it: nothing more should be written back then.
    pub fn append(&mut self) -> bool {
        let Some(member) = self.ring.below() else { return true };
        self.waiting.extend(member.take_written_back());
        let mut appended = [false; LANES_MAX];
        while let Some(first) = self.waiting.front() {
            let lane = self.ring.log.lanes.lane_of(first.slice);
            let (mut bytes, mut count) = (Vec::new(), 0);
            for WrittenBack { slice, key, version } in &self.waiting {
                if self.ring.log.lanes.lane_of(*slice) != lane || bytes.len() >= ENTRY_BYTES {
                    break;
                }
                encode_written_back(key, *version, &mut bytes);
                count += 1;
            }
            if self.sink.other(lane, WRITTEN_BACK_KIND, &bytes, false).is_err() {
                break;
            }
            appended[lane.index()] = true;
            self.waiting.drain(..count);
        }
        self.sink.end_batch();
        let lanes = appended.iter().enumerate().filter(|(_, appended)| **appended);
        lanes.for_each(|(lane, _)| self.ring.mail_appended(lane));
        self.waiting.is_empty()
    }
}
