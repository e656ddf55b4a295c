//! All short histories of two keys in two slices, with a crash at each call of the disk and of the
//! backend, and again at each call of the recovery after it.
//!
//! ```text
//! base --step--> ... --step--> crash --start--> what is found
//!                                |                 ^ the same, where the power is cut after it
//!                                +-----start--> crash --start--> what is found
//! ```
//!
//! A crash is the end of the process, or a power cut after which any part of what was pending
//! survives: each subset of up to six sectors, or all and none of more; the sectors of one long
//! write survive together. What a start finds follows from what lies on the disk and below, so it
//! begins once for equal ones; what is found is compared with what each history allows.
//!
//! The keys are alike: the first key that a history names is the first one. Every start of a
//! history of more steps is a history, too.
//!
//! `HISTORIES` sets how many steps a history has: one less where the keys are in two lanes. Without
//! it they have one, and two with no crash in a start.
#![cfg(not(any(loom, shuttle)))]

#[allow(dead_code, reason = "this test uses a part of them")]
#[path = "../crashes/below.rs"]
mod below;
#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../crashes/bucket.rs"]
mod bucket;
#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../crashes/life.rs"]
mod life;
#[allow(dead_code, reason = "this test uses a part of it")]
#[path = "../crashes/model.rs"]
mod model;
mod starts;
mod steps;

use below::SimBackend;
use faulty::bytes::digest_of;
use faulty::disk::SimDisk;
use life::{Config, Given, Life};
use model::KeyModel;
use starts::{Lies, Starts};
use std::collections::HashSet;
use std::env;
use std::sync::Arc;
use std::time::Instant;
use steps::{STEPS, Step, is_canonical, take};

/// A moment of a history.
struct Moment {
    disk: SimDisk,
    backend: Arc<SimBackend>,
    keys: Vec<KeyModel>,
    given: Given,
}

impl Moment {
    fn new(config: &Config, keys: [&str; 2]) -> Self {
        let disk = SimDisk::new(1);
        let backend = SimBackend::new(disk.clone());
        let keys: Vec<_> = keys.map(|key| KeyModel::new(key.into())).into();
        assert_ne!(keys[0].slice, keys[1].slice, "{config:?}");
        Self { backend, disk, keys, given: Given::new() }
    }

    /// Another one that goes its own way.
    fn copy(&self) -> Self {
        let disk = self.disk.copy();
        let backend = self.backend.copy(disk.clone());
        Self { backend, disk, keys: self.keys.clone(), given: self.given.clone() }
    }

    fn begin(&self, config: &Config) -> Life {
        let life = Life::begin((&self.disk, &self.backend), config, &self.given, starts::NOW);
        life.unwrap_or_else(|error| panic!("a cell does not begin: {error}"))
    }

    /// Takes steps, has all written and durable, and ends the process.
    fn after(mut self, config: &Config, steps: &[Step]) -> Self {
        let mut life = self.begin(config);
        self.keys.iter_mut().for_each(KeyModel::begin);
        steps.iter().for_each(|step| take(&mut life, &mut self, *step));
        life.tier.sync(starts::NOW);
        let passed = floors(&life, &self.keys);
        drop(life);
        self.keys.iter_mut().zip(passed).for_each(|(key, [_, at])| key.kill(at, at));
        self.disk.kill();
        self
    }
}

/// Up to where the lane of each key is written, and durable.
fn floors(life: &Life, keys: &[KeyModel]) -> Vec<[u64; 2]> {
    let passed = [tier::Ack::Os, tier::Ack::Disk].map(|ack| life.passed_at(ack));
    let lane = |key: &KeyModel| life.lanes.lane_of(key.slice).index();
    keys.iter().map(|key| [passed[0][lane(key)], passed[1][lane(key)]]).collect()
}

/// The walk over all histories.
struct Histories {
    config: Config,
    starts: Starts,
    /// States of disk, backend and oracle that were compared.
    compared: HashSet<u128>,
    operations: u64,
    crashes: u64,
}

impl Histories {
    /// The steps of one history after `base`; those before `from` were taken by the one before it.
    fn history(&mut self, base: &Moment, steps: &[Step], from: usize) {
        let mut at = base.copy();
        let mut life = at.begin(&self.config);
        at.keys.iter_mut().for_each(KeyModel::begin);
        for (number, step) in steps.iter().enumerate() {
            self.operations += 1;
            if number < from {
                take(&mut life, &mut at, *step);
                continue;
            }
            let before = floors(&life, &at.keys);
            at.disk.record();
            at.backend.keep_copies();
            take(&mut life, &mut at, *step);
            // The first one is the last one of the step before.
            let mut crashes: Vec<_> = Lies::recorded(&at.disk, &at.backend).skip(1).collect();
            let last = crashes.pop().unwrap_or_else(|| Lies::now(&at.disk, &at.backend));
            for lies in &crashes {
                self.crash(lies, &at, &before, &steps[..=number]);
            }
            let after = floors(&life, &at.keys);
            self.crash(&last, &at, &after, &steps[..=number]);
        }
    }

