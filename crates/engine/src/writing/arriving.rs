//! A long value that is stored piece by piece, while it arrives.
//!
//! ```text
//! begin    the memory of the whole value is promised to it: see `segments/holds.rs`
//! write    each piece goes into chunks in segments that belong to the value alone
//! store    the operation is decided, and an item published that names the chunks
//! ```
//!
//! No walker sees these segments, so they stay between batches, and while space is made. Every
//! chunk lies in them, also the last one: up to one segment stays partly unused.
//!
//! Invariant: the value holds its segments until [`Arriving::store`] publishes it, or
//! [`Arriving::give_back`]; its promise until [`Arriving::give_back`].

use super::ahead::{Ahead, CHUNKS_PER_SEGMENT};
use super::change::write;
use super::long::look;
use super::op::{Op, WriteResult};
use crate::eviction::{Eviction, Failed, Stopped, Work, with_space};
use crate::item::{Attributes, Flags, Head, class};
use crate::items::Items;
use crate::keys::Key;
use crate::obstacle::Obstacle;
use crate::segments::{Addr, Admission, OWNER_BYTES, Pool, admit, dismiss, owner_name};
use base::{EffectSink, Grant, Owner};

/// A value that is stored piece by piece.
/// [`Engine::give_back_value`](crate::Engine::give_back_value) ends it.
#[must_use = "its memory is held until it is given back"]
pub struct Arriving {
    name: [u8; OWNER_BYTES],
    pool: Pool,
    expiry_s: u32,
    total: usize,
    /// Bytes that were written.
    at: usize,
    /// The chunk that is being written.
    chunk: Option<(Addr, Head)>,
    /// Words of all chunks so far.
    words: usize,
    ahead: Ahead,
    /// The segments that were promised, while the promise holds.
    promised: Option<u64>,
    /// For the list of the chunks.
    _grant: Grant,
}

impl Arriving {
    /// Begins a value of `total` bytes for `key`, which expires at `expiry_s`.
    pub(crate) fn begin<S: EffectSink>(
        eviction: &Eviction,
        work: &mut Work<'_, S>,
        key: &Key<'_>,
        total: usize,
        expiry_s: u32,
    ) -> Result<Self, Failed> {
        let segments = work.items.segments();
        let chunks = total.div_ceil(segments.geometry().inline_value_bytes_max);
        let table_bytes = Ahead::table_bytes(chunks);
        let grant = with_space(eviction, work, |work| {
            let (budget, bytes) = (work.items.segments().budget(), table_bytes as u64);
            budget.take(Owner::Connections, bytes).ok_or(Stopped::NeedBuffer { bytes })
        })?;
        let promised = chunks.div_ceil(CHUNKS_PER_SEGMENT) as u64;
        match admit(segments, promised, total as u64) {
            Admission::Granted => {}
            Admission::Later => return Err(Failed::Later(Obstacle::Memory)),
            Admission::Never => return Err(Failed::NoSpace),
        }
        let looked = with_space(eviction, work, |work| look(work, key));
        if looked.is_err() {
            dismiss(segments, promised, total as u64);
        }
        Ok(Self {
            name: owner_name(key.id),
            pool: looked?.chunks_pool,
            expiry_s,
            total,
            at: 0,
            chunk: None,
            words: 0,
            ahead: Ahead::arriving(total, table_bytes),
            promised: Some(promised),
            _grant: grant,
        })
    }

    /// Its length.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.total
    }

    /// Its expiry second; 0 if it never expires.
    #[must_use]
    pub fn expiry_s(&self) -> u32 {
        self.expiry_s
    }

    /// Writes `piece`. With an error comes how much of it was written.
    pub(crate) fn write<S: EffectSink>(
        &mut self,
        eviction: &Eviction,
        work: &mut Work<'_, S>,
        piece: &[u8],
    ) -> Result<(), (usize, Failed)> {
        let items = work.items;
        let chunk_bytes = items.segments().geometry().inline_value_bytes_max;
        assert!(self.at + piece.len() <= self.total, "a value has the length that was announced");
        let mut done = 0;
        while done < piece.len() {
            let from = self.at % chunk_bytes;
            if from == 0 {
                self.begin_chunk(eviction, work).map_err(|failed| (done, failed))?;
            }
            let (addr, head) = self.chunk.expect("a chunk was begun");
            let len = (chunk_bytes - from).min(piece.len() - done);
            items.segments().item(addr).write_value_at(head, from, &piece[done..done + len]);
            (self.at, done) = (self.at + len, done + len);
        }
        Ok(())
    }

    fn begin_chunk<S: EffectSink>(
        &mut self,
        eviction: &Eviction,
        work: &mut Work<'_, S>,
    ) -> Result<(), Failed> {
        let segments = work.items.segments();
        let len = (self.total - self.at).min(segments.geometry().inline_value_bytes_max);
        if self.ahead.needs_segment() {
            let class = class(self.expiry_s, work.now, || segments.classes());
            let pool = self.pool;
            let id = with_space(eviction, work, |work| {
                work.items.segments().take_whole(pool, class).ok_or(Stopped::NEEDS_ONE)
            })?;
            self.ahead.add_segment(id);
        }
        let with = Attributes { flags: Flags::CHUNK, ..Attributes::default() };
        let head = with.head(OWNER_BYTES, len);
        let words = head.used_words();
        let addr = segments.allocate_in(self.ahead.last_segment(), words);
        let addr = addr.expect("a segment has space for its chunks");
        segments.item(addr).write(head, &self.name, &with, [&[], &[]]);
        segments.header_of(addr).note_expiry(self.expiry_s);
        self.ahead.add_chunk(addr);
        self.chunk = Some((addr, head));
        self.words += words;
        *work.pin.debt_words() += words;
        Ok(())
    }

    /// Carries out `op`, which stores it; all of it was written. Unless the result is to be tried
    /// again later, [`Arriving::give_back`] follows.
    pub(crate) fn store<S: EffectSink>(
        &mut self,
        eviction: &Eviction,
        work: &mut Work<'_, S>,
        op: &Op<'_>,
    ) -> WriteResult {
        assert!(!S::ON, "an effect has the value in one piece");
        assert_eq!(self.at, self.total, "all of the value has arrived");
        let words = self.words as u64;
        work.pin.counters().item_words.add(words);
        let wrote = write(eviction, work, op, &mut self.ahead);
        if !self.ahead.is_published() {
            work.pin.counters().item_words.subtract(words);
        }
        wrote.unwrap_or_else(WriteResult::failed)
    }

    /// Gives back the memory of a value that was not published, and the promise.
    pub(crate) fn give_back(mut self, items: &Items) {
        self.ahead.give_back_segments(items.segments());
        if let Some(count) = self.promised.take() {
            dismiss(items.segments(), count, self.total as u64);
        }
    }
}
