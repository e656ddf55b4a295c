//! A cell of a ring has copied a key, is promoted, and changes it. No batch says that what it has
//! copied is durable: a start writes that once more, after what was led since. The next one must
//! not take it for the later change.

use crate::calls::{Calls, Moment};
use crate::ring_cell::{COPIED, KEY, LED, RingCell, at, led};
use backend::MemoryBackend;
use base::{Change, Facts, Removal, Value};
use faulty::disk::{Fault, SimDisk};
use std::sync::{Arc, Mutex};
use tier::{WRITTEN_BACK, encode_written_back};

/// A cell with a key that it has copied and leads. Its segment stays: another key there is copied.
fn promoted() -> RingCell {
    let mut cell = RingCell::new();
    cell.copies_another(at(9));
    cell.copies_set(at(10));
    cell.sync();
    cell.is_promoted();
    cell
}

fn put() -> Change<'static> {
    Change::Put(Value::Parts([LED.as_bytes(), b""]), Facts { expiry_s: 99, ..Facts::default() })
}

/// What it finds: a value, and the expiry.
type Found = Option<(&'static str, u32)>;

/// One that goes to another thread.
type MakeChange = fn() -> Change<'static>;

/// Changes of the primary, and what it finds then.
fn changes() -> [(MakeChange, Found); 3] {
    let removal: MakeChange = || Change::Remove(Removal::Deleted);
    [(put, Some((LED, 99))), (removal, None), (|| Change::Touch(77, None), Some((COPIED, 77)))]
}

/// What it finds after some starts, and how many are dirty.
fn after_starts(cell: RingCell) -> [(Found, u64); 4] {
    let mut cell = Some(cell);
    [(); 4].map(|()| {
        let again = cell.take().map(RingCell::begin_again).expect("there is one");
        let found = (again.finds(), again.tier.dirty());
        cell = Some(again);
        found
    })
}

#[test]
fn what_was_led_and_is_below_is_not_changed_back() {
    for (change, found) in [(put(), Some((LED, 99))), (Change::Remove(Removal::Deleted), None)] {
        let mut cell = promoted();
        cell.leads(led(20), change);
        cell.sync();
        cell.writes_back();
        assert_eq!((cell.finds(), cell.tier.dirty()), (found, 1));
        cell.leads_another(led(21), put());
        cell.sync();
        assert_eq!(after_starts(cell), [(found, 1); 4]);
    }
}

/// What a start writes once more stands in later segments than what was led and is durable: those
/// are free first.
#[test]
fn what_was_led_and_is_below_is_not_changed_back_once_its_segment_is_free() {
    for (change, found) in changes() {
        let mut cell = RingCell::new();
        cell.copies_set(at(10));
        cell.copies_another(at(9));
        cell.sync();
        cell.is_promoted();
        cell.leads(led(20), change());
        cell.sync();
        cell.leads_a_third(led(21), put());
        cell.sync();
        let mut cell = cell.begin_again();
        cell.is_promoted();
        frees_some(&mut cell);
        assert_eq!(cell.finds(), found);
        assert_eq!(after_starts(cell).map(|(found, _)| found), [found; 4]);
    }
}

#[test]
fn a_touch_is_one_of_what_was_copied() {
    let mut cell = promoted();
    cell.leads(led(20), Change::Touch(77, None));
    cell.sync();
    assert_eq!((cell.finds(), cell.tier.dirty()), (Some((COPIED, 77)), 2));
    cell.leads_another(led(21), put());
    cell.sync();
    assert_eq!(after_starts(cell), [(Some((COPIED, 77)), 2); 4]);
}

/// The touch lies in the log of what is led, which is written back; what it touched in that of what
/// was copied, which is not.
#[test]
fn a_touch_that_was_passed_over_takes_nothing_out_of_the_index() {
    let mut cell = promoted();
    cell.leads(led(20), Change::Touch(77, None));
    cell.sync();
    cell.tier.flush(cell.now, true).expect("nothing fails");
    cell.leads_another(led(21), put());
    cell.sync();
    assert_eq!(after_starts(cell), [(Some((COPIED, 77)), 2); 4]);
}

/// The key is written back, and segments from before what was written once more are free. That
/// stays: another key there was copied.
fn frees_some(cell: &mut RingCell) {
    let before = cell.tier.report().journal_bytes;
    cell.writes_back();
    for _ in 0..2 {
        cell.sync();
        cell.tier.flush(cell.now, true).expect("nothing fails");
    }
    assert!(cell.tier.report().journal_bytes < before, "some are free");
    // It says so.
    cell.copies_another(at(30));
    cell.sync();
}

/// The disk refuses to sync what was copied, when what was led since is durable.
fn repaired(change: MakeChange) -> RingCell {
    let disk = SimDisk::new(1);
    let on = Calls::on(&disk);
    let mut cell = RingCell::begin_on((&disk, on.clone()), Arc::new(MemoryBackend::new()));
    cell.copies_another(at(9));
    let (tier, now) = (cell.tier.clone(), cell.now);
    let cell = Arc::new(Mutex::new(cell));
    let changes = {
        let cell = cell.clone();
        move || {
            let mut cell = cell.lock().expect("no thread has failed");
            cell.copies_set(at(10));
            cell.copies_another(at(11));
            cell.is_promoted();
            cell.leads(led(20), change());
        }
    };
    on.call(Moment::Synced, changes);
    tier.sync(now);
    drop(tier);
    let cell = Arc::into_inner(cell).expect("it was called").into_inner();
    let mut cell = cell.expect("no thread has failed");
    cell.leads_a_third(led(21), put());
    disk.fail_times(0, Fault::Sync, 2);
    cell.sync();
    assert_eq!(cell.tier.report().repairs, 1);
    cell
}

#[test]
fn what_is_repaired_stands_before_what_was_led_since() {
    for (change, found) in changes() {
        let cell = repaired(change);
        assert_eq!(cell.finds(), found);
        assert_eq!(after_starts(cell), [(found, 3); 4]);
    }
}

#[test]
fn what_was_led_and_is_below_is_not_changed_back_by_what_is_repaired() {
    for (change, found) in changes() {
        let mut cell = repaired(change);
        frees_some(&mut cell);
        assert_eq!(cell.finds(), found);
        assert_eq!(after_starts(cell).map(|(found, _)| found), [found; 4]);
    }
}

/// What was copied is below, and a later touch of it lies in the other log.
#[test]
fn what_is_below_and_was_touched_brings_nothing_older_back() {
    let mut cell = RingCell::new();
    cell.copies_set(at(5));
    cell.sync();
    cell.copies_set(at(10));
    let mut below = Vec::new();
    encode_written_back(KEY, at(10), &mut below);
    cell.copied.other_in_all(WRITTEN_BACK, &below, &mut Vec::new()).expect("there is room");
    cell.write();
    assert_eq!(cell.tier.dirty(), 0);
    cell.is_promoted();
    cell.leads(led(20), Change::Touch(77, None));
    cell.disk.fail_times(0, Fault::Sync, 2);
    cell.sync();
    assert_eq!((cell.tier.report().repairs, cell.finds()), (1, None));
    assert_eq!(after_starts(cell), [(None, 1); 4]);
}
