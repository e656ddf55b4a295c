//! One key under change, and everything that takes part in it.
//!
//! A [`Writer`] puts an item where it belongs. It does not decide what to store: `change`, `fetch`
//! and `transfer` do. A value that fits where the old one lies is written over it. Any other gets
//! new space, is written there while no reader can see it, and is published by one store to its
//! slot. A long value is written even before the chain is locked: see [`super::long`].
//!
//! ```text
//! prepare   space for the item, and the item in it, unless it goes over the old one
//! commit    the sink takes the effect and stamps it
//! publish   over the old item, or by its slot
//! ```
//!
//! Invariants:
//! * a chain is locked before the item is looked for, and until the change is published;
//! * where an attempt stops nothing has changed but what a dead item left: the caller releases the
//!   lock, makes space and starts over;
//! * whatever took space adds it to `debt_words`, which the caller pays for by evicting.

use super::ahead::Ahead;
use super::in_place;
use crate::eviction::{Stopped, Work};
use crate::index::{Chain, FREQ_MAX, Ghost, Place, Slot};
use crate::item::{Attributes, Flags, Head, class, expired};
use crate::items::{Current, ValueInChunks, WholeValue};
use crate::keys::{KEY_BYTES_MAX, Key};
use crate::segments::{Addr, Pool, Purpose, Stream, note_expiry_of_chunks};
use base::{Change, EffectSink, Now, Refused, Removal, Value, Version};

/// A touch carries the whole item where that expires within this many seconds: at a copy, whose
/// clock may differ by less, it may have expired already.
const TOUCH_WHOLE_S: u32 = 4;

/// Changes the item of one key.
pub(crate) struct Writer<'w, 'e, S> {
    pub(crate) work: &'w mut Work<'e, S>,
    pub(super) key: &'w Key<'w>,
}

/// An item about to be written.
pub(super) struct Draft<'a> {
    pub(super) head: Head,
    pub(super) with: Attributes,
    pub(super) value: [&'a [u8]; 2],
    /// A table for whose sake no chunk of the item that it replaces is released.
    pub(super) same_chunks: bool,
}

