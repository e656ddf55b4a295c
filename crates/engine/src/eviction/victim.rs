//! What becomes of the items of a victim, one at a time: kept and moved, or dropped.
//!
//! An item that is kept needs space: in the segment that writers fill, and where that is full in a
//! segment opened for moves, which writers neither open nor fill. When a walk begins, one segment
//! is free for moves or soon leaves limbo. It is enough for all that is kept of one victim, and the
//! victim itself is the next.
//!
//! Each item is looked at under the lock of its own chain, and only if its slot still points to the
//! place in the victim: else it was moved or replaced, and its words are dead already.

use super::ghosts::GhostClock;
use crate::effects::{EffectSink, Gone};
use crate::index::{Chain, Slot};
use crate::item::{Flags, Head, ItemRef};
use crate::items::{Current, Items};
use crate::keys::Key;
use crate::local::Pin;
use crate::segments::{Addr, Pool, Purpose, Stream, Victim, names_chunk, owner, rename_chunk};
use base::Now;

/// Hits that carry an item from the small pool to the main one.
const PROMOTE_FREQ: u64 = 1;

/// The part of a victim's words that may be kept: this many quarters, but for the last item.
const KEPT_QUARTERS_MAX: usize = 3;

/// A victim that is being walked.
pub(super) struct Walk {
    pub(super) victim: Victim,
    /// How far the walk has come.
    pub(super) at_words: usize,
    /// What of it was moved.
    kept_words: usize,
}

impl Walk {
    pub(super) fn of(victim: Victim) -> Self {
        Self { victim, at_words: 0, kept_words: 0 }
    }
}

/// What lies at a place of a victim: an item, or a chunk of the item that `key` names.
struct Subject<'a> {
    key: Key<'a>,
    addr: Addr,
    chunk: bool,
}

/// What becomes of a live item of a victim.
enum Decision {
    Keep { freq: u64 },
    Drop { gone: Gone },
}

/// Who walks a victim, and where evictions are counted and emitted.
pub(crate) struct Walker<'w, S> {
    pub(super) items: &'w Items,
    pub(super) ghosts: &'w GhostClock,
    pub(super) pin: &'w mut Pin,
    pub(super) now: Now,
    pub(super) sink: &'w mut S,
}

impl<'w, S: EffectSink> Walker<'w, S> {
    pub(crate) fn new(
        items: &'w Items,
        ghosts: &'w GhostClock,
        pin: &'w mut Pin,
        now: Now,
        sink: &'w mut S,
    ) -> Self {
        Self { items, ghosts, pin, now, sink }
    }

