//! All logs of a cell.

use crate::config::{LANES_MAX, LOG_BYTES_MIN, LanesConfig, Sizes};
use crate::level::Level;
use crate::log::Log;
use crate::part::Part;
use crate::slices::{SLICES_BYTES, Slices};
use base::{Grant, MemoryBudget, Owner, SliceId, SliceRange, Version};
use std::sync::Arc;

/// The number of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub(crate) u8);

impl LaneId {
    /// Its number, below that of the lanes.
    #[inline(always)]
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// A position in the log of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lane.
    pub lane: LaneId,
    /// The position in its log.
    pub position: u64,
}

/// All logs of a cell, and the lane of each slice.
pub struct Lanes {
    /// The logs, and then the first again, so that a lane is found without a check of bounds.
    logs: Box<[Arc<Log>; LANES_MAX]>,
    count: usize,
    slices: Arc<Slices>,
    _memory: Grant,
}

/// The part of the budget that the entries of all logs may take.
const PART_OF_TOTAL: u64 = 32;
const _: () = assert!(LANES_MAX.is_power_of_two());
/// How often a slice may move to another lane while one question about it is answered.
const MOVES_MAX: usize = 4;

/// What logs have of `bytes` bytes for entries. `None` if it is too little for one log.
fn for_logs(bytes: u64) -> Option<u64> {
    bytes.checked_sub(SLICES_BYTES).filter(|bytes| *bytes >= LOG_BYTES_MIN)
}

impl Lanes {
    /// The logs, with memory from `budget`. `None` if that has not enough for one log.
    #[must_use]
    pub fn new(config: &LanesConfig, budget: &MemoryBudget) -> Option<Arc<Self>> {
        let bytes = config.bytes.min(Self::bytes_max(budget.total()));
        let for_logs = for_logs(bytes)?;
        let memory = budget.take(Owner::Log, bytes)?;
        let most = config.lanes.clamp(1, LANES_MAX).min((for_logs / LOG_BYTES_MIN) as usize);
        let sizes = |lanes: usize| Sizes::new(for_logs / lanes as u64, config.sinks);
        let holds = |lanes: &usize| sizes(*lanes).value_max() >= config.value_bytes_max;
        let lanes = (1..=most).rev().find(holds).unwrap_or(1);
        let slices = Arc::new(Slices::new(lanes));
        let part = if config.follows { Part::Follows } else { Part::Leads };
        let log = |lane: usize| Arc::new(Log::new(lane as u8, sizes(lanes), slices.clone(), part));
        let made: Vec<_> = (0..lanes).map(log).collect();
        let logs = std::array::from_fn(|lane| made[if lane < lanes { lane } else { 0 }].clone());
        Some(Arc::new(Self { logs: Box::new(logs), count: lanes, slices, _memory: memory }))
    }

    /// Most bytes that all logs take of a budget of `total` bytes, the table of slices included.
    #[must_use]
    pub fn bytes_max(total: u64) -> u64 {
        SLICES_BYTES + total / PART_OF_TOTAL
    }

    /// The longest value that one log takes, with any key, where all logs may have what they can of
    /// a budget of `total` bytes. `None` if that has not enough for one log.
    #[must_use]
    pub fn longest_value(total: u64) -> Option<u64> {
        for_logs(Self::bytes_max(total)).map(|bytes| Sizes::new(bytes, 1).value_max())
    }

    /// Removals, touches and barriers take room of the readers, too, from now on: a journal keeps
    /// them. What memory alone removes takes none. Called before anything is appended.
    pub fn have_all_spend(&self) {
        self.slices.have_all_spend();
    }

    /// Every log with its lane.
    pub fn logs(&self) -> impl Iterator<Item = (LaneId, &Arc<Log>)> {
        let logs = self.logs.iter().take(self.count);
        logs.enumerate().map(|(lane, log)| (LaneId(lane as u8), log))
    }

    /// The end of every log, in the order of the lanes.
    #[must_use]
    pub fn ends(&self) -> Vec<u64> {
        self.logs().map(|(_, log)| log.end()).collect()
    }

