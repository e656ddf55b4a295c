//! What a request has written of a long value before the chain of its key is locked.
//! [`super::long`] writes it.
//!
//! Invariants: between two attempts nothing but `whole` and its chunks is held. An attempt that
//! does not publish what was written counts it dead before its batch ends.

use crate::eviction::{Eviction, Failed, Stopped, Work, with_space};
use crate::item::Attributes;
use crate::segments::{Addr, ENTRY_BYTES, SegmentId, Segments};
use base::EffectSink;

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
    /// Whether the value has arrived piece by piece, and is kept until it is published or given
    /// back.
    has_arrived: bool,
}

impl Ahead {
    /// For a value of `total` bytes that arrives piece by piece, with a table of `table_bytes`.
    pub(super) fn arriving(total: usize, table_bytes: usize) -> Self {
        let mut table = Vec::with_capacity(table_bytes);
        table.extend((total as u64).to_le_bytes());
        Self { kept_bytes: table.len(), table, has_arrived: true, ..Self::default() }
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
        self.has_arrived.then(|| self.bytes()).flatten()
    }

    /// Length of the value whose chunks were written.
    pub(super) fn bytes(&self) -> Option<usize> {
        Some(u64::from_le_bytes(*self.table.first_chunk()?) as usize)
    }

    /// The chunks that were written.
    pub(super) fn chunks(&self) -> Vec<Addr> {
        let entries = self.table.as_chunks::<ENTRY_BYTES>().0.iter().skip(1);
        entries.map(|entry| Addr(u64::from_le_bytes(*entry))).collect()
    }

    /// Adds a chunk among the items of others, which is not one of the value. It lasts as long as
    /// the attempt.
    pub(super) fn add_for_attempt(&mut self, addr: Addr) {
        self.table.extend(addr.0.to_le_bytes());
    }

    /// Whether a value that had arrived is published.
    pub(super) fn is_published(&self) -> bool {
        !self.has_arrived
    }

    /// Gives back the segments of a value that has arrived.
    pub(super) fn give_back_segments(&mut self, segments: &Segments) {
        self.whole.drain(..).for_each(|id| segments.give_back_whole(id));
    }

    /// Whether a value in chunks was begun.
    pub(super) fn has_begun(&self) -> bool {
        self.has_table() || !self.whole.is_empty()
    }

    /// Whether chunks were written.
    pub(super) fn has_table(&self) -> bool {
        !self.table.is_empty()
    }

    /// The table of the chunks of a value of `total` bytes, if all of them are written.
    pub(super) fn table(&self, total: usize) -> Option<&[u8]> {
        let is_complete = self.is_complete || self.has_arrived;
        (is_complete && self.bytes()? == total).then_some(&self.table)
    }

    /// The item that was written with these attributes.
    pub(super) fn item(&self, with: &Attributes) -> Option<Addr> {
        self.item.filter(|(_, written)| written.are_stored_like(with)).map(|(addr, _)| addr)
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
        lost
    }

    /// Gives back what no item came to need.
    pub(crate) fn give_back<S>(&mut self, work: &mut Work<'_, S>) {
        for addr in self.chunks() {
            let words = work.items.segments().item(addr).head();
            work.pin.counters().item_words.subtract(words.span_words() as u64);
        }
        for id in self.whole.drain(..) {
            work.items.segments().give_back_whole(id);
        }
        *self = Self::default();
    }
}

/// Runs `attempt`, which may write ahead, until it no longer lacks space, making space in between.
/// What it wrote and no item came to need is given back.
pub(crate) fn with_space_ahead<T, S: EffectSink>(
    eviction: &Eviction,
    work: &mut Work<'_, S>,
    mut attempt: impl FnMut(&mut Work<'_, S>, &mut Ahead) -> Result<T, Stopped>,
) -> Result<T, Failed> {
    let mut ahead = Ahead::default();
    let ended = with_space(eviction, work, |work| {
        let ended = attempt(work, &mut ahead);
        ahead.end_attempt(work, ended)
    });
    ahead.give_back(work);
    ended
}
