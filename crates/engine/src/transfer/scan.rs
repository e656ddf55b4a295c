//! Walking and dropping slices: what moves data between cells.
//!
//! A walk goes through the buckets of a slice in order. Growing moves items to buckets that are
//! yet to come, so none is missed. After shrinking the walk starts over and emits some items
//! twice, which their versions make harmless. A walk holds one chain at a time. It has no bound in
//! buckets: a slice without items is walked to its end in one call.

use crate::effects::{Change, Effect, EffectSink, NoSink, Removal};
use crate::index::{Chain, Index, Place};
use crate::item::Flags;
use crate::items::Items;
use crate::local::Pin;
use base::{Now, SliceId};

/// How far a walk has come. [`Cursor::default`] is its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    bucket: u64,
    buckets: u64,
}

impl Cursor {
    /// The next chain of the walk, or `None` at its end. Whether the slice shrank is looked at
    /// for every chain, since a chain that was passed may have received the items of the last.
    fn next<'i>(&mut self, index: &'i Index, slice: SliceId) -> Option<Chain<'i>> {
        loop {
            let shape = index.shape(slice);
            if shape.buckets() < self.buckets {
                self.bucket = 0;
            }
            self.buckets = shape.buckets();
            if self.bucket >= self.buckets {
                return None;
            }
            if let Some(chain) = index.lock_bucket(slice, shape, self.bucket) {
                self.bucket += 1;
                return Some(chain);
            }
        }
    }
}

/// Whether a walk has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Call again.
    Yes,
    /// Every item was emitted.
    No,
}

/// Emits the items of `slice` to `sink`, from `at` on, until at least `items_min` were emitted or
/// the walk is over.
pub(crate) fn scan<S: EffectSink>(
    items: &Items,
    pin: &mut Pin,
    (slice, at): (SliceId, &mut Cursor),
    items_min: u32,
    now: Now,
    sink: &mut S,
) -> More {
    let mut emitted = 0;
    while emitted < items_min {
        let Some(chain) = at.next(items.index(), slice) else { return More::No };
        emitted += emit_chain(items, pin, &chain, slice, now, sink);
    }
    More::Yes
}

fn emit_chain<S: EffectSink>(
    items: &Items,
    pin: &mut Pin,
    chain: &Chain<'_>,
    slice: SliceId,
    now: Now,
    sink: &mut S,
) -> u32 {
    let mut emitted = 0;
    let (mut name, mut value) = (Vec::new(), pin.take_scratch());
    for place in chain.places().filter(|place| chain.get(*place).is_item()) {
        let current = items.current(chain, place);
        name.clear();
        current.item.append_key(current.head, &mut name);
        let key = items.key(&name);
        if key.id.slice != slice || !items.alive(current.item, current.head, slice, now) {
            continue;
        }
        value.clear();
        items.append_whole(&current, &mut value);
        let mut with = current.item.attributes(current.head);
        with.flags = with.flags.without(Flags::LARGE);
        let effect = Effect {
            key: key.bytes,
            change: Change::put(&value, &with),
            version: current.item.version(),
        };
        sink.commit(key.id, &effect);
        emitted += 1;
    }
    pin.keep_scratch(value);
    emitted
}

/// Drops every item of `slice`.
pub(crate) fn forget(items: &Items, pin: &Pin, slice: SliceId) {
    let (mut at, mut name) = (Cursor::default(), Vec::new());
    while let Some(mut chain) = at.next(items.index(), slice) {
        let places: Vec<Place> = chain.places().collect();
        for place in places {
            if !chain.get(place).is_item() {
                continue;
            }
            let current = items.current(&chain, place);
            name.clear();
            current.item.append_key(current.head, &mut name);
            let key = items.key(&name);
            if key.id.slice == slice {
                items.remove(pin, &mut chain, &key, &current, Removal::Deleted, &mut NoSink);
            }
        }
        chain.trim();
    }
}
