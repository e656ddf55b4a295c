//! The way of a read: probe the bucket, compare the key, copy the value, check the version.
//!
//! Nothing is locked and, for a popular item, nothing is written: a hit is counted only while the
//! slot counts fewer than three, and the time of access is renewed once a minute. A read that was
//! torn by a write is repeated; after [`TRIES`] of them it waits for the lock of the bucket.

use crate::config::KEY_BYTES_MAX;
use crate::effect::{Change, EffectSink};
use crate::engine::{Current, Engine};
use crate::expiry::expired;
use crate::head::{Flags, Head};
use crate::index::{Bucket, Chain, FREQ_MAX, Probe, Slot, candidate, overflow};
use crate::item::{Attributes, ItemRef};
use crate::key::Key;
use crate::local::Local;
use crate::read::{Ask, Found, Glance, Read, ReadSink};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::writer::{NeedSpace, Writer};
use base::Now;

/// Optimistic tries, after the plain one, before a read takes the lock.
const TRIES: u32 = 3;

/// Age of the recorded access, in seconds, from which a read renews it.
const ACCESS_RENEWED_S: u32 = 60;

/// Buckets of a chain that an optimistic read follows; a longer chain is read under the lock.
const CHAIN_MAX: u32 = 64;

const _: () = assert!(KEY_BYTES_MAX < 256);

/// A key, and the bucket where it would be.
#[derive(Clone, Copy)]
pub struct Ahead<'e, 'k> {
    key: Key<'k>,
    /// None if it takes more than one look to find.
    probe: Option<Probe<'e>>,
}

/// An item as it was found without a lock: its place in a bucket, and what was there.
#[derive(Clone, Copy)]
struct Seen<'e> {
    bucket: &'e Bucket,
    at: usize,
    slot: Slot,
    item: ItemRef<'e>,
    head: Head,
}

impl Seen<'_> {
    #[inline(always)]
    fn is(&self, key: &Key<'_>) -> bool {
        self.head.key_bytes() == key.bytes.len() && self.item.key_is(key.bytes)
    }
}

impl Engine {
    /// Looks up where `key` would be, and so has it fetched: a caller with many keys looks ahead
    /// for some of them before it reads the first. The local is pinned until they are read.
    #[inline(always)]
    pub fn look_ahead<'e, 'k>(&'e self, key: Key<'k>) -> Ahead<'e, 'k> {
        Ahead { key, probe: self.index.glimpse(key.id) }
    }

    /// Appends the value of `key` to `out`. The local is pinned.
    #[inline(always)]
    pub fn get(&self, local: &Local, key: &Key<'_>, now: Now, out: impl ReadSink) -> Read {
        self.get_ahead(local, &self.look_ahead(*key), now, out)
    }

    /// [`Engine::get`] of a key that was looked up before.
    ///
    /// What most reads meet is inlined where this is called; all else is not.
    #[inline(always)]
    pub fn get_ahead(
        &self,
        local: &Local,
        ahead: &Ahead<'_, '_>,
        now: Now,
        mut out: impl ReadSink,
    ) -> Read {
        if let Some(read) = self.get_plain(local, ahead, now, &mut out) {
            return read;
        }
        // What is passed by reference goes to memory: copies do, and only here.
        let (key, mut out) = (ahead.key, out);
        self.get_any(local, &key, now, &mut out)
    }

    /// The way of nearly all reads: no other key has the tag, nobody writes, the item lies in one
    /// piece and is alive, or nothing in the only bucket has the tag. `None` if it is otherwise.
    #[inline(always)]
    fn get_plain<S: ReadSink>(
        &self,
        local: &Local,
        Ahead { key, probe }: &Ahead<'_, '_>,
        now: Now,
        out: &mut S,
    ) -> Option<Read> {
        let probe = (*probe)?;
        if probe.is_locked() {
            return None;
        }
        let Some(seen) = self.candidate(probe.first(), 1, key) else {
            let whole = overflow(probe.header()).is_none() && probe.holds();
            return whole.then_some(Read::Miss);
        };
        let Seen { item, head, .. } = seen;
        if head.is(Flags::LARGE) || !seen.is(key) || !self.alive(item, head, key.id.slice, now) {
            return None;
        }
        self.hint(local, &seen, now);
        let glance = Glance { item, head, value_bytes: head.value_bytes(), now, won: false };
        if let Some(target) = out.open(&glance) {
            item.append_value(head, S::BEHIND, target);
        }
        accept(&probe, out)
    }

    /// The way of all reads: tries again where a write came between, and in the end takes the lock.
    #[cold]
    #[inline(never)]
    fn get_any(&self, local: &Local, key: &Key<'_>, now: Now, out: &mut impl ReadSink) -> Read {
        for _ in 0..TRIES {
            if let Some(read) = self.try_get(local, key, now, out) {
                return read;
            }
            self.count(local).torn.add(1);
            self.index.wait_while_locked(key.id);
        }
        self.get_locked(local, key, now, out)
    }

