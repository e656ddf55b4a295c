//! The effect log of a cell.
//!
//! A cell without a ring and without a tier has no log. For tests and measurements the log can be
//! turned on: then the workers themselves are its reader, which passes its mark at the end of each
//! batch. In a ring its readers are the copies, above a tier it is the journal.

use base::{MemoryBudget, SliceId};
use effects::{
    Joining, LANES_MAX, LEVELS, LaneId, Lanes, LanesConfig, Level, Mark, READERS_MAX, ReaderId, Who,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What every reply waits for, where there is no ring.
pub(crate) const LEVEL: Level = Level::new(0).expect("there is a level");

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
    /// Whether copies or a journal read the log, and not the workers themselves.
    pub has_readers: bool,
}

impl EffectLogOptions {
    /// The longest value that the log takes of a cell whose limit on memory is `limit_bytes`.
    /// `None` if that is too little for a log.
    #[must_use]
    pub fn longest_value(limit_bytes: u64) -> Option<u64> {
        Lanes::longest_value(limit_bytes)
    }

    /// Logs of these, with memory from `budget`. `None` if that has not enough.
    pub(crate) fn lanes_of(self, budget: &MemoryBudget) -> Option<Arc<Lanes>> {
        let Self { lanes, workers: sinks, value_bytes_max, .. } = self;
        let bytes = budget.total();
        Lanes::new(&LanesConfig { lanes, sinks, bytes, value_bytes_max, follows: false }, budget)
    }
}

/// The effect log of a cell.
pub(crate) struct EffectLog {
    pub(crate) lanes: Arc<Lanes>,
    pub(crate) readers: Vec<ReaderId>,
    gates: bool,
    /// By level, whether what waits for it will never be known to have passed.
    doubts: [AtomicBool; LEVELS],
    /// By level, whether no copy besides the primary is in sync.
    alone: [AtomicBool; LEVELS],
    /// Whether a reply has ever waited for a copy besides the primary.
    wants_copies: AtomicBool,
    /// By lane, a bit for each reader that has no memory for what comes next, and gets none unless
    /// a client deletes something.
    full: [AtomicU8; LANES_MAX],
}

const _: () = assert!(READERS_MAX <= u8::BITS as usize, "a reader has a bit");

impl EffectLog {
    /// The log, with memory from `budget`. `None` if that has not enough.
    pub(crate) fn new(options: EffectLogOptions, budget: &MemoryBudget) -> Option<Self> {
        let EffectLogOptions { gates, has_readers, .. } = options;
        let lanes = options.lanes_of(budget)?;
        let mark = Mark::Acknowledged;
        let who = Who::Copy(0);
        let join = |(_, log): (LaneId, &Arc<effects::Log>)| {
            let joining = Joining { who, from: None, holds: Some(mark), grants: None };
            let reader = log.join(&joining).ok()?;
            let level: &[_] = if gates { &[(reader, mark)] } else { &[] };
            log.set_level(LEVEL, level).then_some(reader)
        };
        let own = lanes.logs().take(if has_readers { 0 } else { lanes.logs().count() });
        let readers = own.map(join).collect::<Option<_>>()?;
        let (doubts, alone) = Default::default();
        let wants_copies = AtomicBool::new(false);
        let full = std::array::from_fn(|_| AtomicU8::new(0));
        Some(Self { lanes, readers, gates, doubts, alone, wants_copies, full })
    }

    /// Whether a reply that shows a change must wait.
    #[inline]
    pub(crate) fn gates(&self) -> bool {
        self.gates
    }

    /// Whether what waits for `level` will never be known to have passed.
    #[inline]
    pub(crate) fn is_in_doubt(&self, level: Level) -> bool {
        self.doubts[level.index()].load(Ordering::Acquire)
    }

    pub(crate) fn set_doubt(&self, level: Level, is_in_doubt: bool) {
        self.doubts[level.index()].store(is_in_doubt, Ordering::Release);
    }

