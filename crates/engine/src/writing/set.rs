//! The most common write: a plain `set` of an item that exists, whose space fits the new value. It
//! takes no space and changes no count, so there is nothing to pay for. A copy has such a write
//! too.
//!
//! Any other write goes the general way, `change` or `apply`, which would do the same here. It
//! changes nothing before it is certain to succeed, and the sink has taken its effect. It holds the
//! lock of the first bucket of the chain and looks at no other bucket.

use super::in_place;
use super::op::Put;
use crate::index::{FREQ_MAX, First, Slot};
use crate::item::{Attributes, Head, ItemRef, class};
use crate::items::Items;
use crate::keys::Key;
use crate::local::Pin;
use crate::segments::Header;
use base::{Change, EffectSink, Now, Space, Value, Version};

/// An item whose space fits the new value, under the lock of its bucket.
struct Over<'e> {
    bucket: First<'e>,
    at: usize,
    slot: Slot,
    item: ItemRef<'e>,
    /// The head of the present item.
    old: Head,
    /// That of the new one.
    head: Head,
    segment: Header<'e>,
}

impl<'e> Over<'e> {
    /// The item of `key`, if a value of `value_bytes` fits where it lies.
    #[inline(always)]
    fn find(
        items: &'e Items,
        key: &Key<'_>,
        with: &Attributes,
        value_bytes: usize,
        now: Now,
    ) -> Option<Self> {
        let bucket = items.index().lock_first(key.id)?;
        let (at, slot) = bucket.candidate(key.id.hash)?;
        let item = items.segments().item(slot.addr());
        let old = item.head();
        if old.key_bytes() != key.bytes.len() || !item.key_is(key.bytes) {
            return None;
        }
        let head = with.head(key.bytes.len(), value_bytes);
        let segment = items.segments().header_of(slot.addr());
        let class = class(with.expiry_s, now, || items.segments().classes());
        let slack = in_place::slack(old, segment, head, class, false)?;
        let head = head.with_slack(slack).with_access(now.expiry_s);
        Some(Self { bucket, at, slot, item, old, head, segment })
    }

    /// Writes the value over it.
    #[inline(always)]
    fn write(mut self, pin: &Pin, with: &Attributes, value: [&[u8]; 2], version: Version) {
        self.bucket.touch();
        if self.slot.freq() < FREQ_MAX {
            self.bucket.raise_freq(self.at, self.slot);
        }
        self.item.set_version(version);
        self.item.write_after_key(self.head, with, value);
        self.segment.note_expiry(with.expiry_s);
        pin.counters().overwritten.add(1);
    }
}

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
    let with = Attributes { expiry_s, client_flags, ..Attributes::default() };
    let over = Over::find(items, key, &with, value.len(), now)?;
    if !items.alive(over.item, over.old, key.id.slice, now) {
        return None;
    }
    // The version first: a locked addition would wait for every store before it.
    let change = Change::Put(Value::Parts([value, &[]]), with.facts());
    let version = items.commit(key, change, Version::ZERO, sink).ok()?;
    over.write(pin, &with, [value, &[]], version);
    Some(())
}

/// Writes over the item of `key` in place what another engine has stored there, with the `version`
/// that it gave to it. `None` if that is not possible; nothing has changed then. `Some(false)`: the
/// item is as new.
#[inline]
pub(crate) fn overwrite_copy(
    items: &Items,
    pin: &Pin,
    key: &Key<'_>,
    (with, value): (&Attributes, [&[u8]; 2]),
    version: Version,
    now: Now,
) -> Option<bool> {
    let value_bytes = value[0].len() + value[1].len();
    if value_bytes > in_place::BYTES_MAX {
        return None;
    }
    let over = Over::find(items, key, with, value_bytes, now)?;
    if over.item.version() >= version {
        return Some(false);
    }
    over.write(pin, with, value, version);
    Some(true)
}
