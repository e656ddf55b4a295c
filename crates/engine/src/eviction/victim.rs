//! What happens to the items of a victim, one at a time: kept and moved, or dropped.
//!
//! An item that is kept needs space: in the segment that the writers of the arena fill, and where
//! that is full in one opened for its moves, which writers neither open nor fill. When a walk
//! begins, a segment for each arena is free for moves or soon leaves limbo. One is enough for all
//! that is kept of one victim, and the victim itself is the next.
//!
//! Each item is looked at under the lock of its own chain, and only if its slot still points to the
//! place in the victim: else it was moved or replaced, and its words are dead already.

use super::ghosts::Evicted;
use super::work::Work;
use crate::index::{Chain, Place, Slot};
use crate::item::Flags;
use crate::items::{Current, Items};
use crate::keys::Key;
use crate::segments::{
    Addr, Pool, Purpose, SegmentId, Stream, Victim, names_chunk, owner, rename_chunk,
    whole_value_bytes,
};
use base::{EffectSink, KeyId, NoSink, Refused, Removal, Space};
use std::collections::VecDeque;

/// Hits that move an item from the small pool to the main pool.
const PROMOTE_FREQ: u64 = 1;

/// Quarters of a victim's words that may be kept. The last item may exceed them.
const KEPT_QUARTERS_MAX: usize = 3;

/// Items of a victim that are looked up together, before the first of them is decided about: the
/// processor fetches their buckets at the same time.
const AHEAD: usize = 16;

/// Items of a segment that say whether any client asks for it.
const SAMPLED: usize = 64;

/// A victim that is being walked.
pub(super) struct Walk {
    pub(super) victim: Victim,
    /// Words of it that were moved.
    kept_words: usize,
    /// What comes next.
    ahead: VecDeque<Subject>,
    /// Words of it that lie before the end of `ahead`.
    seen_words: usize,
    /// What the ghosts' clock does not know of yet.
    evicted: Evicted,
}

/// What lies at an address in a victim.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    addr: Addr,
    pub(super) span_words: usize,
    /// An item, or a chunk of the item of this key. `None` for a filler.
    key: Option<KeyId>,
    chunk: bool,
}

impl Subject {
    /// The slot of its item, in the locked chain of `key`: `None` if it is dead.
    fn find(&self, items: &Items, chain: &Chain<'_>, key: KeyId) -> Option<Place> {
        let segments = items.segments();
        chain.find(key.hash, |at| match self.chunk {
            true => names_chunk(segments.item(at), segments.item(at).head(), self.addr),
            false => at == self.addr,
        })
    }
}

impl Walk {
    pub(super) fn of(victim: Victim) -> Self {
        Self {
            victim,
            kept_words: 0,
            ahead: VecDeque::with_capacity(AHEAD),
            seen_words: 0,
            evicted: Evicted::default(),
        }
    }

    /// Ends it: everything in the victim was looked at. Returns how many words of it were moved,
    /// too.
    pub(super) fn end<S>(mut self, work: &Work<'_, S>) -> (Victim, usize) {
        work.ghosts.add(&mut self.evicted);
        (self.victim, self.kept_words)
    }

    /// What is to be decided about next; `None` at the end of the victim.
    pub(super) fn next<S>(&mut self, work: &mut Work<'_, S>) -> Option<Subject> {
        if self.ahead.is_empty() {
            self.look_ahead(work);
        }
        self.ahead.front().copied()
    }

    /// That is done.
    pub(super) fn pass(&mut self) {
        self.ahead.pop_front();
    }

    fn look_ahead<S>(&mut self, work: &mut Work<'_, S>) {
        let segments = work.items.segments();
        let used = segments.header(self.victim.id).used_words();
        let end = used.min(segments.geometry().segment_words);
        let mut name = work.pin.take_scratch();
        while self.ahead.len() < AHEAD && self.seen_words < end {
            let (addr, item) = segments.item_in(self.victim.id, self.seen_words);
            let head = item.head();
            let span_words = head.span_words();
            assert!(span_words > 0, "a segment is covered by items and fillers without a gap");
            let chunk = head.is(Flags::CHUNK);
            let key = (!head.is(Flags::FILLER)).then(|| {
                name.bytes.clear();
                item.append_key(head, &mut name.bytes);
                if chunk { owner(&name.bytes) } else { Some(work.items.key(&name.bytes).id) }
            });
            self.ahead.push_back(Subject { addr, span_words, key: key.flatten(), chunk });
            self.seen_words += span_words;
        }
        work.pin.keep_scratch(name);
        let keys = self.ahead.iter().filter_map(|subject| subject.key);
        work.items.index().fetch(keys);
    }
}

