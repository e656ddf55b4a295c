//! What a random life meets too rarely.

use crate::below::SimBackend;
use crate::disk::{Fault, SimDisk};
use crate::life::{Config, Given, Life, Unreadable};
use crate::model::KeyModel;
use crate::number;
use backend::Fault as BackendFault;
use base::{Facts, Now, Refused};
use measure::rng::Rng;
use std::sync::{Arc, mpsc};
use tier::{Failure, TierError};

const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };

/// A cell that runs, and its keys.
struct Cell {
    disk: SimDisk,
    backend: Arc<SimBackend>,
    config: Config,
    keys: Vec<KeyModel>,
    given: Given,
    life: Life,
    sets: u64,
}

impl Cell {
    fn new(config: Config, keys: usize) -> Self {
        let disk = SimDisk::new(3);
        let backend = SimBackend::new(disk.clone());
        let keys = (0..keys).map(|key| KeyModel::new(format!("key-{key}").into_bytes())).collect();
        let given = Given::new();
        let life = begin((&disk, &backend), &config, &given).expect("an empty disk");
        Self { disk, backend, config, keys, given, life, sets: 0 }
    }

    fn set(&mut self, key: usize, bytes: usize) -> Result<(), Refused> {
        self.sets += 1;
        let mut value = format!("{}:", self.sets).into_bytes();
        value.resize(bytes.max(value.len()), b'v');
        let done = self.life.set(&mut self.given, &mut self.keys[key], (value, Facts::default()));
        self.life.sink.end_batch();
        self.life.tier.write();
        done
    }

    fn sync(&self) {
        self.life.tier.sync(NOW);
    }

    /// The process ends, when all is durable, and a new one begins.
    fn begin_again(&mut self) {
        self.end();
        self.life = begin((&self.disk, &self.backend), &self.config, &self.given).expect("a kill");
        self.keys.iter_mut().for_each(KeyModel::begin);
    }

    fn end(&mut self) {
        let passed = self.life.passed();
        for key in &mut self.keys {
            let at = passed[self.life.lanes.lane_of(key.slice).index()];
            key.kill(at, at);
        }
        self.disk.kill();
    }

    /// Begins after a crash, and finds what it had.
    fn begin_whole(&mut self, seed: u64) {
        self.life = begin((&self.disk, &self.backend), &self.config, &self.given)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        for key in &mut self.keys {
            let found = self.life.load(key, NOW).expect("nothing fails");
            key.check(&found, NOW).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        }
    }

    #[track_caller]
    fn check(&mut self) {
        for key in &mut self.keys {
            let found = self.life.load(key, NOW).expect("nothing fails");
            key.check(&found, NOW).expect("as it was set");
        }
    }
}

fn begin(
    on: (&SimDisk, &Arc<SimBackend>),
    config: &Config,
    given: &Given,
) -> Result<Life, TierError> {
    Life::begin(on, config, given, NOW)
}

#[test]
fn a_full_journal_takes_changes_again_when_it_is_written_back() {
    for lanes in 1..=3 {
        let mut cell = Cell::new(Config::shortest(lanes), 40);
        for round in 0..4 {
            let mut refused = 0;
            for set in 0.. {
                if cell.set(set % 40, 12_000).is_err() {
                    refused += 1;
                    cell.sync();
                }
                if refused > 200 {
                    break;
                }
            }
            let report = cell.life.tier.report();
            assert!(report.journal_bytes * 2 > report.journal_bytes_max, "{report:?}");
            cell.check();
            if round % 2 == 1 {
                cell.begin_again();
            }
            cell.life.drain(NOW).expect("nothing fails");
            cell.check();
            let report = cell.life.tier.report();
            assert!(report.journal_bytes * 4 < report.journal_bytes_max, "{lanes}: {report:?}");
        }
    }
}

