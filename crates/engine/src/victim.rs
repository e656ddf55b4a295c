//! What becomes of the items of a victim, one at a time: kept, and moved, or dropped.
//!
//! What is kept finds ground: beside what is written, and where that is full in a segment that
//! writers neither open nor fill. When a walk begins one is free for this or comes out of limbo. It
//! is enough for all that is kept of a victim, and the victim itself is the next.

use crate::effect::{EffectSink, Gone};
use crate::engine::{Current, Engine};
use crate::head::{Flags, Head};
use crate::index::{Chain, Slot};
use crate::item::ItemRef;
use crate::key::Key;
use crate::large;
use crate::local::Local;
use crate::segment::{Addr, Pool, Purpose, Stream, Victim};
use base::Now;

/// Hits that carry an item from the small pool to the main one.
const PROMOTE_FREQ: u64 = 1;

/// The part of a victim's words that may be kept: this many quarters, but for the last item.
const KEPT_QUARTERS_MAX: usize = 3;

/// A victim that is being walked.
pub(crate) struct Walk {
    pub(crate) victim: Victim,
    /// How far the walk has come.
    pub(crate) at_words: usize,
    /// What of it was moved.
    kept_words: usize,
}

impl Walk {
    pub(crate) fn of(victim: Victim) -> Self {
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
enum Verdict {
    Keep { freq: u64 },
    Drop { gone: Gone },
}

impl Engine {
    /// Decides about one item of a victim and carries it out; false when it must wait for ground
    /// to move it to.
    pub(crate) fn judge<S: EffectSink>(
        &self,
        local: &mut Local,
        walk: &mut Walk,
        addr: Addr,
        (item, head): (ItemRef<'_>, Head),
        now: Now,
        sink: &mut S,
    ) -> bool {
        if head.is(Flags::FILLER) {
            return true;
        }
        let mut name = std::mem::take(&mut local.scratch);
        name.clear();
        item.append_key(head, &mut name);
        let chunk = head.is(Flags::CHUNK);
        let key = if chunk {
            large::owner(&name).map(|id| Key { id, bytes: &[] })
        } else {
            Some(self.key(&name))
        };
        let mut judged = true;
        if let Some(key) = key {
            let subject = Subject { key, addr, chunk };
            judged = self.judge_key(local, walk, &subject, now, sink);
            self.index.adjust(&self.epochs, key.id.slice);
        }
        local.scratch = name;
        judged
    }

    fn judge_key<S: EffectSink>(
        &self,
        local: &mut Local,
        walk: &mut Walk,
        subject: &Subject<'_>,
        now: Now,
        sink: &mut S,
    ) -> bool {
        let Subject { key, addr, chunk } = *subject;
        let Some(mut chain) = self.index.lock(&self.epochs, key.id) else { return true };
        let place = chain.find(key.id.hash, |at| {
            let item = self.segments.item(at);
            if chunk { self.names_chunk(item, item.head(), addr) } else { at == addr }
        });
        let Some(place) = place else { return true };
        let current = self.current(&chain, place);
        let words = self.segments.item(addr).head().used_words();
        let verdict = self.verdict(walk, words, &key, &current, now);
        if let Verdict::Keep { freq } = verdict {
            let pool = if walk.victim.compact { walk.victim.pool } else { Pool::Main };
            let moved = if chunk {
                self.move_chunk(local, &current, addr, pool)
            } else {
                self.move_item(local, &mut chain, &key, &current, (pool, freq))
            };
            if moved {
                chain.touch();
                walk.kept_words += words;
                let counters = self.count(local);
                if walk.victim.compact { &counters.compacted } else { &counters.kept }.add(1);
                return true;
            }
            if !self.config.evict || self.segments.census().limbo > 0 {
                return false;
            }
        }
        let gone = match verdict {
            Verdict::Drop { gone } => gone,
            Verdict::Keep { .. } => Gone::Evicted,
        };
        let owner_name;
        let key = if chunk {
            owner_name = self.key_of(&current);
            Key { id: key.id, bytes: &owner_name }
        } else {
            key
        };
        self.remove(local, &mut chain, &key, &current, gone, sink);
        if gone == Gone::Evicted {
            let words = current.head.span_words();
            let ghost = self.ghosts.ghost(key.id.hash, walk.victim.pool, words);
            ghost.into_iter().for_each(|ghost| chain.remember(ghost));
        }
        chain.trim();
        true
    }

    /// What becomes of an item of which `words` would have to move.
    fn verdict(
        &self,
        walk: &Walk,
        words: usize,
        key: &Key<'_>,
        current: &Current<'_>,
        now: Now,
    ) -> Verdict {
        if !self.alive(current.item, current.head, key.id.slice, now) {
            return Verdict::Drop { gone: Gone::Expired };
        }
        let freq = current.slot.freq();
        if walk.victim.compact {
            return Verdict::Keep { freq };
        }
        let whole = self.segments.geometry().segment_words;
        let is_enough = walk.kept_words >= whole / 4 * KEPT_QUARTERS_MAX;
        if is_enough || walk.kept_words + words > whole {
            return Verdict::Drop { gone: Gone::Evicted };
        }
        match walk.victim.pool {
            Pool::Small if freq >= PROMOTE_FREQ => Verdict::Keep { freq: 0 },
            Pool::Main if freq > 0 => Verdict::Keep { freq: freq - 1 },
            _ => Verdict::Drop { gone: Gone::Evicted },
        }
    }

    /// Copies an item to the end of `pool`, and points its slot there; false for want of ground.
    fn move_item(
        &self,
        local: &Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        current: &Current<'_>,
        (pool, freq): (Pool, u64),
    ) -> bool {
        let expiry_s = current.item.expiry_s(current.head);
        let to = self.copy_kept(local, current.addr, expiry_s, pool);
        if let Some(to) = to {
            chain.set(current.place, Slot::item(key.id.hash, to, freq));
        }
        to.is_some()
    }

    /// Copies the chunk at `addr` and makes its owner's table name the copy; false for want of
    /// ground.
    fn move_chunk(&self, local: &Local, owner: &Current<'_>, addr: Addr, pool: Pool) -> bool {
        let expiry_s = owner.item.expiry_s(owner.head);
        let to = self.copy_kept(local, addr, expiry_s, pool);
        if let Some(to) = to {
            self.rename_chunk(owner.item, owner.head, addr, to);
        }
        to.is_some()
    }

    fn copy_kept(&self, local: &Local, from: Addr, expiry_s: u32, pool: Pool) -> Option<Addr> {
        let item = self.segments.item(from);
        let head = item.head();
        let class = self.segments.header_of(from).class();
        let ground = |purpose| {
            let stream = Stream { purpose, pool, class };
            self.segments.carve(&self.epochs, stream, head.used_words())
        };
        let to = ground(Purpose::Write).or_else(|| ground(Purpose::Move))?;
        self.segments.item(to).copy_from(item, head);
        self.segments.header_of(to).note_expiry(expiry_s);
        self.count(local).item_words.subtract(head.slack_words() as u64);
        Some(to)
    }

    fn key_of(&self, current: &Current<'_>) -> Vec<u8> {
        let mut name = Vec::new();
        current.item.append_key(current.head, &mut name);
        name
    }
}