/// An item that only waits for its version.
enum Prepared<'e> {
    /// It goes over the present item, and leaves a part of its words unused.
    Over { current: Current<'e>, slack: usize },
    /// It lies in new space, for the slot at `place`: that of the `old` item, if there is one.
    Beside { place: Place, old: Option<Current<'e>>, ghost: Option<(Place, Ghost)>, addr: Addr },
}

impl<'w, 'e, S: EffectSink> Writer<'w, 'e, S> {
    pub(crate) fn new(work: &'w mut Work<'e, S>, key: &'w Key<'w>) -> Self {
        Self { work, key }
    }

    /// Locks the chain of the key.
    pub(crate) fn lock(&self) -> Result<Chain<'e>, Stopped> {
        self.work.items.index().lock(self.work.pin.grace(), self.key.id).ok_or(Stopped::NEEDS_ONE)
    }

    /// The item of the key if it is alive. A dead one is removed.
    pub(crate) fn find_alive(
        &mut self,
        chain: &mut Chain<'_>,
    ) -> Result<Option<Current<'e>>, Refused> {
        let Some(current) = self.work.items.find(chain, self.key) else { return Ok(None) };
        if self.work.items.alive(current.item, current.head, self.key.id.slice, self.work.now) {
            return Ok(Some(current));
        }
        self.remove(chain, &current, Removal::Expired)?;
        Ok(None)
    }

    /// Whether the key, which has no item here, has none elsewhere either: asked before anything is
    /// decided by that, with the chain locked.
    #[inline(always)]
    pub(super) fn is_absent(&mut self) -> bool {
        !S::ON || self.work.sink.is_absent(self.key.id, self.key.bytes)
    }

    /// Takes the item out of the index, and counts its words as dead.
    pub(crate) fn remove(
        &mut self,
        chain: &mut Chain<'_>,
        current: &Current<'_>,
        removal: Removal,
    ) -> Result<(), Refused> {
        self.work.items.remove(self.work.pin, chain, self.key, current, removal, self.work.sink)
    }

    fn commit(&mut self, change: Change<'_>, base: Version) -> Result<Version, Refused> {
        self.work.items.commit(self.key, change, base, self.work.sink)
    }

    /// Emits the removal of an item that is not in memory.
    pub(super) fn remove_unseen(&mut self) -> Result<(), Refused> {
        self.commit(Change::Remove(Removal::Deleted), Version::ZERO).map(|_| ())
    }

    /// Stores a value for the key, over `current` or as a new item, and returns the item. `ahead`
    /// is what was written of it before: all of a value in chunks, or there is another attempt.
    pub(crate) fn put(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
        ahead: &mut Ahead,
    ) -> Result<Current<'e>, Stopped> {
        let given = value[0].len() + value[1].len();
        let has_table = ahead.has_table();
        let total = if has_table { ahead.arrived_bytes().unwrap_or(given) } else { given };
        let is_in_chunks = total > self.work.items.segments().geometry().inline_value_bytes_max;
        let table = if is_in_chunks && has_table { ahead.table(total) } else { None };
        if is_in_chunks && table.is_none() {
            return Err(Stopped::Again);
        }
        let flags = with.flags.without(Flags::LARGE).with_if(table.is_some(), Flags::LARGE);
        let with = Attributes { flags, ..*with };
        let stored = table.map_or(value, |table| [table, &[]]);
        let head = self.head(&with, stored[0].len() + stored[1].len());
        let draft = Draft { head, with, value: stored, same_chunks: false };
        let written = ahead.item(&with);
        let prepared = self.prepare(chain, current, &draft, written)?;
        match self.commit(Change::Put(Value::Parts(value), with.facts()), with.base) {
            Ok(version) => {
                let stored = self.publish(chain, prepared, &draft, version);
                if written.is_some() || table.is_some() {
                    ahead.set_published();
                }
                Ok(stored)
            }
            Err(refused) => Err(self.abandon(&prepared, &draft, written, refused)),
        }
    }

    /// Rewrites an item with other attributes and the same value. `stamp` commits that and gives it
    /// its version.
    fn rewrite(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        with: &Attributes,
        stamp: impl FnOnce(&mut Self, Value<'_>) -> Result<Version, Refused>,
    ) -> Result<Current<'e>, Stopped> {
        let Current { item, head: old, .. } = current;
        let mut value = self.work.scratch(old.value_bytes())?;
        item.append_value(old, &[], &mut value.bytes);
        let head = self.head(with, old.value_bytes());
        let same_chunks = head.is(Flags::LARGE);
        let draft = Draft { head, with: *with, value: [&value.bytes, &[]], same_chunks };
        let whole = WholeValue { items: self.work.items, item, head: old };
        let stamp = |writer: &mut Self| stamp(writer, Value::Stored(&whole));
        let rewritten = self.put_draft(chain, current, &draft, stamp);
        self.work.keep(value);
        rewritten
    }

    /// Stores a value in chunks over `current`: `table` names them. Those that it has in common
    /// with that of the present item stay; the caller releases the others.
    pub(super) fn put_table(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        with: &Attributes,
        table: &[u8],
    ) -> Result<Current<'e>, Stopped> {
        let with = Attributes { flags: with.flags.with(Flags::LARGE), ..*with };
        let head = self.head(&with, table.len());
        let draft = Draft { head, with, value: [table, &[]], same_chunks: true };
        let value = ValueInChunks { items: self.work.items, table };
        let value = Value::Stored(&value);
        self.put_draft(chain, current, &draft, |writer| {
            writer.commit(Change::Put(value, with.facts()), with.base)
        })
    }

    /// Stores `draft` over the present item. `stamp` commits that and gives it its version.
    fn put_draft(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        draft: &Draft<'_>,
        stamp: impl FnOnce(&mut Self) -> Result<Version, Refused>,
    ) -> Result<Current<'e>, Stopped> {
        let prepared = self.prepare(chain, Some(current), draft, None)?;
        let version = match stamp(self) {
            Ok(version) => version,
            Err(refused) => return Err(self.abandon(&prepared, draft, None, refused)),
        };
        let stored = self.publish(chain, prepared, draft, version);
        let segments = self.work.items.segments();
        note_expiry_of_chunks(segments, stored.item, stored.head, draft.with.expiry_s);
        Ok(stored)
    }

    /// Gives an item other attributes, and commits it as a whole.
    pub(crate) fn change_attributes(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        with: &Attributes,
    ) -> Result<Current<'e>, Stopped> {
        self.rewrite(chain, current, with, |writer, value| {
            writer.commit(Change::Put(value, with.facts()), with.base)
        })
    }

    /// Gives an item a new expiry. Its token stays. Without a sink its version does too, and the
    /// expiry is written in place if the layout of the item has a field for one.
    pub(super) fn touch(
        &mut self,
        chain: &mut Chain<'_>,
        current: Current<'e>,
        expiry_s: u32,
    ) -> Result<Current<'e>, Stopped> {
        let Current { item, head, addr, .. } = current;
        let had_s = item.expiry_s(head);
        debug_assert!(!expired(had_s, self.work.now));
        let with = Attributes { expiry_s, ..item.attributes(head) };
        if S::ON {
            let with = Attributes { client_cas: Some(item.cas(head)), ..with };
            if head.is(Flags::VIVIFIED) {
                // What lies below the memory has no such item, and must not touch another one.
                return self.change_attributes(chain, current, &with);
            }
            let is_near = is_near(had_s, self.work.now);
            return self.rewrite(chain, current, &with, |writer, value| {
                let whole = is_near.then(|| (value, with.facts()));
                writer.commit(Change::Touch(expiry_s, whole), with.base)
            });
        }
        if (had_s == 0) != (expiry_s == 0) {
            return self.rewrite(chain, current, &with, |_, _| Ok(item.version()));
        }
        chain.touch();
        if expiry_s != 0 {
            item.set_expiry_s(head, expiry_s);
            let segments = self.work.items.segments();
            segments.header_of(addr).note_expiry(expiry_s);
            note_expiry_of_chunks(segments, item, head, expiry_s);
        }
        Ok(current)
    }

    /// Prepares an item, so that only its version is missing.
    fn prepare(
        &mut self,
        chain: &mut Chain<'_>,
        current: Option<Current<'e>>,
        draft: &Draft<'_>,
        written: Option<Addr>,
    ) -> Result<Prepared<'e>, Stopped> {
        let id = self.key.id;
        let Some(current) = current else {
            let tick = self.work.ghosts.tick();
            let ghost = chain.find_ghost(id.hash);
            let pool = self.pool_of(None, ghost.map(|(_, ghost)| ghost));
            let place = match ghost {
                Some((place, _)) if chain.get(place).is_lone_ghost() => place,
                _ => chain.room(tick).ok_or(Stopped::NEEDS_ONE)?,
            };
            let addr = self.write_beside(pool, draft, written)?;
            return Ok(Prepared::Beside { place, old: None, ghost, addr });
        };
        if written.is_none()
            && let Some(slack) = self.slack_in_place(&current, draft)
        {
            return Ok(Prepared::Over { current, slack });
        }
        let pool = self.pool_of(Some(&current), None);
        let addr = self.write_beside(pool, draft, written)?;
        Ok(Prepared::Beside { place: current.place, old: Some(current), ghost: None, addr })
    }

    /// The pool of an item. That of a copy is with the copies; one over the `current` item is where
    /// that is; any other is in the main pool if the ghost of its key is fresh.
    pub(super) fn pool_of(&self, current: Option<&Current<'_>>, ghost: Option<Ghost>) -> Pool {
        if self.work.items.slices().is_copy(self.key.id.slice) {
            return Pool::Copies;
        }
        if let Some(current) = current {
            let pool = self.work.items.segments().header_of(current.addr).pool();
            return if pool == Pool::Copies { Pool::Main } else { pool };
        }
        let remembered = ghost.is_some_and(|ghost| self.work.ghosts.is_fresh(ghost));
        let proven = remembered || self.work.items.segments().fills_main();
        if proven { Pool::Main } else { Pool::Small }
    }

    /// Publishes a prepared item with its version, and returns it.
    fn publish(
        &mut self,
        chain: &mut Chain<'_>,
        prepared: Prepared<'e>,
        draft: &Draft<'_>,
        version: Version,
    ) -> Current<'e> {
        let items = self.work.items;
        let counters = self.work.pin.counters();
        let (place, old, ghost, addr) = match prepared {
            Prepared::Over { current, slack } => {
                chain.touch();
                chain.raise_freq(current.place);
                let head = draft.head.with_slack(slack);
                current.item.set_version(version);
                current.item.write_after_key(head, &draft.with, draft.value);
                items.segments().header_of(current.addr).note_expiry(draft.with.expiry_s);
                counters.overwritten.add(1);
                return Current { head, ..current };
            }
            Prepared::Beside { place, old, ghost, addr } => (place, old, ghost, addr),
        };
        let item = items.segments().item(addr);
        item.set_version(version);
        counters.stored.add(1);
        let freq = old.map_or(0, |old| (old.slot.freq() + 1).min(FREQ_MAX));
        let slot = Slot::item(self.key.id.hash, addr, freq);
        if let Some((place, ghost)) = ghost {
            chain.forget(place, ghost);
            counters.ghost_hits.add(u64::from(self.work.ghosts.is_fresh(ghost)));
            self.work.ghosts.came_back(ghost);
        }
        chain.set(place, slot);
        match old {
            None => {
                items.index().resizing(self.key.id.slice).count_added();
                counters.items.add(1);
            }
            Some(old) if draft.same_chunks => {
                items.release_words(self.work.pin, old.addr, old.head.span_words());
            }
            Some(old) => items.release(self.work.pin, &old),
        }
        Current { place, slot, addr, item, head: draft.head }
    }

    /// Gives up what was prepared for a change that the sink has refused.
    fn abandon(
        &mut self,
        prepared: &Prepared<'_>,
        draft: &Draft<'_>,
        written: Option<Addr>,
        refused: Refused,
    ) -> Stopped {
        if let Prepared::Beside { addr, .. } = prepared
            && written != Some(*addr)
        {
            self.work.items.release_words(self.work.pin, *addr, draft.head.span_words());
        }
        refused.into()
    }

    /// The words that `draft` leaves unused where `current` lies; `None` if it needs new space.
    fn slack_in_place(&self, current: &Current<'_>, draft: &Draft<'_>) -> Option<usize> {
        let segments = self.work.items.segments();
        let class = class(draft.with.expiry_s, self.work.now, || segments.classes());
        let segment = segments.header_of(current.addr);
        in_place::slack(current.head, segment, draft.head, class, draft.same_chunks)
    }

    /// The item in new space, where no reader can see it yet: written now, unless it was before.
    fn write_beside(
        &mut self,
        pool: Pool,
        draft: &Draft<'_>,
        written: Option<Addr>,
    ) -> Result<Addr, Stopped> {
        match written {
            Some(addr) => Ok(addr),
            None => self.write_new(pool, draft),
        }
    }

    /// Writes an item in new space, where no reader can see it yet.
    pub(super) fn write_new(&mut self, pool: Pool, draft: &Draft<'_>) -> Result<Addr, Stopped> {
        let (items, expiry_s) = (self.work.items, draft.with.expiry_s);
        let key_bytes = self.key.bytes.len();
        assert!((1..=KEY_BYTES_MAX).contains(&key_bytes), "a key of {key_bytes} bytes");
        let words = draft.head.used_words();
        let addr = self.allocate(pool, expiry_s, words)?;
        items.segments().item(addr).write(draft.head, self.key.bytes, &draft.with, draft.value);
        items.segments().header_of(addr).note_expiry(expiry_s);
        Ok(addr)
    }

    /// Takes space, and adds it to the debt.
    pub(super) fn allocate(
        &mut self,
        pool: Pool,
        expiry_s: u32,
        words: usize,
    ) -> Result<Addr, Stopped> {
        let items = self.work.items;
        let class = class(expiry_s, self.work.now, || items.segments().classes());
        let stream = Stream { arena: self.work.arena(), purpose: Purpose::Write, pool, class };
        let addr = items
            .segments()
            .allocate(self.work.pin.grace(), stream, words)
            .ok_or(Stopped::NEEDS_ONE)?;
        self.count_words(words);
        Ok(addr)
    }

    /// Counts words that were taken, as used and as to be paid for.
    pub(super) fn count_words(&mut self, words: usize) {
        *self.work.pin.debt_words() += words;
        self.work.pin.counters().item_words.add(words as u64);
    }

    /// The head of the item of this key, as accessed now.
    pub(super) fn head(&self, with: &Attributes, value_bytes: usize) -> Head {
        with.head(self.key.bytes.len(), value_bytes).with_access(self.work.now.expiry_s)
    }
}

/// Whether an item that expires in second `expiry_s` may have expired at a copy already.
fn is_near(expiry_s: u32, now: Now) -> bool {
    expiry_s != 0 && expiry_s.saturating_sub(now.expiry_s) <= TOUCH_WHOLE_S
}
