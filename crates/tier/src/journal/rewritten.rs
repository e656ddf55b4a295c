//! Records that were written once more: a start takes them in where they lay before.
//!
//! ```text
//! segment   4: set K | 5: remove K | 6: set K, once more, of 4 | END
//! taken in  4, 6, 5: the removal is the later one
//! ```
//!
//! A lane keeps its order anyway. But in a ring the changes of a slice lie in two: those that were
//! copied, and those that were led since.

use super::format::{BATCH_HEAD_BYTES, BatchHead, Kind, Spot};
use super::identity::{RecoverError, disk};
use super::scan::Headed;
use crate::disk::File;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A batch of them.
pub(super) struct Rewritten {
    /// Where they lay before.
    origin: Spot,
    /// The start that has written them once more, and its lane.
    pub(super) of: (u32, u32),
    /// Where they are now.
    pub(super) at: Spot,
    payload: u32,
    /// The file.
    pub(super) name: String,
    file: Arc<dyn File>,
}

impl Rewritten {
    /// A batch at an offset of a segment, if it is one.
    pub(super) fn found(segment: &Headed, offset: usize, head: &BatchHead) -> Option<Self> {
        let origin = head.origin.filter(|_| head.kind == Kind::Records)?;
        Some(Self {
            origin,
            of: (segment.head.start, head.lane.into()),
            at: Spot { segment: segment.head.number, offset: offset as u32 },
            payload: head.payload,
            name: segment.name.clone(),
            file: segment.file.clone(),
        })
    }

    /// The records.
    pub(super) fn payload(&self) -> Result<Vec<u8>, RecoverError> {
        let mut payload = vec![0; self.payload as usize];
        let offset = u64::from(self.at.offset) + BATCH_HEAD_BYTES as u64;
        self.file.read_at(offset, &mut payload).map_err(disk(self.name.clone()))?;
        Ok(payload)
    }
}

/// All that count, in the order in which they are taken in.
#[derive(Default)]
pub(super) struct AllRewritten(BTreeMap<(Spot, Spot), Rewritten>);

impl AllRewritten {
    /// Those that count up to the `cuts` of their lanes.
    pub(super) fn new(all: Vec<Rewritten>, cuts: &BTreeMap<(u32, u32), Spot>) -> Self {
        let counts = |it: &Rewritten| cuts.get(&it.of).is_none_or(|cut| it.at < *cut);
        Self(all.into_iter().filter(counts).map(|it| ((it.origin, it.at), it)).collect())
    }

    /// The next one of those that lay in segments before `number`.
    pub(super) fn next_before(&mut self, number: u32) -> Option<Rewritten> {
        let first = self.0.first_entry()?;
        (first.get().origin.segment < number).then(|| first.remove())
    }
}
