//! A flush of all that is still to come outlives the process and a power cut.

use crate::cell::{Cell, NOW};
use crate::life::{Config, Life};
use faulty::disk::Fault;

use base::{Now, SliceRange};
use measure::rng::Rng;

const KEYS: usize = 40;
/// When the flush is due.
const DUE_S: u32 = 1_000_010;

fn at(expiry_s: u32) -> Now {
    Now { expiry_s, ..NOW }
}

fn set_all(cell: &mut Cell, bytes: usize) {
    (0..KEYS).for_each(|key| cell.set(key, bytes).expect("there is room"));
}

fn flush_later(cell: &mut Cell, due_s: u32) {
    cell.life.flush_later(due_s).expect("there is room");
    cell.life.sink.end_batch();
    cell.life.tier.write();
}

/// A process begins in this second, on what the one before has left.
fn begin_at(cell: &mut Cell, expiry_s: u32) {
    let on = (&cell.disk, &cell.backend);
    cell.life = Life::begin(on, &cell.config, &cell.given, at(expiry_s)).expect("a crash");
}

/// How many keys are there.
fn found(cell: &Cell, expiry_s: u32) -> usize {
    let load = |key| cell.life.load(key, at(expiry_s)).expect("nothing fails");
    cell.keys.iter().filter(|key| load(key).is_some()).count()
}

#[test]
fn it_ends_what_was_there_whenever_the_cell_begins_again() {
    for (lanes, drains) in [(1, false), (2, true), (3, false)] {
        let mut cell = Cell::new(Config::shortest(lanes), KEYS);
        set_all(&mut cell, 100);
        flush_later(&mut cell, DUE_S);
        if drains {
            cell.life.drain(at(DUE_S - 9)).expect("nothing fails");
        }
        cell.disk.kill();
        begin_at(&mut cell, DUE_S - 5);
        assert_eq!((cell.life.due_s, found(&cell, DUE_S - 5)), (DUE_S, KEYS));
        // Nothing is written in this life besides its begin.
        cell.disk.kill();
        begin_at(&mut cell, DUE_S - 1);
        assert_eq!((cell.life.due_s, found(&cell, DUE_S - 1)), (DUE_S, KEYS));
        cell.disk.kill();
        begin_at(&mut cell, DUE_S);
        assert_eq!((cell.life.due_s, found(&cell, DUE_S)), (0, 0), "{lanes} lanes");
        set_all(&mut cell, 100);
        cell.disk.kill();
        begin_at(&mut cell, DUE_S + 1);
        assert_eq!(
            (cell.life.due_s, found(&cell, DUE_S + 1)),
            (0, KEYS),
            "what came after it stays"
        );
    }
}

#[test]
fn it_survives_a_power_cut_once_it_is_durable_and_while_segments_are_used_again() {
    for seed in 0..20 {
        let mut cell = Cell::new(Config::shortest(2), KEYS);
        flush_later(&mut cell, DUE_S);
        cell.sync();
        for _ in 0..100 {
            set_all(&mut cell, 300);
            cell.life.drain(at(DUE_S - 8)).expect("nothing fails");
        }
        cell.disk.cut_power(&mut Rng::new(seed, 0));
        begin_at(&mut cell, DUE_S);
        assert_eq!((cell.life.due_s, found(&cell, DUE_S)), (0, 0));
    }
}

#[test]
fn it_survives_a_journal_that_begins_again() {
    let mut cell = Cell::new(Config::shortest(1), KEYS);
    set_all(&mut cell, 100);
    flush_later(&mut cell, DUE_S);
    cell.sync();
    cell.disk.fail_after(0, Fault::Sync);
    set_all(&mut cell, 100);
    (0..3).for_each(|_| cell.sync());
    assert_eq!(cell.life.tier.report().repairs, 1);
    cell.life.drain(at(DUE_S - 8)).expect("nothing fails");
    cell.disk.kill();
    begin_at(&mut cell, DUE_S - 1);
    assert_eq!(cell.life.due_s, DUE_S);
}

#[test]
fn another_one_takes_its_place_and_a_barrier_calls_it_off() {
    let mut cell = Cell::new(Config::shortest(3), KEYS);
    flush_later(&mut cell, DUE_S);
    flush_later(&mut cell, DUE_S + 7);
    set_all(&mut cell, 100);
    cell.disk.kill();
    begin_at(&mut cell, DUE_S + 6);
    assert_eq!((cell.life.due_s, found(&cell, DUE_S + 6)), (DUE_S + 7, KEYS));
    cell.life.flush_all(&mut cell.keys, SliceRange::ALL).expect("there is room");
    set_all(&mut cell, 100);
    cell.disk.kill();
    begin_at(&mut cell, DUE_S + 8);
    assert_eq!((cell.life.due_s, found(&cell, DUE_S + 8)), (0, KEYS));
}
