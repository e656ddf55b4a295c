//! How a cell that has nothing of a range becomes a copy of it.
//!
//! ```text
//! Waiting   until the learner is empty
//! States    how far each slice has come is appended to the logs
//! Tags      the requests whose changes there are are appended
//! Room      until the learner has acknowledged that, and said how much room it has
//! Walking   the items that there are are appended, between the changes that go on
//! Tail      until the learner has acknowledged all of that
//! Dirty     above a tier: until all is written back that it was not sent as changes
//! Counted   its acknowledgements count: no reply leaves without them from now on
//! Last      until it, and all copies in sync, have acknowledged what replies have left for before
//!           that: what it has learned is in all of them
//! Ready     the map may make it a copy
//! ```

use super::cut::Cut;
use super::walk::Walk;
use crate::ring::cell::RingCell;
use crate::ring::copies::Copy;
use crate::ring::copies::slice_state::{self, SLICES_MAX, SliceState};
use crate::ring::flushed::Flushed;
use crate::ring::retries::tag_state;
use crate::worker::Worker;
use base::{Now, SliceId, SliceRange};
use effects::{ReaderId, WorkerSink};
use engine::{Engine, ItemSink, More, WalkedItem};
use ring::{CellId, Learned};
use std::collections::VecDeque;
use std::sync::Arc;

/// Items that one step of a walk passes at least.
const ITEMS: u32 = 512;

/// How far a learner is.
pub(crate) enum Progress {
    Waiting,
    /// The next slice whose state is to be appended.
    States(usize),
    /// The entries that are to be appended.
    Tags(VecDeque<Vec<u8>>),
    /// By lane, the position up to which it must have come.
    Room(Vec<u64>),
    Walking(Walk),
    /// By lane, the position up to which it must have come.
    Tail(Vec<u64>),
    /// Above a tier: until all is written back that was changed before it was sent changes.
    Dirty,
    Counted,
    /// By lane, the position up to which it must have come.
    Last(Vec<u64>),
    Ready,
}

/// A cell that learns a range that this cell leads.
pub(crate) struct Learning {
    pub(crate) cell: CellId,
    /// The version of the map in which it began.
    pub(crate) since: u64,
    pub(crate) progress: Progress,
    /// Above a tier: until where all is to be written back.
    cut: Cut,
    /// Since when it has no reader, or a walk appends nothing; 0 while it goes on.
    stands_since_ns: u64,
    /// When it began to learn; 0 before.
    began_ns: u64,
    /// Bytes of the keys and values that it was sent by the walk.
    bytes: u64,
}

impl Learning {
    pub(crate) fn new(cell: CellId, since: u64) -> Self {
        let (progress, cut) = (Progress::Waiting, Cut::default());
        Self { cell, since, progress, cut, stands_since_ns: 0, began_ns: 0, bytes: 0 }
    }

    /// Whether it is sent the changes of the range.
    pub(crate) fn is_sent(&self) -> bool {
        !matches!(self.progress, Progress::Waiting)
    }

    /// Whether it waits until all is written back that it was not sent as changes.
    pub(crate) fn waits_for_below(&self) -> bool {
        matches!(self.progress, Progress::Dirty)
    }

    /// Whether its acknowledgements count.
    pub(crate) fn is_counted(&self) -> bool {
        matches!(self.progress, Progress::Counted | Progress::Last(_) | Progress::Ready)
    }

