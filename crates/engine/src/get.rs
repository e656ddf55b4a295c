//! The way of a read: probe the bucket, compare the key, copy the value, check the version.
//!
//! Nothing is locked and, for a popular item, nothing is written: a hit is counted only while the
//! slot counts fewer than three, and the time of access is renewed once a minute. A read that was
//! torn by a write is repeated; after [`TRIES`] of them it waits for the lock of the bucket.

use crate::config::KEY_BYTES_MAX;
use crate::effect::{Change, EffectSink};
use crate::engine::{Current, Engine};
use crate::expiry::expired;
use crate::index::{BUCKET_WORDS, BucketId, Chain, FREQ_MAX, Probe, Slot, overflow};
use crate::item::{Attributes, Flags, Head, ItemRef};
use crate::key::Key;
use crate::local::Local;
use crate::read::{Ask, Found, Glance, Read, ReadSink};
use crate::sync::{AtomicU64, Ordering, fence};
use base::Now;

/// Optimistic tries before a read takes the lock.
const TRIES: u32 = 3;

/// Age of the recorded access, in seconds, from which a read renews it.
const ACCESS_RENEWED_S: u32 = 60;

/// Buckets of a chain that an optimistic read follows; a longer chain is read under the lock.
const CHAIN_MAX: u32 = 64;

const _: () = assert!(KEY_BYTES_MAX < 256);

/// An item as it was found without a lock.
struct Seen<'e> {
    word: &'e AtomicU64,
    slot: Slot,
    item: ItemRef<'e>,
    head: Head,
}

impl Engine {
    /// Appends the value of `key` to `out`. The local is pinned.
    ///
    /// The way of a hit in the first bucket is inlined where it is called; all else is not.
    #[inline(always)]
    pub fn get(&self, local: &Local, key: &Key<'_>, now: Now, out: &mut impl ReadSink) -> Read {
        match self.try_get(local, key, now, out) {
            Some(read) => read,
            None => self.get_again(local, key, now, out),
        }
    }

    /// A write came between: tries again, and in the end takes the lock.
    #[cold]
    #[inline(never)]
    fn get_again(&self, local: &Local, key: &Key<'_>, now: Now, out: &mut impl ReadSink) -> Read {
        self.count(local).torn.add(1);
        for _ in 1..TRIES {
            self.index.wait_while_locked(key.id);
            if let Some(read) = self.try_get(local, key, now, out) {
                return read;
            }
            self.count(local).torn.add(1);
        }
        self.get_locked(local, key, now, out)
    }

    /// Touches what [`Engine::get`] will look at first, so that it is on its way.
    #[inline]
    pub fn prefetch(&self, key: &Key<'_>) {
        if let Some(probe) = self.index.probe(key.id) {
            std::hint::black_box(probe.header());
        }
    }

