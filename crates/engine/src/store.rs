//! The way of a write: lock the chain, find the item, decide, write, publish, pay.
//!
//! A value that fits where the old one lies is written over it. Any other gets new ground, is
//! written there while nobody sees it, and is published by one store to its slot. When ground is
//! short the lock is dropped, room is made, and the write starts over.

use crate::effect::{Change, EffectSink, Gone};
use crate::engine::{Current, Engine};
use crate::expiry::class;
use crate::index::{Chain, FREQ_MAX, Slot};
use crate::item::{Attributes, Flags, Head, ItemRef, SLACK_WORDS_MAX};
use crate::key::Key;
use crate::local::Local;
use crate::overwrite::Put;
use crate::segment::{Addr, Pool, Purpose};
use crate::write::{Action, Mode, Op, Outcome, Wrote};
use base::{Now, Version};

/// The largest value, in bytes, that is written over an older one.
pub(crate) const IN_PLACE_BYTES_MAX: usize = 8 << 10;

/// Digits of the largest number.
const NUMBER_BYTES_MAX: usize = 20;

/// Ground is short: so many segments must be freed before the write can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeedSpace {
    pub(crate) segments: usize,
}

impl NeedSpace {
    pub(crate) const ONE: Self = Self { segments: 1 };
}

/// An item about to be written.
pub(crate) struct Draft<'a> {
    pub(crate) head: Head,
    pub(crate) with: Attributes,
    pub(crate) value: [&'a [u8]; 2],
    /// A table that names the chunks of the item it replaces.
    pub(crate) same_chunks: bool,
}

