//! The items that the engine holds: segments, index and versions as one.
//!
//! What all paths share stands here: a key is found under the lock of its chain, an item is judged
//! alive or dead, and an item is taken out. Nothing here makes space, and nothing decides what a
//! request does: `reading`, `writing` and `eviction` do that, each with these parts.
//!
//! A change is prepared, committed, published: what it needs is made where no reader sees it, the
//! sink takes the effect and stamps it, and then the change is made. Until the commit nothing has
//! changed and everything may fail; after it nothing can.
//!
//! Invariants:
//! * an item is linked by exactly one slot, and its chunks (if any) by exactly one table;
//! * an item whose slot is emptied or pointed elsewhere is counted dead in its segment, so
//!   `items` and `item_words` of the counters are what a walk of the index would find;
//! * every change is committed under the lock of the chain that it changes.
//!
//! Lengths of items are in words of eight bytes.

use crate::config::EngineConfig;
use crate::index::{Chain, Index, Place, Slot};
use crate::item::{Flags, Head, ItemRef, expired};
use crate::keys::{HashKey, Key};
use crate::local::{Counters, LocalCounters, Pin};
use crate::raw::slice_of;
use crate::segments::{Addr, ENTRY_BYTES, Segments, append_chunks, chunks, whole_value_bytes};
use crate::slices::Slices;
use base::{
    Change, Effect, EffectSink, KeyId, Now, Refused, Removal, SliceId, StoredValue, Version,
};
use std::sync::Arc;

/// All items, and what finds, orders and counts them.
pub(crate) struct Items {
    config: EngineConfig,
    hash_key: HashKey,
    segments: Segments,
    index: Index,
    slices: Slices,
    counters: Vec<Arc<LocalCounters>>,
}

impl Items {
    pub(crate) fn new(
        config: EngineConfig,
        segments: Segments,
        index: Index,
        counters: Vec<Arc<LocalCounters>>,
    ) -> Self {
        Self {
            hash_key: HashKey::new(config.hash_seed),
            segments,
            index,
            slices: Slices::new(config.epoch, config.version_seed),
            counters,
            config,
        }
    }

    #[inline(always)]
    pub(crate) fn config(&self) -> &EngineConfig {
        &self.config
    }

    #[inline(always)]
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    #[inline(always)]
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    #[inline(always)]
    pub(crate) fn slices(&self) -> &Slices {
        &self.slices
    }

