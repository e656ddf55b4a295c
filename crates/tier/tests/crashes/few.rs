//! All short histories of two keys, of two steps or, in a long test, three, with the power cut at
//! each call of the disk and of the backend,
//! and all that may survive of few sectors.

use crate::below::SimBackend;
use crate::disk::SimDisk;
use crate::life::{Config, Given, Life};
use crate::model::KeyModel;
use crate::number;
use base::{Facts, Now, SliceRange};
use std::collections::HashSet;
use std::sync::Arc;

/// Pending sectors of which all that may survive is tried; of more, all and none.
const SECTORS_MAX: usize = 6;

const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Set(usize),
    Delete(usize),
    Touch(usize),
    /// An eviction.
    Forget(usize),
    FlushAll,
    Sync,
    WriteBack,
}

/// All steps. The keys are alike, so some are of the first key alone.
const STEPS: [Step; 10] = [
    Step::Set(0),
    Step::Delete(0),
    Step::Touch(0),
    Step::Forget(0),
    Step::Set(1),
    Step::Delete(1),
    Step::Touch(1),
    Step::FlushAll,
    Step::Sync,
    Step::WriteBack,
];

/// A moment of a history.
#[derive(Clone)]
struct Moment {
    disk: SimDisk,
    backend: Arc<SimBackend>,
    keys: Vec<KeyModel>,
    given: Given,
}

impl Moment {
    /// Another one that goes its own way.
    fn copy(&self) -> Self {
        let disk = self.disk.copy();
        Self { backend: self.backend.copy(disk.clone()), disk, ..self.clone() }
    }

    fn begin(&self, config: &Config) -> Life {
        let life = Life::begin((&self.disk, &self.backend), config, &self.given, NOW);
        life.unwrap_or_else(|error| panic!("a cell does not begin: {error}"))
    }
}

/// The tests of all that may be after a history.
struct Few {
    config: Config,
    seen: HashSet<String>,
    states: u64,
}

impl Few {
    /// One history after `base`.
    fn history(&mut self, base: &Moment, steps: &[Step]) {
        let mut at = base.copy();
        let mut life = at.begin(&self.config);
        at.keys.iter_mut().for_each(KeyModel::begin);
        for (number, step) in steps.iter().enumerate() {
            // The histories that begin alike are one up to there.
            let is_new = steps[number + 1..].iter().all(|later| *later == STEPS[0]);
            if !is_new {
                take(&mut life, &mut at, *step);
                continue;
            }
            let (before, backend) = (life.passed(), at.backend.copy(at.disk.clone()));
            let others = at.disk.others();
            at.disk.record();
            take(&mut life, &mut at, *step);
            for disk in at.disk.recorded() {
                let is_before = disk.others() == others;
                let below = if is_before { &backend } else { &at.backend };
                let mut crashed = Moment { backend: below.clone(), disk, ..at.clone() };
                crashed.keys.iter_mut().for_each(|key| key.kill(before[0], before[0]));
                crashed.keys.iter_mut().for_each(KeyModel::cut_power);
                self.cut_power(&crashed, steps);
            }
        }
    }

    /// Everything that may survive.
    fn cut_power(&mut self, at: &Moment, steps: &[Step]) {
        let ways = at.disk.ways();
        if ways.len() > SECTORS_MAX {
            let all: Vec<_> = ways.iter().map(|ways| ways - 1).collect();
            self.survives(at, &vec![0; ways.len()], steps);
            self.survives(at, &all, steps);
            return;
        }
        let mut kept = vec![0; ways.len()];
        loop {
            self.survives(at, &kept, steps);
            let Some(next) = (0..ways.len()).find(|sector| kept[*sector] + 1 < ways[*sector])
            else {
                return;
            };
            kept[next] += 1;
            kept[..next].fill(0);
        }
    }

    /// This survives: a cell begins, and begins again after another power cut.
    fn survives(&mut self, at: &Moment, kept: &[usize], steps: &[Step]) {
        let mut at = at.copy();
        at.disk.cut_power_so(kept);
        let key = format!("{} {:?} {:?}", at.disk.digest(), at.backend.memory.records(), at.keys);
        if !self.seen.insert(key) {
            return;
        }
        self.states += 1;
        for again in [false, true] {
            let life = at.begin(&self.config);
            for key in &mut at.keys {
                let found = life.load(key, NOW);
                let found = found.unwrap_or_else(|why| panic!("{steps:?} {kept:?}: {why:?}"));
                if let Err(what) = key.check(&found, NOW) {
                    panic!("{steps:?}, {kept:?}, again: {again}: {what}");
                }
            }
            let none = vec![0; at.disk.ways().len()];
            at.disk.cut_power_so(&none);
        }
    }
}

/// Takes a step, and writes.
fn take(life: &mut Life, at: &mut Moment, step: Step) {
    let given = &mut at.given;
    let done = match step {
        Step::Set(key) => {
            let value = format!("value {} of {key}", given.values().sum::<u64>()).into_bytes();
            life.set(given, &mut at.keys[key], (value, Facts::default()))
        }
        Step::Delete(key) => life.delete(given, &mut at.keys[key]),
        Step::Touch(key) => match at.keys[key].last().1.clone() {
            Some(item) => {
                let how = (NOW.expiry_s + 100, false);
                life.touch(given, &mut at.keys[key], &item, how)
            }
            None => Ok(()),
        },
        Step::Forget(key) => life.forget(given, &at.keys[key], base::Removal::Evicted),
        Step::FlushAll => {
            let range = SliceRange::of(at.keys[0].slice);
            life.flush_all(&mut at.keys, range)
        }
        Step::Sync => {
            life.tier.sync(NOW);
            Ok(())
        }
        Step::WriteBack => {
            life.tier.flush(NOW, true).expect("nothing fails");
            Ok(())
        }
    };
    done.expect("there is room");
    life.sink.end_batch();
    life.tier.write();
}

#[test]
fn all_short_histories_survive_all_power_cuts() {
    let config = Config::shortest(1);
    let disk = SimDisk::new(1);
    let keys = ["one", "two"].map(|key| KeyModel::new(key.into())).to_vec();
    let backend = SimBackend::new(disk.clone());
    let mut base = Moment { backend, disk, keys, given: Given::new() };
    // Both keys are there: one is written back, the other is not.
    let mut life = base.begin(&config);
    for step in [Step::Set(0), Step::Sync, Step::WriteBack, Step::Set(1), Step::Sync] {
        take(&mut life, &mut base, step);
    }
    let durable = life.passed()[0];
    drop(life);
    base.keys.iter_mut().for_each(|key| key.kill(durable, durable));
    base.disk.kill();

    // A long test takes one step more.
    let count = if number("CRASH_SEEDS").is_some_and(|seeds| seeds >= 100) { 3 } else { 2 };
    let mut few = Few { config, seen: HashSet::new(), states: 0 };
    for number in 0..STEPS.len().pow(count) {
        let step = |place: u32| STEPS[number / STEPS.len().pow(place) % STEPS.len()];
        let steps: Vec<_> = (0..count).rev().map(step).collect();
        few.history(&base, &steps);
    }
    println!("{} states", few.states);
    assert!(few.states > 100);
}