    /// Decides about one item of a victim and carries it out; false when it must wait for ground
    /// to move it to.
    pub(super) fn process(
        &mut self,
        walk: &mut Walk,
        addr: Addr,
        (item, head): (ItemRef<'_>, Head),
    ) -> bool {
        if head.is(Flags::FILLER) {
            return true;
        }
        let mut name = self.pin.take_scratch();
        item.append_key(head, &mut name);
        let chunk = head.is(Flags::CHUNK);
        let key = if chunk {
            owner(&name).map(|id| Key { id, bytes: &[] })
        } else {
            Some(self.items.key(&name))
        };
        let mut judged = true;
        if let Some(key) = key {
            let subject = Subject { key, addr, chunk };
            judged = self.process_key(walk, &subject);
            self.items.index().adjust(self.pin.grace(), key.id.slice);
        }
        self.pin.keep_scratch(name);
        judged
    }

    fn process_key(&mut self, walk: &mut Walk, subject: &Subject<'_>) -> bool {
        let Subject { key, addr, chunk } = *subject;
        let items = self.items;
        let Some(mut chain) = items.index().lock(self.pin.grace(), key.id) else { return true };
        let place = chain.find(key.id.hash, |at| {
            let item = self.items.segments().item(at);
            if chunk { names_chunk(item, item.head(), addr) } else { at == addr }
        });
        let Some(place) = place else { return true };
        let current = items.current(&chain, place);
        let words = self.items.segments().item(addr).head().used_words();
        let decision = self.decide(walk, words, &key, &current);
        if let Decision::Keep { freq } = decision {
            let pool = if walk.victim.compact { walk.victim.pool } else { Pool::Main };
            let moved = if chunk {
                self.move_chunk(&current, addr, pool)
            } else {
                self.move_item(&mut chain, &key, &current, (pool, freq))
            };
            if moved {
                chain.touch();
                walk.kept_words += words;
                let counters = self.pin.counters();
                if walk.victim.compact { &counters.compacted } else { &counters.kept }.add(1);
                return true;
            }
            if !items.config().evict || items.segments().counts().limbo > 0 {
                return false;
            }
        }
        let gone = match decision {
            Decision::Drop { gone } => gone,
            Decision::Keep { .. } => Gone::Evicted,
        };
        let mut owner_key = Vec::new();
        let key = if chunk {
            current.item.append_key(current.head, &mut owner_key);
            Key { id: key.id, bytes: &owner_key }
        } else {
            key
        };
        items.remove(self.pin, &mut chain, &key, &current, gone, self.sink);
        if gone == Gone::Evicted {
            let words = current.head.span_words();
            let ghost = self.ghosts.ghost(key.id.hash, walk.victim.pool, words);
            ghost.into_iter().for_each(|ghost| chain.remember(ghost));
        }
        chain.trim();
        true
    }

    /// What becomes of an item of which `words` would have to move.
    fn decide(&self, walk: &Walk, words: usize, key: &Key<'_>, current: &Current<'_>) -> Decision {
        if !self.items.alive(current.item, current.head, key.id.slice, self.now) {
            return Decision::Drop { gone: Gone::Expired };
        }
        let freq = current.slot.freq();
        if walk.victim.compact {
            return Decision::Keep { freq };
        }
        let whole = self.items.segments().geometry().segment_words;
        let is_enough = walk.kept_words >= whole / 4 * KEPT_QUARTERS_MAX;
        if is_enough || walk.kept_words + words > whole {
            return Decision::Drop { gone: Gone::Evicted };
        }
        match walk.victim.pool {
            Pool::Small if freq >= PROMOTE_FREQ => Decision::Keep { freq: 0 },
            Pool::Main if freq > 0 => Decision::Keep { freq: freq - 1 },
            _ => Decision::Drop { gone: Gone::Evicted },
        }
    }

    /// Copies an item to the end of `pool`, and points its slot there; false for want of ground.
    fn move_item(
        &self,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: &Current<'_>,
        (pool, freq): (Pool, u64),
    ) -> bool {
        let expiry_s = current.item.expiry_s(current.head);
        let to = self.copy_kept(current.addr, expiry_s, pool);
        if let Some(to) = to {
            chain.set(current.place, Slot::item(key.id.hash, to, freq));
        }
        to.is_some()
    }

    /// Copies the chunk at `addr` and makes its owner's table name the copy; false for want of
    /// ground.
    fn move_chunk(&self, owner: &Current<'_>, addr: Addr, pool: Pool) -> bool {
        let expiry_s = owner.item.expiry_s(owner.head);
        let to = self.copy_kept(addr, expiry_s, pool);
        if let Some(to) = to {
            rename_chunk(owner.item, owner.head, addr, to);
        }
        to.is_some()
    }

    fn copy_kept(&self, from: Addr, expiry_s: u32, pool: Pool) -> Option<Addr> {
        let item = self.items.segments().item(from);
        let head = item.head();
        let class = self.items.segments().header_of(from).class();
        let ground = |purpose| {
            let stream = Stream { purpose, pool, class };
            self.items.segments().allocate(self.pin.grace(), stream, head.used_words())
        };
        let to = ground(Purpose::Write).or_else(|| ground(Purpose::Move))?;
        self.items.segments().item(to).copy_from(item, head);
        self.items.segments().header_of(to).note_expiry(expiry_s);
        self.pin.counters().item_words.subtract(head.slack_words() as u64);
        Some(to)
    }
}
