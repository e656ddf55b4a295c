//! What this cell has applied of the logs of other cells, and of which slices it takes changes.
//!
//! Invariants: the entries of a stream are applied in order, each once, under the lock of its lane.
//! A change is applied only while its slice is accepted, from the primary in the epoch that its
//! version names. When [`Origins::seal`] has returned, no change of these slices is applied that
//! was accepted before.

use super::kept::{KeptEntries, KeptRoom};
use super::room::StreamPromise;
use super::tail::{Reach, Tail};
use base::{MemoryBudget, SLICES, SliceId, SliceRange, Version};
use ring::CellId;
use std::collections::BTreeMap;
use std::ops::BitXor;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Readings of a log in one life of its cell: the lower bits of the number of a log.
pub(crate) const READINGS_BITS: u32 = 24;

/// What this cell has of one lane of another cell.
pub(crate) struct Lane {
    /// The last position that was applied; `None` before the first.
    pub(crate) applied: Option<u64>,
    /// What other copies may lack.
    pub(crate) kept: KeptEntries,
    /// Whether that is so of something that is applied.
    pub(crate) unsettled: Unsettled,
    /// What the stream was promised that was opened last.
    promise: Weak<StreamPromise>,
}

impl Lane {
    /// Nothing was applied yet.
    fn new(room: &Arc<KeptRoom>, unsettled: &Arc<AtomicUsize>) -> Self {
        let (kept, unsettled) = (KeptEntries::new(0, room.clone()), Unsettled::new(unsettled));
        Self { applied: None, kept, unsettled, promise: Weak::new() }
    }
}

/// Whether a lane has applied something that another copy may lack.
pub(crate) struct Unsettled {
    /// How many lanes have, of all cells.
    lanes: Arc<AtomicUsize>,
    is_set: bool,
}

impl Unsettled {
    fn new(lanes: &Arc<AtomicUsize>) -> Self {
        Self { lanes: lanes.clone(), is_set: false }
    }

    /// Sets it: before anything is applied that another copy may lack, and after all have it.
    pub(crate) fn set(&mut self, is_set: bool) {
        match (self.is_set, is_set) {
            (false, true) => self.lanes.fetch_add(1, Ordering::AcqRel),
            (true, false) => self.lanes.fetch_sub(1, Ordering::AcqRel),
            _ => return,
        };
        self.is_set = is_set;
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// The streams from one cell.
pub(crate) struct Origin {
    /// Which log it is, and which reading of it.
    log: u64,
    lanes: Box<[Mutex<Lane>]>,
    /// A later log of that cell is known: nothing of this one is applied any more.
    is_over: AtomicBool,
}

impl Origin {
    /// What it has of `lane`, which nobody else changes meanwhile.
    pub(crate) fn lock(&self, lane: u8) -> Option<MutexGuard<'_, Lane>> {
        let lane = lock(self.lanes.get(usize::from(lane))?);
        (!self.is_over.load(Ordering::Acquire)).then_some(lane)
    }

    /// The stream of `lane` that was opened last has this `promise`. An earlier one is void.
    pub(crate) fn promises(&self, lane: u8, promise: &Arc<StreamPromise>) {
        let Some(mut lane) = self.lock(lane) else { return };
        let earlier = std::mem::replace(&mut lane.promise, Arc::downgrade(promise));
        if let Some(earlier) = earlier.upgrade() {
            earlier.end();
        }
    }

    /// Ends it, and waits until what is under way is applied.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.lanes.iter().for_each(|lane| drop(lock(lane)));
    }
}

fn lock(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose changes of a slice are applied.
#[derive(Default)]
#[repr(align(16))]
struct Accepts {
    /// The cell and the epoch of the primary; 0 for none.
    by: AtomicU64,
    /// The version of the map that it must go by. What was sent by an earlier one is of the time
    /// before this cell was emptied.
    since: AtomicU64,
}

/// The streams from all cells.
pub(crate) struct Origins {
    by_cell: Mutex<BTreeMap<CellId, Arc<Origin>>>,
    /// By slice.
    accepts: Box<[Accepts]>,
    room: Arc<KeptRoom>,
    unsettled: Arc<AtomicUsize>,
}

/// Whose changes of a slice this cell applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    pub(crate) primary: CellId,
    pub(crate) epoch: u32,
    since: u64,
}

impl Origins {
    pub(crate) fn new() -> Self {
        let accepts = (0..SLICES).map(|_| Accepts::default()).collect();
        let (by_cell, room, unsettled) = Default::default();
        Self { by_cell, accepts, room, unsettled }
    }

