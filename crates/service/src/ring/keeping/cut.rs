//! A moment of the journal: what it had then is to be written back.

use crate::ring::cell::RingCell;
use base::{Now, SliceRange};

/// How often it is looked whether all is written back.
const LOOK_NS: u64 = 500_000_000;

/// A moment of the journal, from the first look on.
#[derive(Default)]
pub(crate) struct Cut {
    /// Up to which segment all is to be written back, and how often the journal had been repaired
    /// then.
    at: Option<(u32, u64)>,
    /// When it was looked last whether it is.
    looked_ns: u64,
}

impl Cut {
    /// Whether everything of `slices` that the journal had then is written back, or was changed
    /// since. It is looked at times, and has all written back where it is not.
    pub(crate) fn is_written_back(
        &mut self,
        slices: SliceRange,
        ring: &RingCell,
        now: Now,
    ) -> bool {
        let Some((tiered, below)) = ring.cell.tiered().zip(ring.below()) else { return true };
        if now.mono_ns < self.looked_ns + LOOK_NS {
            return false;
        }
        self.looked_ns = now.mono_ns;
        // What is journaled after this lies after it; what is written once more lies after it too,
        // and is not newer.
        let Some(repairs) = below.repairs() else { return false };
        let at = self.at.filter(|(_, as_of)| *as_of == repairs).map(|(at, _)| at);
        let Some(at) = at.or_else(|| below.cut()) else {
            tiered.press();
            return false;
        };
        self.at = Some((at, repairs));
        // A repair that came in between may have moved what is older.
        let is = below.is_written_back(slices, at) && below.repairs() == Some(repairs);
        if !is {
            tiered.want_all();
        }
        is
    }
}