    /// The process ends, or the power is cut, where this lies on the disk and below.
    fn crash(&mut self, lies: &Lies, at: &Moment, floors: &[[u64; 2]], steps: &[Step]) {
        self.crashes += 1;
        let mut keys = at.keys.clone();
        let floors = keys.iter_mut().zip(floors);
        floors.for_each(|(key, [written, durable])| key.kill(*written, *durable));
        let killed = lies.killed();
        self.compare(&killed, (&keys, &at.given), steps);
        keys.iter_mut().for_each(KeyModel::cut_power);
        for cut in lies.power_cuts() {
            self.compare(&cut, (&keys, &at.given), steps);
        }
    }

    /// Compares what starts find with what the history allows.
    fn compare(&mut self, lies: &Lies, (keys, given): (&[KeyModel], &Given), steps: &[Step]) {
        let mut allowed: Vec<_> = keys.iter().map(KeyModel::allowed).collect();
        allowed.extend(keys.iter().map(|key| format!("{:?}", given.get(&key.slice))));
        let oracle = digest_of(allowed.concat().as_bytes());
        if !self.compared.insert(u128::from(lies.digest()) << 64 | u128::from(oracle)) {
            return;
        }
        let found = self.starts.of(&self.config, keys, lies);
        if let Err(what) = found.check(keys, given) {
            panic!("{steps:?}: {what}");
        }
    }
}

/// All histories after `base` of as many steps as are wanted, or of some `less`.
fn all(what: &str, config: Config, base: &Moment, less: usize) {
    match env::var("HISTORIES").ok().and_then(|text| text.parse::<usize>().ok()) {
        Some(count) => all_of(what, config, base, (count - less, true)),
        None if less > 0 => all_of(what, config, base, (1, false)),
        None => {
            all_of(what, config, base, (1, true));
            all_of(what, config, base, (2, false));
        }
    }
}

/// All histories of `count` steps after `base`, and whether with crashes in starts.
fn all_of(what: &str, config: Config, base: &Moment, (count, in_starts): (usize, bool)) {
    let (begun, starts) = (Instant::now(), Starts::new(in_starts));
    let compared = HashSet::new();
    let mut of = Histories { config, starts, compared, operations: 0, crashes: 0 };
    let (mut before, mut histories) = (Vec::new(), 0);
    for number in 0..STEPS.len().pow(count as u32) {
        let step = |place: usize| STEPS[number / STEPS.len().pow(place as u32) % STEPS.len()];
        let steps: Vec<_> = (0..count).rev().map(step).collect();
        if !is_canonical(&steps) {
            continue;
        }
        let from = steps.iter().zip(&before).take_while(|(a, b)| a == b).count();
        of.history(base, &steps, from);
        (before, histories) = (steps, histories + 1);
    }
    let (states, crashes) = (of.compared.len() as u64, of.crashes);
    let Starts { begun: starts, again, .. } = of.starts;
    println!(
        "{what}: {histories} histories of {count} steps, in starts {in_starts}, {} operations, \
         {crashes} crashes; {states} states explored; {starts} starts, {again} met again; {:.1} s",
        of.operations,
        begun.elapsed().as_secs_f64()
    );
    assert!(states > histories && starts > 0 && again > 0);
}

/// Keys whose slices are in two lanes, where there are two.
const KEYS: [&str; 2] = ["one", "two"];

#[test]
fn both_keys_are_stored_and_changed_since_they_were_written_back() {
    use Step::{Set, Sync, WriteBack};
    let config = Config::shortest(1);
    let steps = [Set(0), Set(1), Sync, WriteBack, Set(0), Set(1), Sync];
    let base = Moment::new(&config, KEYS).after(&config, &steps);
    all("stored", config, &base, 0);
}

#[test]
fn nothing_is_stored() {
    let config = Config::shortest(1);
    let base = Moment::new(&config, KEYS).after(&config, &[]);
    all("nothing", config, &base, 0);
}

#[test]
fn the_keys_are_in_two_lanes() {
    use Step::{Set, Sync, WriteBack};
    let config = Config::shortest(2);
    let steps = [Set(0), Set(1), Sync, WriteBack, Set(0), Set(1), Sync];
    let base = Moment::new(&config, KEYS).after(&config, &steps);
    all("two lanes", config, &base, 1);
}
