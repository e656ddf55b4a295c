//! A copy acknowledges only what it has applied, and what is not for it.

use super::*;
use crate::fence;
use crate::retrieve::get_shown;
use crate::ring::copies::{Exchange, READINGS_BITS, Reach, Tail};
use crate::ring::jump::{COUNTER_JUMP, jump};
use crate::ring::retries::tag_state::TagState;
use crate::ring::retries::{Asker, Known};
use crate::ring::testing::{first_cell, first_cell_above_a_tier, first_cell_with, formed_with};
use crate::testing::NOW;
use base::{Facts, Value};
use memcache::Key;
use ring::{Map, RangeId};

const PRIMARY: CellId = CellId(2);
const EPOCH: u32 = 3;

/// A cell that copies the slices below 8,192 of a primary with `lanes` lanes.
struct Copying {
    ring: Arc<RingCell>,
    worker: Worker,
    stream: StreamIn,
    next: u64,
}

impl Copying {
    fn new(lane: u8, lanes: u8) -> Self {
        Self::at(first_cell(|_| ()), (lane, lanes))
    }

    fn at(ring: Arc<RingCell>, (lane, lanes): (u8, u8)) -> Self {
        ring.origins.accept(SliceRange::new(0..8192), (PRIMARY, 0), EPOCH);
        let opened = ring.origins.open(PRIMARY, (lane, lanes), 1, 0);
        let (origin, next) = opened.expect("the first log");
        let stream = StreamIn::new((PRIMARY, lane, lanes), origin, &ring);
        let mut worker = Worker::new(ring.cell.clone());
        worker.begin(NOW);
        Self { ring, worker, stream, next }
    }

