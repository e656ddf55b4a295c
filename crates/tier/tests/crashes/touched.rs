//! Keys that are touched again and again, or while something fails: each touch stays until it is
//! below, and holds up nothing else.

use crate::cell::{Cell, NOW};
use crate::life::Config;
use crate::ring_cell::{self, COPIED, RingCell, at, led};
use backend::Fault as BackendFault;
use base::{Change, SliceRange};
use effects::{Joining, Level, Mark, ReaderId, Who};
use faulty::disk::Fault;
use tier::{Ack, Failure, WRITTEN_BACK, encode_written_back};

const FIRST: Level = Level::new(0).expect("there is one");

fn touch(cell: &mut Cell, key: usize, after_s: u32) {
    let item = cell.keys[key].known().cloned().flatten().expect("it was set");
    let Cell { life, keys, given, .. } = cell;
    life.touch(given, &mut keys[key], &item, (NOW.expiry_s + after_s, false)).expect("room");
    life.sink.end_batch();
    life.tier.write();
}

/// Its page may be there again later.
#[test]
fn a_touch_of_what_cannot_be_read_below_waits_until_it_can() {
    let mut cell = Cell::new(Config::shortest(1), 2);
    cell.backend.group_by(1);
    cell.set(0, 100).expect("there is room");
    cell.life.drain(NOW).expect("nothing fails");
    touch(&mut cell, 0, 50);
    cell.set(1, 100).expect("there is room");
    cell.sync();
    cell.backend.memory.fail_gets(2, BackendFault::Refused(Failure::Corrupt));
    for _ in 0..2 {
        cell.life.tier.flush(NOW, true).expect("the other key is written back");
    }
    assert_eq!((cell.life.tier.dirty(), cell.life.tier.resting().is_some()), (1, true));
    cell.begin_again();
    cell.check();
    cell.life.drain(NOW).expect("nothing fails any more");
    assert_eq!(cell.life.tier.dirty(), 0);
    cell.begin_again();
    cell.check();
}

/// What replies wait for was touched, and the disk refused to sync that at first.
#[test]
fn a_touch_that_was_written_once_more_is_below_before_its_reply_leaves() {
    let mut cell = Cell::new(Config { ack: Ack::Backend, ..Config::shortest(1) }, 1);
    cell.set(0, 100).expect("there is room");
    cell.sync();
    cell.life.tier.flush_through(NOW).expect("nothing fails");
    touch(&mut cell, 0, 50);
    cell.disk.fail_after(0, Fault::Sync);
    (0..3).for_each(|_| cell.sync());
    assert_eq!(cell.life.tier.report().repairs, 1);
    cell.life.tier.flush_through(NOW).expect("nothing fails");
    let (_, log) = cell.life.lanes.logs().next().expect("a lane");
    assert_eq!(cell.life.passed(), [log.end()]);
    cell.check();
}

/// A copy that acknowledges nothing for now.
fn is_copied(cell: &RingCell) -> Vec<ReaderId> {
    let joining = Joining { who: Who::Watch, from: None, holds: None, grants: None };
    let join = |(_, log): (_, &std::sync::Arc<effects::Log>)| {
        let reader = log.join(&joining).expect("there is a place");
        assert!(log.set_level(FIRST, &[(reader, Mark::Acknowledged)]));
        reader
    };
    cell.lanes.logs().map(join).collect()
}

fn acknowledge(cell: &RingCell, copy: &[ReaderId]) {
    for ((_, log), reader) in cell.lanes.logs().zip(copy) {
        log.pass(*reader, Mark::Acknowledged, log.end());
    }
}

/// Its last touch is never acknowledged when all that is older is written back.
#[test]
fn a_key_that_is_touched_all_the_time_holds_up_no_other() {
    let mut cell = RingCell::new();
    cell.is_promoted();
    cell.member().lead(SliceRange::ALL, FIRST, |_| led(0));
    let copy = is_copied(&cell);
    cell.leads(led(20), ring_cell::put());
    cell.leads_another(led(21), ring_cell::put());
    for counter in 30..34 {
        cell.sync();
        acknowledge(&cell, &copy);
        cell.leads(led(counter), Change::Touch(counter as u32, None));
        cell.sync();
        for _ in 0..3 {
            cell.tier.flush(cell.now, true).expect("nothing fails");
        }
        assert_eq!(cell.tier.dirty(), 1, "the touch is left");
    }
    let found = Some((COPIED, 33));
    assert_eq!(cell.finds(), found);
    let mut cell = cell.begin_again();
    assert_eq!((cell.finds(), cell.tier.dirty()), (found, 1));
    cell.is_promoted();
    cell.sync();
    cell.writes_back();
    assert_eq!((cell.finds(), cell.tier.dirty()), (found, 0));
}