    /// The sums of the counters of all locals.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in &self.counters {
            sum.add(counters);
        }
        // What one local removed may be counted before what another added.
        for held in [&mut sum.items, &mut sum.item_words] {
            *held = held.cast_signed().max(0).cast_unsigned();
        }
        sum
    }

    /// `bytes` as a key.
    #[inline(always)]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let id = KeyId { slice: slice_of(bytes), hash: self.hash_key.hash(bytes) };
        Key { id, bytes }
    }

    /// Whether an item counts as present.
    #[inline(always)]
    pub(crate) fn alive(&self, item: ItemRef<'_>, head: Head, slice: SliceId, now: Now) -> bool {
        item.version() > self.slices.barrier(slice) && !expired(item.expiry_s(head), now)
    }

    /// The item of `key` in a locked chain, dead or alive.
    pub(crate) fn find(&self, chain: &Chain<'_>, key: &Key<'_>) -> Option<Current<'_>> {
        let place = chain.find(key.id.hash, |addr| {
            let item = self.segments.item(addr);
            item.head().key_bytes() == key.bytes.len() && item.key_is(key.bytes)
        })?;
        Some(self.current(chain, place))
    }

    /// What the item slot at `place` points to.
    pub(crate) fn current(&self, chain: &Chain<'_>, place: Place) -> Current<'_> {
        let slot = chain.get(place);
        let item = self.segments.item(slot.addr());
        Current { place, slot, addr: slot.addr(), item, head: item.head() }
    }

    /// Takes an item out of the index, and counts its words as dead.
    ///
    /// # Errors
    /// When the sink does not take the removal. The item stays.
    pub(crate) fn remove<S: EffectSink>(
        &self,
        pin: &Pin,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: &Current<'_>,
        removal: Removal,
        sink: &mut S,
    ) -> Result<(), Refused> {
        if S::ON {
            self.commit(key, Change::Remove(removal), Version::ZERO, sink)?;
        }
        chain.set(current.place, Slot::EMPTY);
        self.index.resizing(key.id.slice).count_removed();
        self.release(pin, current);
        let counters = pin.counters();
        counters.items.subtract(1);
        let unread = u64::from(!current.head.is(Flags::FETCHED));
        match removal {
            Removal::Deleted => {}
            Removal::Evicted => {
                counters.evicted.add(1);
                counters.evicted_unread.add(unread);
            }
            Removal::Expired => {
                counters.expired.add(1);
                counters.expired_unread.add(unread);
            }
        }
        Ok(())
    }

    /// Counts the words at `addr`, of one item or one chunk, as dead.
    pub(crate) fn release_words(&self, pin: &Pin, addr: Addr, words: usize) {
        self.segments.add_dead(addr, words);
        pin.counters().item_words.subtract(words as u64);
    }

    /// Counts the words of an item, and of its chunks, as dead.
    pub(crate) fn release(&self, pin: &Pin, current: &Current<'_>) {
        self.release_words(pin, current.addr, current.head.span_words());
        if current.head.is(Flags::LARGE) {
            for addr in chunks(current.item, current.head) {
                self.release_chunk(pin, addr);
            }
        }
    }

    /// Counts the words of a chunk as dead.
    pub(crate) fn release_chunk(&self, pin: &Pin, addr: Addr) {
        self.release_words(pin, addr, self.segments.item(addr).head().span_words());
    }

    /// Appends the whole value of an item whose chain is locked.
    pub(crate) fn append_whole(&self, item: ItemRef<'_>, head: Head, target: &mut Vec<u8>) {
        if head.is(Flags::LARGE) {
            let whole = append_chunks(&self.segments, item, head, target);
            assert!(whole, "chunks of a locked item are in place");
        } else {
            item.append_value(head, &[], target);
        }
    }

    /// Commits a change that is made from the item of version `base`, if that is not zero: the sink
    /// takes its effect, and it gets its version. Nothing can fail from here on.
    ///
    /// # Errors
    /// When the sink does not take the effect, or a flush has ended the item that the change is
    /// made from. Nothing has changed then.
    #[inline(always)]
    pub(crate) fn commit<S: EffectSink>(
        &self,
        key: &Key<'_>,
        change: Change<'_>,
        base: Version,
        sink: &mut S,
    ) -> Result<Version, Refused> {
        let (slice, slices) = (key.id.slice, &self.slices);
        sink.commit(key.id, &Effect { key: key.bytes, change }, move || {
            let version = slices.next(slice);
            if slices.is_cut(slice, base) { Err(Refused::Flushed) } else { Ok(version) }
        })
    }
}

/// An item found under the lock of its chain. True until the lock is released.
#[derive(Clone, Copy)]
pub(crate) struct Current<'e> {
    pub(crate) place: Place,
    pub(crate) slot: Slot,
    pub(crate) addr: Addr,
    pub(crate) item: ItemRef<'e>,
    pub(crate) head: Head,
}

/// The value of an item whose chain is locked, for a sink to copy.
pub(crate) struct WholeValue<'e> {
    pub(crate) items: &'e Items,
    pub(crate) item: ItemRef<'e>,
    pub(crate) head: Head,
}

impl StoredValue for WholeValue<'_> {
    fn bytes(&self) -> usize {
        whole_value_bytes(self.item, self.head)
    }

    fn append_to(&self, target: &mut Vec<u8>) {
        self.items.append_whole(self.item, self.head, target);
    }
}

/// A value in chunks that is not published yet, for a sink to copy.
pub(crate) struct ValueInChunks<'e> {
    pub(crate) items: &'e Items,
    /// Its length and its chunks, as its item will hold them.
    pub(crate) table: &'e [u8],
}

impl StoredValue for ValueInChunks<'_> {
    fn bytes(&self) -> usize {
        u64::from_le_bytes(*self.table.first_chunk().expect("a table has a length")) as usize
    }

    fn append_to(&self, target: &mut Vec<u8>) {
        for entry in self.table.as_chunks::<ENTRY_BYTES>().0.iter().skip(1) {
            let chunk = self.items.segments.item(Addr(u64::from_le_bytes(*entry)));
            chunk.append_value(chunk.head(), &[], target);
        }
    }
}