/// Whether of the first items of a segment none was hit since it was last walked. It stays where it
/// is.
pub(super) fn is_unrequested<S>(work: &mut Work<'_, S>, id: SegmentId) -> bool {
    let mut walk = Walk::of(Victim { id, pool: Pool::Main, compact: false });
    (0..SAMPLED / AHEAD).all(|_| {
        walk.look_ahead(work);
        let was_hit = |subject: Subject| {
            let Some(key) = subject.key else { return false };
            let Some(chain) = work.items.index().lock(work.pin.grace(), key) else { return false };
            let place = subject.find(work.items, &chain, key);
            place.is_some_and(|place| chain.get(place).freq() > 0)
        };
        !walk.ahead.drain(..).any(was_hit)
    })
}

/// What happens to an item of a victim.
enum Decision {
    Keep { freq: u64 },
    Drop { removal: Removal },
}

/// Decides about one item of a victim and does it. False when the item must wait for space to
/// move to. An item whose removal the sink does not take moves, so that others can go.
///
/// # Errors
/// When the sink does not take its removal, and there is no space to move it to.
pub(super) fn process<S: EffectSink>(
    work: &mut Work<'_, S>,
    walk: &mut Walk,
    subject: &Subject,
) -> Result<bool, Refused> {
    let Some(key) = subject.key else { return Ok(true) };
    // Asked once: a slice may become a copy meanwhile.
    let is_copy = work.items.slices().is_copy(key.slice);
    let reserved = match is_copy {
        true => Ok(()),
        false => work.sink.reserve(key.slice, Space::Removal),
    };
    let processed = process_key(work, walk, subject, (key, is_copy), reserved);
    work.items.index().resizing(key.slice).adjust(work.pin.grace());
    processed
}

fn process_key<S: EffectSink>(
    work: &mut Work<'_, S>,
    walk: &mut Walk,
    subject: &Subject,
    (id, is_copy): (KeyId, bool),
    reserved: Result<(), Refused>,
) -> Result<bool, Refused> {
    let addr = subject.addr;
    let items = work.items;
    let Some(mut chain) = items.index().lock(work.pin.grace(), id) else { return Ok(true) };
    let Some(place) = subject.find(items, &chain, id) else { return Ok(true) };
    let current = items.current(&chain, place);
    let words = work.items.segments().item(addr).head().used_words();
    let decision = match decide(work, walk, words, (id, is_copy), &current) {
        Decision::Drop { .. } if reserved.is_err() => Decision::Keep { freq: current.slot.freq() },
        decision => decision,
    };
    if let Decision::Keep { freq } = decision {
        if keep(work, walk, &mut chain, (&current, id, is_copy), subject, freq) {
            return Ok(true);
        }
        let is_changed = items.segments().header_of(current.addr).keeps_items();
        let must_stay = !work.may_evict || is_changed || is_copy;
        if must_stay || items.segments().counts().limbo > 0 {
            return Ok(false);
        }
    }
    reserved?;
    let removal = match decision {
        Decision::Drop { removal } => removal,
        Decision::Keep { .. } => Removal::Evicted,
    };
    if let Err(refused) = drop_item(work, &mut chain, &current, (id, is_copy), removal) {
        let freq = current.slot.freq();
        let kept = keep(work, walk, &mut chain, (&current, id, is_copy), subject, freq);
        return if kept { Ok(true) } else { Err(refused) };
    }
    if removal == Removal::Evicted {
        let (words, freq) = (current.head.span_words(), current.slot.freq());
        let key = (id.hash, walk.victim.pool);
        let ghost = work.ghosts.ghost(&mut walk.evicted, key, words, freq);
        ghost.into_iter().for_each(|ghost| chain.remember(ghost));
    }
    chain.trim();
    Ok(true)
}

