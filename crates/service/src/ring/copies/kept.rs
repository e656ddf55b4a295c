//! The latest entries of one lane of a primary, as far as another of its copies may lack them.
//!
//! A primary that ends may have sent an entry to one copy and not to the other. The one that has
//! it keeps its bytes until the primary says that the others have it too.
//!
//! ```text
//! position   1 ............ from ........................ last
//!              all have it       kept, frame by frame
//! ```
//!
//! Invariant: every entry that was taken after `from` is kept. Where there is no room, all is
//! dropped, and `from` rises: so what is missing is known.

use base::{Grant, MemoryBudget, Owner};
use effects::{Record, Records};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The part of the limit on memory that is held for entries of all lanes.
const PART: u64 = 32;

/// The room for kept entries of all lanes of a cell.
#[derive(Default)]
pub(crate) struct KeptRoom {
    grant: OnceLock<Grant>,
    used: AtomicU64,
}

impl KeptRoom {
    /// Takes the memory out of `budget`, if that is not done yet. Without it nothing is kept.
    pub(crate) fn open(&self, budget: &MemoryBudget) {
        if self.grant.get().is_none()
            && let Some(grant) = budget.take(Owner::Links, budget.total() / PART)
        {
            let _ = self.grant.set(grant);
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let total = self.grant.get().map_or(0, Grant::bytes);
        let add = |used: u64| Some(used + bytes).filter(|used| *used <= total);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }
}

/// The records of one frame.
struct Kept {
    first: u64,
    last: u64,
    records: Box<[u8]>,
}

/// The kept entries of one lane.
pub(crate) struct KeptEntries {
    room: Arc<KeptRoom>,
    from: u64,
    frames: VecDeque<Kept>,
}

impl KeptEntries {
    /// Nothing is kept yet, and nothing was taken after `from`.
    pub(crate) fn new(from: u64, room: Arc<KeptRoom>) -> Self {
        Self { room, from, frames: VecDeque::new() }
    }

    /// The position after which every entry that was taken is kept.
    pub(crate) fn from(&self) -> u64 {
        self.from
    }

    /// Entries `first` to `last` have come. The other copies have applied all up to `others_have`.
    /// The same entries may come again.
    pub(crate) fn take(&mut self, (first, last): (u64, u64), records: &[u8], others_have: u64) {
        self.others_have(others_have);
        if last <= others_have {
            self.from = self.from.max(last);
            return;
        }
        if last <= self.from || self.frames.back().is_some_and(|kept| kept.last >= last) {
            return;
        }
        if self.room.take(records.len() as u64) {
            self.frames.push_back(Kept { first, last, records: records.into() });
        } else {
            self.drop_all();
            self.from = last;
        }
    }

    /// The other copies have applied all up to `position`.
    pub(crate) fn others_have(&mut self, position: u64) {
        while let Some(kept) = self.frames.pop_front_if(|kept| kept.last <= position) {
            self.drops(&kept);
        }
    }

    /// Drops everything.
    pub(crate) fn drop_all(&mut self) {
        while let Some(kept) = self.frames.pop_front() {
            self.drops(&kept);
        }
    }

    fn drops(&mut self, kept: &Kept) {
        self.from = self.from.max(kept.last);
        self.room.used.fetch_sub(kept.records.len() as u64, Ordering::Relaxed);
    }

    /// The kept entries up to `last`, in their order. An entry may come twice: of frames that
    /// overlap.
    pub(crate) fn records(&self, last: u64) -> impl Iterator<Item = Record<'_>> {
        let records = self.frames.iter().flat_map(|kept| Records::new(kept.first, &kept.records));
        records.filter_map(Result::ok).filter(move |record| record.position <= last)
    }
}

impl Drop for KeptEntries {
    fn drop(&mut self) {
        self.drop_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use effects::Entry;

    fn room(bytes: u64) -> Arc<KeptRoom> {
        let room = Arc::new(KeptRoom::default());
        room.open(&MemoryBudget::new(bytes * PART));
        room
    }

    /// As many entries, of one byte each.
    fn records(count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..count).for_each(|_| Entry::Skipped.encode(&mut bytes));
        bytes
    }

    fn kept(entries: &KeptEntries) -> (u64, Vec<u64>) {
        let positions = entries.records(u64::MAX).map(|record| record.position);
        (entries.from(), positions.collect())
    }

    #[test]
    fn what_the_others_have_is_dropped_and_the_rest_is_kept() {
        let mut entries = KeptEntries::new(4, room(1 << 20));
        let mut take = |first, last, others_have| {
            entries.take((first, last), &records(last + 1 - first), others_have);
            kept(&entries)
        };
        assert_eq!(take(5, 6, 4), (4, vec![5, 6]));
        assert_eq!(take(5, 6, 4), (4, vec![5, 6]), "once, though they come again");
        assert_eq!(take(7, 7, 5), (4, vec![5, 6, 7]), "a frame is kept as a whole");
        assert_eq!(take(8, 9, 6), (6, vec![7, 8, 9]));
        assert_eq!(take(10, 10, u64::MAX), (10, vec![]), "there is no other");
        let up_to: Vec<_> = entries.records(8).map(|record| record.position).collect();
        assert!(up_to.is_empty());
    }

    #[test]
    fn without_room_it_is_known_what_is_missing() {
        let one = records(1).len() as u64;
        let room = room(3 * one);
        let mut entries = KeptEntries::new(0, room.clone());
        entries.take((1, 3), &records(3), 0);
        entries.take((4, 4), &records(1), 0);
        assert_eq!(kept(&entries), (4, vec![]));
        entries.take((5, 6), &records(2), 0);
        assert_eq!(kept(&entries), (4, vec![5, 6]));
        drop(entries);
        assert_eq!(room.used.load(Ordering::Relaxed), 0);
    }
}
