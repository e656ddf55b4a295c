//! What a request has written of a long value before the chain of its key is locked.
//! [`super::long`] writes it.
//!
//! Invariants: between two attempts nothing but `whole` and its chunks is held. An attempt that
//! does not publish what was written counts it dead before its batch ends.

use crate::eviction::{Stopped, Work};
use crate::item::Attributes;
use crate::local::Scratch;
use crate::segments::{Addr, ENTRY_BYTES, SegmentId, Segments};
use base::Version;

/// Attempts to join a value to one that others change meanwhile, before the lock is held for it.
const JOINS_MAX: u32 = 3;

/// In place of the number of joins: the value has arrived piece by piece, and is kept until it is
/// published or given back.
const ARRIVED: u32 = u32::MAX;

/// Chunks of full length that a segment holds.
pub(super) const CHUNKS_PER_SEGMENT: usize = 2;

/// What a request has written of its value while no chain was locked.
#[derive(Default)]
pub(crate) struct Ahead {
    /// Segments that hold nothing but chunks of this value.
    pub(super) whole: Vec<SegmentId>,
    /// The table of its chunks; empty where it has none.
    pub(super) table: Vec<u8>,
    /// Whether the table names all chunks of the value.
    pub(super) is_complete: bool,
    /// Bytes of the table that name chunks in `whole`.
    pub(super) kept_bytes: usize,
    /// The item, if the value lies in one piece, and what it was written with.
    pub(super) item: Option<(Addr, Attributes)>,
    /// Whether an item was published that names what was written, or is it.
    published: bool,
    /// The present value, of which the written one is made, and the version of its item.
    present: Option<(Version, Scratch)>,
    /// How often an attempt has wanted the present value; [`ARRIVED`] where that is of no use.
    wants: u32,
}

impl Ahead {
    /// For a value of `total` bytes that arrives piece by piece, with a table of `table_bytes`.
    pub(super) fn arriving(total: usize, table_bytes: usize) -> Self {
        let mut table = Vec::with_capacity(table_bytes);
        table.extend((total as u64).to_le_bytes());
        Self { kept_bytes: table.len(), table, wants: ARRIVED, ..Self::default() }
    }

    /// Bytes of a table of `chunks` chunks.
    pub(super) fn table_bytes(chunks: usize) -> usize {
        (chunks + 1) * ENTRY_BYTES
    }

    /// Whether the next chunk needs one more segment.
    pub(super) fn needs_segment(&self) -> bool {
        (self.table.len() / ENTRY_BYTES - 1).is_multiple_of(CHUNKS_PER_SEGMENT)
    }

    /// Adds a segment for the next chunks.
    pub(super) fn add_segment(&mut self, id: SegmentId) {
        self.whole.push(id);
    }

    /// The segment of the next chunk.
    pub(super) fn last_segment(&self) -> SegmentId {
        *self.whole.last().expect("a chunk has a segment")
    }

    /// Adds a chunk in the last segment.
    pub(super) fn add_chunk(&mut self, addr: Addr) {
        self.table.extend(addr.0.to_le_bytes());
        self.kept_bytes = self.table.len();
    }

    /// Length of a value that has arrived piece by piece.
    pub(super) fn arrived_bytes(&self) -> Option<usize> {
        let total = u64::from_le_bytes(*self.table.first_chunk()?) as usize;
        self.has_arrived().then_some(total)
    }

    fn has_arrived(&self) -> bool {
        self.wants == ARRIVED
    }

    /// Whether a value that had arrived is published.
    pub(super) fn is_published(&self) -> bool {
        !self.has_arrived()
    }

    /// Gives back the segments of a value that has arrived.
    pub(super) fn give_back_segments(&mut self, segments: &Segments) {
        self.whole.drain(..).for_each(|id| segments.give_back_whole(id));
    }

    /// Whether chunks were written.
    pub(super) fn has_table(&self) -> bool {
        !self.table.is_empty()
    }

