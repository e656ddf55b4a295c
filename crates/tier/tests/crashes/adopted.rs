//! A new journal above what another one has written back, which is lost.

use crate::cell::{Cell, NOW, begin};
use crate::life::{Config, Life};
use crate::model::KeyModel;
use crate::number;
use faulty::disk::SimDisk;

use base::{Facts, Refused, SliceRange};
use measure::rng::Rng;
use tier::{Backend, TierError};

const KEYS: usize = 20;

/// The disk is lost, and a cell with a new journal begins above the backend. What was up to these
/// positions lies there; what came later may.
fn lose_journal(cell: &mut Cell, drained: &[u64]) {
    for key in &mut cell.keys {
        let at = drained[cell.life.lanes.lane_of(key.slice).index()];
        key.kill(at, at);
    }
    cell.disk = SimDisk::new(u64::from(cell.config.name));
    cell.backend = cell.backend.copy(cell.disk.clone());
    cell.config = Config { adopts: true, name: cell.config.name + 1, ..cell.config };
    cell.life = begin((&cell.disk, &cell.backend), &cell.config, &cell.given).expect("it adopts");
    cell.keys.iter_mut().for_each(KeyModel::begin);
}

/// A change of a key, or of many.
fn change(cell: &mut Cell, rng: &mut Rng) {
    let key = rng.below(KEYS as u64) as usize;
    if cell.life.tier.presses() {
        // As the thread of the journal does: segments are made.
        cell.sync();
    }
    let Cell { life, keys, given, .. } = cell;
    let slice = keys[key].slice;
    let done = match rng.below(30) {
        0 => life.flush_all(keys, SliceRange::ALL),
        1 => life.flush_all(keys, SliceRange::of(slice)),
        2..6 => life.delete(given, &mut keys[key]),
        6 => {
            life.skip_versions(slice, rng.below(40_000));
            // The next change may have to wait for a higher ceiling.
            cell.sync();
            Ok(())
        }
        _ => cell.set(key, 200),
    };
    match done {
        // A segment or a ceiling is to be durable first.
        Err(Refused::Full) => cell.sync(),
        done => done.expect("there is room"),
    }
    cell.life.sink.end_batch();
    cell.life.tier.write();
}

#[test]
fn what_was_written_back_is_there_and_no_version_is_given_twice() {
    for seed in 0..number("CRASH_SEEDS").unwrap_or(12) {
        let mut rng = Rng::new(seed, 9);
        let mut cell = Cell::new(Config::shortest(1 + seed as usize % 3), KEYS);
        for _ in 0..4 {
            (0..rng.below(60)).for_each(|_| change(&mut cell, &mut rng));
            cell.life.drain(NOW).expect("nothing fails");
            let drained = cell.life.passed();
            for _ in 0..rng.below(30) {
                change(&mut cell, &mut rng);
                if rng.below(8) == 0 {
                    cell.sync();
                    cell.life.tier.flush(NOW, true).expect("nothing fails");
                }
            }
            // That no version is given again is checked when it begins.
            lose_journal(&mut cell, &drained);
            for key in &mut cell.keys {
                let found = cell.life.load(key, NOW).expect("nothing fails");
                key.check(&found, NOW).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
            }
        }
    }
}

#[test]
fn a_barrier_holds_and_ends_nothing_that_is_stored_again() {
    let mut cell = Cell::new(Config::shortest(2), KEYS);
    (0..KEYS).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.life.drain(NOW).expect("nothing fails");
    cell.life.flush_all(&mut cell.keys, SliceRange::ALL).expect("there is room");
    cell.set(0, 100).expect("there is room");
    cell.life.flush_later(NOW.expiry_s + 9).expect("there is room");
    cell.life.sink.end_batch();
    cell.sync();
    // It writes one key back, which is above the barrier.
    assert_eq!(cell.life.tier.flush(NOW, true).map(|it| it.keys), Ok(1));
    let passed = cell.life.passed();
    lose_journal(&mut cell, &passed);
    assert_eq!(cell.life.due_s, NOW.expiry_s + 9, "what is still to come stays so");
    cell.check();
    (1..KEYS).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.life.drain(NOW).expect("nothing fails");
    let passed = cell.life.passed();
    lose_journal(&mut cell, &passed);
    cell.check();
}

