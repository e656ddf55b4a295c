//! Where a value is written, and how it is published.
//!
//! A value that fits where the old one lies is written over it. Any other gets new ground, is
//! written there while nobody sees it, and is published by one store to its slot.

use crate::config::KEY_BYTES_MAX;
use crate::effect::{Change, EffectSink};
use crate::engine::Current;
use crate::expiry::class;
use crate::head::{Flags, Head, SLACK_WORDS_MAX};
use crate::index::{Chain, FREQ_MAX, Slot};
use crate::item::{Attributes, ItemRef};
use crate::segment::{Addr, Pool, Purpose, Stream};
use crate::writer::{NeedSpace, Writer};
use base::Version;

/// The largest value, in bytes, that is written over an older one.
pub(crate) const IN_PLACE_BYTES_MAX: usize = 8 << 10;

/// An item about to be written.
pub(crate) struct Draft<'a> {
    pub(crate) head: Head,
    pub(crate) with: Attributes,
    pub(crate) value: [&'a [u8]; 2],
    /// A table that names the chunks of the item it replaces.
    pub(crate) same_chunks: bool,
}

impl<'e, S: EffectSink> Writer<'_, 'e, S> {
    /// Stores a value for `key`, over `current` or anew, and returns the item as it now is.
    pub(crate) fn put(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
    ) -> Result<Current<'e>, NeedSpace> {
        let value_bytes = value[0].len() + value[1].len();
        if value_bytes > self.engine.segments.geometry().inline_value_bytes_max {
            return self.put_large(chain, current, with, value);
        }
        let with = Attributes { flags: with.flags.without(Flags::LARGE), ..*with };
        let head = self.head(&with, value_bytes);
        let draft = Draft { head, with, value, same_chunks: false };
        let current = self.place(chain, current, &draft)?;
        self.tell_put(&current, &with, value);
        Ok(current)
    }

    /// Gives an item its version: that of what it is made from if a flush came between, so that
    /// it is cut off with it.
    pub(crate) fn stamp(&self, item: ItemRef<'_>, version: Version, base: Version) {
        let cut = self.engine.slices.is_cut(self.key.id.slice, base);
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
        let mut value = std::mem::take(&mut self.local.scratch);
        value.clear();
        current.item.append_value(current.head, &[], &mut value);
        let head = self.head(with, value.len());
        let same_chunks = head.is(Flags::LARGE);
        let draft = Draft { head, with: *with, value: [&value, &[]], same_chunks };
        let placed = self.place(chain, Some(current), &draft);
        self.local.scratch = value;
        let placed = placed?;
        self.engine.note_expiry_of_chunks(&placed, with.expiry_s);
        placed.item.set_version(version);
        Ok(placed)
    }

    /// Writes an item where the old one lies, or on new ground; its version is yet to be set.
    pub(crate) fn place(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        draft: &Draft<'_>,
    ) -> Result<Current<'e>, NeedSpace> {
        let engine = self.engine;
        match current {
            Some(current) if self.fits_in_place(&current, draft) => {
                chain.touch();
                chain.raise_freq(current.place);
                let slack = current.head.span_words() - draft.head.used_words();
                let head = draft.head.with_slack(slack);
                current.item.write_behind_key(head, &draft.with, draft.value);
                engine.segments.header_of(current.addr).note_expiry(draft.with.expiry_s);
                engine.count(self.local).overwritten.add(1);
                Ok(Current { head, ..current })
            }
            Some(current) => {
                let pool = engine.segments.header_of(current.addr).pool();
                let (addr, item) = self.lay(pool, draft)?;
                let freq = (current.slot.freq() + 1).min(FREQ_MAX);
                let slot = Slot::item(self.key.id.hash, addr, freq);
                chain.set(current.place, slot);
                if draft.same_chunks {
                    engine.bury_ground(self.local, &current);
                } else {
                    engine.bury(self.local, &current);
                }
                Ok(Current { place: current.place, slot, addr, item, head: draft.head })
            }
            None => self.place_new(chain, draft),
        }
    }

    fn fits_in_place(&self, current: &Current<'_>, draft: &Draft<'_>) -> bool {
        let (has, needs) = (current.head.span_words(), draft.head.used_words());
        if current.head.is(Flags::LARGE) != draft.same_chunks
            || draft.head.value_bytes() > IN_PLACE_BYTES_MAX
            || needs > has
            || has - needs > SLACK_WORDS_MAX
        {
            return false;
        }
        let segments = &self.engine.segments;
        let lies_in = segments.header_of(current.addr).class();
        lies_in == class(draft.with.expiry_s, self.now, segments.geometry().classes)
    }

    /// Writes an item for a key that has none: in the main pool if its ghost is fresh.
    fn place_new(
        &mut self,
        chain: &mut Chain<'_>,
        draft: &Draft<'_>,
    ) -> Result<Current<'e>, NeedSpace> {
        let (engine, id) = (self.engine, self.key.id);
        let tick = engine.ghosts.tick();
        let ghost = chain.find_ghost(id.hash);
        let remembered = ghost.is_some_and(|(_, ghost)| engine.ghosts.is_fresh(ghost));
        let proven = remembered || engine.segments.fills_main();
        let pool = if proven { Pool::Main } else { Pool::Small };
        let place = match ghost {
            Some((place, _)) if chain.get(place).is_lone_ghost() => place,
            _ => chain.room(tick).ok_or(NeedSpace::ONE)?,
        };
        let (addr, item) = self.lay(pool, draft)?;
        let slot = Slot::item(id.hash, addr, 0);
        if let Some((place, ghost)) = ghost {
            chain.forget(place, ghost);
            engine.ghosts.came_back(ghost);
        }
        chain.set(place, slot);
        engine.index.count_added(id.slice);
        let counters = engine.count(self.local);
        counters.items.add(1);
        counters.ghost_hits.add(u64::from(remembered));
        Ok(Current { place, slot, addr, item, head: draft.head })
    }

    /// Writes an item on new ground, where nobody sees it yet.
    fn lay(&mut self, pool: Pool, draft: &Draft<'_>) -> Result<(Addr, ItemRef<'e>), NeedSpace> {
        let (engine, expiry_s) = (self.engine, draft.with.expiry_s);
        let key_bytes = self.key.bytes.len();
        assert!((1..=KEY_BYTES_MAX).contains(&key_bytes), "a key of {key_bytes} bytes");
        let words = draft.head.used_words();
        let addr = self.carve(pool, expiry_s, words)?;
        let item = engine.segments.item(addr);
        item.write(draft.head, self.key.bytes, &draft.with, draft.value);
        engine.segments.header_of(addr).note_expiry(expiry_s);
        engine.count(self.local).stored.add(1);
        Ok((addr, item))
    }

    /// Takes ground, and owes for it.
    pub(crate) fn carve(
        &mut self,
        pool: Pool,
        expiry_s: u32,
        words: usize,
    ) -> Result<Addr, NeedSpace> {
        let engine = self.engine;
        let class = class(expiry_s, self.now, engine.segments.geometry().classes);
        let stream = Stream { purpose: Purpose::Write, pool, class };
        let addr = engine.segments.carve(&engine.epochs, stream, words).ok_or(NeedSpace::ONE)?;
        self.local.debt_words += words;
        engine.count(self.local).item_words.add(words as u64);
        Ok(addr)
    }

    /// The head of the item of this key, as accessed now.
    pub(crate) fn head(&self, with: &Attributes, value_bytes: usize) -> Head {
        with.head(self.key.bytes.len(), value_bytes).with_access(self.now.expiry_s)
    }

    /// Tells that a value was stored, and stamps the item.
    pub(crate) fn tell_put(&mut self, current: &Current<'_>, with: &Attributes, value: [&[u8]; 2]) {
        let mut told = Vec::new();
        if S::ON {
            told = value.concat();
        }
        let version = self.tell(put_change(&told, with));
        self.stamp(current.item, version, with.base);
    }
}

/// The effect of storing a value.
pub(crate) fn put_change<'a>(value: &'a [u8], with: &Attributes) -> Change<'a> {
    Change::Put {
        value,
        client_flags: with.client_flags,
        expiry_s: with.expiry_s,
        client_cas: with.client_cas,
        stale: with.flags.has(Flags::STALE),
    }
}
