//! All segments: the pool that they are parts of, their headers, and the lists they are in.
//!
//! Words are taken from an open segment by one addition, without a lock. Everything else (opening,
//! sealing, queues, free segments, grants) happens under the lock of [`Lists`]. A segment is in at
//! most one list. There is one grant for each segment that holds memory.
//!
//! Positions and lengths are in words of eight bytes, ids count segments from the pool's start.

use super::addr::{Addr, SegmentId};
use super::for_copies::{ForCopies, KeptForCopies};
use super::header::{Header, HeaderWords, State};
use super::pins::Pins;
use super::pool::{Pool, QUEUES, SMALL_PERCENT_FIRST};
use super::queue::{Headers, Queue};
use crate::config::{Geometry, SCAN_SEGMENTS_MAX};
use crate::grace::GracePeriods;
use crate::item::{HEADER_WORDS, Head, ItemRef};
use crate::raw::Mapping;
use crate::sync::{Apart, AtomicU64, Mutex, MutexGuard, Ordering, lock};
use base::{Grant, MemoryBudget, Owner};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// What allocated words are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Purpose {
    /// Any item. It leaves the last free segments for moves.
    Write,
    /// An item that eviction or compaction keeps, and for which writers' segments have no space.
    Move,
}

/// How many [`Purpose`]s there are.
const PURPOSES: usize = 2;

/// Items that share segments. Writers do not fill a segment that was opened for moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pub(crate) arena: usize,
    pub(crate) purpose: Purpose,
    pub(crate) pool: Pool,
    /// The class of lifetime.
    pub(crate) class: usize,
}

/// How many segments there are of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentCounts {
    /// Those that hold memory.
    pub(crate) committed: usize,
    /// Those in the queue of the small pool.
    pub(crate) small: usize,
    /// Those in the queue of the main pool.
    pub(crate) main: usize,
    /// Those that hold copies.
    pub(crate) copies: usize,
    /// Drained ones that a batch may still be reading.
    pub(crate) limbo: usize,
    /// Drained ones that a reader holds.
    pub(crate) held: usize,
}

pub(super) struct Lists {
    pub(super) free: Vec<SegmentId>,
    pub(super) uncommitted: Vec<SegmentId>,
    /// First segment that was never committed.
    pub(super) fresh: usize,
    /// Of these, the first `copies` are of [`Owner::Replica`]: as many as segments hold copies.
    pub(super) grants: Vec<Grant>,
    copies: usize,
    /// For segments from `fresh` on that hold memory and were never used.
    pub(super) prefaulted: Vec<Grant>,
    pub(super) queues: [Queue; QUEUES],
    pub(super) limbo: VecDeque<SegmentId>,
    /// Those that have waited in limbo long enough, and that readers still hold.
    pub(super) held: Vec<SegmentId>,
    pub(super) scan_at: usize,
    /// Whether the budget has ever refused a segment.
    filled: bool,
    /// Segments that were sealed so far.
    pub(super) sealed: u64,
    /// Of these, those that were sealed before a flush of everything: they hold nothing alive.
    pub(super) flushed: u64,
}

pub(crate) struct Segments {
    pub(super) geometry: Geometry,
    pub(super) pool: Mapping<AtomicU64>,
    pub(super) headers: HeaderTable,
    budget: Arc<MemoryBudget>,
    /// The open segment of each stream, as number + 1; 0 for none.
    open: Box<[AtomicU64]>,
    pub(super) lists: Apart<Mutex<Lists>>,
    /// `lists.free.len()`, for a look without the lock.
    pub(super) free: Apart<AtomicU64>,
    /// `lists.limbo.len()`, likewise.
    limbo: Apart<AtomicU64>,
    free_aim: usize,
    for_copies: Apart<ForCopies>,
    /// Segments of copies that may hold items of slices that are no copies any more; changed under
    /// the lock of the lists.
    pub(super) to_follow: Apart<AtomicU64>,
    /// Words at the ends of segments, in which nothing fitted.
    end_words: Apart<AtomicU64>,
    /// Whether new items belong in the main pool: see [`Segments::fills_main`].
    fills_main: Apart<AtomicU64>,
    pub(super) pins: Apart<Pins>,
}

