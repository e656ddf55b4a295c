//! The effect log of a cell.
//!
//! A cell without a ring and without a tier has no log. For tests and measurements the log can be
//! turned on: then the workers themselves are its reader, which passes its mark at the end of each
//! batch.

use base::MemoryBudget;
use effects::{Joining, LaneId, Lanes, LanesConfig, Level, Mark, ReaderId, Who};
use std::sync::Arc;

/// What every reply waits for.
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