    /// Whether no copy besides the primary is in sync at `level`.
    #[inline]
    pub(crate) fn is_alone(&self, level: Level) -> bool {
        self.alone[level.index()].load(Ordering::Acquire)
    }

    /// Sets that. Before marks of copies are removed from `level`, and after they were added: so
    /// what has passed a level that is not alone has passed a copy.
    pub(crate) fn set_alone(&self, level: Level, is_alone: bool) {
        self.alone[level.index()].store(is_alone, Ordering::Release);
    }

    /// Whether replies may wait that need a copy besides the primary.
    pub(crate) fn wants_copies(&self) -> bool {
        self.wants_copies.load(Ordering::Acquire)
    }

    /// A reply waits that needs one.
    pub(crate) fn want_copies(&self) {
        if !self.wants_copies.load(Ordering::Relaxed) {
            self.wants_copies.store(true, Ordering::Release);
        }
    }

    /// Sets whether `reader` of `lane` has no memory for what comes next, and gets none unless a
    /// client deletes something.
    pub(crate) fn set_full(&self, lane: LaneId, reader: ReaderId, is_full: bool) {
        let (full, bit) = (&self.full[lane.index()], 1 << reader.slot());
        if (full.load(Ordering::Relaxed) & bit != 0) == is_full {
            return;
        }
        match is_full {
            true => full.fetch_or(bit, Ordering::Relaxed),
            false => full.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Whether a change of `slice`, which the log has refused, finds no memory at a reader. To wait
    /// is of no use then.
    #[cold]
    pub(crate) fn is_full(&self, slice: SliceId) -> bool {
        let lane = self.lanes.lane_of(slice);
        let full = self.full[lane.index()].load(Ordering::Relaxed);
        full != 0 && full & self.lanes.log(lane).lacking() != 0
    }

    /// Who holds entries back, as an error line names it.
    pub(crate) fn slowest(&self, level: Level) -> String {
        let mut logs = self.lanes.logs();
        let who = logs.find_map(|(_, log)| log.stuck().or_else(|| log.slowest(level)));
        who.map_or_else(|| "no reader".to_owned(), |who| who.to_string())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{NOW, cell_without_eviction};
    use crate::worker::Worker;
    use effects::{Joining, Mark, Who};
    use engine::{Obstacle, Put, WriteStatus};

    #[test]
    fn a_change_without_room_at_a_full_copy_is_refused_and_without_room_at_another_one_waits() {
        let cell = cell_without_eviction(64 << 20);
        let log = cell.effect_log().expect("it has one");
        let (lane, of_lane) = log.lanes.logs().next().expect("one");
        let (who, holds) = (Who::Copy(2), Some(Mark::Acknowledged));
        let joining = Joining { who, from: None, holds, grants: Some(4096) };
        let reader = of_lane.join(&joining).expect("a place");
        let mut worker = Worker::new(cell.clone());
        let mut set = |number: usize| {
            worker.begin(NOW);
            let key = format!("key{number}");
            let put = Put { value: &[b'v'; 900], client_flags: 0, expiry_s: 0 };
            let wrote = worker.set(&cell.engine().key(key.as_bytes()), put, NOW);
            worker.end();
            wrote
        };
        let refused = (0..10).map(&mut set).find(|wrote| *wrote != WriteStatus::Done);
        let waits = |wrote| matches!(wrote, WriteStatus::Later(Obstacle::Sink(_)));
        assert!(refused.is_some_and(waits), "it may get room: {refused:?}");
        log.set_full(lane, reader, true);
        assert_eq!(set(11), WriteStatus::NoSpace);
        assert!(of_lane.grant_after(reader, of_lane.end(), 4096).is_some());
        assert_eq!(set(12), WriteStatus::Done, "it has room again");
        while set(13) == WriteStatus::Done {}
        log.set_full(lane, reader, false);
        assert!(waits(set(14)));
    }
}