    /// The log of a lane.
    #[inline(always)]
    #[must_use]
    pub fn log(&self, lane: LaneId) -> &Log {
        &self.logs[lane.index() & (LANES_MAX - 1)]
    }

    /// The lane of this number, if there is one.
    #[inline]
    #[must_use]
    pub fn lane(&self, index: usize) -> Option<LaneId> {
        (index < self.count).then_some(LaneId(index as u8))
    }

    /// The place before the first entry of the first log.
    #[must_use]
    pub fn nowhere(&self) -> Place {
        Place { lane: LaneId(0), position: 0 }
    }

    /// The lane of `slice`.
    #[inline(always)]
    #[must_use]
    pub fn lane_of(&self, slice: SliceId) -> LaneId {
        LaneId(self.slices.lane(slice))
    }

    /// The last position of `slice` in the log of its lane, or 0, and its last version.
    #[must_use]
    pub fn last(&self, slice: SliceId) -> (Place, Version) {
        let last = self.slices.last(slice);
        let place = Place { lane: self.lane_of(slice), position: last.position };
        (place, Version::from_raw(last.version))
    }

    /// The longest value that a log takes, with any key.
    #[must_use]
    pub fn value_bytes_max(&self) -> u64 {
        self.logs[0].sizes().value_max()
    }

    /// The sizes of each log.
    pub(crate) fn sizes(&self) -> &Sizes {
        self.logs[0].sizes()
    }

    /// The lanes of the slices.
    pub(crate) fn slices(&self) -> Arc<Slices> {
        self.slices.clone()
    }

    /// What a reply about `slice` waits for at `level`; `None` if all that it shows has passed.
    ///
    /// `version` is that of the item that the reply shows. Without one, it shows that the slice
    /// has come so far: a miss, a refusal. Ask after the item was looked up. The position may be
    /// after the one that the reply needs, never before.
    #[inline(always)]
    #[must_use]
    pub fn wait_for(
        &self,
        level: Level,
        slice: SliceId,
        version: Option<Version>,
    ) -> Option<Place> {
        if self.is_settled(level, slice) {
            return None;
        }
        self.wait_unsettled(level, slice, version)
    }

    /// Whether everything in the log of `slice` has passed `level`. Ask after the item was looked
    /// up.
    #[inline(always)]
    #[must_use]
    pub fn is_settled(&self, level: Level, slice: SliceId) -> bool {
        self.log(self.lane_of(slice)).is_settled(level)
    }

    #[inline(never)]
    fn wait_unsettled(
        &self,
        level: Level,
        slice: SliceId,
        version: Option<Version>,
    ) -> Option<Place> {
        for _ in 0..MOVES_MAX {
            let lane = self.lane_of(slice);
            let (log, last) = (self.log(lane), self.slices.last(slice));
            let jump = log.jump();
            if self.lane_of(slice) != lane {
                continue;
            }
            let passed = log.passed_to(level);
            let later = match version {
                Some(version) if passed >= jump => last.version.saturating_sub(version.raw()),
                _ => 0,
            };
            let position = last.position.saturating_sub(later);
            return (position > passed).then_some(Place { lane, position });
        }
        let lane = self.lane_of(slice);
        Some(Place { lane, position: self.log(lane).end() })
    }

    /// Moves `slices` to `lane`. Refused unless nothing is under way in the logs that
    /// it concerns, and `lane` exists.
    pub fn assign(&self, slices: SliceRange, lane: LaneId) -> bool {
        if lane.index() >= self.count {
            return false;
        }
        // All are locked, by rising number, so that no slice moves meanwhile.
        let locked: Vec<_> = self.logs().map(|(_, log)| log.lock_if_idle()).collect();
        let is_idle = |lane: LaneId| locked[lane.index()].is_some();
        let may_move = is_idle(lane) && slices.iter().all(|slice| is_idle(self.lane_of(slice)));
        if may_move {
            slices.iter().for_each(|slice| self.slices.set_lane(slice, lane.0));
        }
        may_move
    }
}
