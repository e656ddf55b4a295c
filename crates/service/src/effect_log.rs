//! The effect log of a cell, and what replies wait for in it.
//!
//! A reply is a read: it leaves when all that it shows has passed the level of the cell. A hit shows
//! the version of its item. Anything else shows how far its slice has come: a miss, a refusal, a
//! change. A reply that shows several lanes waits for each.
//!
//! A cell without a ring and without a tier has no log. For tests and measurements the log can be
//! turned on: then the workers themselves are its reader, which passes its mark at the end of each
//! batch.

use crate::worker::Park;
use base::{MemoryBudget, SliceId, Version};
use effects::{Joining, LaneId, Lanes, LanesConfig, Level, Mark, Place, ReaderId, Who, WorkerSink};
use session::{LogId, Outcome, Passed};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// What every reply waits for.
const LEVEL: Level = Level::new(0).expect("there is a level");

/// The log of the session that stands for several lanes: positions in it are numbers of
/// [`Replies::several`].
const SEVERAL: LogId = LogId(u32::MAX);

/// Positions in several lanes that a worker remembers at most.
const SEVERAL_MAX: usize = 1 << 16;

/// How the effect log of a cell is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EffectLogOptions {
    /// Lanes to have.
    pub lanes: usize,
    /// Workers that append at a time.
    pub workers: usize,
    /// The longest value.
    pub value_bytes_max: u64,
    /// Whether replies wait until the mark of the reader has passed what they show.
    pub gates: bool,
}

/// The effect log of a cell.
pub(crate) struct EffectLog {
    pub(crate) lanes: Arc<Lanes>,
    readers: Vec<ReaderId>,
    gates: bool,
}

impl EffectLog {
    /// The log, with memory from `budget`. `None` if that has not enough.
    pub(crate) fn new(options: EffectLogOptions, budget: &MemoryBudget) -> Option<Self> {
        let EffectLogOptions { lanes, workers, value_bytes_max, gates } = options;
        let bytes = budget.total();
        let config = LanesConfig { lanes, sinks: workers, bytes, value_bytes_max, follows: false };
        let lanes = Lanes::new(&config, budget)?;
        let mark = Mark::Acknowledged;
        let who = Who::Copy(0);
        let join = |(_, log): (LaneId, &Arc<effects::Log>)| {
            let joining = Joining { who, from: None, holds: Some(mark), grants: None };
            let reader = log.join(&joining).ok()?;
            let level: &[_] = if gates { &[(reader, mark)] } else { &[] };
            log.set_level(LEVEL, level).then_some(reader)
        };
        let readers = lanes.logs().map(join).collect::<Option<_>>()?;
        Some(Self { lanes, readers, gates })
    }

    /// Whether a reply that shows a change must wait.
    #[inline]
    pub(crate) fn gates(&self) -> bool {
        self.gates
    }

    /// Who holds entries back, as an error line names it.
    pub(crate) fn slowest(&self) -> String {
        let mut logs = self.lanes.logs();
        let who = logs.find_map(|(_, log)| log.stuck().or_else(|| log.slowest(LEVEL)));
        who.map_or_else(|| "no reader".to_owned(), |who| who.to_string())
    }
}

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
