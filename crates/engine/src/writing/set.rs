//! The most common write: a plain `set` of an item that exists, whose space fits the new value. It
//! takes no space and changes no count, so there is nothing to pay for.
//!
//! Any other write goes the general way, `change`, which would do the same here. It changes nothing
//! before it is certain to succeed, and the sink has taken its effect. It holds the lock of the
//! first bucket of the chain and looks at no other bucket.

use super::in_place;
use super::op::Put;
use crate::index::FREQ_MAX;
use crate::item::{Attributes, class};
use crate::items::Items;
use crate::keys::Key;
use crate::local::Pin;
use base::{Change, EffectSink, Now, Space, Value, Version};

/// Writes over the item of `key` in place. `None` if that is not possible; nothing has changed
/// then.
#[inline(always)]
pub(crate) fn overwrite<S: EffectSink>(
    items: &Items,
    pin: &Pin,
    key: &Key<'_>,
    put: Put<'_>,
    now: Now,
    sink: &mut S,
) -> Option<()> {
    let Put { value, client_flags, expiry_s } = put;
    if value.len() > in_place::BYTES_MAX {
        // Known before the lock is taken; and a longer one may have no head.
        return None;
    }
    if S::ON {
        let known = Some(Value::Parts([value, &[]]));
        let (key_bytes, value_bytes) = (key.bytes.len(), value.len());
        let space = Space::Change { key_bytes, value_bytes, value: known };
        sink.reserve(key.id.slice, space).ok()?;
    }
    let mut bucket = items.index().lock_first(key.id)?;
    let (at, slot) = bucket.candidate(key.id.hash)?;
    let item = items.segments().item(slot.addr());
    let old = item.head();
    if old.key_bytes() != key.bytes.len() || !item.key_is(key.bytes) {
        return None;
    }
    let with = Attributes { expiry_s, client_flags, ..Attributes::default() };
    let head = with.head(key.bytes.len(), value.len());
    let segment = items.segments().header_of(slot.addr());
    let class = class(expiry_s, now, || items.segments().classes());
    let slack = in_place::slack(old, segment, head, class, false)?;
    if !items.alive(item, old, key.id.slice, now) {
        return None;
    }
    // The version first: a locked addition would wait for every store before it.
    let change = Change::Put(Value::Parts([value, &[]]), with.facts());
    let version = items.commit(key, change, Version::ZERO, sink).ok()?;
    bucket.touch();
    if slot.freq() < FREQ_MAX {
        bucket.raise_freq(at, slot);
    }
    let head = head.with_slack(slack).with_access(now.expiry_s);
    item.set_version(version);
    item.write_after_key(head, &with, [value, &[]]);
    segment.note_expiry(expiry_s);
    pin.counters().overwritten.add(1);
    Some(())
}