    /// One optimistic try; `None` if a write came between.
    #[inline(always)]
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
        if let Some(found) = self.find_in(probe.first(), key) {
            return self.read_found(local, key, now, out, &probe, found);
        }
        match overflow(probe.header()) {
            Some(next) => self.try_chain(local, key, now, out, (&probe, next)),
            None => probe.holds().then_some(Read::Miss),
        }
    }

    /// Goes on with the further buckets of a chain.
    #[inline(never)]
    fn try_chain(
        &self,
        local: &Local,
        key: &Key<'_>,
        now: Now,
        out: &mut impl ReadSink,
        (probe, mut next): (&Probe<'_>, BucketId),
    ) -> Option<Read> {
        for _ in 0..CHAIN_MAX {
            let bucket = self.index.bucket(next);
            if let Some(found) = self.find_in(bucket, key) {
                return self.read_found(local, key, now, out, probe, found);
            }
            match overflow(bucket[0].load(Ordering::Relaxed)) {
                Some(further) => next = further,
                None => return probe.holds().then_some(Read::Miss),
            }
        }
        None
    }

    /// The slot of the key in one bucket, and the item it points to.
    #[inline(always)]
    fn find_in<'e>(
        &'e self,
        bucket: &'e [AtomicU64; BUCKET_WORDS],
        key: &Key<'_>,
    ) -> Option<Seen<'e>> {
        for word in &bucket[1..] {
            let slot = Slot(word.load(Ordering::Relaxed));
            if !slot.may_be(key.id.hash) {
                continue;
            }
            // What the slot points at was written before it; the loads below come after.
            fence(Ordering::Acquire);
            let item = self.segments.item(slot.addr());
            let head = item.head();
            if head.key_bytes() == key.bytes.len() && item.key_is(key.bytes) {
                return Some(Seen { word, slot, item, head });
            }
        }
        None
    }

    #[inline(always)]
    fn read_found(
        &self,
        local: &Local,
        key: &Key<'_>,
        now: Now,
        out: &mut impl ReadSink,
        probe: &Probe<'_>,
        Seen { word, slot, item, head }: Seen<'_>,
    ) -> Option<Read> {
        if !self.alive(item, head, key.id.slice, now) {
            return probe.holds().then(|| self.miss_dead(local, item, head, now));
        }
        let value_bytes = self.whole_value_bytes(item, head);
        let whole = self.copy_value(&Glance { item, head, value_bytes, now, won: false }, out);
        if !whole || !probe.holds() {
            out.rewind();
            return None;
        }
        if slot.freq() < FREQ_MAX {
            let (raised, relaxed) = (slot.with_freq(slot.freq() + 1), Ordering::Relaxed);
            let _ = word.compare_exchange(slot.0, raised.0, relaxed, relaxed);
            self.count(local).shared_writes.add(1);
        }
        if !head.is(Flags::FETCHED) || head.idle_s(now.expiry_s) > ACCESS_RENEWED_S {
            item.hint_head(head, fetched_now(head, now));
            self.count(local).shared_writes.add(1);
        }
        Some(Read::Hit)
    }

    /// Appends the value, in one piece or in many. False if a chunk was not where it should be.
    #[inline(always)]
    fn copy_value(&self, glance: &Glance<'_>, out: &mut impl ReadSink) -> bool {
        let Some(target) = out.open(glance) else { return true };
        if glance.head.is(Flags::LARGE) {
            return self.append_chunks(glance.item, glance.head, target);
        }
        glance.item.append_value(glance.head, target);
        true
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
            engine.try_fetch(local, key, ask, now, sink, out)
        })
        .unwrap_or(Read::NoSpace)
    }

    fn try_fetch<S: EffectSink>(
        &self,
        local: &mut Local,
        key: &Key<'_>,
        ask: &Ask,
        now: Now,
        sink: &mut S,
        out: &mut impl ReadSink,
    ) -> Result<Read, crate::store::NeedSpace> {
        let mut chain = self.lock(key)?;
        let Some(mut current) = self.find_alive(local, &mut chain, key, now, sink) else {
            let Some(expiry_s) = ask.vivify else { return Ok(Read::Miss) };
            let with = Attributes {
                expiry_s,
                client_cas: ask.vivify_cas,
                flags: Flags::TOKEN_SENT,
                ..Attributes::default()
            };
            let current = self.put(local, &mut chain, key, None, &with, [&[], &[]], now, sink)?;
            let head = current.head.with_flags(current.head.flags().without(Flags::TOKEN_SENT));
            let _ = out.open(&Glance { head, won: true, ..current.glance(0, now) });
            return Ok(Read::Hit);
        };
        if let Some(expiry_s) = ask.touch {
            current = self.touch(local, &mut chain, key, current, expiry_s, now, sink)?;
        }
        let value_bytes = self.whole_value_bytes(current.item, current.head);
        let mut glance = current.glance(value_bytes, now);
        let found = glance.found();
        let left_s = found.expiry_s.saturating_sub(now.expiry_s);
        let due = found.expiry_s != 0 && ask.recache_s.is_some_and(|limit_s| left_s < limit_s);
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
        let whole = self.copy_value(&glance, out);
        assert!(whole, "chunks of a locked item are in place");
        Ok(Read::Hit)
    }

    /// Gives an item a new expiry, in place if its layout has room for one.
    #[expect(clippy::too_many_arguments, reason = "the change, its place and its witnesses")]
    pub(crate) fn touch<'e, S: EffectSink>(
        &'e self,
        local: &mut Local,
        chain: &mut Chain<'_>,
        key: &Key<'_>,
        mut current: Current<'e>,
        expiry_s: u32,
        now: Now,
        sink: &mut S,
    ) -> Result<Current<'e>, crate::store::NeedSpace> {
        debug_assert!(!expired(current.item.expiry_s(current.head), now));
        chain.touch();
        let had_s = current.item.expiry_s(current.head);
        if (had_s == 0) == (expiry_s == 0) {
            if expiry_s != 0 {
                current.item.set_expiry_s(current.head, expiry_s);
                self.segments.header_of(current.addr).note_expiry(expiry_s);
            }
        } else {
            let with = Attributes { expiry_s, ..current.item.attributes(current.head) };
            current = self.rewrite(local, chain, key, current, &with, now)?;
        }
        if S::ON {
            self.tell(key, Change::Touch { expiry_s }, sink);
        }
        Ok(current)
    }
}

/// The head of an item that was read now.
fn fetched_now(head: Head, now: Now) -> Head {
    head.with_flags(head.flags().with(Flags::FETCHED)).with_access(now.expiry_s)
}
