//! The room for copies in this cell: how much was promised to the primaries of what it copies.
//!
//! A primary emits no more than was promised to it, so what it emits can be applied at once, and
//! the removals after it are not held up. Without that, two full cells would wait for each other: a
//! cell makes space by evicting what it leads, which takes space in its log, which the other frees
//! when it has applied it.
//!
//! ```text
//! free memory   [ moves | promised | not promised yet ]
//!                          ^ own writes leave it
//! ```
//!
//! Above a tier what comes takes room in the journal, too, and no more is promised than that has:
//! what frees it, the word that keys are written back, comes in the same streams.
//!
//! Who makes space again depends on who holds this cell's memory: it evicts what it leads while
//! that is about as much as its copies, or more; else the primaries of its copies are asked to
//! evict. To ask costs more: what they evict is spread among the segments of the copies, which must
//! be compacted. A cell that evicts nothing always asks, and a primary that evicts nothing takes
//! this for a copy whose memory is full: it refuses what clients want to store.

use crate::cell::Cell;
use base::SliceRange;
use engine::{Holdings, KeptForCopies};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::Member;

/// The part of the limit that is kept free for copies.
const RESERVE_PART: u64 = 128;
/// For each stream, as much is kept free as this number of the longest values that have come: one
/// may come beyond what was promised, and segments are not filled to their ends.
const RESERVE_VALUES: u64 = 3;
/// Most bytes of it that one stream is promised.
const SHARE_BYTES_MAX: u64 = 4 << 20;
/// The part of what is free that one stream is promised where that is more than its share.
const FREE_PART: u64 = 16;
/// The part of the limit that is not promised where nothing is evicted, unless this cell learns a
/// range: so a full ring has its copies again after a cell has returned, which then takes other
/// streams than before.
const RETURN_PART: u64 = 64;
/// Fewer bytes than this are not promised.
const SHARE_BYTES_MIN: u64 = 8 << 10;

/// The same of the journal, whose logs may be short.
const OF_JOURNAL_MIN: u64 = 1 << 10;
/// Of the streams that other cells may open now, all together are promised this part of the journal
/// at most: the rest is left for those of cells that join.
const FOR_OTHERS_PART: u64 = 2;

/// How often a stream looks for room that compaction should make, before its primary is asked to
/// evict all the same: what is left of a few long items may fit in no fewer segments.
const LOOKS_MAX: u32 = 10;

/// While more than this part of the memory is dead beyond what is left uncompacted, compaction is
/// waited for as long as it makes progress. In a full cell less is dead, unless a range was
/// dropped.
const DEAD_PART: u64 = 8;
/// So much less is dead when it has made some: the part of what items have taken.
const PROGRESS_PART: u64 = 1024;
/// How long it may make none. Those who write wait meanwhile.
const PROGRESS_NS: u64 = 500_000_000;

/// How far a stream has looked for room that compaction should make.
#[derive(Clone, Copy, Debug, Default)]
struct Looks {
    /// Without success.
    count: u32,
    /// What compaction could make when that was given up, and makes no more.
    given_up: u64,
}

impl Looks {
    /// Looks once more, where `lacking` bytes are missing and compaction may make `compactable`.
    /// Returns whether that is waited for. In a cell that `evicts`, all that is missing must come
    /// of it, and it is looked again and again. Where nothing is evicted any gain is welcome, and
    /// it is looked again when clients have removed more.
    fn look(&mut self, lacking: u64, compactable: u64, evicts: bool) -> bool {
        self.given_up = self.given_up.min(compactable);
        let may = match evicts {
            true => lacking > 0 && lacking <= compactable,
            false => lacking > 0 && compactable > self.given_up,
        };
        if may && self.count < LOOKS_MAX {
            self.count += 1;
            return true;
        }
        if may {
            self.given_up = compactable;
        }
        self.count = 0;
        false
    }
}

/// How far compaction has come while much of the memory was dead.
#[derive(Clone, Copy, Debug, Default)]
struct Compaction {
    /// What was dead when it made progress last; 0 before the first look.
    dead: u64,
    /// When that was.
    at_ns: u64,
}

