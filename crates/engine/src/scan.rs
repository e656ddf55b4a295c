//! Walking, cutting and dropping slices: what moving data between cells is made of.
//!
//! A walk goes through the buckets of a slice in order. Growing moves items to buckets that are
//! yet to come, so none is missed; after shrinking the walk starts over, and tells some items
//! twice, which their versions make harmless.

use crate::effect::{EffectSink, Gone, NoSink};
use crate::engine::Engine;
use crate::head::Flags;
use crate::index::{Chain, Index, Place};
use crate::key::Key;
use crate::local::Local;
use crate::place::put_change;
use crate::slices::KEPT;
use base::{Now, SliceId, Version};

/// How far a walk has come.
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
    /// Every item was told.
    No,
}

impl Engine {
    /// Tells `sink` the items of `slice`, from `at` on, until at least `items` were told or the
    /// walk is over. The local is pinned.
    pub fn scan<S: EffectSink>(
        &self,
        local: &mut Local,
        slice: SliceId,
        at: &mut Cursor,
        items: u32,
        now: Now,
        sink: &mut S,
    ) -> More {
        let mut told = 0;
        while told < items {
            let Some(chain) = at.next(&self.index, slice) else { return More::No };
            told += self.tell_chain(local, &chain, slice, now, sink);
        }
        More::Yes
    }

    fn tell_chain<S: EffectSink>(
        &self,
        local: &mut Local,
        chain: &Chain<'_>,
        slice: SliceId,
        now: Now,
        sink: &mut S,
    ) -> u32 {
        let mut told = 0;
        let (mut name, mut value) = (Vec::new(), std::mem::take(&mut local.scratch));
        for place in chain.places().filter(|place| chain.get(*place).is_item()) {
            let current = self.current(chain, place);
            name.clear();
            current.item.append_key(current.head, &mut name);
            let key = self.key(&name);
            if key.id.slice != slice || !self.alive(current.item, current.head, slice, now) {
                continue;
            }
            value.clear();
            self.append_whole(&current, &mut value);
            let mut with = current.item.attributes(current.head);
            with.flags = with.flags.without(Flags::LARGE);
            let effect = crate::effect::Effect {
                key: key.bytes,
                change: put_change(&value, &with),
                version: current.item.version(),
            };
            sink.commit(key.id, &effect);
            told += 1;
        }
        local.scratch = value;
        told
    }

    /// Drops every item of `slice`. The local is pinned.
    pub fn forget(&self, local: &mut Local, slice: SliceId) {
        let mut at = Cursor::default();
        while let Some(mut chain) = at.next(&self.index, slice) {
            let places: Vec<Place> = chain.places().collect();
            for place in places {
                if !chain.get(place).is_item() {
                    continue;
                }
                let current = self.current(&chain, place);
                let mut name = std::mem::take(&mut local.scratch);
                name.clear();
                current.item.append_key(current.head, &mut name);
                let key: Key<'_> = self.key(&name);
                if key.id.slice == slice {
                    let gone = Gone::Deleted;
                    self.remove(local, &mut chain, &key, &current, gone, &mut NoSink);
                }
                local.scratch = name;
            }
            chain.trim();
        }
    }

    /// The last version given in `slice`: what a barrier for everything up to now is.
    #[must_use]
    pub fn last_version(&self, slice: SliceId) -> Version {
        self.slices.last(slice)
    }

    /// Cuts `slice` off at `version`: items with it or an older one are dead from now on.
    pub fn barrier(&self, slice: SliceId, version: Version) {
        self.slices.set_barrier(slice, version);
    }

    /// Cuts every slice off at its last version: flush_all.
    pub fn flush(&self) {
        for slice in SliceId::all().take(KEPT) {
            self.slices.cut(slice);
        }
    }
}