    /// Takes a frame with these entries. Returns why not, if it does not.
    fn takes(&mut self, entries: &[Entry<'_>]) -> Result<(), Reason> {
        let mut records = Vec::new();
        entries.iter().for_each(|entry| entry.encode(&mut records));
        let count = entries.len() as u32;
        let (map_version, others_have, first) = (0, u64::MAX, self.next);
        let frame = Entries { map_version, others_have, first, count, records: &records };
        match self.stream.take(&frame, &self.ring, &mut self.worker, NOW) {
            Taken::All(position, _) => {
                self.next += u64::from(count);
                assert_eq!(position + 1, self.next);
                Ok(())
            }
            Taken::Later | Taken::Over => panic!("there is space"),
            Taken::Refused(reason) => Err(reason),
        }
    }

    /// Stores `key`, which is of a slice that it copies. Returns the slice.
    fn stores(&mut self, key: &[u8], counter: u64) -> SliceId {
        let slice = SliceId::of(key);
        let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
        let effect = Effect { key, change };
        let version = Version::new(EPOCH, counter);
        self.takes(&[Entry::Change { slice, version, effect, tag: None }]).expect("it is followed");
        slice
    }

    fn has(&mut self, key: &[u8]) -> bool {
        let mut reply = Vec::new();
        let key = Key::new(key).expect("a key");
        let hashed = self.worker.cell().engine().key(key.as_bytes());
        get_shown(&mut self.worker, NOW, (key, hashed), &mut reply);
        reply.starts_with(b"VALUE ")
    }
}

/// Keys whose slices begin with a bit that is not set, the first of `lanes` lanes among them.
fn key_below(slices: usize, but: Option<SliceId>) -> String {
    let mut keys = (0..).map(|number| format!("key{number}"));
    let fits = |key: &String| {
        let slice = SliceId::of(key.as_bytes());
        slice.index() < slices && Some(slice) != but
    };
    keys.find(fits).expect("there are many")
}

/// What only the primary of now may have acknowledged.
fn entries_that_replies_wait_for(slice: SliceId) -> [Vec<u8>; 2] {
    let asker = Asker { cell: CellId(9), life: 1, worker: 0 };
    let tag = RequestTag { asker, id: 5, first: 1, again: 1 };
    [fence::encode(slice, EPOCH).to_vec(), tag_state::nothing(&tag, slice).to_vec()]
}

#[test]
fn what_a_reply_waits_for_is_acknowledged_only_while_the_slice_is_followed() {
    let mut copy = Copying::new(0, 1);
    let key = key_below(8192, None);
    let slice = copy.stores(key.as_bytes(), 1);
    let [fence, nothing] = entries_that_replies_wait_for(slice);
    let others = [(fence::KIND, &fence), (tag_state::NOTHING_KIND, &nothing)];
    let mut all = vec![Entry::Barrier(SliceRange::new(0..8192), 0)];
    all.extend(others.map(|(kind, bytes)| Entry::Other { kind, bytes, spends: false }));
    copy.takes(&all).expect("it follows that primary");
    assert!(!copy.has(key.as_bytes()));
    let asked_by = copy.ring.tags.asked_by(Asker { cell: CellId(9), life: 1, worker: 0 });
    assert_eq!(asked_by.lock().known(5, 1), Known::Forgotten);

    // It leads the range itself, or begins it again.
    copy.ring.origins.seal(SliceRange::new(0..8192));
    for entry in all {
        assert_eq!(copy.takes(&[entry]), Err(Reason::NotFollowing), "{entry:?}");
    }
    copy.takes(&[Entry::Skipped]).expect("it is not for this copy");
}

/// Else it would answer, once it leads, that a change is made which it never gets.
#[test]
fn only_a_learner_learns_what_was_made_before_it_has_the_changes() {
    let asker = Asker { cell: CellId(9), life: 1, worker: 0 };
    let mut copy = Copying::new(0, 2);
    let key = key_below(8192, None);
    let slice = copy.stores(key.as_bytes(), 1);
    let made = Made { kind: effects::MadeKind::Put, token: 7, value_bytes: 1, number: 0 };
    let outcomes = vec![(5, slice, Outcome::Made(made))];
    let entries = tag_state::encode(&TagState { asker, floor: 1, outcomes });
    let mut map = Map::clone(&formed_with(2, 2));
    let mut knows = |copy: &mut Copying, learner| {
        map.ranges.iter_mut().for_each(|range| range.learner = learner);
        copy.ring.set_map(Arc::new(map.clone()));
        for bytes in &entries {
            let entry = Entry::Other { kind: tag_state::KIND, bytes, spends: false };
            copy.takes(&[entry]).expect("it follows that primary");
        }
        copy.ring.tags.asked_by(asker).lock().known(5, 1)
    };
    assert_eq!(knows(&mut copy, None), Known::New);
    assert_eq!(knows(&mut copy, Some(CellId(3))), Known::New, "another cell learns");
    assert_eq!(knows(&mut copy, Some(CellId(1))), Known::Made(made));
}

#[test]
fn a_barrier_is_for_the_lane_of_its_primary_and_a_delayed_flush_comes_once() {
    let mut copy = Copying::new(0, 4);
    let inside = key_below(4096, None);
    let slice = copy.stores(inside.as_bytes(), 1);
    let outside = (0..).map(|number| format!("other{number}")).find(|key| {
        let slice = SliceId::of(key.as_bytes()).index();
        (4096..8192).contains(&slice)
    });
    let outside = outside.expect("there are many");
    copy.stores(outside.as_bytes(), 1);
    let flush = Entry::Barrier(SliceRange::new(0..8192), 6);
    copy.takes(&[flush]).expect("it follows that primary");
    assert!(!copy.has(inside.as_bytes()) && copy.has(outside.as_bytes()));
    assert_eq!(copy.ring.flushed.of(slice), 6);
    copy.stores(inside.as_bytes(), 2);
    copy.takes(&[flush]).expect("it follows that primary");
    assert!(copy.has(inside.as_bytes()), "what was stored after the flush");
}

/// A flush in the tail of a primary that is over ends what was before it there, and not what
/// follows it. Nor does one of the new primary, whose numbers may be lower than those that this
/// copy would give if it led.
#[test]
fn what_follows_a_flush_in_a_tail_stays() {
    const OLD: CellId = CellId(3);
    let mut copy = Copying::new(0, 1);
    let (me, slices) = (copy.ring.identity.cell, SliceRange::new(0..8192));
    let before = key_below(8192, None);
    let after = key_below(8192, Some(SliceId::of(before.as_bytes())));
    let (slice, engine) = (SliceId::of(after.as_bytes()), copy.ring.cell.clone());
    copy.ring.origins.open(OLD, (0, 1), 1 << READINGS_BITS, 0).expect("a log");
    copy.stores(before.as_bytes(), 1);
    let own = copy.ring.origins.tail(OLD, slices);
    let exchange = Exchange::new((EPOCH + 1, slices), &own, &[PRIMARY], true);
    copy.ring.exchanges.begin(RangeId(1), exchange);

    let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
    let effect = Effect { key: after.as_bytes(), change };
    let version = Version::new(EPOCH, engine.engine().last_version(slice).counter() + 1);
    let entries = [Entry::Barrier(slices, 0), Entry::Change { slice, version, effect, tag: None }];
    let mut tail = Tail { reaches: vec![Reach { from: 0, last: 2 }], ..own };
    let record = |(entry, position)| effects::Record { position, entry };
    tail.add(0, entries.into_iter().zip(1..).map(record), slices);
    for (kind, bytes) in tail.encode(me, RangeId(1), EPOCH + 1) {
        assert!(engine.engine().last_version(slice).epoch() <= EPOCH, "it is not whole");
        copy.takes(&[Entry::Other { kind, bytes: &bytes, spends: false }]).expect("it is awaited");
    }
    assert!(copy.has(after.as_bytes()) && !copy.has(before.as_bytes()));
    assert_eq!(engine.engine().last_version(slice), version, "it does not lead");
    jump(&copy.ring, slices, EPOCH + 2, false);
    let last = engine.engine().last_version(slice);
    let expected = (EPOCH + 2, version.counter() + COUNTER_JUMP);
    assert_eq!((last.epoch(), last.counter()), expected, "it leads");
    jump(&copy.ring, slices, EPOCH + 3, false);
    let later = engine.engine().last_version(slice);
    assert_eq!((later.epoch(), later.counter()), (EPOCH + 3, last.counter()), "once");
}

/// It has missed that its primary was handed the range, whose numbers go on: it has noted a jump
/// that the primary has not made.
#[test]
fn a_flush_ends_nothing_that_follows_it_where_the_copy_has_noted_a_jump() {
    let mut copy = Copying::new(0, 1);
    let slices = SliceRange::new(0..8192);
    let before = key_below(8192, None);
    let slice = copy.stores(before.as_bytes(), 1);
    let after = key_below(8192, Some(slice));
    copy.ring.jumps.note(slices);
    copy.takes(&[Entry::Barrier(slices, 0)]).expect("it follows that primary");
    copy.stores(after.as_bytes(), 2);
    assert!(copy.has(after.as_bytes()) && !copy.has(before.as_bytes()));
}

#[test]
fn what_a_stream_was_promised_is_void_when_it_is_opened_again() {
    let copy = Copying::new(0, 1);
    let promised = copy.stream.promise.take(0, 0, 0).expect("it is the last");
    assert!(promised.bytes > 0);
    let again = copy.ring.room.stream(SliceRange::ALL, 1);
    copy.stream.origin.promises(0, &again);
    assert_eq!(copy.stream.promise.take(0, 0, 0), None);
    assert!(again.take(0, 0, 0).is_some_and(|promised| promised.bytes > 0));
}

/// The bytes of each value of the next test.
const VALUE: [u8; 900] = [b'v'; 900];

impl Copying {
    /// Stores a key of a slice that it copies, number `counter`.
    fn stores_much(&mut self, counter: u64) {
        self.stores_in(EPOCH, counter);
    }