impl Engine {
    /// Makes one change. The local is pinned; the pin may move on.
    pub fn write<S: EffectSink>(
        &self,
        local: &mut Local,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Wrote {
        if !S::ON
            && let Some(put) = Put::of(op)
            && self.overwrite(local, &op.key, put, now).is_some()
        {
            return Wrote::ended(Outcome::Done);
        }
        self.write_with_room(local, op, now, sink)
    }

    #[inline(never)]
    pub(crate) fn write_with_room<S: EffectSink>(
        &self,
        local: &mut Local,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Wrote {
        let wrote = self.with_room(local, now, sink, |engine, local, sink| {
            engine.try_write(local, op, now, sink)
        });
        self.index.adjust(&self.epochs, op.key.id.slice);
        self.pay(local, now, sink);
        wrote.unwrap_or(Wrote::ended(Outcome::NoSpace))
    }

    pub(crate) fn lock(&self, key: &Key<'_>) -> Result<Chain<'_>, NeedSpace> {
        self.index.lock(&self.epochs, key.id).ok_or(NeedSpace::ONE)
    }

    fn try_write<S: EffectSink>(
        &self,
        local: &mut Local,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        let key = &op.key;
        let mut chain = self.lock(key)?;
        let Some(current) = self.find_alive(local, &mut chain, key, now, sink) else {
            return self.write_missing(local, chain, op, now, sink);
        };
        let mut stale = false;
        if let Some(compare) = op.compare {
            let token = current.item.cas(current.head);
            stale = op.older_as_stale && compare < token;
            if compare != token && !stale {
                return Ok(Wrote::ended(Outcome::Exists));
            }
        }
        match op.action {
            Action::Store { mode, value, client_flags, expiry_s } => {
                let mut with = Attributes {
                    expiry_s,
                    client_flags,
                    client_cas: op.cas,
                    ..Attributes::default()
                };
                if stale {
                    with.expiry_s = current.item.expiry_s(current.head);
                    let kept = current.head.is(Flags::TOKEN_SENT);
                    with.flags = Flags::STALE.with_if(kept, Flags::TOKEN_SENT);
                }
                match mode {
                    Mode::Add => Ok(Wrote::ended(Outcome::NotStored)),
                    Mode::Set | Mode::Replace => {
                        self.replace(local, chain, op, current, (&with, [value, &[]]), now, sink)
                    }
                    Mode::Append { .. } => {
                        self.join(local, chain, op, current, (value, true), now, sink)
                    }
                    Mode::Prepend { .. } => {
                        self.join(local, chain, op, current, (value, false), now, sink)
                    }
                }
            }
            Action::Count { delta, down, expiry_s, .. } => {
                self.count_on(local, chain, op, current, (delta, down, expiry_s), now, sink)
            }
            Action::Touch { expiry_s } => {
                let current = self.touch(local, &mut chain, key, current, expiry_s, now, sink)?;
                Ok(self.done(&current, op.report, now))
            }
            Action::Delete => {
                self.remove(local, &mut chain, key, &current, Gone::Deleted, sink);
                chain.trim();
                Ok(Wrote::ended(Outcome::Done))
            }
            Action::Invalidate { expiry_s } => {
                let mut with = current.item.attributes(current.head);
                with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
                with.client_cas = op.cas;
                with.flags = with.flags.with(Flags::STALE).without(Flags::TOKEN_SENT);
                self.change_attributes(local, chain, op, current, &with, now, sink)
            }
            Action::Clear { client_flags, expiry_s, stale } => {
                let with = Attributes {
                    expiry_s: expiry_s.unwrap_or_else(|| current.item.expiry_s(current.head)),
                    client_flags,
                    client_cas: op.cas,
                    flags: Flags::default().with_if(stale, Flags::STALE),
                    base: current.item.version(),
                };
                self.replace(local, chain, op, current, (&with, [&[], &[]]), now, sink)
            }
        }
    }

    fn write_missing<S: EffectSink>(
        &self,
        local: &mut Local,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        let number;
        let mut digits = [0; NUMBER_BYTES_MAX];
        let (value, client_flags, expiry_s) = match op.action {
            Action::Store { mode: Mode::Set | Mode::Replace, .. } if op.compare.is_some() => {
                return Ok(Wrote::ended(Outcome::NotFound));
            }
            Action::Store { mode, value, client_flags, expiry_s } => {
                number = 0;
                let create = match mode {
                    Mode::Set | Mode::Add => true,
                    Mode::Append { vivify } | Mode::Prepend { vivify } => vivify,
                    Mode::Replace => false,
                };
                if !create {
                    return Ok(Wrote::ended(Outcome::NotStored));
                }
                (value, client_flags, expiry_s)
            }
            Action::Count { initial: Some((initial, expiry_s)), .. } => {
                number = initial;
                (decimal(initial, &mut digits), 0, expiry_s)
            }
            _ => return Ok(Wrote::ended(Outcome::NotFound)),
        };
        if value.len() > self.config.value_bytes_max {
            return Ok(Wrote::ended(Outcome::TooLarge));
        }
        let with =
            Attributes { expiry_s, client_flags, client_cas: op.cas, ..Attributes::default() };
        let current = self.put(local, &mut chain, &op.key, None, &with, [value, &[]], now, sink)?;
        Ok(Wrote { number, ..self.done(&current, op.report, now) })
    }

    /// Stores a value over the one that is there.
    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    #[inline]
    fn replace<S: EffectSink>(
        &self,
        local: &mut Local,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'_>,
        (with, value): (&Attributes, [&[u8]; 2]),
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        if value[0].len() + value[1].len() > self.config.value_bytes_max {
            return Ok(Wrote::ended(Outcome::TooLarge));
        }
        let current =
            self.put(local, &mut chain, &op.key, Some(current), with, value, now, sink)?;
        Ok(self.done(&current, op.report, now))
    }

    /// Stores a value joined to the one that is there, which keeps its attributes.
    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    fn join<S: EffectSink>(
        &self,
        local: &mut Local,
        chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'_>,
        (value, behind): (&[u8], bool),
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        let mut with = Attributes { client_cas: op.cas, ..current.item.attributes(current.head) };
        with.flags = with.flags.without(Flags::LARGE);
        let mut old = std::mem::take(&mut local.scratch);
        old.clear();
        self.append_whole(&current, &mut old);
        let joined = if behind { [&old[..], value] } else { [value, &old] };
        let wrote = self.replace(local, chain, op, current, (&with, joined), now, sink);
        if old.capacity() <= IN_PLACE_BYTES_MAX {
            local.scratch = old;
        }
        wrote
    }

    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    fn count_on<S: EffectSink>(
        &self,
        local: &mut Local,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'_>,
        (delta, down, expiry_s): (u64, bool, Option<u32>),
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        let mut old = std::mem::take(&mut local.scratch);
        old.clear();
        if current.head.value_bytes() <= NUMBER_BYTES_MAX && !current.head.is(Flags::LARGE) {
            current.item.append_value(current.head, &mut old);
        }
        let before = number(&old);
        let old_bytes = old.len();
        local.scratch = old;
        let Some(before) = before else { return Ok(Wrote::ended(Outcome::NotNumber)) };
        let number = if down { before.saturating_sub(delta) } else { before.wrapping_add(delta) };
        let mut digits = [b' '; NUMBER_BYTES_MAX];
        let len = decimal(number, &mut digits).len();
        // As in memcached, a number that shrinks keeps its length and is padded with spaces.
        let value = &digits[..len.max(old_bytes)];
        let mut with = current.item.attributes(current.head);
        with.expiry_s = expiry_s.unwrap_or(with.expiry_s);
        with.client_cas = op.cas;
        let current =
            self.put(local, &mut chain, &op.key, Some(current), &with, [value, &[]], now, sink)?;
        Ok(Wrote { number, ..self.done(&current, op.report, now) })
    }

    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    fn change_attributes<S: EffectSink>(
        &self,
        local: &mut Local,
        mut chain: Chain<'_>,
        op: &Op<'_>,
        current: Current<'_>,
        with: &Attributes,
        now: Now,
        sink: &mut S,
    ) -> Result<Wrote, NeedSpace> {
        let key = &op.key;
        let current = self.rewrite(local, &mut chain, key, current, with, now)?;
        let mut value = Vec::new();
        if S::ON {
            self.append_whole(&current, &mut value);
        }
        let version = self.tell(key, put_change(&value, with), sink);
        self.stamp(key, current.item, version, with.base);
        Ok(self.done(&current, op.report, now))
    }

    #[inline]
    fn done(&self, current: &Current<'_>, report: bool, now: Now) -> Wrote {
        let found = report.then(|| {
            let value_bytes = self.whole_value_bytes(current.item, current.head);
            current.found(value_bytes, now)
        });
        Wrote { outcome: Outcome::Done, found, number: 0 }
    }

    /// Stores a value for `key`, over `current` or anew, and returns the item as it now is.
    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    pub(crate) fn put<'e, S: EffectSink>(
        &'e self,
        local: &mut Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: Option<Current<'e>>,
        with: &Attributes,
        value: [&[u8]; 2],
        now: Now,
        sink: &mut S,
    ) -> Result<Current<'e>, NeedSpace> {
        let value_bytes = value[0].len() + value[1].len();
        if value_bytes > self.segments.geometry().inline_value_bytes_max {
            return self.put_large(local, chain, key, current, with, value, now, sink);
        }
        let with = Attributes { flags: with.flags.without(Flags::LARGE), ..*with };
        let head = with.head(key.bytes.len(), value_bytes).with_access(now.expiry_s);
        let draft = Draft { head, with, value, same_chunks: false };
        let current = self.place(local, chain, key, current, &draft, now)?;
        let mut told = Vec::new();
        if S::ON {
            told = value.concat();
        }
        let version = self.tell(key, put_change(&told, &with), sink);
        self.stamp(key, current.item, version, with.base);
        Ok(current)
    }

    /// Gives an item its version: that of what it is made from if a flush came between, so that
    /// it is cut off with it.
    pub(crate) fn stamp(&self, key: &Key<'_>, item: ItemRef<'_>, version: Version, base: Version) {
        let cut = self.slices.is_cut(key.id.slice, base);
        item.set_version(if cut { base } else { version });
    }

    /// Rewrites an item with other attributes and the same value.
    pub(crate) fn rewrite<'e>(
        &'e self,
        local: &mut Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: Current<'e>,
        with: &Attributes,
        now: Now,
    ) -> Result<Current<'e>, NeedSpace> {
        let version = current.item.version();
        let mut value = std::mem::take(&mut local.scratch);
        value.clear();
        current.item.append_value(current.head, &mut value);
        let head = with.head(key.bytes.len(), value.len()).with_access(now.expiry_s);
        let same_chunks = head.is(Flags::LARGE);
        let draft = Draft { head, with: *with, value: [&value, &[]], same_chunks };
        let placed = self.place(local, chain, key, Some(current), &draft, now);
        local.scratch = value;
        let placed = placed?;
        placed.item.set_version(version);
        Ok(placed)
    }

    /// Writes an item where the old one lies, or on new ground; its version is yet to be set.
    pub(crate) fn place<'e>(
        &'e self,
        local: &mut Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: Option<Current<'e>>,
        draft: &Draft<'_>,
        now: Now,
    ) -> Result<Current<'e>, NeedSpace> {
        match current {
            Some(current) if self.fits_in_place(&current, draft, now) => {
                chain.touch();
                chain.raise_freq(current.place);
                let slack = current.head.span_words() - draft.head.used_words();
                let head = draft.head.with_slack(slack);
                current.item.write_behind_key(head, &draft.with, draft.value);
                self.segments.header_of(current.addr).note_expiry(draft.with.expiry_s);
                self.count(local).overwritten.add(1);
                Ok(Current { head, ..current })
            }
            Some(current) => {
                let pool = self.segments.header_of(current.addr).pool();
                let (addr, item) = self.lay(local, key, pool, draft, now)?;
                let freq = (current.slot.freq() + 1).min(FREQ_MAX);
                let slot = Slot::item(key.id.hash, addr, freq);
                chain.set(current.place, slot);
                if draft.same_chunks {
                    self.bury_ground(local, &current);
                } else {
                    self.bury(local, &current);
                }
                Ok(Current { place: current.place, slot, addr, item, head: draft.head })
            }
            None => self.place_new(local, chain, key, draft, now),
        }
    }

    fn fits_in_place(&self, current: &Current<'_>, draft: &Draft<'_>, now: Now) -> bool {
        let (has, needs) = (current.head.span_words(), draft.head.used_words());
        if current.head.is(Flags::LARGE) != draft.same_chunks
            || draft.head.value_bytes() > IN_PLACE_BYTES_MAX
            || needs > has
            || has - needs > SLACK_WORDS_MAX
        {
            return false;
        }
        let classes = self.segments.geometry().classes;
        let lies_in = self.segments.header_of(current.addr).class();
        lies_in == class(draft.with.expiry_s, now, classes)
    }

    /// Writes an item for a key that has none: in the main pool if its ghost is fresh.
    fn place_new<'e>(
        &'e self,
        local: &mut Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        draft: &Draft<'_>,
        now: Now,
    ) -> Result<Current<'e>, NeedSpace> {
        let tick = self.ghosts.tick();
        let ghost = chain.find_ghost(key.id.hash);
        let remembered = ghost.is_some_and(|(_, ghost)| self.ghosts.is_fresh(ghost));
        let proven = remembered || self.segments.fills_main();
        let pool = if proven { Pool::Main } else { Pool::Small };
        let place = match ghost {
            Some((place, _)) if chain.get(place).is_lone_ghost() => place,
            _ => chain.room(tick).ok_or(NeedSpace::ONE)?,
        };
        let (addr, item) = self.lay(local, key, pool, draft, now)?;
        let slot = Slot::item(key.id.hash, addr, 0);
        if let Some((place, ghost)) = ghost {
            chain.forget(place, ghost);
        }
        chain.set(place, slot);
        self.index.count_added(key.id.slice);
        let counters = self.count(local);
        counters.items.add(1);
        counters.ghost_hits.add(u64::from(remembered));
        Ok(Current { place, slot, addr, item, head: draft.head })
    }

    /// Writes an item on new ground, where nobody sees it yet.
    fn lay(
        &self,
        local: &mut Local,
        key: &Key<'_>,
        pool: Pool,
        draft: &Draft<'_>,
        now: Now,
    ) -> Result<(Addr, ItemRef<'_>), NeedSpace> {
        let words = draft.head.used_words();
        let class = class(draft.with.expiry_s, now, self.segments.geometry().classes);
        let addr = self
            .segments
            .carve(&self.epochs, pool, class, words, Purpose::Write)
            .ok_or(NeedSpace::ONE)?;
        let item = self.segments.item(addr);
        item.write(draft.head, key.bytes, &draft.with, draft.value);
        self.segments.header_of(addr).note_expiry(draft.with.expiry_s);
        local.debt_words += words;
        let counters = self.count(local);
        counters.stored.add(1);
        counters.item_words.add(words as u64);
        Ok((addr, item))
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

/// The number that `digits` spell, which may be padded with spaces at the end.
fn number(digits: &[u8]) -> Option<u64> {
    let digits = digits.trim_ascii_end();
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Writes `number` in decimal to the front of `digits`.
fn decimal(mut number: u64, digits: &mut [u8; NUMBER_BYTES_MAX]) -> &[u8] {
    let len = number.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..len].iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
    &digits[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_as_memcached_does() {
        for (text, expected) in [
            (&b"0"[..], Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"7  ", Some(7)),
            (b"", None),
            (b"-1", None),
            (b"1a", None),
        ] {
            assert_eq!(number(text), expected, "{}", String::from_utf8_lossy(text));
        }
        for value in [0, 9, 10, 12_345, u64::MAX] {
            let mut digits = [0; NUMBER_BYTES_MAX];
            assert_eq!(decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