    /// Keeps entries that other copies may lack from now on, in memory of `budget`.
    pub(crate) fn keep(&self, budget: &MemoryBudget) {
        self.room.open(budget);
    }

    /// What this cell has of the log of `cell` in `slices`, which were sealed.
    pub(crate) fn tail(&self, cell: CellId, slices: SliceRange) -> Tail {
        let origin = self.cells().get(&cell).cloned();
        let Some(origin) = origin else { return Tail::nothing(cell) };
        let mut tail = Tail { life: origin.log >> READINGS_BITS, ..Tail::nothing(cell) };
        for (number, lane) in origin.lanes.iter().enumerate() {
            let lane = lock(lane);
            let last = lane.applied.unwrap_or(0);
            tail.reaches.push(Reach { from: lane.kept.from(), last });
            tail.add(number as u8, lane.kept.records(last), slices);
        }
        tail
    }

    /// Drops what was kept of cells of which `copies` says that nothing is copied any more.
    pub(crate) fn drop_kept(&self, copies: impl Fn(CellId) -> bool) {
        for (_, origin) in self.cells().iter().filter(|(cell, _)| !copies(**cell)) {
            origin.lanes.iter().for_each(|lane| lock(lane).kept.drop_all());
        }
    }

    fn cells(&self) -> MutexGuard<'_, BTreeMap<CellId, Arc<Origin>>> {
        self.by_cell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a stream of the `log` of `cell`, whose first entry follows `start`. Returns the
    /// position that is wanted next. `None` if a later log of that cell is known.
    pub(crate) fn open(
        &self,
        cell: CellId,
        (lane, lanes): (u8, u8),
        log: u64,
        start: u64,
    ) -> Option<(Arc<Origin>, u64)> {
        let mut by_cell = self.cells();
        let known = by_cell.get(&cell).filter(|known| known.log >= log);
        if known.is_some_and(|known| known.log > log || known.lanes.len() != usize::from(lanes)) {
            return None;
        }
        let origin = known.cloned().unwrap_or_else(|| {
            let lanes =
                (0..lanes).map(|_| Mutex::new(Lane::new(&self.room, &self.unsettled))).collect();
            let origin = Arc::new(Origin { log, lanes, is_over: AtomicBool::new(false) });
            if let Some(old) = by_cell.insert(cell, origin.clone()) {
                old.end();
            }
            origin
        });
        drop(by_cell);
        let mut of_lane = origin.lock(lane)?;
        if of_lane.applied.is_none() {
            of_lane.kept = KeptEntries::new(start, self.room.clone());
            of_lane.applied = Some(start);
        }
        let next = of_lane.applied? + 1;
        drop(of_lane);
        Some((origin, next))
    }

    /// Whether changes of `slice` by `cell`, which goes by the map of `map_version`, are applied,
    /// of this version. An item that is copied may have the version of an earlier epoch.
    #[inline]
    pub(crate) fn accepts(
        &self,
        slice: SliceId,
        (cell, map_version): (CellId, u64),
        version: Option<Version>,
    ) -> bool {
        let Accepts { by, since } = &self.accepts[slice.index()];
        let (of, epoch) = unpack(by.load(Ordering::Acquire));
        of == cell
            && epoch != AWAITED
            && map_version >= since.load(Ordering::Relaxed)
            && version.is_none_or(|version| version.epoch() == epoch)
    }

    /// Whose changes of `slice` are applied now. What is read of the slice between two calls that
    /// return the same was not dropped meanwhile.
    pub(crate) fn followed(&self, slice: SliceId) -> Option<Followed> {
        let Accepts { by, since } = &self.accepts[slice.index()];
        let (primary, epoch) = unpack(by.load(Ordering::Acquire));
        let is_followed = primary != CellId(0) && epoch != AWAITED;
        is_followed.then(|| Followed { primary, epoch, since: since.load(Ordering::Acquire) })
    }

    /// Whether all copies have what was read of `slice`, whose changes come from `primary`.
    pub(crate) fn is_settled(&self, slice: SliceId, primary: CellId) -> bool {
        if self.unsettled.load(Ordering::Acquire) == 0 {
            return true;
        }
        let Some(origin) = self.cells().get(&primary).cloned() else { return false };
        let lane = slice.index() * origin.lanes.len() / SLICES;
        origin.lock(lane as u8).is_some_and(|lane| !lane.unsettled.is_set)
    }

    /// Whether changes of `slice` by `cell` are applied a little later.
    pub(crate) fn awaits(&self, slice: SliceId, cell: CellId) -> bool {
        self.accepts[slice.index()].by.load(Ordering::Acquire) == pack(cell, AWAITED)
    }