    /// The same in this epoch.
    fn stores_in(&mut self, epoch: u32, counter: u64) {
        let key = format!("key{counter}");
        let slice = SliceId::of(key.as_bytes());
        let change = Change::Put(Value::Parts([&VALUE, b""]), Facts::default());
        let effect = Effect { key: key.as_bytes(), change };
        let version = Version::new(epoch, counter);
        self.takes(&[Entry::Change { slice, version, effect, tag: None }]).expect("it is followed");
    }

    /// What is promised now.
    fn promised(&self) -> u64 {
        self.stream.promise.take(0, 0, NOW.mono_ns).expect("it is the last").bytes
    }

    /// What the threads of the tier do, after each batch. Returns whether all that was applied is
    /// journaled.
    fn syncs(&mut self) -> bool {
        self.worker.end();
        let tiered = self.ring.cell.tiered().expect("it is above a tier");
        (0..2).for_each(|_| tiered.sync(NOW));
        self.worker.begin(NOW);
        let below = self.ring.below().expect("it is in a ring");
        below.may_acknowledge(&below.copied_ends())
    }
}

/// Also what is applied of other keys: an acknowledgement says how far a log has come.
#[test]
fn a_copy_acknowledges_what_its_journal_has_at_the_highest_level_of_any_prefix() {
    for (prefix, at_once) in [("order:=memory", true), ("order:=disk", false)] {
        let mut copy = Copying::at(first_cell_with(&[prefix]), (0, 1));
        // As many segments are made as are promised, little by little.
        for _ in 0..16 {
            copy.promised();
            assert!(copy.syncs(), "nothing has come");
        }
        copy.stores_much(numbers().next().expect("there are many"));
        // It is written when the batch ends.
        copy.worker.end();
        let below = copy.ring.below().expect("it is in a ring");
        let tiered = copy.ring.cell.tiered().expect("it is above a tier");
        let ends = below.copied_ends();
        assert_eq!((below.may_acknowledge(&ends), tiered.tier().presses()), (at_once, !at_once));
        (0..2).for_each(|_| tiered.sync(NOW));
        assert!(below.may_acknowledge(&ends) && !tiered.tier().presses(), "{prefix}");
    }
}

/// Numbers of keys of slices that the cell copies.
fn numbers() -> impl Iterator<Item = u64> {
    (1..).filter(|number| SliceId::of(format!("key{number}").as_bytes()).index() < 8192)
}

/// Fills the log of what a cell leads until its journal grants no more.
fn fill_what_is_led(ring: &RingCell) -> u64 {
    let mut sink = effects::WorkerSink::new(ring.log.lanes.clone());
    let change = Change::Put(Value::Parts([&VALUE, b""]), Facts::default());
    let effect = Effect { key: b"key", change };
    let key = base::KeyId { slice: SliceId::of(effect.key), hash: 0 };
    let tiered = ring.cell.tiered().expect("it is above a tier");
    for count in 1_u64.. {
        use base::EffectSink as _;
        if sink.commit(key, &effect, || Ok(Version::from_raw(count))).is_err() {
            return count;
        }
        sink.end_batch();
        tiered.write();
        if count.is_multiple_of(256) {
            tiered.sync(NOW);
        }
    }
    unreachable!("a journal is full in the end")
}

/// Without that, a stream is held up by a change, and the word that frees room stands behind it.
#[test]
fn no_more_is_promised_than_the_journal_takes_and_what_takes_no_room_passes() {
    let ring = first_cell_above_a_tier();
    let mut copy = Copying::at(ring.clone(), (0, 1));
    let mut keys = numbers();
    let mut stored = Vec::new();
    let mut promised = copy.promised();
    assert!(promised > 0);
    // What was promised before stays, however much this cell writes itself.
    assert!(fill_what_is_led(&ring) > 1_000);
    while promised > 0 {
        // A primary emits no more than that, but for the end of the last entry.
        let mut left = promised;
        while left > 0 {
            let number = keys.next().expect("there are many");
            copy.stores_much(number);
            stored.push(number);
            left = left.saturating_sub(VALUE.len() as u64);
        }
        assert!(copy.syncs(), "it is granted, and not journaled");
        promised = copy.promised();
        assert!(stored.len() < 100_000, "a journal is full in the end");
    }
    assert!(stored.len() > 100, "{}", stored.len());
    // It was all written back, which is said key by key.
    for some in stored.chunks(64) {
        let mut bytes = Vec::new();
        for number in some {
            let key = format!("key{number}");
            tier::encode_written_back(key.as_bytes(), Version::new(EPOCH, *number), &mut bytes);
        }
        let kind = WRITTEN_BACK_KIND;
        copy.takes(&[Entry::Other { kind, bytes: &bytes, spends: false }]).expect("it takes none");
        assert!(copy.syncs());
    }
    assert_eq!(ring.cell.tiered().map(|it| it.tier().dirty()), Some(1), "what is led itself");
}

/// Another copy has had that from the primary of before, which has ended, and leads now.
#[test]
fn what_a_new_primary_says_to_be_below_leaves_the_index_of_a_copy() {
    let ring = first_cell_above_a_tier();
    let mut copy = Copying::at(ring.clone(), (0, 1));
    let (slices, mut keys) = (SliceRange::new(0..8192), numbers());
    (0..2).for_each(|_| copy.stores_much(keys.next().expect("there are many")));
    assert!(copy.syncs());
    ring.origins.accept(slices, (PRIMARY, 0), EPOCH + 1);
    copy.stores_in(EPOCH + 1, keys.next().expect("there are many"));
    let tier = ring.cell.tiered().expect("it is above a tier").tier().clone();
    let mut dirty_after = |slices, epoch| {
        let (kind, bytes) = (settled::KIND, settled::encode(slices, epoch));
        copy.takes(&[Entry::Other { kind, bytes: &bytes, spends: false }]).expect("it is followed");
        assert!(copy.syncs());
        tier.flush(NOW, true).expect("nothing is led");
        tier.dirty()
    };
    assert_eq!(dirty_after(slices, EPOCH), 3, "nothing is older than that");
    assert_eq!(dirty_after(SliceRange::new(8192..16384), EPOCH + 1), 3, "of other slices");
    assert_eq!(dirty_after(slices, EPOCH + 1), 1, "what came in the new epoch");
    ring.origins.seal(slices);
    assert_eq!(dirty_after(slices, EPOCH + 2), 1, "it does not follow that cell any more");
}