#[test]
fn one_lane_alone_is_changed_and_the_others_do_not_hold_the_journal_up() {
    let mut cell = Cell::new(Config::shortest(3), 40);
    let lane = |cell: &Cell, key: usize| cell.life.lanes.lane_of(cell.keys[key].slice);
    for key in 0..40 {
        cell.set(key, 100).expect("there is room");
    }
    let first = lane(&cell, 0);
    let of_lane: Vec<_> = (0..40).filter(|key| lane(&cell, *key) == first).collect();
    let mut stored = 0;
    for step in 0..5_000 {
        match cell.set(of_lane[step % of_lane.len()], 15_000) {
            Ok(()) => stored += 1,
            Err(_) => {
                cell.sync();
                cell.life.tier.flush(NOW, true).expect("nothing fails");
            }
        }
    }
    // More than the journal has.
    assert!(stored * 15_000 > cell.config.journal_bytes, "{stored} were stored");
    cell.check();
}

#[test]
fn what_the_backend_refuses_stays_dirty_and_is_written_back_later() {
    let mut cell = Cell::new(Config::shortest(2), 20);
    (0..20).for_each(|key| cell.set(key, 300).expect("there is room"));
    cell.sync();
    for failure in [Failure::Transient, Failure::Unknown, Failure::Full, Failure::Permanent] {
        cell.backend.memory.fail_applies(1, BackendFault::Refused(failure));
        let error = cell.life.tier.flush(NOW, true).expect_err("it is refused");
        assert_eq!((error.failure, cell.life.tier.dirty()), (failure, 20));
        cell.check();
    }
    cell.backend.memory.fail_applies(1, BackendFault::CarriedOut);
    cell.life.tier.flush(NOW, true).expect_err("that it was carried out is not known");
    assert_eq!(cell.life.tier.dirty(), 20);
    cell.begin_again();
    cell.life.drain(NOW).expect("nothing fails any more");
    assert_eq!(cell.backend.memory.records().len(), 20);
    cell.check();
}

#[test]
fn a_change_while_its_key_is_written_back_is_not_taken_for_written_back() {
    for change in 0..3 {
        let mut cell = Cell::new(Config::shortest(1), 2);
        (0..2).for_each(|key| cell.set(key, 300).expect("there is room"));
        cell.sync();
        let (tier, backend) = (cell.life.tier.clone(), cell.backend.clone());
        let (back, changed) = mpsc::channel();
        backend.meanwhile(move || {
            let item = cell.keys[0].known().cloned().flatten().expect("it was set");
            let (life, key) = (&mut cell.life, &mut cell.keys[0]);
            let done = match change {
                0 => life.touch(&mut cell.given, key, &item, (NOW.expiry_s + 50, false)),
                1 => life.delete(&mut cell.given, key),
                _ => cell.set(0, 400),
            };
            done.expect("there is room");
            cell.life.sink.end_batch();
            cell.life.tier.write();
            back.send(cell).expect("it is waited for");
        });
        tier.flush(NOW, true).expect("nothing fails");
        let mut cell = changed.recv().expect("it was sent");
        assert_eq!(cell.life.tier.dirty(), 1, "change {change}");
        cell.check();
        cell.sync();
        cell.begin_again();
        cell.check();
        cell.life.drain(NOW).expect("nothing fails");
        cell.check();
    }
}

#[test]
fn what_a_change_supersedes_is_kept_until_that_change_is_durable() {
    for seed in 0..40 {
        let mut cell = Cell::new(Config::shortest(1), 8);
        for key in 1..8 {
            cell.set(key, 19_000).expect("there is room");
            cell.sync();
        }
        cell.set(0, 100).expect("there is room");
        cell.sync();
        let durable = cell.life.passed()[0];
        cell.set(0, 200).expect("there is room");
        cell.life.tier.flush(NOW, true).expect("nothing fails");
        // The next segment says what was written back, and may survive alone.
        (1..4).for_each(|key| cell.set(key, 19_000).expect("there is room"));
        cell.keys.iter_mut().for_each(|key| key.kill(durable, durable));
        cell.disk.cut_power(&mut Rng::new(seed, 9));
        cell.keys.iter_mut().for_each(KeyModel::cut_power);
        cell.begin_whole(seed);
    }
}

