//! What the replies of a worker wait for in the effect log of its cell.
//!
//! A reply is a read: it leaves when all that it shows has passed the level of the cell. A hit
//! shows the version of its item. Anything else shows how far its slice has come: a miss, a
//! refusal, a change. A reply that shows several lanes waits for each.

use crate::effect_log::{EffectLog, LEVEL};
use crate::park::Park;
use base::{SliceId, Version};
use effects::{Mark, Place, WorkerSink};
use session::{LogId, Outcome, Passed};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// The log of the session that stands for several lanes: positions in it are numbers of
/// [`Replies::several`].
const SEVERAL: LogId = LogId(u32::MAX);

/// Positions in several lanes that a worker remembers at most.
const SEVERAL_MAX: usize = 1 << 16;

/// What the replies of a worker wait for.
pub(crate) struct Replies {
    log: Arc<EffectLog>,
    pub(crate) sink: WorkerSink,
    /// What the reply to the request in execution waits for: a position for each lane.
    shown: Vec<u64>,
    /// Of these, how many are not zero.
    lanes_shown: usize,
    /// Whether a reply of this batch waits.
    is_used: bool,
    /// Replies that wait for several lanes. They pass in this order.
    several: VecDeque<(u64, Vec<Place>)>,
    /// The number of the next of them.
    next: u64,
    /// Hits and misses before the reads that have still to be confirmed.
    pub(crate) counted: Cell<(u64, u64)>,
    /// By lane, up to where this worker has passed the mark of the reader.
    passed: Vec<u64>,
}

impl Replies {
    pub(crate) fn new(log: Arc<EffectLog>) -> Self {
        let sink = WorkerSink::new(log.lanes.clone());
        let shown = vec![0; log.readers.len()];
        let passed = shown.clone();
        Self {
            log,
            sink,
            shown,
            lanes_shown: 0,
            is_used: false,
            several: VecDeque::new(),
            next: 0,
            counted: Cell::default(),
            passed,
        }
    }

    pub(crate) fn log(&self) -> &EffectLog {
        &self.log
    }

    /// Whether everything in the logs has passed: any reply may leave at once.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.log.lanes.logs().all(|(_, log)| log.is_settled(LEVEL))
    }

    /// Notes that the reply in execution shows the item with `version`, or else that `slice` has
    /// come so far.
    #[inline]
    pub(crate) fn shows(&mut self, slice: SliceId, version: Option<Version>) {
        if let Some(place) = self.log.lanes.wait_for(LEVEL, slice, version) {
            self.show(place);
        }
    }

    /// Notes that the reply in execution shows what stands at `place`.
    pub(crate) fn show(&mut self, Place { lane, position }: Place) {
        self.is_used = true;
        let shown = &mut self.shown[lane.index()];
        self.lanes_shown += usize::from(*shown == 0);
        *shown = position.max(*shown);
    }

    /// The outcome of a request that is done: its reply waits for all that it shows.
    pub(crate) fn outcome(&mut self) -> Outcome {
        if self.lanes_shown == 0 {
            return Outcome::Done;
        }
        let lanes = self.log.lanes.logs().map(|(lane, _)| lane);
        let shown = lanes.zip(&mut self.shown).filter_map(|(lane, position)| {
            let position = std::mem::take(position);
            (position > 0).then_some(Place { lane, position })
        });
        if std::mem::take(&mut self.lanes_shown) == 1 {
            let place = shown.last().expect("one is shown");
            let log = LogId(place.lane.index() as u32);
            return Outcome::Gate { log, seq: place.position };
        }
        let places = shown.collect();
        self.several.push_back((self.next, places));
        self.next += 1;
        Outcome::Gate { log: SEVERAL, seq: self.next - 1 }
    }

    /// Whether a request that may show several lanes must wait until others have left.
    pub(crate) fn parks_if_full(&self) -> Result<(), Park> {
        if self.several.len() < SEVERAL_MAX { Ok(()) } else { Err(Park) }
    }

    /// Forgets what a request would have shown that was not executed.
    pub(crate) fn forget(&mut self) {
        if self.lanes_shown > 0 {
            self.shown.fill(0);
            self.lanes_shown = 0;
        }
    }

    /// Whether the mark that a reply waits for has passed.
    pub(crate) fn gate(&self, log: LogId, seq: u64) -> Passed {
        let has_passed = |lane: usize, position| {
            let mut logs = self.log.lanes.logs();
            logs.nth(lane).is_some_and(|(_, log)| log.passed(LEVEL, position))
        };
        let passed = match log {
            SEVERAL => {
                let up_to = self.several.iter().take_while(|(number, _)| *number <= seq);
                let mut places = up_to.flat_map(|(_, places)| places);
                places.all(|place| has_passed(place.lane.index(), place.position))
            }
            LogId(lane) => has_passed(lane as usize, seq),
        };
        if passed { Passed::Yes } else { Passed::No }
    }

    /// Ends a batch: gives back room that was not used, and passes the mark of the reader.
    pub(crate) fn end_batch(&mut self) {
        if !self.is_used && !self.sink.is_used() {
            return;
        }
        self.is_used = false;
        let readers = self.log.readers.iter().zip(&mut self.passed);
        for ((_, log), (reader, passed)) in self.log.lanes.logs().zip(readers) {
            let end = log.end();
            if end > *passed {
                log.pass(*reader, Mark::Acknowledged, end);
                *passed = end;
            }
        }
        self.sink.end_batch();
        let passed = |places: &[Place]| {
            let log = |place: &Place| self.log.lanes.log(place.lane);
            places.iter().all(|place| log(place).passed(LEVEL, place.position))
        };
        while self.several.front().is_some_and(|(_, places)| passed(places)) {
            self.several.pop_front();
        }
    }
}
