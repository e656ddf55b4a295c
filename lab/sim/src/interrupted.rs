//! Which steps of which operations were under way when faults came; and faults that come because a
//! step has begun: most steps take some milliseconds, which others would rarely meet.

use crate::dice::Dice;
use crate::faults::Kind;
use crate::scene::{Event, Scene};
use ring::{Map, Range};
use std::collections::{BTreeMap, BTreeSet};

/// A step of an operation that is under way, by what the map says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// A cell learns a range that it is to lead.
    LearnsToLead,
    /// A range is to be handed over to a copy.
    HandsOver,
    /// A cell learns a range of which it is to replace a copy.
    LearnsToReplace,
    /// A copy is to leave a range, as another one has replaced it.
    Replaces,
    /// A range is to be divided.
    Divides,
    /// Two ranges are to become one.
    Unites,
    /// A cell is drained.
    Drains,
    /// A cell, or what it has led, is absorbed.
    Absorbs,
    /// A range is to go back to the cell that has led it.
    ComesBack,
}

/// All of them.
pub const STEPS: [Step; 9] = [
    Step::LearnsToLead,
    Step::HandsOver,
    Step::LearnsToReplace,
    Step::Replaces,
    Step::Divides,
    Step::Unites,
    Step::Drains,
    Step::Absorbs,
    Step::ComesBack,
];

/// How often each kind of fault has come while each step was under way. One that waits for a moment
/// counts when it begins to wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupted(BTreeMap<(Step, Kind), u64>);

impl Interrupted {
    /// A fault comes while the ring has this map.
    pub(crate) fn add(&mut self, kind: Kind, map: &Map) {
        for step in under_way(map) {
            *self.0.entry((step, kind)).or_default() += 1;
        }
    }

    /// Adds those of another run.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(of, count)| *self.0.entry(*of).or_default() += count);
    }

    /// How often faults of this kind have come during that step.
    #[must_use]
    pub fn count(&self, step: Step, kind: Kind) -> u64 {
        self.0.get(&(step, kind)).copied().unwrap_or(0)
    }
}

/// The lane of its choices: without an operator a run is what it was.
const LANE: u64 = 3;
/// Of 1,000 short steps during how many a fault is to come, and of 1,000 others.
const SHORT_PER_MILLE: u64 = 900;
const OTHERS_PER_MILLE: u64 = 100;
/// How many faults are to come during a short step that is rare.
const RARE: u64 = 3;
/// How long after the beginning of a step.
const DELAY_NS: [u64; 2] = [20_000, 4_000_000];

/// Has faults come during steps.
pub(crate) struct Interrupting {
    dice: Dice,
    /// The version of the last map, and what was under way.
    version: u64,
    under_way: BTreeSet<Step>,
}

impl Interrupting {
    /// Of the ring of `seed`, in which nothing is under way.
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed, LANE), version: 0, under_way: BTreeSet::new() }
    }

    /// The map may have changed: a fault may be to come.
    pub(crate) fn look(&mut self, map: &Map, scene: &mut Scene) {
        if map.version == self.version {
            return;
        }
        self.version = map.version;
        let before = std::mem::replace(&mut self.under_way, under_way(map));
        for step in self.under_way.difference(&before) {
            let (faults, per_mille) = match step {
                Step::Replaces | Step::Divides | Step::Unites => (RARE, SHORT_PER_MILLE),
                Step::HandsOver => (1, SHORT_PER_MILLE),
                _ => (1, OTHERS_PER_MILLE),
            };
            for _ in 0..faults {
                if self.dice.per_mille(per_mille) {
                    let delay_ns = self.dice.duration(DELAY_NS[0], DELAY_NS[1]);
                    scene.after(delay_ns, Event::Interrupt);
                }
            }
        }
    }
}

fn under_way(map: &Map) -> BTreeSet<Step> {
    let of_range = |range: &Range| {
        let learns = range.moves_to_learner().is_some();
        let moves = range.moves_to.map(|_| match (range.leaves.is_some(), learns) {
            (false, true) => Step::LearnsToLead,
            (false, false) => Step::HandsOver,
            (true, true) => Step::LearnsToReplace,
            (true, false) => Step::Replaces,
        });
        let divides = range.divides.map(|_| Step::Divides);
        let unites = range.unites_with.map(|_| Step::Unites);
        let comes_back = range.home.map(|_| Step::ComesBack);
        let is_absorbed = range.is_absorbed.then_some(Step::Absorbs);
        [moves, divides, unites, comes_back, is_absorbed]
    };
    let leaving = map.cells.values().filter_map(|cell| cell.leaves);
    let leaving = leaving.map(|how| if how.is_absorbed { Step::Absorbs } else { Step::Drains });
    map.ranges.iter().flat_map(of_range).flatten().chain(leaving).collect()
}