impl Lists {
    /// A segment of `pool` holds nothing of that pool any more.
    pub(super) fn end(&mut self, pool: Pool) {
        if pool == Pool::Copies {
            self.copies -= 1;
            self.grants[self.copies].assign(Owner::Primary);
        }
    }
}

pub(super) struct HeaderTable(Mapping<HeaderWords>);

impl Headers for HeaderTable {
    #[inline]
    fn header(&self, id: SegmentId) -> Header<'_> {
        Header::new(&self.0.places()[id.0 as usize])
    }
}

impl Segments {
    /// Reserves the pool and commits the first few segments.
    pub(crate) fn new(
        geometry: Geometry,
        budget: Arc<MemoryBudget>,
        huge: bool,
    ) -> std::io::Result<Self> {
        // A filler at the end of the pool may be shorter than a header.
        let pool_words = geometry.segments_max * geometry.segment_words + HEADER_WORDS - 1;
        let beyond_moves = match geometry.segments_max {
            0..64 => geometry.arenas,
            _ => geometry.arenas.max(2),
        };
        let free_aim = geometry.arenas + beyond_moves;
        let table = Self {
            pool: Mapping::reserve(pool_words, huge)?,
            headers: HeaderTable(Mapping::reserve(geometry.segments_max, false)?),
            budget,
            open: (0..geometry.arenas * PURPOSES * QUEUES * geometry.classes)
                .map(|_| AtomicU64::new(0))
                .collect(),
            lists: Apart(Mutex::new(Lists {
                free: Vec::new(),
                uncommitted: Vec::new(),
                fresh: 0,
                grants: Vec::new(),
                copies: 0,
                prefaulted: Vec::new(),
                queues: Default::default(),
                limbo: VecDeque::new(),
                held: Vec::new(),
                scan_at: 0,
                filled: false,
                sealed: 0,
                flushed: 0,
            })),
            free: Apart(AtomicU64::new(0)),
            limbo: Apart(AtomicU64::new(0)),
            free_aim,
            for_copies: Apart(ForCopies::default()),
            to_follow: Apart(AtomicU64::new(0)),
            end_words: Apart(AtomicU64::new(0)),
            fills_main: Apart(AtomicU64::new(0)),
            pins: Apart(Pins::default()),
            geometry,
        };
        table.refill(&mut lock(&table.lists));
        Ok(table)
    }