/// It lies before the end of what is gone through when its value is written back.
#[test]
fn a_touch_that_is_acknowledged_after_its_value_was_written_back_is_written_back_too() {
    let mut cell = RingCell::new();
    cell.is_promoted();
    let copy = is_copied(&cell);
    cell.leads(led(20), ring_cell::put());
    acknowledge(&cell, &copy);
    cell.leads(led(21), Change::Touch(77, None));
    cell.sync();
    cell.writes_back();
    assert_eq!(cell.tier.dirty(), 1, "the touch is left");
    acknowledge(&cell, &copy);
    cell.writes_back();
    assert_eq!((cell.finds(), cell.tier.dirty()), (Some((COPIED, 77)), 0));
}

/// The entry of the index has the place of the last touch.
#[test]
fn what_was_dirty_at_a_moment_is_below_though_it_is_touched_since() {
    let mut cell = RingCell::new();
    cell.is_promoted();
    cell.leads(led(20), ring_cell::put());
    cell.sync();
    cell.writes_back();
    cell.leads(led(21), Change::Touch(77, None));
    cell.sync();
    let cut = cell.member().cut().expect("segments are ready");
    cell.leads(led(22), Change::Touch(78, None));
    cell.sync();
    assert!(cell.member().is_written_back(SliceRange::ALL, cut));
    assert_eq!(cell.finds(), Some((COPIED, 78)));
}

/// That a primary has written a key back comes after a later touch of it.
#[test]
fn a_copy_does_not_keep_a_value_that_is_below_and_was_touched_since() {
    let mut cell = RingCell::new();
    cell.copies_set(at(10));
    cell.copies_touch(at(21));
    let mut below = Vec::new();
    encode_written_back(ring_cell::KEY, at(20), &mut below);
    cell.copied.other_in_all(WRITTEN_BACK, &below, &mut Vec::new()).expect("there is room");
    let cut = cell.member().cut().expect("segments are ready");
    cell.sync();
    cell.tier.flush(cell.now, true).expect("nothing fails");
    assert_eq!(cell.tier.dirty(), 1, "the touch is left");
    // It holds up nothing that is older than the last touch.
    cell.copies_touch(at(22));
    cell.sync();
    assert!(cell.member().is_written_back(SliceRange::ALL, cut));
    cell.is_promoted();
    assert_eq!(cell.finds(), None, "the value is one of what lies below");
}

/// A value that was led, and its touch that was copied since: the touch comes first where courses
/// are gone through, and stays to be found.
#[test]
fn a_touch_is_found_though_its_value_lies_in_another_log() {
    let mut cell = RingCell::new();
    cell.is_promoted();
    cell.leads(led(20), ring_cell::put());
    cell.sync();
    let led_by_another = |counter| base::Version::new(3, counter);
    // It copies what it has led. The bucket has the value as it was before the touch that comes.
    cell.member().leave(SliceRange::ALL);
    cell.member().cut().expect("segments are ready");
    cell.copies_touch(led_by_another(30));
    cell.sync();
    cell.tier.flush(cell.now, true).expect("nothing fails");
    let mut below = Vec::new();
    encode_written_back(ring_cell::KEY, led(20), &mut below);
    cell.copied.other_in_all(WRITTEN_BACK, &below, &mut Vec::new()).expect("there is room");
    for _ in 0..4 {
        cell.sync();
        cell.now.mono_ns += 2_000_000_000;
        cell.tier.flush(cell.now, true).expect("nothing fails");
    }
    assert_eq!(cell.tier.dirty(), 1, "the touch is left");
    cell.is_promoted();
    for _ in 0..4 {
        cell.sync();
        cell.now.mono_ns += 2_000_000_000;
        cell.tier.flush(cell.now, true).expect("nothing fails");
    }
    assert_eq!(cell.tier.dirty(), 0, "it is found");
}
