//! What this cell leads since it was a copy: once everything is below that it had copied, it says
//! so to the other copies, which may have missed some of what the earlier primary has said.

use super::cut::Cut;
use crate::ring::cell::RingCell;
use crate::ring::copies::settled;
use crate::ring::terms::Term;
use crate::worker::Worker;
use base::{Now, SliceRange};

/// The leaderships of which it has not said so: a few.
#[derive(Default)]
pub(crate) struct Settling(Vec<(Term, SliceRange, Cut)>);

impl Settling {
    /// This cell has begun to lead `slices`, which it had copied.
    pub(crate) fn begin(&mut self, term: Term, slices: SliceRange) {
        self.0.push((term, slices, Cut::default()));
    }

    /// Says so of what is below now. Returns whether anything was appended.
    pub(crate) fn step(&mut self, ring: &RingCell, worker: &mut Worker, now: Now) -> bool {
        let mut has_appended = false;
        self.0.retain_mut(|(term, slices, cut)| {
            if ring.terms.level(*term).is_none() {
                return false;
            }
            if !cut.is_written_back(*slices, ring, now) {
                return true;
            }
            // A copy takes what is of the slices of each lane, after what has come of them there.
            let (bytes, (_, _, sink)) = (settled::encode(*slices, term.epoch), worker.parts());
            let is_said = sink.other_in_all(settled::KIND, &bytes, &mut Vec::new()).is_ok();
            has_appended |= is_said;
            !is_said
        });
        has_appended
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::testing::first_cell_above_a_tier;
    use crate::testing::NOW;
    use base::{Change, Effect, Facts, SliceId, Value, Version};
    use engine::Applied;
    use ring::RangeId;

    #[test]
    fn what_was_copied_is_said_to_be_below_once_when_it_is_and_while_the_cell_leads() {
        let ring = first_cell_above_a_tier();
        let (slices, tiered) = (SliceRange::ALL, ring.cell.tiered().expect("it is above a tier"));
        let mut worker = Worker::new(ring.cell.clone());
        worker.begin(NOW);
        let change = Change::Put(Value::Parts([b"value", b""]), Facts::default());
        let effect = Effect { key: b"key", change };
        let applied = worker.copy((SliceId::of(b"key"), Version::new(3, 1)), &effect, NOW);
        assert_eq!(applied, Applied::Done);
        worker.end();
        (0..2).for_each(|_| tiered.sync(NOW));
        let [term, over] = [4, 5].map(|epoch| Term { range: RangeId(1), epoch });
        assert!(ring.terms.begin(term, u64::MAX, 0).is_some());
        let mut settling = Settling::default();
        [term, over].iter().for_each(|term| settling.begin(*term, slices));
        let mut says = |after_s: u64| {
            worker.begin(NOW);
            let now = Now { mono_ns: NOW.mono_ns + after_s * 1_000_000_000, ..NOW };
            let has_said = settling.step(&ring, &mut worker, now);
            worker.end();
            tiered.sync(NOW);
            has_said
        };
        assert!(!says(1) && !says(2), "it is in the journal alone");
        // As where it was written back.
        ring.below().expect("it is in a ring").are_below(slices, 4);
        let _ = tiered.tier().flush(NOW, true);
        assert_eq!(tiered.tier().dirty(), 0);
        assert!(says(3));
        assert!(!says(4), "it has said so");
    }
}
