//! One key under change, and everything that takes part in it.
//!
//! A [`Writer`] puts an item where it belongs and emits what it did. It does not decide what to
//! store: `change`, `fetch` and `transfer` do. A value that fits where the old one lies is written
//! over it. Any other gets new space, is written there while no reader can see it, and is published
//! by one store to its slot.
//!
//! Invariants:
//! * a chain is locked before the item is looked for, and until the change is stamped;
//! * where space is short nothing has changed but what a dead item left: the caller releases the
//!   lock, makes space and starts over;
//! * whatever took space adds it to `debt_words`, which the caller pays for by evicting.

use super::in_place;
use crate::effects::{Change, EffectSink, Removal};
use crate::eviction::{NeedSpace, Work};
use crate::index::{Chain, FREQ_MAX, Slot};
use crate::item::{Attributes, Flags, Head, ItemRef, class, expired};
use crate::items::Current;
use crate::keys::{KEY_BYTES_MAX, Key};
use crate::segments::{
    Addr, ENTRY_BYTES, OWNER_BYTES, Pool, Purpose, Stream, cut, note_expiry_of_chunks, owner_name,
    segments_for,
};
use base::Version;
use std::borrow::Cow;

/// Changes the item of one key.
pub(crate) struct Writer<'w, 'e, S> {
    pub(super) work: &'w mut Work<'e, S>,
    pub(super) key: &'w Key<'w>,
}

/// An item about to be written.
struct Draft<'a> {
    head: Head,
    with: Attributes,
    value: [&'a [u8]; 2],
    /// A table that names the chunks of the item it replaces.
    same_chunks: bool,
}

impl<'w, 'e, S: EffectSink> Writer<'w, 'e, S> {
    pub(crate) fn new(work: &'w mut Work<'e, S>, key: &'w Key<'w>) -> Self {
        Self { work, key }
    }

