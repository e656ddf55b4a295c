//! How a read works: probe the bucket, compare the key, copy the value, check the version.
//!
//! A read takes no lock. For a popular item it writes nothing either: a hit is counted only while
//! the slot counts fewer than three, and the time of access is renewed once a minute. A read that
//! was torn by a write is repeated. After [`TRIES`] repetitions it takes the lock of the bucket.
//!
//! Invariant: nothing that was copied is returned before [`Probe::holds`] has been checked after
//! the copy. Until then the bytes may be a mixture of two values.

use super::held::HeldValue;
use super::read::{Found, ItemView, LongValues, Read, ReadSink};
use crate::index::{Bucket, FREQ_MAX, Probe, Slot, candidate, overflow};
use crate::item::{Flags, Head, ItemRef, expired};
use crate::items::{Current, Items};
use crate::keys::{KEY_BYTES_MAX, Key};
use crate::local::Pin;
use crate::obstacle::Obstacle;
use crate::segments::{Addr, append_chunks, chunks, whole_value_bytes};
use crate::sync::{AtomicU64, Ordering, fence};
use base::{Now, SliceId};

/// Optimistic tries, after the plain one, before a read takes the lock.
const TRIES: u32 = 3;

/// Age of the recorded access, in seconds, from which a read renews it.
const ACCESS_RENEWED_S: u32 = 60;

/// Buckets of a chain that an optimistic read follows; a longer chain is read under the lock.
const CHAIN_MAX: u32 = 64;

const _: () = assert!(KEY_BYTES_MAX < 256);

/// A key, and the bucket where it would be.
#[derive(Clone, Copy)]
pub struct Prefetched<'e, 'k> {
    key: Key<'k>,
    /// `None` if one look does not find it.
    probe: Option<Probe<'e>>,
}

impl<'k> Prefetched<'_, 'k> {
    /// The key.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &Key<'k> {
        &self.key
    }

    /// The slice of the key.
    #[must_use]
    pub fn slice(&self) -> SliceId {
        self.key.id.slice
    }
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

/// Looks up where `key` would be, so that the processor fetches it.
#[inline(always)]
pub(crate) fn look_ahead<'e, 'k>(items: &'e Items, key: Key<'k>) -> Prefetched<'e, 'k> {
    Prefetched { key, probe: items.index().probe_once(key.id) }
}

/// Keys that are looked up side by side.
const SIDE_BY_SIDE: usize = 16;

/// Lets the processor fetch the items of these keys, of the first sixteen. Each step needs what the
/// one before it has fetched, so each is made for all keys before the next: the processor fetches
/// for all of them at once, and waits for none.
pub(crate) fn prefetch_all<'k>(items: &Items, keys: impl Iterator<Item = Key<'k>>) {
    let index = items.index();
    let mut ids = [None; SIDE_BY_SIDE];
    for (place, key) in ids.iter_mut().zip(keys) {
        index.prefetch_group(key.id.slice);
        items.slices().prefetch(key.id.slice);
        *place = Some(key.id);
    }
    let ids = || ids.iter().map_while(|id| *id);
    ids().for_each(|id| index.prefetch_bucket(id));
    let mut found = [None; SIDE_BY_SIDE];
    for (place, id) in found.iter_mut().zip(ids()) {
        let slot = index.probe_once(id).and_then(|probe| candidate(probe.first(), 1, id.hash));
        *place = slot.and_then(|(_, slot)| items.segments().try_item(slot.addr()));
        if let Some(item) = place {
            item.prefetch();
        }
    }
    found.iter().flatten().for_each(|item| item.prefetch_rest(item.head()));
}

/// Reads a key that was looked up before.
///
/// What most reads meet is inlined where this is called; all else is not.
#[inline(always)]
pub(crate) fn get_ahead(
    items: &Items,
    pin: &Pin,
    ahead: &Prefetched<'_, '_>,
    now: Now,
    mut out: impl ReadSink,
) -> Read {
    if let Some(read) = get_plain(items, pin, ahead, now, &mut out) {
        return read;
    }
    // What is passed by reference goes to memory: copies do, and only here.
    let (key, mut out) = (ahead.key, out);
    get_any(items, pin, &key, now, &mut out)
}