#[test]
fn a_ceiling_that_could_not_be_made_durable_does_not_count() {
    let mut cell = Cell::new(Config::shortest(1), 1);
    let slice = cell.keys[0].slice;
    cell.sync();
    cell.life.skip_versions(slice, 60_000);
    cell.set(0, 100).expect("it is below the ceiling");
    cell.disk.fail_after(0, Fault::Sync);
    cell.sync();
    assert!(cell.life.has_failed());
    cell.life.skip_versions(slice, 20_000);
    let refused = cell.life.delete(&mut cell.given, &mut cell.keys[0]);
    assert_eq!(refused, Err(Refused::Full));
}

#[test]
fn what_is_written_once_more_is_not_ended_before_it_is_durable() {
    // What one log holds takes more than one segment has left at a start.
    let seeds = number("CRASH_SEEDS").unwrap_or(0).max(60);
    for seed in 0..seeds {
        let mut rng = Rng::new(seed, 5);
        let mut cell = Cell::new(Config::shortest(3), 16);
        (0..16).for_each(|key| cell.set(key, 20_000).unwrap_or(()));
        cell.sync();
        cell.end();
        cell.keys.iter_mut().for_each(KeyModel::begin);
        for _ in 0..3 {
            cell.disk.stop_after(rng.below(24));
            drop(begin((&cell.disk, &cell.backend), &cell.config, &cell.given));
            cell.disk.cut_power(&mut rng);
        }
        cell.begin_whole(seed);
    }
}

#[test]
fn a_start_whose_first_states_are_not_whole_is_refused() {
    let mut cell = Cell::new(Config::shortest(1), 4);
    (0..4).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.sync();
    cell.end();
    // In the checkpoint of all slices, which stands first.
    cell.disk.flip("segment-00000", 8 * 1000);
    let begun = begin((&cell.disk, &cell.backend), &cell.config, &Given::new());
    assert!(matches!(begun, Err(TierError::Journal(_))), "versions would be given twice");
}

#[test]
fn a_bit_that_flips_in_what_was_durable_is_never_part_of_a_value() {
    let mut cell = Cell::new(Config::shortest(1), 12);
    for set in 0..60 {
        cell.set(set % 11, 10 + set * 40).expect("there is room");
        cell.sync();
    }
    let old = cell.disk.bytes_of("segment-00000");
    // After this one nothing says what was durable.
    cell.set(11, 100).expect("there is room");
    cell.sync();
    let new = cell.disk.bytes_of("segment-00000");
    let last = (0..old.len()).find(|at| old[*at] != new[*at]).expect("it was written") as u64;
    cell.end();
    let mut rng = Rng::new(11, 0);
    let (mut refused, mut unread, flips) = (0, 0, 100);
    for flip in 0..flips {
        // The head, both checkpoints, the END, and mostly records.
        let from = if flip % 4 == 0 { 0 } else { 852_000 };
        let bit = (from + rng.below(last - from)) * 8 + rng.below(8);
        let disk = cell.disk.copy();
        disk.flip("segment-00000", bit);
        let backend = cell.backend.copy(disk.clone());
        match begin((&disk, &backend), &cell.config, &Given::new()) {
            Err(TierError::Journal(_)) => refused += 1,
            Err(error) => panic!("bit {bit}: {error}"),
            Ok(life) => {
                for key in &cell.keys {
                    let found = life.load(key, NOW).expect("it was read at the start");
                    let right = key.clone().check(&found, NOW);
                    right.unwrap_or_else(|what| panic!("byte {}: {what}", bit / 8));
                }
            }
        }
        // While a cell runs.
        let (disk, config) = (cell.disk.copy(), cell.config);
        let backend = cell.backend.copy(disk.clone());
        let life = begin((&disk, &backend), &config, &cell.given).expect("nothing is wrong");
        disk.flip("segment-00000", bit);
        for key in &cell.keys {
            match life.load(key, NOW) {
                Ok(found) => {
                    let right = key.clone().check(&found, NOW);
                    right.unwrap_or_else(|what| panic!("byte {}: {what}", bit / 8));
                }
                Err(Unreadable::Error(_)) => unread += 1,
                Err(Unreadable::Again) => panic!("byte {}: it is never found out", bit / 8),
            }
        }
    }
    println!("{refused} of {flips} refused, {unread} not read");
    assert!(refused > flips * 9 / 10, "{refused}");
}