    /// One optimistic try; `None` if a write came between.
    fn try_get(
        &self,
        local: &Local,
        key: &Key<'_>,
        now: Now,
        out: &mut impl ReadSink,
    ) -> Option<Read> {
        let Some(probe) = self.index.probe(key.id) else { return Some(Read::Miss) };
        if probe.is_locked() {
            return None;
        }
        let mut bucket = probe.first();
        for _ in 0..CHAIN_MAX {
            if let Some(seen) = self.find_in(bucket, key) {
                return self.read_seen(local, key, now, out, &probe, seen);
            }
            match overflow(bucket[0].load(Ordering::Relaxed)) {
                Some(next) => bucket = self.index.bucket(next),
                None => return probe.holds().then_some(Read::Miss),
            }
        }
        None
    }

    /// The slot of the key in one bucket, and the item it points to.
    fn find_in<'e>(&'e self, bucket: &'e Bucket, key: &Key<'_>) -> Option<Seen<'e>> {
        let mut from = 1;
        loop {
            let seen = self.candidate(bucket, from, key)?;
            if seen.is(key) {
                return Some(seen);
            }
            from = seen.at + 1;
        }
    }

    /// The first item, from word `from` of a bucket on, that has the tag of the key.
    #[inline(always)]
    fn candidate<'e>(&'e self, bucket: &'e Bucket, from: usize, key: &Key<'_>) -> Option<Seen<'e>> {
        let (at, slot) = candidate(bucket, from, key.id.hash)?;
        // What the slot points at was written before it; the loads below come after.
        fence(Ordering::Acquire);
        let item = self.segments.item(slot.addr());
        Some(Seen { bucket, at, slot, item, head: item.head() })
    }

    fn read_seen(
        &self,
        local: &Local,
        key: &Key<'_>,
        now: Now,
        out: &mut impl ReadSink,
        probe: &Probe<'_>,
        seen: Seen<'_>,
    ) -> Option<Read> {
        let Seen { item, head, .. } = seen;
        if !self.alive(item, head, key.id.slice, now) {
            return probe.holds().then(|| self.miss_dead(local, item, head, now));
        }
        self.hint(local, &seen, now);
        let value_bytes = self.whole_value_bytes(item, head);
        if !self.copy_value(&Glance { item, head, value_bytes, now, won: false }, out) {
            out.rewind();
            return None;
        }
        accept(probe, out)
    }

    /// Counts the hit on the item, if there is anything to count. It comes before the value is
    /// copied, and so is counted even if the read has to be repeated: afterwards, less would fit in
    /// registers.
    #[inline(always)]
    fn hint(&self, local: &Local, seen: &Seen<'_>, now: Now) {
        if seen.slot.freq() < FREQ_MAX {
            self.raise_freq(local, &seen.bucket[seen.at], seen.slot);
        }
        if !seen.head.is(Flags::FETCHED) || seen.head.idle_s(now.expiry_s) > ACCESS_RENEWED_S {
            self.renew_access(local, seen.item, seen.head, now);
        }
    }

    #[cold]
    fn raise_freq(&self, local: &Local, word: &AtomicU64, slot: Slot) {
        let (raised, relaxed) = (slot.with_freq(slot.freq() + 1), Ordering::Relaxed);
        let _ = word.compare_exchange(slot.0, raised.0, relaxed, relaxed);
        self.count(local).shared_writes.add(1);
    }

    #[cold]
    fn renew_access(&self, local: &Local, item: ItemRef<'_>, head: Head, now: Now) {
        item.hint_head(head, fetched_now(head, now));
        self.count(local).shared_writes.add(1);
    }

    /// Appends the value, in one piece or in many. False if a chunk was not where it should be.
    fn copy_value<S: ReadSink>(&self, glance: &Glance<'_>, out: &mut S) -> bool {
        let Some(target) = out.open(glance) else { return true };
        if !glance.head.is(Flags::LARGE) {
            glance.item.append_value(glance.head, S::BEHIND, target);
            return true;
        }
        let whole = self.append_chunks(glance.item, glance.head, target);
        target.extend_from_slice(S::BEHIND);
        whole
    }

    #[cold]
    fn get_locked(&self, local: &Local, key: &Key<'_>, now: Now, out: &mut impl ReadSink) -> Read {
        let Some(chain) = self.index.lock(&self.epochs, key.id) else { return Read::Miss };
        let Some(current) = self.find(&chain, key) else { return Read::Miss };
        if !self.alive(current.item, current.head, key.id.slice, now) {
            return self.miss_dead(local, current.item, current.head, now);
        }
        let value_bytes = self.whole_value_bytes(current.item, current.head);
        let whole = self.copy_value(&current.glance(value_bytes, now), out);
        assert!(whole, "chunks of a locked item are in place");
        chain.raise_freq(current.place);
        current.item.hint_head(current.head, fetched_now(current.head, now));
        Read::Hit
    }

    /// Counts why a read met an item that is dead.
    #[cold]
    fn miss_dead(&self, local: &Local, item: ItemRef<'_>, head: Head, now: Now) -> Read {
        let counters = self.count(local);
        let over = expired(item.expiry_s(head), now);
        if over { &counters.read_expired } else { &counters.read_flushed }.add(1);
        Read::Miss
    }

    /// What is known of the item of `key`, without leaving a trace on it. The local is pinned.
    pub fn peek(&self, _local: &Local, key: &Key<'_>, now: Now) -> Option<Found> {
        let chain = self.index.lock(&self.epochs, key.id)?;
        let current = self.find(&chain, key)?;
        let alive = self.alive(current.item, current.head, key.id.slice, now);
        let value_bytes = self.whole_value_bytes(current.item, current.head);
        alive.then(|| current.found(value_bytes, now))
    }

    /// Reads and changes at once: touch, create on a miss, win the token to refresh.
    pub fn fetch<S: EffectSink>(
        &self,
        local: &mut Local,
        key: &Key<'_>,
        ask: &Ask,
        now: Now,
        sink: &mut S,
        out: &mut impl ReadSink,
    ) -> Read {
        self.with_room(local, now, sink, |engine, local, sink| {
            Writer { engine, local, key, now, sink }.fetch(ask, out)
        })
        .unwrap_or(Read::NoSpace)
    }
}