/// The short way of nearly all reads: no other key has the tag, no thread writes, the item lies in
/// one piece and is alive, or no slot of the only bucket has the tag. `None` in any other case.
#[inline(always)]
pub(crate) fn get_plain<S: ReadSink>(
    items: &Items,
    pin: &Pin,
    Prefetched { key, probe }: &Prefetched<'_, '_>,
    now: Now,
    out: &mut S,
) -> Option<Read> {
    let probe = (*probe)?;
    if probe.is_locked() {
        return None;
    }
    let Some(seen) = candidate_item(items, probe.first(), 1, key) else {
        let whole = overflow(probe.header()).is_none() && probe.holds();
        return whole.then_some(Read::Miss);
    };
    let Seen { item, head, .. } = seen;
    if head.is(Flags::LARGE) || !seen.is(key) || !items.alive(item, head, key.id.slice, now) {
        return None;
    }
    hint(pin, &seen, now);
    let view = ItemView::new(item, head, head.value_bytes(), now);
    if let Some(target) = out.open(&view) {
        item.append_value(head, S::AFTER, target);
    }
    accept(&probe, out)
}

/// The way of all reads: tries again where a write came between, and at last takes the lock.
#[cold]
#[inline(never)]
fn get_any(items: &Items, pin: &Pin, key: &Key<'_>, now: Now, out: &mut impl ReadSink) -> Read {
    for _ in 0..TRIES {
        if let Some(read) = try_get(items, pin, key, now, out) {
            return read;
        }
        pin.counters().torn.add(1);
        items.index().wait_while_locked(key.id);
    }
    get_locked(items, pin, key, now, out)
}

/// One optimistic try; `None` if a write came between.
fn try_get(
    items: &Items,
    pin: &Pin,
    key: &Key<'_>,
    now: Now,
    out: &mut impl ReadSink,
) -> Option<Read> {
    let Some(probe) = items.index().probe(key.id) else { return Some(Read::Miss) };
    if probe.is_locked() {
        return None;
    }
    let mut bucket = probe.first();
    for _ in 0..CHAIN_MAX {
        if let Some(seen) = find_in(items, bucket, key) {
            return read_seen(items, pin, key, now, out, &probe, seen);
        }
        match overflow(bucket[0].load(Ordering::Relaxed)) {
            Some(next) => bucket = items.index().buckets().bucket(next),
            None => return probe.holds().then_some(Read::Miss),
        }
    }
    None
}

/// The slot of the key in one bucket, and the item it points to.
fn find_in<'e>(items: &'e Items, bucket: &'e Bucket, key: &Key<'_>) -> Option<Seen<'e>> {
    let mut from = 1;
    loop {
        let seen = candidate_item(items, bucket, from, key)?;
        if seen.is(key) {
            return Some(seen);
        }
        from = seen.at + 1;
    }
}

/// The first item, from word `from` of a bucket on, that has the tag of the key.
#[inline(always)]
fn candidate_item<'e>(
    items: &'e Items,
    bucket: &'e Bucket,
    from: usize,
    key: &Key<'_>,
) -> Option<Seen<'e>> {
    let (at, slot) = candidate(bucket, from, key.id.hash)?;
    // What the slot points to was written before the slot; the loads below come after.
    fence(Ordering::Acquire);
    let item = items.segments().item(slot.addr());
    Some(Seen { bucket, at, slot, item, head: item.head() })
}

fn read_seen<S: ReadSink>(
    items: &Items,
    pin: &Pin,
    key: &Key<'_>,
    now: Now,
    out: &mut S,
    probe: &Probe<'_>,
    seen: Seen<'_>,
) -> Option<Read> {
    let Seen { item, head, .. } = seen;
    if !items.alive(item, head, key.id.slice, now) {
        return probe.holds().then(|| miss_dead(pin, item, head, now));
    }
    let value_bytes = whole_value_bytes(item, head);
    if is_held::<S>(items, value_bytes) {
        // Its segments are held under the lock, where nothing is torn.
        return Some(get_locked(items, pin, key, now, out));
    }
    hint(pin, &seen, now);
    if !copy_value(items, &ItemView::new(item, head, value_bytes, now), out) {
        out.rewind();
        return None;
    }
    accept(probe, out)
}

/// Counts the hit on the item, if there is anything to count. This comes before the copy, so a read
/// that is repeated counts twice. After the copy fewer values would fit in registers.
#[inline(always)]
fn hint(pin: &Pin, seen: &Seen<'_>, now: Now) {
    if seen.slot.freq() < FREQ_MAX {
        raise_freq(pin, &seen.bucket[seen.at], seen.slot);
    }
    if !seen.head.is(Flags::FETCHED) || seen.head.idle_s(now.expiry_s) > ACCESS_RENEWED_S {
        renew_access(pin, seen.item, seen.head, now);
    }
}