    /// Applies changes of `slices` by `cell` later, when they are accepted: none is refused.
    pub(crate) fn await_changes(&self, slices: SliceRange, cell: CellId) {
        for slice in slices.iter() {
            self.accepts[slice.index()].by.store(pack(cell, AWAITED), Ordering::Release);
        }
    }

    /// Reads what [`Origins::accepts`] needs for each of `slices`, so that the processor has it
    /// then: it fetches for all of them at once.
    pub(crate) fn look_ahead(&self, slices: impl Iterator<Item = SliceId>) {
        let read = |slice: SliceId| self.accepts[slice.index()].by.load(Ordering::Relaxed);
        std::hint::black_box(slices.map(read).fold(0, BitXor::bitxor));
    }

    /// Applies changes of `slices` by `cell` in `epoch` from now on, if it goes by the map of
    /// version `since` or a later one.
    pub(crate) fn accept(&self, slices: SliceRange, (cell, since): (CellId, u64), epoch: u32) {
        for slice in slices.iter() {
            let accepts = &self.accepts[slice.index()];
            accepts.since.store(since, Ordering::Relaxed);
            accepts.by.store(pack(cell, epoch), Ordering::Release);
        }
    }

    /// Applies no more changes of `slices`, and waits until those are applied that are under way:
    /// one frame of each stream.
    pub(crate) fn seal(&self, slices: SliceRange) {
        for slice in slices.iter() {
            self.accepts[slice.index()].by.store(0, Ordering::Release);
        }
        for origin in self.cells().values() {
            origin.lanes.iter().for_each(|lane| drop(lock(lane)));
        }
    }
}

/// In the place of an epoch, which none has: changes are awaited.
const AWAITED: u32 = u32::MAX;

fn pack(cell: CellId, epoch: u32) -> u64 {
    u64::from(cell.0) << 32 | u64::from(epoch)
}

fn unpack(raw: u64) -> (CellId, u32) {
    (CellId((raw >> 32) as u32), raw as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_settled_once_all_copies_have_its_lane() {
        let (origins, cell) = (Origins::new(), CellId(3));
        let slice = |index| SliceId::new(index).expect("a slice");
        let is_settled = |index| origins.is_settled(slice(index), cell);
        let (origin, _) = origins.open(cell, (2, 3), 7, 40).expect("the first");
        assert!(is_settled(0) && is_settled(SLICES - 1));
        origin.lock(2).expect("a lane").unsettled.set(true);
        // As the primary divides its slices into three lanes.
        let first = (2 * SLICES).div_ceil(3);
        assert!(is_settled(first - 1) && !is_settled(first) && !is_settled(SLICES - 1));
        assert!(!origins.is_settled(slice(0), CellId(9)), "nothing is known of it");
        origins.open(cell, (2, 3), 8, 0).expect("a later log");
        drop(origin);
        assert_eq!(origins.unsettled.load(Ordering::Relaxed), 0);
        assert!(is_settled(first));
    }

    #[test]
    fn a_stream_resumes_where_it_ended_and_an_older_log_is_refused() {
        let (origins, cell) = (Origins::new(), CellId(3));
        let (origin, next) = origins.open(cell, (1, 2), 7, 40).expect("the first");
        assert_eq!(next, 41);
        origin.lock(1).expect("a lane").applied = Some(55);
        let again = origins.open(cell, (1, 2), 7, 40).map(|(_, next)| next);
        assert_eq!(again, Some(56));
        assert_eq!(origins.open(cell, (0, 2), 7, 9).map(|(_, next)| next), Some(10));
        assert!(origins.open(cell, (1, 3), 7, 40).is_none(), "other lanes");
        assert!(origins.open(cell, (1, 2), 6, 40).is_none(), "an older log");
        assert_eq!(origins.open(cell, (1, 2), 8, 2).map(|(_, next)| next), Some(3));
        assert!(origin.lock(1).is_none(), "a later log has come");
    }

    #[test]
    fn only_the_primary_of_the_epoch_is_accepted_until_the_slice_is_sealed() {
        let (origins, slices) = (Origins::new(), SliceRange::new(5..6));
        let slice = SliceId::new(5).expect("a slice");
        let accepts =
            |cell, epoch| origins.accepts(slice, (CellId(cell), 7), Some(Version::new(epoch, 9)));
        assert!(!accepts(2, 1));
        origins.accept(slices, (CellId(2), 7), 1);
        assert!(accepts(2, 1) && !accepts(2, 2) && !accepts(1, 1));
        assert!(origins.accepts(slice, (CellId(2), 8), None));
        assert!(!origins.accepts(slice, (CellId(2), 6), None), "it was sent before");
        origins.seal(slices);
        assert!(!accepts(2, 1));
    }
}
