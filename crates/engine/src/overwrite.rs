//! The commonest write, told apart: a plain `set` of an item that is there, whose ground fits the
//! new value. It takes no ground and changes no count, so there is nothing to pay for.
//!
//! Whatever does not fit this shape goes the general way, in `store`, which would do the same.

use crate::effect::EffectSink;
use crate::engine::Engine;
use crate::expiry::class;
use crate::head::{Flags, SLACK_WORDS_MAX};
use crate::index::FREQ_MAX;
use crate::item::Attributes;
use crate::key::Key;
use crate::local::Local;
use crate::place::IN_PLACE_BYTES_MAX;
use crate::write::{Action, Mode, Op, Outcome};
use base::Now;

/// A value to store, whatever is there.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The value.
    pub value: &'a [u8],
    /// The client's flags.
    pub client_flags: u32,
    /// Second of the expiry clock from which the item is gone; 0 for never.
    pub expiry_s: u32,
}

impl Put<'_> {
    /// What `op` stores, if it is a `set` without conditions that wants nothing told.
    pub(crate) fn of<'a>(op: &Op<'a>) -> Option<Put<'a>> {
        let Action::Store { mode: Mode::Set, value, client_flags, expiry_s } = op.action else {
            return None;
        };
        let is_plain = op.compare.is_none() && op.cas.is_none() && !op.report;
        is_plain.then_some(Put { value, client_flags, expiry_s })
    }
}

impl Engine {
    /// [`Engine::write`] for a `set` without conditions. The local is pinned; the pin may move on.
    ///
    /// What most sets meet is inlined where this is called; all else is not.
    #[inline(always)]
    pub fn set<S: EffectSink>(
        &self,
        local: &mut Local,
        key: &Key<'_>,
        put: Put<'_>,
        now: Now,
        sink: &mut S,
    ) -> Outcome {
        if !S::ON && self.overwrite(local, key, put, now).is_some() {
            return Outcome::Done;
        }
        let Put { value, client_flags, expiry_s } = put;
        self.set_any(local, *key, value, (client_flags, expiry_s), now, sink)
    }

    #[inline(never)]
    fn set_any<S: EffectSink>(
        &self,
        local: &mut Local,
        key: Key<'_>,
        value: &[u8],
        (client_flags, expiry_s): (u32, u32),
        now: Now,
        sink: &mut S,
    ) -> Outcome {
        let action = Action::Store { mode: Mode::Set, value, client_flags, expiry_s };
        self.write_with_room(local, &Op::new(key, action), now, sink).outcome
    }

    /// Writes over the item of `key` in place. `None` if that is not possible; nothing has changed
    /// then.
    #[inline(always)]
    pub(crate) fn overwrite(
        &self,
        local: &Local,
        key: &Key<'_>,
        put: Put<'_>,
        now: Now,
    ) -> Option<()> {
        let Put { value, client_flags, expiry_s } = put;
        if value.len() > IN_PLACE_BYTES_MAX {
            return None;
        }
        let mut bucket = self.index.lock_first(key.id)?;
        let (at, slot) = bucket.candidate(key.id.hash)?;
        let item = self.segments.item(slot.addr());
        let old = item.head();
        if old.key_bytes() != key.bytes.len() || !item.key_is(key.bytes) {
            return None;
        }
        let with = Attributes { expiry_s, client_flags, ..Attributes::default() };
        let head = with.head(key.bytes.len(), value.len());
        let slack = (old.used_words() + old.slack_words()).checked_sub(head.used_words())?;
        if old.is(Flags::LARGE) || slack > SLACK_WORDS_MAX {
            return None;
        }
        let segment = self.segments.header_of(slot.addr());
        if segment.class() != class(expiry_s, now, self.segments.geometry().classes)
            || !self.alive(item, old, key.id.slice, now)
        {
            return None;
        }
        bucket.touch();
        if slot.freq() < FREQ_MAX {
            bucket.raise_freq(at, slot);
        }
        let head = head.with_slack(slack).with_access(now.expiry_s);
        // The version first: a locked addition would wait for every store before it.
        item.set_version(self.slices.next(key.id.slice));
        item.write_behind_key(head, &with, [value, &[]]);
        segment.note_expiry(expiry_s);
        self.count(local).overwritten.add(1);
        Some(())
    }
}