impl<'e, S: EffectSink> Writer<'_, 'e, S> {
    fn fetch<R: ReadSink>(&mut self, ask: &Ask, out: &mut R) -> Result<Read, NeedSpace> {
        let now = self.now;
        let mut chain = self.lock()?;
        let Some(mut current) = self.find_alive(&mut chain) else {
            let Some(expiry_s) = ask.vivify else { return Ok(Read::Miss) };
            let with = Attributes {
                expiry_s,
                client_cas: ask.vivify_cas,
                flags: Flags::TOKEN_SENT.with(Flags::FETCHED),
                ..Attributes::default()
            };
            let current = self.put(&mut chain, None, &with, [&[], &[]])?;
            let head = current.head.with_flags(current.head.flags().without(with.flags));
            if let Some(target) = out.open(&Glance { head, won: true, ..current.glance(0, now) }) {
                target.extend_from_slice(R::BEHIND);
            }
            return Ok(Read::Hit);
        };
        let had_s = current.item.expiry_s(current.head);
        if let Some(expiry_s) = ask.touch {
            current = self.touch(&mut chain, current, expiry_s)?;
        }
        let value_bytes = self.engine.whole_value_bytes(current.item, current.head);
        let mut glance = current.glance(value_bytes, now);
        let found = glance.found();
        let due = had_s != 0 && ask.recache_before_s.is_some_and(|limit_s| had_s < limit_s);
        glance.won = (found.stale || due) && !found.token_sent;
        let head = current.head;
        let flags = head.flags().with_if(glance.won, Flags::TOKEN_SENT);
        let head = if ask.quiet {
            head.with_flags(flags)
        } else {
            chain.raise_freq(current.place);
            fetched_now(head.with_flags(flags), now)
        };
        current.item.set_head(head);
        let whole = self.engine.copy_value(&glance, out);
        assert!(whole, "chunks of a locked item are in place");
        Ok(Read::Hit)
    }

    /// Gives an item a new expiry, in place if its layout has room for one.
    pub(crate) fn touch(
        &mut self,
        chain: &mut Chain<'_>,
        mut current: Current<'e>,
        expiry_s: u32,
    ) -> Result<Current<'e>, NeedSpace> {
        debug_assert!(!expired(current.item.expiry_s(current.head), self.now));
        chain.touch();
        let had_s = current.item.expiry_s(current.head);
        if (had_s == 0) == (expiry_s == 0) {
            if expiry_s != 0 {
                current.item.set_expiry_s(current.head, expiry_s);
                self.engine.segments.header_of(current.addr).note_expiry(expiry_s);
                self.engine.note_expiry_of_chunks(&current, expiry_s);
            }
        } else {
            let with = Attributes { expiry_s, ..current.item.attributes(current.head) };
            current = self.rewrite(chain, current, &with)?;
        }
        if S::ON {
            self.tell(Change::Touch { expiry_s });
        }
        Ok(current)
    }
}

/// Keeps what was read if nothing changed since the probe.
#[inline(always)]
fn accept(probe: &Probe<'_>, out: &mut impl ReadSink) -> Option<Read> {
    if !probe.holds() {
        out.rewind();
        return None;
    }
    Some(Read::Hit)
}

/// The head of an item that was read now.
pub(crate) fn fetched_now(head: Head, now: Now) -> Head {
    head.with_flags(head.flags().with(Flags::FETCHED)).with_access(now.expiry_s)
}
