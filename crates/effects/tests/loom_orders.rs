//! The logs under loom: every order of the steps of two threads, and every value that the memory
//! model lets a load return.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p effects --test loom_orders --release`
#![cfg(loom)]

mod common;

use base::Version;
use common::{Cell, LEVEL, SLICES, holder, join_level, slice};
use effects::{Joining, Mark, ReaderId};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

/// Changes of thread, not counting those where a thread waits, that an order has at most.
const CHANGES_MAX: usize = 3;
/// Orders tried by each test: `LOOM_MAX_PERMUTATIONS`, or enough for a few seconds.
const ORDERS_MAX: usize = 20_000;

/// Tries the orders in which `first` and `second` can run, after one entry in slice 0 at position
/// 1, on which a reader of [`LEVEL`] has not passed its mark.
fn orders(
    first: impl Fn(&Cell, ReaderId) + Send + Sync + Copy + 'static,
    second: impl Fn(&Cell, ReaderId) + Send + Sync + Copy + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(CHANGES_MAX);
    model.max_permutations = model.max_permutations.or(Some(ORDERS_MAX));
    model.expect_explicit_explore = true;
    model.check(move || {
        let cell = Cell::new(1, 2, 1);
        let reader = join_level(cell.log());
        cell.put(&mut cell.sink(), 0, b"v").expect("empty");
        loom::explore();
        let other = cell.clone();
        let thread = thread::spawn(move || second(&other, reader));
        first(&cell, reader);
        thread.join().expect("no promise was broken");
        loom::stop_exploring();
    });
}

/// A reply that shows version 1 of slice 0 waits for a position that is not before `position`.
fn waits_for(cell: &Cell, position: u64) {
    let wait = cell.lanes.wait_for(LEVEL, slice(0), Some(Version::from_raw(1)));
    assert!(wait.is_some_and(|wait| wait.position >= position), "{wait:?} for {position}");
}

#[test]
fn a_hit_waits_for_its_version_while_the_next_is_appended() {
    orders(
        |cell, _| _ = cell.put(&mut cell.sink(), 0, b"w").expect("there is room"),
        |cell, _| waits_for(cell, 1),
    );
}

#[test]
fn a_hit_waits_for_its_version_while_versions_jump() {
    orders(
        |cell, _| {
            cell.advance(0, 1_000);
            cell.put(&mut cell.sink(), 0, b"w").expect("there is room");
        },
        |cell, _| waits_for(cell, 1),
    );
}

/// Versions of an item with the positions of their changes, as an engine publishes it.
struct Item {
    version: AtomicU64,
    positions: [AtomicU64; 3],
}

/// Two slices get changes in turn, marks pass, and what a reply shows has passed.
fn shown(by_version: bool) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.max_permutations = model.max_permutations.or(Some(ORDERS_MAX));
    model.check(move || {
        let cell = Cell::new(1, 1, 1);
        let reader = join_level(cell.log());
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        let item = Arc::new(Item { version: AtomicU64::new(0), positions: zeros() });
        let (other, shared) = (cell.clone(), item.clone());
        let thread = thread::spawn(move || {
            let mut sink = other.sink();
            for _ in 0..2 {
                let version = other.put(&mut sink, 0, b"v").expect("there is room").raw();
                let position = sink.last_appended().expect("it was appended").position;
                shared.positions[version as usize].store(position, Ordering::Relaxed);
                shared.version.store(version, Ordering::Release);
                other.log().pass(reader, Mark::Durable, position - 1);
            }
        });
        let version = item.version.load(Ordering::Acquire);
        let position = item.positions[version as usize].load(Ordering::Relaxed);
        let shows = (by_version && version > 0).then(|| Version::from_raw(version));
        match cell.lanes.wait_for(LEVEL, slice(0), shows) {
            None => assert!(cell.log().passed(LEVEL, position), "{version} at {position}"),
            Some(wait) => assert!(wait.position >= position, "{version} at {position}"),
        }
        thread.join().expect("no promise was broken");
    });
}

#[test]
fn a_hit_that_leaves_has_passed() {
    shown(true);
}

#[test]
fn a_miss_that_leaves_has_passed() {
    shown(false);
}

#[test]
fn a_writer_takes_no_room_that_a_new_reader_did_not_grant() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(CHANGES_MAX);
    model.max_permutations = model.max_permutations.or(Some(ORDERS_MAX));
    model.check(|| {
        let cell = Cell::new(1, 1, 1);
        let other = cell.clone();
        let thread = thread::spawn(move || {
            let mut sink = other.sink();
            other.put(&mut sink, 0, b"v").is_ok()
        });
        let joining = Joining { from: Some(1), grants: Some(0), ..holder() };
        let joined = cell.log().join(&joining).is_ok();
        let put = thread.join().expect("no promise was broken");
        assert!(!(joined && put), "an entry was appended for which there was no room");
    });
}

#[test]
fn the_versions_of_a_slice_rise_with_the_positions() {
    orders(
        |cell, _| _ = cell.put(&mut cell.sink(), 0, b"w").expect("there is room"),
        |cell, _| _ = cell.put(&mut cell.sink(), 0, b"w").expect("there is room"),
    );
    const { assert!(SLICES <= 4, "a model checker distinguishes four") };
}