    /// Whether it has all that was acknowledged, and all that will be.
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.progress, Progress::Ready)
    }

    /// Notes whether it `goes_on`: its streams read the logs, and these take what it walks over.
    pub(crate) fn notes(&mut self, goes_on: bool, now: Now) {
        self.stands_since_ns = match goes_on {
            true => 0,
            false if self.stands_since_ns == 0 => now.mono_ns,
            false => self.stands_since_ns,
        };
    }

    /// For how long it does not.
    pub(crate) fn stands_ns(&self, now: Now) -> u64 {
        if self.stands_since_ns == 0 { 0 } else { now.mono_ns.saturating_sub(self.stands_since_ns) }
    }

    /// How much of `slices` it was sent.
    pub(crate) fn learned(&self, slices: SliceRange, now: Now) -> Learned {
        let (bytes, all) = (self.bytes, slices.numbers().len() as u64);
        let about_bytes = match &self.progress {
            Progress::Waiting | Progress::States(_) | Progress::Tags(_) | Progress::Room(_) => 0,
            Progress::Walking(walk) => match walk.at.passed(slices) as u64 {
                0 => 0,
                passed => (u128::from(bytes) * u128::from(all) / u128::from(passed)) as u64,
            },
            _ => bytes,
        };
        let began_ns = if self.began_ns == 0 { now.mono_ns } else { self.began_ns };
        Learned { bytes, about_bytes, took_ns: now.mono_ns.saturating_sub(began_ns) }
    }

    /// Goes one step further with `slices`. `others`: the copies in sync. Returns whether its
    /// acknowledgements count from now on, or it is ready from now on.
    pub(crate) fn step(
        &mut self,
        slices: SliceRange,
        (copy, others): (&Arc<Copy>, &[&Arc<Copy>]),
        (ring, worker): (&RingCell, &mut Worker),
        now: Now,
    ) -> bool {
        match &mut self.progress {
            Progress::Waiting | Progress::Ready => return false,
            Progress::States(next) => {
                let numbers = slices.numbers();
                let start = (*next).max(numbers.start);
                let end = numbers.end.min(start + SLICES_MAX);
                if append_states(SliceRange::new(start..end), &ring.flushed, worker) {
                    *next = end;
                }
                if *next == numbers.end {
                    // Changes that are appended from now on bring their tags.
                    let states = ring.tags.states(slices);
                    self.progress =
                        Progress::Tags(states.iter().flat_map(tag_state::encode).collect());
                }
            }
            Progress::Tags(entries) => {
                if append_tags(slices, entries, worker) {
                    self.progress = Progress::Room(ends(worker));
                }
            }
            Progress::Room(ends) => {
                if copy.has_acked(ends) {
                    self.progress = Progress::Walking(Walk::default());
                    self.began_ns = now.mono_ns;
                }
            }
            Progress::Walking(walk) => {
                let (engine, pin, sink) = worker.parts();
                let readers: Vec<_> = copy.readers.iter().map(|(reader, _)| *reader).collect();
                let before = walk.begin();
                let mut at = before;
                let mut emits = Emits { sink, readers, walk, bytes: &mut self.bytes };
                let more = engine.scan(pin, slices, &mut at, ITEMS, now, &mut emits);
                let goes_on = walk.end(before, at);
                if more == More::No {
                    let ends = ends(worker);
                    self.progress = Progress::Tail(ends);
                }
                self.notes(goes_on, now);
            }
            Progress::Tail(ends) => {
                if copy.has_acked(ends) {
                    self.progress = Progress::Dirty;
                }
            }
            Progress::Dirty => {
                // What the learner was not sent as changes: it has no journal of it.
                if self.cut.is_written_back(slices, ring, now) {
                    self.progress = Progress::Counted;
                    return true;
                }
            }
            // The levels wait for it already, so that whatever is appended after this does.
            Progress::Counted => self.progress = Progress::Last(ends(worker)),
            // It was not sent as changes what it has learned: another copy that lacks some of it
            // could not get that from it if this cell ended.
            Progress::Last(ends) => {
                if copy.has_acked(ends) && others.iter().all(|other| other.has_acked(ends)) {
                    self.progress = Progress::Ready;
                    return true;
                }
            }
        }
        false
    }
}

/// The ends of all logs.
fn ends(worker: &mut Worker) -> Vec<u64> {
    worker.parts().2.lanes().ends()
}

/// Appends items as they are, for one reader of each lane.
struct Emits<'a> {
    sink: &'a mut WorkerSink,
    readers: Vec<ReaderId>,
    walk: &'a mut Walk,
    /// Bytes of all keys and values that were appended.
    bytes: &'a mut u64,
}

impl ItemSink for Emits<'_> {
    fn take(&mut self, item: &WalkedItem<'_>) -> bool {
        let Self { sink, readers, walk, bytes } = self;
        let slice = item.id.slice;
        let reader = readers[sink.lanes().lane_of(slice).index()];
        let (key, what, version) = (item.key, (item.value, item.facts), item.version);
        walk.append((item.id, version), || {
            let is_appended = sink.emit(reader, slice, key, what, version).is_ok();
            **bytes += if is_appended { (key.len() + item.value.bytes()) as u64 } else { 0 };
            is_appended
        })
    }
}

/// Appends the states of `slices`, each to the log of its slice. False if a log has no space: then
/// all are to be appended again.
fn append_states(slices: SliceRange, flushed: &Flushed, worker: &mut Worker) -> bool {
    let (engine, _, sink) = worker.parts();
    let lanes: Vec<_> = sink.lanes().logs().map(|(lane, _)| lane).collect();
    for lane in lanes {
        let mut bytes = Vec::new();
        let of_lane = |slice: &SliceId| sink.lanes().lane_of(*slice) == lane;
        for slice in slices.iter().filter(of_lane) {
            slice_state::encode(&state(engine, flushed, slice), &mut bytes);
        }
        if !bytes.is_empty() && sink.other(lane, slice_state::KIND, &bytes, false).is_err() {
            return false;
        }
    }
    true
}

/// Appends `entries`, as long as the log takes them. Returns whether it has taken all.
fn append_tags(slices: SliceRange, entries: &mut VecDeque<Vec<u8>>, worker: &mut Worker) -> bool {
    let (_, _, sink) = worker.parts();
    let Some(slice) = slices.iter().next() else { return true };
    let lane = sink.lanes().lane_of(slice);
    while let Some(bytes) = entries.front() {
        if sink.other(lane, tag_state::KIND, bytes, false).is_err() {
            return false;
        }
        entries.pop_front();
    }
    true
}

fn state(engine: &Engine, flushed: &Flushed, slice: SliceId) -> SliceState {
    let (last, barrier) = (engine.last_version(slice), engine.barrier_of(slice));
    SliceState { slice, last, barrier, flushed: flushed.of(slice) }
}