    /// Locks the chain of the key.
    pub(crate) fn lock(&self) -> Result<Chain<'e>, NeedSpace> {
        self.work.items.index().lock(self.work.pin.grace(), self.key.id).ok_or(NeedSpace::ONE)
    }

    /// The item of the key if it is alive. A dead one is removed.
    pub(super) fn find_alive(&mut self, chain: &mut Chain<'_>) -> Option<Current<'e>> {
        let current = self.work.items.find(chain, self.key)?;
        if self.work.items.alive(current.item, current.head, self.key.id.slice, self.work.now) {
            return Some(current);
        }
        self.remove(chain, &current, Removal::Expired);
        None
    }

    /// Takes the item out of the index, and counts its words as dead.
    pub(crate) fn remove(
        &mut self,
        chain: &mut Chain<'_>,
        current: &Current<'_>,
        removal: Removal,
    ) {
        self.work.items.remove(self.work.pin, chain, self.key, current, removal, self.work.sink);
    }

    /// Gives a change its version, and emits it if the sink listens.
    fn emit(&mut self, change: Change<'_>) -> Version {
        self.work.items.emit(self.key, change, self.work.sink)
    }

    /// Stores a value for the key, over `current` or as a new item, and returns the item. A long
    /// value is written in chunks first, which no reader can see yet, and stored as their table.
    pub(crate) fn put(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<Current<'e>, NeedSpace> {
        let geometry = self.work.items.segments().geometry();
        let value_bytes = value[0].len() + value[1].len();
        let is_large = value_bytes > geometry.inline_value_bytes_max;
        let table = if is_large {
            let segment =
                current.as_ref().map(|old| self.work.items.segments().header_of(old.addr));
            let pool = segment.map_or(Pool::Small, |segment| segment.pool());
            self.write_chunks(pool, with.expiry_s, value)?
        } else {
            Vec::new()
        };
        let flags = with.flags.without(Flags::LARGE).with_if(is_large, Flags::LARGE);
        let with = Attributes { flags, ..*with };
        let stored = if is_large { [&table[..], &[]] } else { value };
        let head = self.head(&with, stored[0].len() + stored[1].len());
        let draft = Draft { head, with, value: stored, same_chunks: false };
        let current = match self.place(chain, current, &draft) {
            Ok(current) => current,
            Err(_) if is_large => return Err(self.release_chunks(&table, value_bytes)),
            Err(need) => return Err(need),
        };
        self.emit_put(&current, &with, value);
        Ok(current)
    }

    /// Gives an item its version. If a flush came after the value that it is made from was read, it
    /// gets the version of that value, so that it is dead too.
    fn stamp(&self, item: ItemRef<'_>, version: Version, base: Version) {
        let cut = self.work.items.slices().is_cut(self.key.id.slice, base);
        item.set_version(if cut { base } else { version });
    }

    /// Rewrites an item with other attributes and the same value.
    pub(crate) fn rewrite(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        with: &Attributes,
    ) -> Result<Current<'e>, NeedSpace> {
        let version = current.item.version();
        let mut value = self.work.pin.take_scratch();
        current.item.append_value(current.head, &[], &mut value);
        let head = self.head(with, value.len());
        let same_chunks = head.is(Flags::LARGE);
        let draft = Draft { head, with: *with, value: [&value, &[]], same_chunks };
        let placed = self.place(chain, Some(current), &draft);
        self.work.pin.keep_scratch(value);
        let placed = placed?;
        note_expiry_of_chunks(self.work.items.segments(), placed.item, placed.head, with.expiry_s);
        placed.item.set_version(version);
        Ok(placed)
    }

    /// Writes an item where the old one lies, or in new space. The version is not set yet.
    fn place(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        draft: &Draft<'_>,
    ) -> Result<Current<'e>, NeedSpace> {
        let items = self.work.items;
        let Some(current) = current else { return self.place_new(chain, draft) };
        let segment = items.segments().header_of(current.addr);
        if let Some(slack) = self.slack_in_place(&current, draft) {
            chain.touch();
            chain.raise_freq(current.place);
            let head = draft.head.with_slack(slack);
            current.item.write_after_key(head, &draft.with, draft.value);
            segment.note_expiry(draft.with.expiry_s);
            self.work.pin.counters().overwritten.add(1);
            return Ok(Current { head, ..current });
        }
        let (addr, item) = self.write_new(segment.pool(), draft)?;
        let freq = (current.slot.freq() + 1).min(FREQ_MAX);
        let slot = Slot::item(self.key.id.hash, addr, freq);
        chain.set(current.place, slot);
        if draft.same_chunks {
            items.release_words(self.work.pin, current.addr, current.head.span_words());
        } else {
            items.release(self.work.pin, &current);
        }
        Ok(Current { place: current.place, slot, addr, item, head: draft.head })
    }

    /// The words that `draft` leaves unused where `current` lies; `None` if it needs new space.
    fn slack_in_place(&self, current: &Current<'_>, draft: &Draft<'_>) -> Option<usize> {
        let segments = self.work.items.segments();
        let class = class(draft.with.expiry_s, self.work.now, segments.geometry().classes);
        let segment = segments.header_of(current.addr);
        in_place::slack(current.head, segment, draft.head, class, draft.same_chunks)
    }

    /// Writes an item for a key that has none: in the main pool if its ghost is fresh.
    fn place_new(
        &mut self,
        chain: &mut Chain<'_>,
        draft: &Draft<'_>,
    ) -> Result<Current<'e>, NeedSpace> {
        let (items, id) = (self.work.items, self.key.id);
        let tick = self.work.ghosts.tick();
        let ghost = chain.find_ghost(id.hash);
        let remembered = ghost.is_some_and(|(_, ghost)| self.work.ghosts.is_fresh(ghost));
        let proven = remembered || items.segments().fills_main();
        let pool = if proven { Pool::Main } else { Pool::Small };
        let place = match ghost {
            Some((place, _)) if chain.get(place).is_lone_ghost() => place,
            _ => chain.room(tick).ok_or(NeedSpace::ONE)?,
        };
        let (addr, item) = self.write_new(pool, draft)?;
        let slot = Slot::item(id.hash, addr, 0);
        if let Some((place, ghost)) = ghost {
            chain.forget(place, ghost);
            self.work.ghosts.came_back(ghost);
        }
        chain.set(place, slot);
        items.index().resizing(id.slice).count_added();
        let counters = self.work.pin.counters();
        counters.items.add(1);
        counters.ghost_hits.add(u64::from(remembered));
        Ok(Current { place, slot, addr, item, head: draft.head })
    }

    /// Writes an item in new space, where no reader can see it yet.
    fn write_new(
        &mut self,
        pool: Pool,
        draft: &Draft<'_>,
    ) -> Result<(Addr, ItemRef<'e>), NeedSpace> {
        let (items, expiry_s) = (self.work.items, draft.with.expiry_s);
        let key_bytes = self.key.bytes.len();
        assert!((1..=KEY_BYTES_MAX).contains(&key_bytes), "a key of {key_bytes} bytes");
        let words = draft.head.used_words();
        let addr = self.allocate(pool, expiry_s, words)?;
        let item = items.segments().item(addr);
        item.write(draft.head, self.key.bytes, &draft.with, draft.value);
        items.segments().header_of(addr).note_expiry(expiry_s);
        self.work.pin.counters().stored.add(1);
        Ok((addr, item))
    }

    /// Takes space, and adds it to the debt.
    fn allocate(&mut self, pool: Pool, expiry_s: u32, words: usize) -> Result<Addr, NeedSpace> {
        let items = self.work.items;
        let class = class(expiry_s, self.work.now, items.segments().geometry().classes);
        let stream = Stream { purpose: Purpose::Write, pool, class };
        let addr = items
            .segments()
            .allocate(self.work.pin.grace(), stream, words)
            .ok_or(NeedSpace::ONE)?;
        *self.work.pin.debt_words() += words;
        self.work.pin.counters().item_words.add(words as u64);
        Ok(addr)
    }

    /// The head of the item of this key, as accessed now.
    fn head(&self, with: &Attributes, value_bytes: usize) -> Head {
        with.head(self.key.bytes.len(), value_bytes).with_access(self.work.now.expiry_s)
    }

    /// Emits that a value was stored, and stamps the item.
    pub(super) fn emit_put(&mut self, current: &Current<'_>, with: &Attributes, value: [&[u8]; 2]) {
        let emitted = match value {
            [whole, []] => Cow::Borrowed(whole),
            parts if S::ON => Cow::Owned(parts.concat()),
            _ => Cow::default(),
        };
        let version = self.emit(Change::put(&emitted, with));
        self.stamp(current.item, version, with.base);
    }

    /// Gives an item a new expiry, in place if its layout has room for one.
    pub(super) fn touch(
        &mut self,
        chain: &mut Chain<'_>,
        mut current: Current<'e>,
        expiry_s: u32,
    ) -> Result<Current<'e>, NeedSpace> {
        debug_assert!(!expired(current.item.expiry_s(current.head), self.work.now));
        chain.touch();
        let had_s = current.item.expiry_s(current.head);
        if (had_s == 0) == (expiry_s == 0) {
            if expiry_s != 0 {
                current.item.set_expiry_s(current.head, expiry_s);
                self.work.items.segments().header_of(current.addr).note_expiry(expiry_s);
                let Current { item, head, .. } = current;
                note_expiry_of_chunks(self.work.items.segments(), item, head, expiry_s);
            }
        } else {
            let with = Attributes { expiry_s, ..current.item.attributes(current.head) };
            current = self.rewrite(chain, current, &with)?;
        }
        if S::ON {
            self.emit(Change::Touch { expiry_s });
        }
        Ok(current)
    }

    /// Writes a value in chunks and returns their table.
    fn write_chunks(
        &mut self,
        pool: Pool,
        expiry_s: u32,
        value: [&[u8]; 2],
    ) -> Result<Vec<u8>, NeedSpace> {
        let items = self.work.items;
        let chunk_bytes = items.segments().geometry().inline_value_bytes_max;
        let total = value[0].len() + value[1].len();
        let name = owner_name(self.key.id);
        let with = Attributes { flags: Flags::CHUNK, ..Attributes::default() };
        let mut table = (total as u64).to_le_bytes().to_vec();
        for from in (0..total).step_by(chunk_bytes) {
            let to = total.min(from + chunk_bytes);
            let head = with.head(OWNER_BYTES, to - from);
            let Ok(addr) = self.allocate(pool, expiry_s, head.used_words()) else {
                return Err(self.release_chunks(&table, total));
            };
            items.segments().item(addr).write(head, &name, &with, cut(value, from, to));
            items.segments().header_of(addr).note_expiry(expiry_s);
            table.extend(addr.0.to_le_bytes());
        }
        Ok(table)
    }

    /// Gives up the chunks of `table`, which no item came to name. Returns the space that their
    /// value of `total` bytes needs.
    fn release_chunks(&mut self, table: &[u8], total: usize) -> NeedSpace {
        let (entries, _) = table.as_chunks::<ENTRY_BYTES>();
        for entry in entries.iter().skip(1) {
            self.work.items.release_chunk(self.work.pin, Addr(u64::from_le_bytes(*entry)));
        }
        let chunk_bytes = self.work.items.segments().geometry().inline_value_bytes_max;
        NeedSpace { segments: segments_for(total, chunk_bytes) }
    }
}