    /// Classes of lifetime that get segments of their own now: one where the limit was lowered so
    /// far that the open segments of all classes would be most of the memory.
    #[inline]
    pub(crate) fn classes(&self) -> usize {
        let few = self.budget.total() < self.geometry.bytes_for_classes();
        if few { 1 } else { self.geometry.classes }
    }

    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) fn budget(&self) -> &MemoryBudget {
        &self.budget
    }

    #[inline]
    pub(crate) fn header(&self, id: SegmentId) -> Header<'_> {
        self.headers.header(id)
    }

    #[inline(always)]
    pub(crate) fn item(&self, addr: Addr) -> ItemRef<'_> {
        ItemRef::new(&self.pool.places()[addr.0 as usize..]).expect("an item lies in the pool")
    }

    /// The item at an address that may be torn, if it lies in the pool.
    pub(crate) fn try_item(&self, addr: Addr) -> Option<ItemRef<'_>> {
        let at = usize::try_from(addr.0).ok()?;
        self.pool.places().get(at..).and_then(ItemRef::new)
    }

    /// The item `words` into segment `id`.
    pub(crate) fn item_in(&self, id: SegmentId, words: usize) -> (Addr, ItemRef<'_>) {
        let addr = Addr((id.0 as usize * self.geometry.segment_words + words) as u64);
        (addr, self.item(addr))
    }

    #[inline(always)]
    pub(crate) fn header_of(&self, addr: Addr) -> Header<'_> {
        self.header(addr.segment(&self.geometry))
    }

    /// Counts `words` at `addr` as dead.
    pub(crate) fn add_dead(&self, addr: Addr, words: usize) {
        self.header_of(addr).add_dead(words);
    }

    /// Takes `words` for an item, or `None` when segments must be freed first. The caller is pinned
    /// and writes the item before its batch ends.
    pub(crate) fn allocate(
        &self,
        grace: &GracePeriods,
        stream: Stream,
        words: usize,
    ) -> Option<Addr> {
        debug_assert!(words <= self.geometry.segment_words);
        let open = self.open_of(stream);
        loop {
            let current = open.load(Ordering::Acquire);
            if current != 0 {
                let id = SegmentId(current as u32 - 1);
                let start = self.header(id).take_words(words);
                if start + words <= self.geometry.segment_words {
                    let addr = Addr((id.0 as usize * self.geometry.segment_words + start) as u64);
                    return Some(addr);
                }
                self.cover_end(id, start);
            }
            if !self.replace_open(grace, current, stream) {
                return None;
            }
        }
    }

    /// Takes a free segment for one writer alone: no other writes into it, and nothing walks it.
    /// The writer seals it or gives it back.
    pub(crate) fn take_whole(&self, pool: Pool, class: usize) -> Option<SegmentId> {
        let mut lists = lock(&self.lists);
        let id = self.take_free(&mut lists, (Purpose::Write, pool))?;
        self.begin(&mut lists, id, pool, class);
        Some(id)
    }

    /// Makes a free segment one of `pool`.
    fn begin(&self, lists: &mut Lists, id: SegmentId, pool: Pool, class: usize) {
        self.header(id).open(pool, class);
        if pool == Pool::Copies {
            lists.grants[lists.copies].assign(Owner::Replica);
            lists.copies += 1;
        }
    }

    /// Takes `words` in a segment that the caller has for itself.
    pub(crate) fn allocate_in(&self, id: SegmentId, words: usize) -> Option<Addr> {
        let start = self.header(id).take_words(words);
        let fits = start + words <= self.geometry.segment_words;
        fits.then(|| Addr((id.0 as usize * self.geometry.segment_words + start) as u64))
    }

    /// Lets the segment of one writer be walked like any other that is full.
    pub(crate) fn seal_whole(&self, grace: &GracePeriods, id: SegmentId) {
        let start = self.header(id).take_words(self.geometry.segment_words);
        self.cover_end(id, start);
        self.enqueue(grace, &mut lock(&self.lists), id);
    }

    /// Frees the segment of one writer, into which no slot points.
    pub(crate) fn give_back_whole(&self, id: SegmentId) {
        let mut lists = lock(&self.lists);
        let header = self.header(id);
        lists.end(header.pool());
        self.forget_end(header);
        header.set_state(State::Idle);
        lists.free.push(id);
        self.note_lengths(&lists);
    }

    /// Slices have become those of a primary: the segments of copies follow.
    pub(crate) fn note_promotion(&self, grace: &GracePeriods) {
        self.seal_open(grace, |header| header.pool() == Pool::Copies);
        let lists = lock(&self.lists);
        let to_follow = lists.queues[Pool::Copies as usize].len() as u64;
        self.to_follow.store(to_follow, Ordering::Relaxed);
    }

    /// The arena of the local with this number.
    #[inline]
    pub(crate) fn arena_of(&self, local: usize) -> usize {
        local & (self.geometry.arenas - 1)
    }

    #[inline]
    fn open_of(&self, stream: Stream) -> &AtomicU64 {
        let Stream { arena, purpose, pool, class } = stream;
        let queue = (arena * PURPOSES + purpose as usize) * QUEUES + pool as usize;
        &self.open[queue * self.geometry.classes + class]
    }

    /// The open segments of an arena.
    fn open_in(&self, arena: usize) -> &[AtomicU64] {
        let streams = self.open.len() / self.geometry.arenas;
        &self.open[arena * streams..(arena + 1) * streams]
    }

    /// Notes how many segments are free and in limbo, for those who look without the lock.
    pub(super) fn note_lengths(&self, lists: &Lists) {
        self.free.store(lists.free.len() as u64, Ordering::Relaxed);
        self.limbo.store(lists.limbo.len() as u64, Ordering::Relaxed);
    }

    /// Words at the ends of segments, in which nothing fitted.
    pub(crate) fn end_words(&self) -> u64 {
        self.end_words.load(Ordering::Relaxed)
    }

    /// A segment holds nothing more.
    pub(super) fn forget_end(&self, header: Header<'_>) {
        self.end_words.fetch_sub(header.end_words() as u64, Ordering::Relaxed);
    }

    /// Covers the end of a full segment with a filler, if `start` is where the end begins.
    fn cover_end(&self, id: SegmentId, start: usize) {
        let left = self.geometry.segment_words.saturating_sub(start);
        if left > 0 {
            self.item_in(id, start).1.set_head(Head::filler(left));
            self.header(id).add_end(left);
            self.end_words.fetch_add(left as u64, Ordering::Relaxed);
        }
    }

    /// Seals the open segment `current` and opens another, unless another thread has done so.
    fn replace_open(&self, grace: &GracePeriods, current: u64, stream: Stream) -> bool {
        let mut lists = lock(&self.lists);
        let open = self.open_of(stream);
        if open.load(Ordering::Relaxed) != current {
            return true;
        }
        if current != 0 {
            self.seal(grace, &mut lists, current, open);
        }
        let Some(id) = self.take_free(&mut lists, (stream.purpose, stream.pool)) else {
            return false;
        };
        self.begin(&mut lists, id, stream.pool, stream.class);
        open.store(u64::from(id.0) + 1, Ordering::Release);
        true
    }

    /// Puts the open segment `current`, full or covered to its end, into the queue of its pool.
    fn seal(&self, grace: &GracePeriods, lists: &mut Lists, current: u64, open: &AtomicU64) {
        self.enqueue(grace, lists, SegmentId(current as u32 - 1));
        open.store(0, Ordering::Release);
    }

    fn enqueue(&self, grace: &GracePeriods, lists: &mut Lists, id: SegmentId) {
        let header = self.header(id);
        header.set_stamp(grace.retire());
        header.set_state(State::Sealed);
        lists.sealed += 1;
        header.set_order(lists.sealed);
        lists.queues[header.pool() as usize].push(&self.headers, id);
        self.aim_filling(lists);
    }

    /// Steps of the scan for mostly dead segments that together have looked at every segment that
    /// was ever in use.
    pub(crate) fn scans(&self) -> usize {
        lock(&self.lists).fresh.div_ceil(SCAN_SEGMENTS_MAX)
    }

    /// How many segments were sealed so far.
    pub(crate) fn sealed(&self) -> u64 {
        lock(&self.lists).sealed
    }

    /// The first `sealed` segments that were sealed hold nothing alive: they go first.
    pub(crate) fn note_flush(&self, sealed: u64) {
        let mut lists = lock(&self.lists);
        lists.flushed = lists.flushed.max(sealed);
    }

    /// Seals the open segments that hold something and that `wanted` chooses, so that they can be
    /// drained.
    pub(crate) fn seal_open(&self, grace: &GracePeriods, wanted: impl Fn(Header<'_>) -> bool) {
        (0..self.geometry.arenas).for_each(|arena| self.seal_open_in(arena, grace, &wanted));
    }

    /// [`Segments::seal_open`] for those of one arena.
    pub(crate) fn seal_open_in(
        &self,
        arena: usize,
        grace: &GracePeriods,
        wanted: impl Fn(Header<'_>) -> bool,
    ) {
        for open in self.open_in(arena) {
            let current = open.load(Ordering::Acquire);
            if current == 0 {
                continue;
            }
            let id = SegmentId(current as u32 - 1);
            if self.header(id).used_words() == 0 || !wanted(self.header(id)) {
                continue;
            }
            // The one who takes words past the end covers the rest; here that is this thread.
            let start = self.header(id).take_words(self.geometry.segment_words);
            self.cover_end(id, start);
            let mut lists = lock(&self.lists);
            if open.load(Ordering::Relaxed) == current {
                self.seal(grace, &mut lists, current, open);
            }
        }
    }

    fn take_free(
        &self,
        lists: &mut MutexGuard<'_, Lists>,
        (purpose, pool): (Purpose, Pool),
    ) -> Option<SegmentId> {
        self.refill(lists);
        let keep = match (purpose, pool) {
            (Purpose::Move, _) => 0,
            (Purpose::Write, Pool::Copies) => self.free_for_moves(),
            (Purpose::Write, _) => self.free_for_writes(),
        };
        if lists.free.len() <= keep {
            return None;
        }
        let id = lists.free.pop();
        self.refill(lists);
        id
    }

    /// Takes and touches memory for segments, until they have `bytes` together or the budget is
    /// exhausted.
    pub(crate) fn prefault(&self, bytes: u64) {
        let mut lists = lock(&self.lists);
        let segments = (bytes / self.geometry.segment_bytes()) as usize;
        let wanted = segments.saturating_sub(lists.grants.len());
        for _ in 0..wanted.min(self.geometry.segments_max - lists.fresh) {
            let grant = self.budget.take(Owner::Primary, self.geometry.segment_bytes());
            let Some(grant) = grant else { break };
            lists.prefaulted.push(grant);
        }
        let end = lists.fresh + lists.prefaulted.len();
        self.pool.touch(self.words_of(lists.fresh).start..self.words_of(end).start);
    }

    /// The words of the pool that a segment has.
    pub(super) fn words_of(&self, segment: usize) -> Range<usize> {
        let start = segment * self.geometry.segment_words;
        start..start + self.geometry.segment_words
    }

    /// Commits segments until the reserve is full or the budget is exhausted.
    fn refill(&self, lists: &mut Lists) {
        while lists.free.len() < self.free_aim() {
            if let Some(grant) = lists.prefaulted.pop() {
                lists.grants.push(grant);
                lists.free.push(SegmentId(lists.fresh as u32));
                lists.fresh += 1;
                continue;
            }
            let id = match lists.uncommitted.pop() {
                Some(id) => id,
                None if lists.fresh < self.geometry.segments_max => {
                    lists.fresh += 1;
                    SegmentId(lists.fresh as u32 - 1)
                }
                None => break,
            };
            let Some(grant) = self.budget.take(Owner::Primary, self.geometry.segment_bytes())
            else {
                lists.uncommitted.push(id);
                lists.filled = true;
                self.aim_filling(lists);
                break;
            };
            lists.grants.push(grant);
            lists.free.push(id);
        }
        self.note_lengths(lists);
    }

    /// Chooses the pool that new items go to until memory is full for the first time.
    fn aim_filling(&self, lists: &Lists) {
        let (small, segments) = (lists.queues[Pool::Small as usize].len(), lists.grants.len());
        let small_is_full = small as u64 * 100 > segments as u64 * SMALL_PERCENT_FIRST;
        let main = !lists.filled && small_is_full;
        self.fills_main.store(u64::from(main), Ordering::Relaxed);
    }

    /// Whether new items belong in the main pool, even without a ghost. This is so while memory
    /// fills for the first time and the small pool has its part. Items that came first then stay
    /// for a while, as in S3-FIFO; a small pool far beyond its part would evict them at once.
    #[inline]
    pub(crate) fn fills_main(&self) -> bool {
        self.fills_main.load(Ordering::Relaxed) != 0
    }

    /// Free segments.
    pub(crate) fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed) as usize
    }

    /// Segments in limbo.
    pub(crate) fn limbo(&self) -> usize {
        self.limbo.load(Ordering::Relaxed) as usize
    }

    /// Free segments kept for moving items, so that making space never waits for space: one for the
    /// walk of each arena. Writers get those beyond it.
    pub(crate) fn free_for_moves(&self) -> usize {
        self.geometry.arenas
    }

    /// Free segments that writes leave, but for those of copies: for moves, and what was promised
    /// to copies.
    pub(crate) fn free_for_writes(&self) -> usize {
        self.free_for_moves() + self.more_for_copies(self.for_copies.promised())
    }

    /// Free segments beyond those that should be free without copies, and what each arena begins
    /// for copies.
    pub(crate) fn free_beyond(&self) -> usize {
        self.free().saturating_sub(self.free_aim + self.geometry.arenas)
    }

    /// The segments to keep for copies of which `kept` are to be filled: each arena begins one of
    /// its own.
    fn more_for_copies(&self, kept: usize) -> usize {
        if kept == 0 { 0 } else { kept + self.geometry.arenas }
    }

    /// Whether the free segments are for moves and copies only, so that a write gets none.
    pub(crate) fn is_spent(&self) -> bool {
        self.free() <= self.free_for_writes()
    }

    /// How many segments should be free: some more than [`Segments::free_for_moves`], and those for
    /// copies. Eviction works towards it, and memory is returned only beyond it.
    pub(crate) fn free_aim(&self) -> usize {
        self.free_aim + self.more_for_copies(self.for_copies.evict_aim())
    }

    /// How many segments compaction should make free for copies, as far as it can; 0 where there
    /// are none.
    pub(crate) fn compact_aim(&self) -> usize {
        match self.for_copies.compact_aim() {
            0 => 0,
            segments => self.free_aim + self.more_for_copies(segments),
        }
    }

    /// Keeps memory free for copies.
    pub(crate) fn keep_for_copies(&self, kept: KeptForCopies) {
        let before = self.free_aim();
        self.for_copies.set(kept, self.geometry.segment_bytes());
        if self.free_aim() > before {
            self.refill(&mut lock(&self.lists));
        }
    }

    /// How many segments must be freed to reach [`Segments::free_aim`].
    #[inline]
    pub(crate) fn short_by(&self) -> usize {
        self.free_aim().saturating_sub(self.free.load(Ordering::Relaxed) as usize)
    }

    /// The number of segments of each kind, at one moment.
    pub(crate) fn counts(&self) -> SegmentCounts {
        let lists = lock(&self.lists);
        SegmentCounts {
            committed: lists.grants.len(),
            small: lists.queues[Pool::Small as usize].len(),
            main: lists.queues[Pool::Main as usize].len(),
            copies: lists.copies,
            limbo: lists.limbo.len(),
            held: lists.held.len(),
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::super::reuse::{Reclaim, dead_victim, drained, oldest_victim};
    use super::*;
    use crate::config::EngineConfig;

    const READER: usize = 0;
    const WRITER: usize = 1;
    const WRITES: Stream =
        Stream { arena: 0, purpose: Purpose::Write, pool: Pool::Small, class: 0 };
    const MOVES: Stream = Stream { purpose: Purpose::Move, ..WRITES };

    fn table() -> (GracePeriods, Segments) {
        let limit_bytes = crate::config::LIMIT_BYTES_MIN;
        let geometry = Geometry::of(&EngineConfig::new(limit_bytes));
        let segments = Segments::new(geometry, MemoryBudget::new(limit_bytes), false);
        (GracePeriods::new(2), segments.expect("enough address space"))
    }

    /// Frees what has waited long enough, returns the memory of up to `give_back` segments where
    /// more than `keep_free` are free.
    fn reclaim(
        segments: &Segments,
        grace: &GracePeriods,
        (keep_free, give_back): (usize, usize),
    ) -> usize {
        super::super::reuse::reclaim(segments, grace, Reclaim { keep_free, give_back })
    }

    /// Allocates until the first segment is full and sealed.
    fn seal_one(grace: &GracePeriods, segments: &Segments) {
        let half = segments.geometry().segment_words / 2;
        grace.pin(WRITER);
        for _ in 0..3 {
            assert!(segments.allocate(grace, WRITES, half).is_some());
        }
        grace.unpin(WRITER);
    }

    #[test]
    fn a_filler_of_one_word_ends_the_pool() {
        let (_, segments) = table();
        let last = SegmentId(segments.geometry().segments_max as u32 - 1);
        let (_, item) = segments.item_in(last, segments.geometry().segment_words - 1);
        item.set_head(Head::filler(1));
        assert_eq!(item.head().span_words(), 1);
    }

    /// Only what is touched takes memory.
    #[test]
    fn the_last_words_of_the_largest_pool_have_an_address_and_a_header() {
        let limit_bytes = crate::config::RESERVE_BYTES_MAX;
        let geometry = Geometry::of(&EngineConfig::new(limit_bytes));
        let segments = Segments::new(geometry, MemoryBudget::new(limit_bytes), false);
        let segments = segments.expect("enough address space");
        let last = SegmentId(geometry.segments_max as u32 - 1);
        assert_eq!((geometry.segments_max as u64) * geometry.segment_bytes(), limit_bytes);
        let (addr, item) = segments.item_in(last, geometry.segment_words - HEADER_WORDS);
        item.set_head(Head::filler(HEADER_WORDS));
        assert_eq!(segments.item(addr).head().span_words(), HEADER_WORDS);
        assert_eq!(addr.segment(&geometry), last);
        segments.add_dead(addr, 7);
        assert_eq!(segments.header_of(addr).dead_words(), 7);
    }

    #[test]
    fn a_full_segment_is_not_walked_while_it_may_be_written() {
        let (grace, segments) = table();
        grace.pin(READER);
        seal_one(&grace, &segments);
        assert!(oldest_victim(&segments, &grace, Pool::Small).is_none(), "a batch may be writing");
        grace.unpin(READER);
        assert!(oldest_victim(&segments, &grace, Pool::Small).is_some());
    }

    #[test]
    fn a_drained_segment_is_not_used_again_while_it_may_be_read() {
        let (grace, segments) = table();
        seal_one(&grace, &segments);
        let victim = oldest_victim(&segments, &grace, Pool::Small).expect("sealed and left");
        grace.pin(READER);
        drained(&segments, &grace, victim.id);
        let free = segments.free();
        reclaim(&segments, &grace, (0, 0));
        assert_eq!((segments.free(), segments.counts().limbo), (free, 1), "a batch may be reading");
        grace.unpin(READER);
        reclaim(&segments, &grace, (0, 0));
        assert_eq!((segments.free(), segments.counts().limbo), (free + 1, 0));
    }

    #[test]
    fn memory_touched_in_advance_is_used_first_and_given_back_first() {
        let (grace, segments) = table();
        let held = || segments.budget.used(Owner::Primary) / segments.geometry().segment_bytes();
        let first = segments.counts().committed;
        segments.prefault(8 * segments.geometry().segment_bytes());
        assert_eq!((held(), segments.counts().committed), (8, first));
        seal_one(&grace, &segments);
        let later = segments.counts().committed;
        assert!(held() == 8 && later > first, "{later} of 8");
        while reclaim(&segments, &grace, (100, 100)) > 0 {}
        assert_eq!((held(), segments.counts().committed), (later as u64, later));
    }

    #[test]
    fn a_scan_continues_after_a_segment_that_a_batch_may_be_writing() {
        let (grace, segments) = table();
        let whole = segments.geometry().segment_words;
        let fill = || {
            grace.pin(WRITER);
            let addr = segments.allocate(&grace, WRITES, whole).expect("memory is not full");
            grace.unpin(WRITER);
            addr.segment(segments.geometry())
        };
        let [first, second, _] = [fill(), fill(), fill()];
        let victim = oldest_victim(&segments, &grace, Pool::Small).expect("sealed and left");
        drained(&segments, &grace, victim.id);
        reclaim(&segments, &grace, (0, 0));
        grace.pin(READER);
        assert_eq!(fill(), first, "freed last, used first");
        fill();
        for dead in [first, second] {
            assert_eq!(segments.header(dead).state(), State::Sealed);
            segments.header(dead).add_dead(whole);
        }
        let victim = dead_victim(&segments, &grace, whole / 2, 1);
        assert_eq!(victim.map(|victim| victim.id), Some(second), "which comes after the first");
    }

    #[test]
    fn writers_leave_to_moves_what_was_opened_for_moves() {
        let (grace, segments) = table();
        grace.pin(WRITER);
        let whole = segments.geometry().segment_words;
        while segments.allocate(&grace, WRITES, whole).is_some() {}
        assert!(segments.allocate(&grace, MOVES, whole / 2).is_some(), "the reserve is for this");
        assert!(segments.allocate(&grace, WRITES, 1).is_none(), "all else is full");
        assert!(segments.allocate(&grace, MOVES, whole / 2).is_some(), "no writer took its rest");
    }

    #[test]
    fn memory_is_given_back_when_enough_is_free() {
        let (grace, segments) = table();
        let whole = segments.geometry().segment_words;
        grace.pin(WRITER);
        while segments.allocate(&grace, WRITES, whole).is_some() {}
        assert!(segments.allocate(&grace, MOVES, whole).is_some());
        grace.unpin(WRITER);
        for (freed, free, returned) in [(1, 1, 0), (1, 2, 0), (1, 2, 1), (3, 2, 3)] {
            for _ in 0..freed {
                let victim = oldest_victim(&segments, &grace, Pool::Small);
                drained(&segments, &grace, victim.expect("sealed and left").id);
            }
            let committed = segments.counts().committed;
            assert_eq!(reclaim(&segments, &grace, (2, 100)), returned);
            assert_eq!(segments.free(), free);
            assert_eq!(segments.counts().committed, committed - returned);
        }
    }
}