impl Compaction {
    /// Looks at it, where this is `dead` of what is `taken`. Returns whether it makes progress, or
    /// may still begin to.
    fn progresses(&mut self, dead: u64, taken: u64, now_ns: u64) -> bool {
        if self.dead == 0 || dead + taken / PROGRESS_PART < self.dead {
            *self = Self { dead, at_ns: now_ns };
        }
        now_ns.saturating_sub(self.at_ns) < PROGRESS_NS
    }
}

/// What the primary of one stream learns about the room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promised {
    /// Bytes that may come.
    pub(crate) bytes: u64,
    /// Bytes that the primary should evict.
    pub(crate) wanted: u64,
}

impl Promised {
    /// Whether the copy has no memory for what comes next, and says that its primary should evict.
    /// Where that evicts nothing, to wait is of no use.
    pub(crate) fn is_full(self) -> bool {
        self.wanted > 0 && self.bytes < SHARE_BYTES_MIN
    }
}

/// The room of one cell.
pub(crate) struct Room {
    cell: Arc<Cell>,
    promised: AtomicU64,
    streams: AtomicU64,
    /// How many other cells there are.
    others: AtomicU64,
    /// Bytes of the longest value that has come.
    longest: AtomicU64,
    /// Whether this cell is on its way to be a copy of a range.
    learns: AtomicBool,
}

/// What one stream was promised. It is void once the stream is opened again: the connection of
/// before may stay for long where the other machine has gone without a word.
pub(crate) struct StreamPromise(Mutex<Option<Promise>>);

impl StreamPromise {
    fn lock(&self) -> MutexGuard<'_, Option<Promise>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is void: others may have what was promised.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    /// Whether the stream should be promised more, or its primary may have to evict.
    pub(crate) fn is_short(&self) -> bool {
        self.lock().as_ref().is_some_and(Promise::is_short)
    }

    /// These bytes have come, and so much was charged in the logs of what is copied. What is
    /// promised now; `None` if it is void.
    pub(crate) fn take(&self, bytes: u64, journaled: u64, now_ns: u64) -> Option<Promised> {
        let mut promise = self.lock();
        let promise = promise.as_mut()?;
        promise.take(bytes);
        promise.take_of_journal(journaled);
        Some(promise.renew(now_ns))
    }
}

/// What one stream was promised, and has not taken.
struct Promise {
    room: Arc<Room>,
    bytes: u64,
    /// The slices that may come, how many such streams its cell has, and what was promised of the
    /// journal for them.
    slices: SliceRange,
    lanes: u8,
    of_journal: u64,
    looks: Looks,
    compaction: Compaction,
}

impl Room {
    pub(crate) fn new(cell: Arc<Cell>) -> Arc<Self> {
        let [promised, streams, others, longest] = std::array::from_fn(|_| AtomicU64::new(0));
        let learns = AtomicBool::new(false);
        let room = Self { cell, promised, streams, others, longest, learns };
        room.keeps_for_return();
        Arc::new(room)
    }

    /// Nothing is promised: it keeps what it may have to learn, and no more.
    fn keeps_for_return(&self) {
        let bytes = self.for_return();
        let kept = KeptForCopies { promised: bytes, evict_aim: bytes, compact_aim: bytes };
        self.cell.engine().keep_for_copies(kept);
    }

    /// Sets whether this cell is on its way to be a copy of a range.
    pub(crate) fn set_learns(&self, learns: bool) {
        self.learns.store(learns, Ordering::Relaxed);
    }

    /// Sets how many cells the ring has.
    pub(crate) fn set_cells(&self, cells: usize) {
        self.others.store(cells.saturating_sub(1) as u64, Ordering::Relaxed);
    }

    /// Bytes that clients do not get, and streams only while this cell learns a range.
    fn for_return(&self) -> u64 {
        match self.cell.engine().evicts() {
            true => 0,
            false => self.cell.budget().total() / RETURN_PART,
        }
    }

    /// One more stream, of changes of these slices, of a cell that has `lanes` of them. It was
    /// promised nothing yet.
    pub(crate) fn stream(self: &Arc<Self>, slices: SliceRange, lanes: u8) -> Arc<StreamPromise> {
        Arc::new(StreamPromise(Mutex::new(Some(self.promise((slices, lanes))))))
    }

