//! Walking and dropping slices: what moves data between cells, and what lists keys.
//!
//! A walk goes through the groups of a range of slices, and in each in the order of reversed tags
//! (`index`). So an item that stays is passed exactly once, however groups grow and shrink
//! meanwhile. A walk holds one chain at a time, and copies no value: its sink may. A call is
//! bounded in items and in buckets. Between two calls the caller may renew its pin.

use crate::index::{Index, Span};
use crate::items::{Items, WholeValue};
use crate::local::Pin;
use crate::reading::{Found, ItemView};
use base::{Facts, KeyId, NoSink, Now, Removal, SliceId, SliceRange, Value, Version};

/// Buckets that one call of a walk looks at, at most; the rest of the last chain may exceed them.
/// Requests of others wait for a call: this many buckets of dead items take 0.2 ms.
const SCAN_BUCKETS_MAX: usize = 1 << 8;
/// The same where slices are dropped, which no request waits for.
const FORGET_BUCKETS_MAX: usize = 1 << 10;

/// How far a walk has come. [`Cursor::default`] is its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Number of a slice: those before it are passed.
    slice: u32,
    /// Of the group of that slice, the tags before this number are passed.
    at: u32,
}

const SLICE_SHIFT: u32 = u32::BITS;

impl Cursor {
    /// The cursor that [`Cursor::raw`] returned as `raw`.
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self { slice: (raw >> SLICE_SHIFT) as u32, at: raw as u32 }
    }

    /// Eight bytes that keep it from one request to the next; zero at the start.
    #[must_use]
    pub fn raw(self) -> u64 {
        u64::from(self.slice) << SLICE_SHIFT | u64::from(self.at)
    }

    /// How many of `slices` a walk through them has passed.
    #[must_use]
    pub fn passed(self, slices: SliceRange) -> usize {
        let numbers = slices.numbers();
        (self.slice as usize).clamp(numbers.start, numbers.end) - numbers.start
    }

    /// The next chain of a walk through `slices`, or `None` at its end.
    fn next<'i>(&mut self, index: &'i Index, slices: SliceRange) -> Option<Span<'i>> {
        loop {
            let number = (self.slice as usize).max(slices.numbers().start);
            let slice = SliceId::new(number).filter(|slice| slices.contains(*slice))?;
            if let Some(span) = index.lock_span(slice, self.at) {
                (self.slice, self.at) = (number as u32, span.end);
                return Some(span);
            }
            (self.slice, self.at) = (index.next_group(number) as u32, 0);
        }
    }
}

/// Whether a walk has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum More {
    /// Call again.
    Yes,
    /// The walk is over: every item was passed.
    No,
}

/// An item that a walk passes. It is true while the sink looks at it.
pub struct WalkedItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its slice and its hash.
    pub id: KeyId,
    /// The value, where it lies.
    pub value: Value<'a>,
    /// What it carries besides.
    pub facts: Facts,
    /// The version of its latest change.
    pub version: Version,
    view: ItemView<'a>,
}

impl WalkedItem<'_> {
    /// What a read would know of it.
    #[must_use]
    pub fn found(&self) -> Found {
        self.view.found()
    }
}

