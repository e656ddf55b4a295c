//! Walking and dropping slices: what moves data between cells.
//!
//! A walk goes through the buckets of a slice in order. Growing moves items to buckets that are
//! yet to come, so none is missed. After shrinking the walk starts over and emits some items
//! twice, which their versions make harmless. A walk holds one chain at a time. A call of [`scan`]
//! is bounded in items and in chains; [`forget`] has no bound.

use crate::effects::{Change, Effect, EffectSink, NoSink, Removal};
use crate::index::{Chain, Index, Place};
use crate::item::Flags;
use crate::items::Items;
use crate::local::Pin;
use base::{Now, SliceId};

/// Chains that one call of [`scan`] looks at, at most.
const CHAINS_MAX: u32 = 1 << 10;

/// How far a walk has come. [`Cursor::default`] is its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    bucket: u64,
    buckets: u64,
    restarted: bool,
}

impl Cursor {
    /// The buckets passed since the start, or since the slice last shrank.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.bucket
    }

    /// Whether the slice shrank meanwhile, so that some items were emitted twice.
    #[must_use]
    pub fn restarted(&self) -> bool {
        self.restarted
    }

    /// The next chain of the walk, or `None` at its end. Whether the slice shrank is looked at
    /// for every chain, since a chain that was passed may have received the items of the last.
    fn next<'i>(&mut self, index: &'i Index, slice: SliceId) -> Option<Chain<'i>> {
        loop {
            let shape = index.shape(slice);
            if shape.buckets() < self.buckets {
                self.bucket = 0;
                self.restarted = true;
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
    /// The walk is over: every item was emitted.
    No,
}

/// Emits the items of `slice` to `sink`, from `at` on, until at least `items_min` were emitted,
/// [`CHAINS_MAX`] chains were looked at, or the walk is over.
pub(crate) fn scan<S: EffectSink>(
    items: &Items,
    pin: &mut Pin,
    (slice, at): (SliceId, &mut Cursor),
    items_min: u32,
    now: Now,
    sink: &mut S,
) -> More {
    let mut emitted = 0;
    for _ in 0..CHAINS_MAX {
        if emitted >= items_min {
            break;
        }
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
        if S::VALUES {
            items.append_whole(&current, &mut value);
        }
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