#[test]
fn without_being_asked_it_is_refused_and_so_is_the_journal_that_was_lost() {
    let mut cell = Cell::new(Config::shortest(1), KEYS);
    cell.set(0, 100).expect("there is room");
    cell.life.drain(NOW).expect("nothing fails");
    let (old, config, passed) = (cell.disk.clone(), cell.config, cell.life.passed());
    let refused = |disk: &SimDisk, config: &Config| {
        let backend = cell.backend.copy(disk.clone());
        match begin((disk, &backend), config, &cell.given).map(|_| ()) {
            Err(error @ TierError::OtherJournal { may_adopt, .. }) => {
                (may_adopt, error.to_string())
            }
            other => panic!("{other:?}"),
        }
    };
    let (may_adopt, said) = refused(&SimDisk::new(1), &Config { name: 8, ..config });
    assert!(may_adopt && said.contains("--tier-adopt"), "{said}");
    lose_journal(&mut cell, &passed);
    cell.check();
    old.kill();
    for adopts in [false, true] {
        let backend = cell.backend.copy(old.clone());
        let begun = begin((&old, &backend), &Config { adopts, ..config }, &cell.given);
        let refused = begun.err().expect("what it wrote is another journal's now");
        assert!(matches!(refused, TierError::OtherJournal { may_adopt: false, .. }), "{refused}");
    }
    // The option changes nothing where there is nothing to adopt.
    cell.begin_again();
    cell.check();
}

#[test]
fn what_does_not_say_which_versions_were_given_is_not_adopted() {
    let cell = Cell::new(Config::shortest(1), KEYS);
    let disk = SimDisk::new(1);
    let config = Config { name: 8, adopts: true, ..cell.config };
    let begin_above = |note: Option<&[u8]>| {
        let backend = crate::below::SimBackend::new(disk.clone());
        backend.set_note("journal", &[7; 16]).expect("it has no fault");
        if let Some(note) = note {
            backend.set_note("slices", note).expect("it has no fault");
        }
        begin((&disk, &backend), &config, &cell.given).err().expect("it is refused")
    };
    let refused = begin_above(None);
    assert!(matches!(refused, TierError::NothingGiven { .. }), "{refused}");
    let refused = begin_above(Some(b"no such note"));
    assert!(matches!(refused, TierError::Backend(_)), "{refused}");
}

#[test]
fn a_machine_that_stops_while_it_adopts_does_so_again() {
    let mut cell = Cell::new(Config::shortest(1), KEYS);
    (0..KEYS).for_each(|key| cell.set(key, 100).expect("there is room"));
    cell.life.drain(NOW).expect("nothing fails");
    let (mut asked, mut began) = (0, 0);
    for calls in 0..400 {
        let disk = SimDisk::new(calls);
        let backend = cell.backend.copy(disk.clone());
        let on = (&disk, &backend);
        let plain = Config { name: 8, ..cell.config };
        let adopting = Config { adopts: true, ..plain };
        disk.stop_after(calls);
        let has_begun = begin(on, &adopting, &cell.given).is_ok();
        disk.cut_power(&mut Rng::new(calls, 1));
        // Once it is that of the new journal, nobody needs to be asked.
        match begin(on, &plain, &cell.given) {
            Err(TierError::OtherJournal { may_adopt: true, .. }) => asked += 1,
            Err(error) => panic!("after {calls}: {error}"),
            Ok(_) => began += 1,
        }
        disk.kill();
        let mut life: Life = begin(on, &adopting, &cell.given)
            .unwrap_or_else(|error| panic!("after {calls}: {error}"));
        let (key, mut given) = (&mut cell.keys.clone()[0], cell.given.clone());
        let found = life.load(key, NOW).expect("nothing fails");
        key.check(&found, NOW).expect("it is there");
        life.set(&mut given, key, (b"99:".to_vec(), Facts::default())).expect("there is room");
        if has_begun && calls > 0 {
            break;
        }
    }
    assert!(asked > 2 && began > 5, "{asked} {began}");
}