    /// The table of the chunks of a value of `total` bytes, if all of them are written.
    pub(super) fn table(&self, total: usize) -> Option<&[u8]> {
        let of = u64::from_le_bytes(*self.table.first_chunk()?);
        let is_complete = self.is_complete || self.has_arrived();
        (is_complete && of == total as u64).then_some(&self.table)
    }

    /// The item that was written with these attributes.
    pub(super) fn item(&self, with: &Attributes) -> Option<Addr> {
        self.item.filter(|(_, written)| written.are_stored_like(with)).map(|(addr, _)| addr)
    }

    /// Whether an attempt has found that it needs the present value before it locks the chain.
    pub(super) fn wants_present(&self) -> bool {
        (1..=JOINS_MAX).contains(&self.wants)
    }

    /// Notes that the present value is needed before the chain is locked, and that the attempt is
    /// to end. False where it was so in [`JOINS_MAX`] attempts already: the item changes so often
    /// that it is to be read under the lock.
    pub(super) fn want_present(&mut self) -> bool {
        self.wants += 1;
        self.wants <= JOINS_MAX + 1
    }

    /// What was written is made from `value`, that of the item with `version`.
    pub(super) fn set_present(&mut self, version: Version, value: Scratch) {
        self.present = Some((version, value));
    }

    /// The present value, if what was written is made from that of the item with `version`. If it
    /// is not, what was written is of no use.
    pub(super) fn take_present(&mut self, version: Version) -> Option<Scratch> {
        self.present.take().filter(|(of, _)| *of == version).map(|(_, value)| value)
    }

    /// An item that was written, or that names the chunks, is published.
    pub(super) fn set_published(&mut self) {
        self.published = true;
    }

    /// Ends an attempt. What was published is handed over to the walkers; what was not, and lies
    /// among the items of others, is counted dead: where space was short, the next attempt needs
    /// the space for that too.
    pub(crate) fn end_attempt<S, T>(
        &mut self,
        work: &mut Work<'_, S>,
        result: Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        let lost = self.release(work);
        match result {
            Err(Stopped::NeedSpace { segments }) if lost > 0 => {
                let again = lost.div_ceil(CHUNKS_PER_SEGMENT) + 1;
                Err(Stopped::NeedSpace { segments: segments + again })
            }
            result => result,
        }
    }

    /// Hands over what was published, or counts dead what lies among the items of others. Returns
    /// how many chunks these were.
    fn release<S>(&mut self, work: &mut Work<'_, S>) -> usize {
        let segments = work.items.segments();
        if self.published {
            for id in self.whole.drain(..) {
                segments.seal_whole(work.pin.grace(), id);
            }
            *self = Self::default();
            return 0;
        }
        if let Some((addr, _)) = self.item.take() {
            let words = segments.item(addr).head().span_words();
            work.items.release_words(work.pin, addr, words);
        }
        // The first entry is the length.
        let from = self.kept_bytes.max(ENTRY_BYTES).min(self.table.len());
        let chunks = self.table[from..].as_chunks().0;
        for entry in chunks {
            work.items.release_chunk(work.pin, Addr(u64::from_le_bytes(*entry)));
        }
        let lost = chunks.len();
        self.table.truncate(self.kept_bytes);
        self.is_complete = false;
        if let Some((_, scratch)) = self.present.take() {
            work.keep(scratch);
        }
        lost
    }

    /// Gives back what no item came to need.
    pub(crate) fn give_back<S>(&mut self, work: &mut Work<'_, S>) {
        let entries = self.table.as_chunks::<ENTRY_BYTES>().0;
        for entry in entries.iter().skip(1) {
            let words = work.items.segments().item(Addr(u64::from_le_bytes(*entry))).head();
            work.pin.counters().item_words.subtract(words.span_words() as u64);
        }
        for id in self.whole.drain(..) {
            work.items.segments().give_back_whole(id);
        }
        *self = Self::default();
    }
}