    fn promise(self: &Arc<Self>, (slices, lanes): (SliceRange, u8)) -> Promise {
        self.streams.fetch_add(1, Ordering::Relaxed);
        let (looks, compaction) = (Looks::default(), Compaction::default());
        Promise { room: self.clone(), bytes: 0, slices, lanes, of_journal: 0, looks, compaction }
    }

    /// The tier, if there is one.
    fn below(&self) -> Option<Member<'_>> {
        self.cell.member()
    }

    /// A value of `bytes` bytes comes.
    #[inline]
    pub(crate) fn sees(&self, bytes: usize) {
        if self.longest.load(Ordering::Relaxed) < bytes as u64 {
            self.longest.fetch_max(bytes as u64, Ordering::Relaxed);
        }
    }

    /// Bytes that are kept free, and the most of it that one stream is promised.
    fn reserve(&self) -> (u64, u64) {
        let streams = self.streams.load(Ordering::Relaxed);
        let reserve = self.cell.budget().total() / RESERVE_PART;
        let longest = self.longest.load(Ordering::Relaxed) * RESERVE_VALUES * streams;
        let reserve = reserve.min(2 * SHARE_BYTES_MAX * streams).max(longest);
        (reserve, (reserve / 2 / streams.max(1)).max(SHARE_BYTES_MIN))
    }
}

