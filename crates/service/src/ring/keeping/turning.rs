//! Ranges above a tier that this cell has copied and is to lead, or has led and is to copy: what
//! its journal has of them is to lie before what comes now.
//!
//! ```text
//! Writes    until what the logs had when it began is written
//! Over      once the journal was cut after that: all later records lie in later segments
//! ```
//!
//! What is led and what is copied goes to different logs, and so to different segments. A start
//! reads these by their numbers.

use crate::ring::cell::RingCell;
use ring::RangeId;
use std::collections::BTreeMap;

/// How far those are that this cell is to lead or to copy, and has led or copied before.
#[derive(Default)]
pub(crate) struct Turning(BTreeMap<RangeId, Progress>);

enum Progress {
    Begins,
    /// What the logs had up to these ends is to be written.
    Writes(Vec<u64>),
    Over,
}

impl Turning {
    /// This cell keeps what it has of `range`. `turns`: it has led it and is to copy it, or the
    /// other way round.
    pub(crate) fn begin(&mut self, range: RangeId, turns: bool) {
        self.0.insert(range, if turns { Progress::Begins } else { Progress::Over });
    }

    /// Forgets all but what `is_known`.
    pub(crate) fn keep(&mut self, is_known: impl Fn(&RangeId) -> bool) {
        self.0.retain(|range, _| is_known(range));
    }

    /// Takes the next steps. Returns whether nothing is left of them.
    pub(crate) fn is_over(&mut self, range: RangeId, ring: &RingCell) -> bool {
        let Some((tiered, below)) = ring.cell.tiered().zip(ring.below()) else { return true };
        let Some(progress) = self.0.get_mut(&range) else { return true };
        if matches!(progress, Progress::Begins) {
            *progress = Progress::Writes(below.ends());
        }
        if let Progress::Writes(ends) = progress
            && below.has_written(ends)
        {
            match below.cut() {
                Some(_) => *progress = Progress::Over,
                None => tiered.press(),
            }
        }
        matches!(progress, Progress::Over)
    }

    /// `range` has begun. Returns whether this cell keeps what it had of it.
    pub(crate) fn end(&mut self, range: RangeId) -> bool {
        self.0.remove(&range).is_some()
    }
}
