//! The commonest write, told apart: a plain `set` of an item that is there, whose ground fits the
//! new value. It takes no ground and changes no count, so there is nothing to pay for.
//!
//! Whatever does not fit this shape goes the general way, in `store`, which would do the same.

use crate::engine::Engine;
use crate::expiry::class;
use crate::index::Chain;
use crate::item::{Attributes, Flags, SLACK_WORDS_MAX};
use crate::local::Local;
use crate::store::IN_PLACE_BYTES_MAX;
use crate::write::{Action, Mode, Op};
use base::Now;

impl Engine {
    /// Writes over the item of `op.key` in place. False if that is not what `op` asks for, or not
    /// possible; nothing has changed then.
    #[inline]
    pub(crate) fn overwrite(
        &self,
        local: &Local,
        chain: &mut Chain<'_>,
        op: &Op<'_>,
        now: Now,
    ) -> bool {
        let Action::Store { mode: Mode::Set, value, client_flags, expiry_s } = op.action else {
            return false;
        };
        if !op.is_plain() || value.len() > IN_PLACE_BYTES_MAX {
            return false;
        }
        let key = op.key.bytes;
        let found = chain.find(op.key.id.hash, |addr| {
            let item = self.segments.item(addr);
            item.head().key_bytes() == key.len() && item.key_is(key)
        });
        let Some(place) = found else { return false };
        let addr = chain.get(place).addr();
        let item = self.segments.item(addr);
        let old = item.head();
        let with = Attributes { expiry_s, client_flags, ..Attributes::default() };
        let head = with.head(key.len(), value.len());
        let (has, needs) = (old.span_words(), head.used_words());
        if old.is(Flags::LARGE) || needs > has || has - needs > SLACK_WORDS_MAX {
            return false;
        }
        let segment = self.segments.header_of(addr);
        if segment.class() != class(expiry_s, now, self.segments.geometry().classes)
            || !self.alive(item, old, op.key.id.slice, now)
        {
            return false;
        }
        chain.touch();
        chain.raise_freq(place);
        let head = head.with_slack(has - needs).with_access(now.expiry_s);
        item.write_behind_key(head, &with, [value, &[]]);
        item.set_version(self.slices.next(op.key.id.slice));
        segment.note_expiry(expiry_s);
        self.count(local).overwritten.add(1);
        true
    }
}