/// Receives the items that a walk passes. It is called under the lock of their chain: it copies
/// what it needs and returns at once.
pub trait ItemSink {
    /// Takes an item. False if it has no space: the walk then ends before this chain, whose items
    /// it will pass again.
    fn take(&mut self, item: &WalkedItem<'_>) -> bool;
}

/// Passes the items of `slices` to `sink`, from `at` on, until at least `items_min` were passed,
/// [`SCAN_BUCKETS_MAX`] buckets were looked at, the sink has no space, or the walk is over.
pub(crate) fn scan(
    items: &Items,
    pin: &mut Pin,
    (slices, at): (SliceRange, &mut Cursor),
    items_min: u32,
    now: Now,
    sink: &mut impl ItemSink,
) -> More {
    let (mut passed, mut buckets) = (0, 0);
    let mut name = pin.take_scratch();
    let mut more = More::Yes;
    while passed < items_min && buckets < SCAN_BUCKETS_MAX {
        let before = *at;
        let Some(span) = at.next(items.index(), slices) else {
            more = More::No;
            break;
        };
        buckets += span.chain.buckets();
        let Some(taken) = pass_chain(items, &span, slices, &mut name.bytes, now, sink) else {
            *at = before;
            break;
        };
        passed += taken;
    }
    pin.keep_scratch(name);
    pin.counters().walked_buckets.add(buckets as u64);
    more
}

/// Lets the processor fetch all items of a chain at once: they lie anywhere.
fn fetch(items: &Items, span: &Span<'_>) {
    let at = |place| items.segments().try_item(span.chain.get(place).addr());
    span.places().filter_map(at).for_each(|item| item.prefetch());
    span.places().filter_map(at).for_each(|item| item.prefetch_rest(item.head()));
}

/// Passes the items of one chain, and returns how many; `None` if the sink had no space.
fn pass_chain(
    items: &Items,
    span: &Span<'_>,
    slices: SliceRange,
    name: &mut Vec<u8>,
    now: Now,
    sink: &mut impl ItemSink,
) -> Option<u32> {
    let mut passed = 0;
    fetch(items, span);
    for place in span.places() {
        let current = items.current(&span.chain, place);
        name.clear();
        current.item.append_key(current.head, name);
        let id = items.key(name).id;
        if !slices.contains(id.slice) || !items.alive(current.item, current.head, id.slice, now) {
            continue;
        }
        let whole = WholeValue { items, item: current.item, head: current.head };
        let item = WalkedItem {
            key: name,
            id,
            value: Value::Stored(&whole),
            facts: current.item.attributes(current.head).facts(),
            version: current.item.version(),
            view: ItemView::of(&current, now),
        };
        if !sink.take(&item) {
            return None;
        }
        passed += 1;
    }
    Some(passed)
}

/// Drops the items of `slices`, from `at` on, until [`FORGET_BUCKETS_MAX`] buckets were looked at
/// or the walk is over. With the last of them it forgets the barriers of the slices.
pub(crate) fn forget(items: &Items, pin: &mut Pin, slices: SliceRange, at: &mut Cursor) -> More {
    let more = drop_items(items, pin, (slices, at), |_| true);
    if more == More::No {
        slices.iter().for_each(|slice| items.slices().forget_barrier(slice));
    }
    more
}

/// Drops the items of `slices` whose versions are of epochs before `epoch`, as [`forget`] drops all
/// of them, while others may execute. The barriers stay.
pub(crate) fn forget_before(
    items: &Items,
    pin: &mut Pin,
    (slices, epoch): (SliceRange, u32),
    at: &mut Cursor,
) -> More {
    drop_items(items, pin, (slices, at), |version| version.epoch() < epoch)
}

/// Drops the items of `slices` that `is_over` names by their versions, from `at` on, until
/// [`FORGET_BUCKETS_MAX`] buckets were looked at or the walk is over.
fn drop_items(
    items: &Items,
    pin: &mut Pin,
    (slices, at): (SliceRange, &mut Cursor),
    is_over: impl Fn(Version) -> bool,
) -> More {
    let (mut buckets, mut name) = (0, pin.take_scratch());
    let mut more = More::Yes;
    while buckets < FORGET_BUCKETS_MAX {
        let Some(mut span) = at.next(items.index(), slices) else {
            more = More::No;
            break;
        };
        buckets += span.chain.buckets();
        let places: Vec<_> = span.places().collect();
        let mut group = None;
        for place in places {
            let current = items.current(&span.chain, place);
            name.bytes.clear();
            current.item.append_key(current.head, &mut name.bytes);
            let key = items.key(&name.bytes);
            if slices.contains(key.id.slice) && is_over(current.item.version()) {
                let (chain, deleted) = (&mut span.chain, Removal::Deleted);
                let removed = items.remove(pin, chain, &key, &current, deleted, &mut NoSink);
                removed.expect("no sink refuses nothing");
                group = Some(key.id.slice);
            }
        }
        span.chain.trim();
        drop(span);
        if let Some(slice) = group {
            items.index().resizing(slice).adjust(pin.grace());
        }
    }
    pin.keep_scratch(name);
    more
}