/// Moves an item, or a chunk of it, out of the victim. False if there is no space for it.
fn keep<S>(
    work: &mut Work<'_, S>,
    walk: &mut Walk,
    chain: &mut Chain<'_>,
    (current, id, is_copy): (&Current<'_>, KeyId, bool),
    subject: &Subject,
    freq: u64,
) -> bool {
    let Subject { addr, chunk, .. } = *subject;
    let pool = match walk.victim {
        _ if is_copy => Pool::Copies,
        Victim { compact: true, pool: Pool::Small, .. } => Pool::Small,
        _ => Pool::Main,
    };
    let expiry_s = current.item.expiry_s(current.head);
    let Some(to) = copy_kept(work, addr, expiry_s, pool) else { return false };
    if chunk {
        rename_chunk(current.item, current.head, addr, to);
        let whole_bytes_max = work.items.segments().geometry().whole_value_bytes_max;
        if whole_value_bytes(current.item, current.head) > whole_bytes_max {
            // Each chunk that moves uses up a hit: a few hits do not move half of the memory.
            chain.set(current.place, Slot::item(id.hash, current.addr, freq));
        }
    } else {
        chain.set(current.place, Slot::item(id.hash, to, freq));
    }
    chain.touch();
    walk.kept_words += work.items.segments().item(addr).head().used_words();
    let counters = work.pin.counters();
    if walk.victim.compact { &counters.compacted } else { &counters.kept }.add(1);
    true
}

/// Takes an item out of the index. For a copy nothing is emitted: it is dead, which its primary
/// sees too.
fn drop_item<S: EffectSink>(
    work: &mut Work<'_, S>,
    chain: &mut Chain<'_>,
    current: &Current<'_>,
    (id, is_copy): (KeyId, bool),
    removal: Removal,
) -> Result<(), Refused> {
    let mut name = work.pin.take_scratch();
    if S::ON {
        current.item.append_key(current.head, &mut name.bytes);
    }
    let key = Key { id, bytes: &name.bytes };
    let removed = if is_copy {
        work.items.remove(work.pin, chain, &key, current, removal, &mut NoSink)
    } else {
        work.items.remove(work.pin, chain, &key, current, removal, work.sink)
    };
    work.pin.keep_scratch(name);
    removed
}

/// Decides about an item of which `words` would have to move.
fn decide<S>(
    work: &Work<'_, S>,
    walk: &mut Walk,
    words: usize,
    (id, is_copy): (KeyId, bool),
    current: &Current<'_>,
) -> Decision {
    if !work.items.alive(current.item, current.head, id.slice, work.now) {
        return Decision::Drop { removal: Removal::Expired };
    }
    let freq = current.slot.freq();
    let is_changed = work.items.segments().header_of(current.addr).keeps_items();
    if walk.victim.compact || is_changed || is_copy {
        return Decision::Keep { freq };
    }
    if walk.victim.pool == Pool::Small {
        work.ghosts.leaves_small(&mut walk.evicted, freq);
    }
    let whole = work.items.segments().geometry().segment_words;
    let is_enough = walk.kept_words >= whole / 4 * KEPT_QUARTERS_MAX;
    if is_enough || walk.kept_words + words > whole {
        return Decision::Drop { removal: Removal::Evicted };
    }
    match walk.victim.pool {
        Pool::Small if freq >= PROMOTE_FREQ => Decision::Keep { freq: 0 },
        Pool::Main | Pool::Copies if freq > 0 => Decision::Keep { freq: freq - 1 },
        _ => Decision::Drop { removal: Removal::Evicted },
    }
}

/// Copies an item or a chunk to the end of `pool`. `None` if there is no space for it.
fn copy_kept<S>(work: &Work<'_, S>, from: Addr, expiry_s: u32, pool: Pool) -> Option<Addr> {
    let item = work.items.segments().item(from);
    let head = item.head();
    let class = work.items.segments().header_of(from).class();
    let allocate = |purpose| {
        let stream = Stream { arena: work.arena(), purpose, pool, class };
        work.items.segments().allocate(work.pin.grace(), stream, head.used_words())
    };
    let to = allocate(Purpose::Write).or_else(|| allocate(Purpose::Move))?;
    work.items.segments().item(to).copy_from(item, head);
    work.items.segments().header_of(to).note_expiry(expiry_s);
    work.pin.counters().item_words.subtract(head.slack_words() as u64);
    Some(to)
}
