//! Ranges above a tier that this cell has copied and is to lead, or has led and is to copy: what
//! its journal has of them is to lie before what comes now.
//!
//! ```text
//! Writes    until what the logs had when it began is written, or durable
//! Over      once the journal was cut after that: all later records lie in later segments
//! ```
//!
//! What was led is to be durable before anything is copied: what a repair writes once more of it
//! would stand after that. One cut serves all that wait for one.
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
    /// `is_led`: this cell has led it.
    Begins {
        is_led: bool,
    },
    /// What the logs had up to these ends is to be written, or durable.
    Writes {
        ends: Vec<u64>,
        is_led: bool,
    },
    Over,
}

/// What changes for this cell and a range of which it keeps what it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// As before.
    Same,
    /// It has copied it, and is to lead it; or that was not over yet.
    ToLead,
    /// It has led it, and is to copy it; or that was not over yet.
    ToCopy,
}

impl Turning {
    /// This cell keeps what it has of `range`.
    pub(crate) fn begin(&mut self, range: RangeId, turn: Turn) {
        self.0.insert(
            range,
            match turn {
                Turn::Same => Progress::Over,
                Turn::ToLead => Progress::Begins { is_led: false },
                Turn::ToCopy => Progress::Begins { is_led: true },
            },
        );
    }

    /// Forgets all but what `is_known`.
    pub(crate) fn keep(&mut self, is_known: impl Fn(&RangeId) -> bool) {
        self.0.retain(|range, _| is_known(range));
    }

    /// Takes the next steps. Returns whether nothing is left of them.
    pub(crate) fn is_over(&mut self, range: RangeId, ring: &RingCell) -> bool {
        let Some((tiered, below)) = ring.cell.tiered().zip(ring.below()) else { return true };
        let Some(progress) = self.0.get_mut(&range) else { return true };
        if let Progress::Begins { is_led } = *progress {
            *progress = Progress::Writes { ends: below.ends(), is_led };
        }
        let is_ready = |progress: &Progress| match progress {
            Progress::Writes { ends, is_led } => {
                below.has_written(ends) && (!is_led || below.is_durable(ends))
            }
            Progress::Begins { .. } | Progress::Over => false,
        };
        if is_ready(progress) && below.cut().is_some() {
            let waiting = self.0.values_mut().filter(|it| is_ready(it));
            waiting.for_each(|it| *it = Progress::Over);
        }
        let is_over = matches!(self.0.get(&range), Some(Progress::Over));
        if !is_over {
            // A sync, or more segments.
            tiered.press();
        }
        is_over
    }

    /// `range` has begun. Returns whether this cell keeps what it had of it.
    pub(crate) fn end(&mut self, range: RangeId) -> bool {
        self.0.remove(&range).is_some()
    }
}
