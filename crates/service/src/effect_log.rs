//! The effect log of a cell.
//!
//! A cell without a ring and without a tier has no log. For tests and measurements the log can be
//! turned on: then the workers themselves are its reader, which passes its mark at the end of each
//! batch. In a ring its readers are the copies.

use base::MemoryBudget;
use effects::{Joining, LEVELS, LaneId, Lanes, LanesConfig, Level, Mark, ReaderId, Who};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    /// Whether the cell is in a ring: then copies read the log, and the workers do not.
    pub in_ring: bool,
}

impl EffectLogOptions {
    /// The longest value that the log takes of a cell whose limit on memory is `limit_bytes`.
    /// `None` if that is too little for a log.
    #[must_use]
    pub fn longest_value(limit_bytes: u64) -> Option<u64> {
        Lanes::longest_value(limit_bytes)
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
}

impl EffectLog {
    /// The log, with memory from `budget`. `None` if that has not enough.
    pub(crate) fn new(options: EffectLogOptions, budget: &MemoryBudget) -> Option<Self> {
        let EffectLogOptions { lanes, workers, value_bytes_max, gates, in_ring } = options;
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
        let own = lanes.logs().take(if in_ring { 0 } else { lanes.logs().count() });
        let readers = own.map(join).collect::<Option<_>>()?;
        let (doubts, alone) = Default::default();
        let wants_copies = AtomicBool::new(false);
        Some(Self { lanes, readers, gates, doubts, alone, wants_copies })
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

    /// Who holds entries back, as an error line names it.
    pub(crate) fn slowest(&self, level: Level) -> String {
        let mut logs = self.lanes.logs();
        let who = logs.find_map(|(_, log)| log.stuck().or_else(|| log.slowest(level)));
        who.map_or_else(|| "no reader".to_owned(), |who| who.to_string())
    }
}