impl Promise {
    /// These bytes have come.
    fn take(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.room.promised.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// So much has come of what was promised of the journal, or is not promised any more.
    fn take_of_journal(&mut self, bytes: u64) {
        let bytes = bytes.min(self.of_journal);
        self.of_journal -= bytes;
        if let Some(below) = self.room.below() {
            below.redeem(self.slices, bytes);
        }
    }

    /// Promises as much of the journal as of the memory, or its share of what the journal has. What
    /// a stream holds and does not need stays with it: so its share leaves room for the others also
    /// before they are there.
    fn takes_of_journal(&mut self) {
        let Some(below) = self.room.below() else { return };
        let (held, wanted) = (self.of_journal, self.bytes.saturating_sub(self.of_journal));
        let others = self.room.others.load(Ordering::Relaxed);
        let of_one = streams_of_a_log(self.lanes.into(), below.copied_lanes());
        let streams = self.room.streams.load(Ordering::Relaxed);
        let part = streams.max(others * of_one * FOR_OTHERS_PART);
        let more = below.promise(self.slices, held, wanted, part);
        if held + more >= OF_JOURNAL_MIN {
            self.of_journal += more;
        } else {
            below.redeem(self.slices, more);
        }
    }

    /// What may come: the lesser of both.
    fn promised(&self) -> u64 {
        match self.room.below() {
            Some(_) => self.bytes.min(self.of_journal),
            None => self.bytes,
        }
    }

    /// Whether the stream should be promised more, or its primary may have to evict.
    fn is_short(&self) -> bool {
        let lacks_journal = self.promised() < self.bytes / 4 * 3;
        lacks_journal || self.is_short_of_memory()
    }

    fn is_short_of_memory(&self) -> bool {
        let lacks = self.room.cell.engine().lacks_room_for_copies();
        lacks || self.bytes < self.room.reserve().1 / 4 * 3
    }

    /// Promises more, if the stream is short, and there is room. Asks for room where there is none.
    fn renew(&mut self, now_ns: u64) -> Promised {
        let mut wanted = 0;
        if self.is_short_of_memory() {
            let held = self.room.cell.engine().holdings();
            self.takes_of(&held);
            wanted = self.asks(&held, now_ns);
        }
        if self.is_short() {
            self.takes_of_journal();
        }
        Promised { bytes: self.promised(), wanted }
    }

    /// Takes its share of what is free: a part of the reserve, or of all that is free if that is
    /// more; half of what nobody was promised at most, so that streams that are renewed at the same
    /// time find something left.
    fn takes_of(&mut self, held: &Holdings) {
        let (_, share) = self.room.reserve();
        let others = self.room.promised.load(Ordering::Relaxed).saturating_sub(self.bytes);
        let learns = self.room.learns.load(Ordering::Relaxed);
        let kept = if learns { 0 } else { self.room.for_return() };
        let spare = held.free.saturating_sub(others + kept) / 2;
        let bytes = share.max(spare / FREE_PART).min(SHARE_BYTES_MAX).min(spare);
        if bytes >= SHARE_BYTES_MIN && bytes > self.bytes {
            self.room.promised.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            self.bytes = bytes;
        }
    }

    /// Lets this cell work towards the room that is missing. Returns what the primary should evict
    /// of it: nothing while this cell evicts itself, or compaction may make it.
    fn asks(&mut self, held: &Holdings, now_ns: u64) -> u64 {
        let (engine, (reserve, share)) = (self.room.cell.engine(), self.room.reserve());
        let promised = self.room.promised.load(Ordering::Relaxed) + self.room.for_return();
        let evicts = engine.evicts();
        let leads_enough = evicts && held.primaries >= held.copies / 5 * 4;
        // What another stream does not take stays promised to that, and may be much: it was
        // promised when much was free.
        let others = promised.saturating_sub(self.bytes);
        let aim = if evicts { reserve.max(others + 2 * share) } else { promised + reserve };
        let lacking = aim.saturating_sub(held.free);
        // Where much is dead, as after a range was dropped, compaction needs time and nothing else.
        let taken = held.primaries + held.copies;
        let is_dead = lacking > 0 && held.compactable() > taken / DEAD_PART;
        let is_compacting = is_dead && self.compaction.progresses(held.dead, taken, now_ns);
        if !is_dead {
            self.compaction = Compaction::default();
        }
        let evicts_more = leads_enough && !is_compacting;
        let evict_aim = if evicts_more { aim.max(promised) } else { promised };
        engine.keep_for_copies(KeptForCopies { promised, evict_aim, compact_aim: aim });
        let waits = is_compacting || self.looks.look(lacking, held.compactable(), evicts);
        let streams = self.room.streams.load(Ordering::Relaxed);
        if leads_enough || waits { 0 } else { lacking.div_ceil(streams.max(1)) }
    }
}

/// Most streams of a cell that has `lanes` of them which bring changes for one of `own` logs.
fn streams_of_a_log(lanes: usize, own: usize) -> u64 {
    match (lanes, own.max(1)) {
        (lanes, own) if lanes % own == 0 => (lanes / own) as u64,
        (lanes, own) if own % lanes.max(1) == 0 => 1,
        // Its first and its last may be about other slices, too.
        (lanes, own) => (lanes / own + 2) as u64,
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.take(self.bytes);
        self.take_of_journal(self.of_journal);
        if self.room.streams.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.room.keeps_for_return();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, cell_with_log, cell_without_eviction};
    use crate::worker::Worker;
    use engine::{Action, Left, Op, Put, WriteStatus};

    #[test]
    fn it_is_looked_again_for_room_when_more_is_removed() {
        // Lacking, compactable, whether the cell evicts, and how many looks of 25 wait for it.
        let cases = [
            (10, 10, true, 23),
            (11, 10, true, 0),
            (0, 10, true, 0),
            (11, 10, false, 10),
            (10, 0, false, 0),
            (0, 10, false, 0),
        ];
        for (lacking, compactable, evicts, waits) in cases {
            let mut looks = Looks::default();
            let waited = (0..25).filter(|_| looks.look(lacking, compactable, evicts)).count();
            assert_eq!(waited, waits, "{lacking} {compactable} {evicts}");
            if !evicts && lacking > 0 {
                assert!(looks.look(lacking, compactable + 1, evicts), "a client has removed some");
            }
        }
    }

    #[test]
    fn a_full_cell_that_evicts_nothing_says_so_until_clients_remove_something() {
        let cell = cell_without_eviction(8 << 20);
        let room = Room::new(cell.clone());
        let mut promise = room.promise((SliceRange::ALL, 1));
        assert!(!promise.renew(0).is_full());
        let mut worker = Worker::new(cell.clone());
        let mut stored = Vec::new();
        let set = |worker: &mut Worker, key: &str| {
            worker.begin(NOW);
            let put = Put { value: &[b'v'; 900], client_flags: 0, expiry_s: 0 };
            let wrote = worker.set(&cell.engine().key(key.as_bytes()), put, NOW);
            worker.end();
            wrote
        };
        loop {
            let key = format!("key{}", stored.len());
            match set(&mut worker, &key) {
                WriteStatus::Done => stored.push(key),
                wrote => break assert_eq!(wrote, WriteStatus::NoSpace),
            }
        }
        assert!(promise.renew(0).bytes >= SHARE_BYTES_MIN, "what was promised is kept");
        let mut another = room.promise((SliceRange::ALL, 1));
        // It looks first whether compaction makes room.
        let is_full = (0..=LOOKS_MAX).any(|_| another.renew(0).is_full());
        assert!(is_full, "{:?}", another.renew(0));
        room.set_learns(true);
        let for_learning = another.renew(0);
        assert!(for_learning.bytes >= SHARE_BYTES_MIN, "it has kept some: {for_learning:?}");
        assert_eq!(set(&mut worker, "one more"), WriteStatus::NoSpace, "that is not for clients");
        room.set_learns(false);
        for key in stored {
            worker.begin(NOW);
            let op = Op::new(cell.engine().key(key.as_bytes()), Action::Delete);
            assert_eq!(worker.write(&op, NOW).status, WriteStatus::Done);
            worker.end();
        }
        worker.begin(NOW);
        while worker.tend(NOW, 1024) == Left::Debt {}
        worker.end();
        let promised = another.renew(0);
        assert!(!promised.is_full() && promised.bytes >= SHARE_BYTES_MIN, "{promised:?}");
    }

    #[test]
    fn a_stream_gets_its_share_where_another_keeps_what_it_was_promised_when_all_was_free() {
        let cell = cell_with_log(64 << 20, true);
        let room = Room::new(cell.clone());
        let mut early = room.promise((SliceRange::ALL, 2));
        let much = early.renew(0).bytes;
        assert!(much > room.reserve().0, "{much}");
        let mut worker = Worker::new(cell.clone());
        for number in 0..100_000 {
            worker.begin(NOW);
            let key = format!("key{number}");
            let put = Put { value: &[b'v'; 900], client_flags: 0, expiry_s: 0 };
            let wrote = worker.set(&cell.engine().key(key.as_bytes()), put, NOW);
            assert_eq!(wrote, WriteStatus::Done);
            worker.end();
        }
        let mut late = room.promise((SliceRange::ALL, 2));
        let mut gets_its_share = || {
            worker.begin(NOW);
            worker.tend(NOW, 512);
            worker.end();
            late.renew(0).bytes >= room.reserve().1
        };
        assert!((0..1_000).any(|_| gets_its_share()), "{} of {much}", late.bytes);
        assert_eq!(early.bytes, much, "nobody has taken that");
    }

    #[test]
    fn a_stream_that_was_promised_something_early_leaves_room_in_the_journal_for_the_others() {
        let room = crate::ring::testing::first_cell_above_a_tier().room.clone();
        room.set_cells(4);
        // None takes what it is promised.
        let mut streams = Vec::new();
        for stream in 0..3 {
            let mut promise = room.promise((SliceRange::ALL, 1));
            let promised = promise.renew(0).bytes;
            assert!(promised >= OF_JOURNAL_MIN, "stream {stream} has {promised} bytes");
            streams.push(promise);
        }
    }

    #[test]
    fn streams_that_bring_changes_for_a_log_are_counted() {
        let cases = [(8, 8, 1), (8, 4, 2), (4, 8, 1), (1, 3, 1), (2, 3, 2), (3, 2, 3), (5, 2, 4)];
        for (lanes, own, most) in cases {
            assert_eq!(streams_of_a_log(lanes, own), most, "{lanes} {own}");
        }
    }

    #[test]
    fn compaction_is_waited_for_as_long_as_it_makes_progress() {
        const TAKEN: u64 = 64 << 20;
        let mut compaction = Compaction::default();
        let mut progresses =
            |dead: u64, ms: u64| compaction.progresses(dead << 10, TAKEN, ms * 1_000_000);
        let each_time = (0..20).all(|step| progresses(9_000 - 100 * step, 400 * step));
        assert!(each_time, "it is slow, and goes on");
        assert!(progresses(7_100, 8_000) && progresses(7_050, 8_099), "it may still make some");
        assert!(!progresses(7_040, 8_100), "little by little is none");
        assert!(progresses(6_900, 9_000), "it goes on");
    }
}