#[cold]
fn raise_freq(pin: &Pin, word: &AtomicU64, slot: Slot) {
    let (raised, relaxed) = (slot.with_freq(slot.freq() + 1), Ordering::Relaxed);
    let _ = word.compare_exchange(slot.0, raised.0, relaxed, relaxed);
    pin.counters().shared_writes.add(1);
}

#[cold]
fn renew_access(pin: &Pin, item: ItemRef<'_>, head: Head, now: Now) {
    item.hint_head(head, fetched_now(head, now));
    pin.counters().shared_writes.add(1);
}

/// Appends the value, in one piece or in many. False if a chunk was not where it should be.
fn copy_value<S: ReadSink>(items: &Items, view: &ItemView<'_>, out: &mut S) -> bool {
    let Some(target) = out.open(view) else { return true };
    let (item, head) = view.parts();
    if !head.is(Flags::LARGE) {
        item.append_value(head, S::AFTER, target);
        return true;
    }
    let whole = append_chunks(items.segments(), item, head, target);
    target.extend_from_slice(S::AFTER);
    whole
}

/// Whether a sink takes a value of `value_bytes` in parts, or not at all.
pub(crate) fn is_held<S: ReadSink>(items: &Items, value_bytes: usize) -> bool {
    S::LONG != LongValues::Whole && value_bytes > items.segments().geometry().whole_value_bytes_max
}

#[cold]
fn get_locked<S: ReadSink>(items: &Items, pin: &Pin, key: &Key<'_>, now: Now, out: &mut S) -> Read {
    let Some(chain) = items.index().lock(pin.grace(), key.id) else { return Read::Miss };
    let Some(current) = items.find(&chain, key) else { return Read::Miss };
    if !items.alive(current.item, current.head, key.id.slice, now) {
        return miss_dead(pin, current.item, current.head, now);
    }
    let view = ItemView::of(&current, now);
    if is_held::<S>(items, view.value_bytes()) {
        if S::LONG == LongValues::Declined {
            return Read::Later(Obstacle::Memory);
        }
        if out.open(&view).is_some() {
            let Ok(held) = HeldValue::of(items, &current) else {
                out.rewind();
                return Read::Later(Obstacle::Memory);
            };
            out.hold(held);
        }
    } else {
        let whole = copy_value(items, &view, out);
        assert!(whole, "chunks of a locked item are in place");
    }
    chain.raise_freq(current.place);
    current.item.hint_head(current.head, fetched_now(current.head, now));
    Read::Hit
}

/// Counts why a read found a dead item.
#[cold]
fn miss_dead(pin: &Pin, item: ItemRef<'_>, head: Head, now: Now) -> Read {
    let counters = pin.counters();
    let over = expired(item.expiry_s(head), now);
    if over { &counters.read_expired } else { &counters.read_flushed }.add(1);
    Read::Miss
}

/// A value found under the lock of its chain, to be copied when that is released. The batch that
/// found it goes on until then, so the memory stays as it is; and no such value is overwritten in
/// place.
pub(crate) enum Later<'e> {
    Whole(ItemRef<'e>, Head),
    Chunks(Vec<Addr>),
}

impl<'e> Later<'e> {
    /// The value of an item whose chain is locked.
    pub(crate) fn of(current: &Current<'e>) -> Self {
        match current.head.is(Flags::LARGE) {
            true => Self::Chunks(chunks(current.item, current.head).collect()),
            false => Self::Whole(current.item, current.head),
        }
    }

    /// Appends it, and `after`.
    pub(crate) fn append_to(self, items: &Items, after: &'static [u8], target: &mut Vec<u8>) {
        match self {
            Self::Whole(item, head) => item.append_value(head, after, target),
            Self::Chunks(addrs) => {
                for addr in addrs {
                    let chunk = items.segments().item(addr);
                    chunk.append_value(chunk.head(), &[], target);
                }
                target.extend_from_slice(after);
            }
        }
    }
}

/// What is known of the item of `key`, without counting a use.
pub(crate) fn peek(items: &Items, pin: &Pin, key: &Key<'_>, now: Now) -> Option<Found> {
    let chain = items.index().lock(pin.grace(), key.id)?;
    let current = items.find(&chain, key)?;
    let alive = items.alive(current.item, current.head, key.id.slice, now);
    alive.then(|| ItemView::of(&current, now).found())
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
