//! A cell of a ring is a copy, is not in sync any more, and is a copy again: after a start nothing
//! counts of the part that is over, neither records nor barriers.

use crate::calls::{Calls, Moment};
use crate::ring_cell::{NUMBER, RingCell, STEPS_MAX, at, slice};
use backend::MemoryBackend;
use base::{SliceRange, Version};
use faulty::disk::{Fault, SimDisk};
use measure::rng::Rng;
use std::sync::Arc;
use tier::{COPIED_STATES, Disk, SliceState, Voiding, encode_copied};

/// A copy with a key and a flush, whose part is over.
fn after_its_part() -> RingCell {
    let mut copy = RingCell::new();
    sets(&mut copy, at(10));
    copy.copies_flush();
    sets(&mut copy, at(11));
    assert_eq!(has(&copy), (1, at(10), NUMBER));
    copy.voids();
    copy
}

fn sets(copy: &mut RingCell, version: Version) {
    copy.copies_set(version);
    copy.sync();
}

/// What the journal has: keys, the barrier of the slice, and its last flush.
fn has(copy: &RingCell) -> (u64, Version, u32) {
    let SliceState { barrier, flushed, .. } = copy.member().state(slice());
    (copy.tier.dirty(), barrier, flushed)
}

fn begin(disk: &SimDisk) -> RingCell {
    RingCell::begin(disk, Arc::new(MemoryBackend::new()))
}

const NOTHING: (u64, Version, u32) = (0, Version::ZERO, 0);

/// What is void is in the log still, and was not durable: it is not written once more as a change.
#[test]
fn what_is_void_is_not_dirty_again_once_the_journal_is_repaired() {
    let mut copy = RingCell::new();
    copy.copies_set(at(5));
    let mut voiding = Voiding::default();
    let steps = (0..STEPS_MAX).take_while(|_| !copy.member().void(SliceRange::ALL, &mut voiding));
    assert_eq!(steps.count(), STEPS_MAX, "it waits for the disk");
    assert_eq!(copy.tier.dirty(), 0);
    copy.disk.fail_times(0, Fault::Sync, 2);
    copy.sync();
    assert_eq!((copy.tier.report().repairs, copy.tier.dirty()), (1, 0));
    let copy = copy.begin_again();
    assert_eq!(copy.tier.dirty(), 0);
}

/// It is voided while the journal writes it once more.
#[test]
fn what_becomes_void_while_the_journal_is_repaired_is_not_dirty_again() {
    let disk = SimDisk::new(1);
    let on = Calls::on(&disk);
    let mut copy = RingCell::begin_on((&disk, on.clone()), Arc::new(MemoryBackend::new()));
    copy.copies_set(at(5));
    copy.copies_set(at(6));
    let mut voiding = Voiding::default();
    while voiding.waits() || matches!(format!("{voiding:?}").as_str(), "Voiding(Begins)") {
        assert!(!copy.member().void(SliceRange::ALL, &mut voiding));
    }
    assert_eq!(copy.tier.dirty(), 1);
    let tier = copy.tier.clone();
    on.call(Moment::Writes, move || {
        let member = tier.member().expect("it is in a ring");
        while !voiding.waits() {
            assert!(!member.void(SliceRange::ALL, &mut voiding));
        }
        assert_eq!(tier.dirty(), 0);
    });
    copy.disk.fail_times(0, Fault::Sync, 2);
    copy.sync();
    assert_eq!((copy.tier.report().repairs, copy.tier.dirty()), (1, 0));
}

#[test]
fn of_a_part_that_is_over_nothing_counts_after_a_start() {
    let copy = after_its_part();
    assert_eq!(has(&copy), NOTHING);
    let mut copy = copy.begin_again();
    assert_eq!(has(&copy), NOTHING);
    sets(&mut copy, at(20));
    assert_eq!(has(&copy.begin_again()), (1, Version::ZERO, 0), "a part of this life");
    let mut copy = after_its_part();
    sets(&mut copy, at(20));
    assert_eq!(has(&copy.begin_again().begin_again()), (1, Version::ZERO, 0));
}

/// What its primary says may be older than what the part before had.
#[test]
fn barriers_of_the_part_that_follows_count() {
    let mut copy = after_its_part();
    let mut states = Vec::new();
    encode_copied(slice(), at(5), 3, &mut states);
    copy.copied.other_in_all(COPIED_STATES, &states, &mut Vec::new()).expect("there is room");
    copy.sync();
    assert_eq!(has(&copy), (0, at(5), 3));
    assert_eq!(has(&copy.begin_again()), (0, at(5), 3));
    let mut copy = after_its_part();
    sets(&mut copy, at(20));
    copy.copies_flush();
    assert_eq!(has(&copy.begin_again()), (1, at(20), NUMBER));
}

/// What is voided halfway is voided again: until then all of it counts, or only what is void does
/// not.
#[test]
fn a_crash_while_a_part_is_voided_leaves_no_record_without_its_barrier() {
    let mut copy = RingCell::new();
    sets(&mut copy, at(10));
    copy.copies_flush();
    sets(&mut copy, at(11));
    let whole = has(&copy);
    copy.disk.record();
    copy.voids();
    let states = copy.disk.recorded();
    let mut seen = [0; 2];
    for (number, state) in states.iter().enumerate() {
        for cut in [false, true] {
            let disk = state.copy();
            if cut {
                disk.cut_power(&mut Rng::new(number as u64, 5));
            }
            let mut copy = begin(&disk);
            assert!([whole, NOTHING].contains(&has(&copy)), "{number} {cut}: {:?}", has(&copy));
            seen[usize::from(has(&copy) == NOTHING)] += 1;
            copy.voids();
            assert_eq!(has(&copy.begin_again()), NOTHING, "{number} {cut}");
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// The cell stops to wait for segments, and begins to void the same slices again.
#[test]
fn voiding_that_begins_again_voids_the_barriers_that_are_forgotten() {
    let mut copy = RingCell::new();
    copy.copies_flush();
    // Each cut takes segments, until none is ready.
    while copy.member().cut().is_some() {}
    let mut voiding = Voiding::default();
    for _ in 0..STEPS_MAX {
        assert!(!copy.member().void(SliceRange::ALL, &mut voiding), "it waits for segments");
    }
    assert_eq!(has(&copy), NOTHING);
    copy.voids();
    assert_eq!(has(&copy.begin_again()), NOTHING);
}

/// A start of a cell that has no flush uses no segments for this.
#[test]
fn where_there_was_no_barrier_the_journal_is_not_cut() {
    let mut copy = RingCell::new();
    sets(&mut copy, at(10));
    let before = copy.tier.report().journal_bytes;
    copy.voids();
    assert_eq!(copy.tier.report().journal_bytes, before);
}

/// Rewrites the file `floors`.
fn rewrite(disk: &SimDisk, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = disk.bytes_of("floors");
    change(&mut bytes);
    let file = disk.open("floors").expect("it is there");
    file.set_bytes(0).expect("a disk");
    file.write_at(0, &bytes).expect("a disk");
}

#[test]
fn floors_that_are_not_what_was_written_are_refused() {
    let copy = after_its_part();
    copy.disk.kill();
    let whole = copy.disk.bytes_of("floors").len();
    for byte in [7, 8, whole / 2, whole - 10, whole - 1, whole] {
        let disk = copy.disk.copy();
        rewrite(&disk, |bytes| match bytes.get_mut(byte) {
            Some(byte) => *byte ^= 1 << 6,
            None => bytes.truncate(byte / 2),
        });
        let on: Arc<dyn Disk> = Arc::new(disk);
        let below = Arc::new(MemoryBackend::new());
        let found = RingCell::find(&on, &below, 1 << 20);
        let error = found.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("floors is not what was written"), "{byte}: {error}");
    }
}

#[test]
fn a_new_journal_has_none_of_the_segments_of_the_one_before() {
    let copy = after_its_part();
    copy.disk.kill();
    let names = copy.disk.list().expect("a disk");
    for name in names.iter().filter(|name| *name != "floors") {
        copy.disk.remove(name).expect("it is there");
    }
    let mut copy = begin(&copy.disk);
    sets(&mut copy, at(20));
    copy.copies_flush();
    assert_eq!(has(&copy.begin_again()), (1, at(20), NUMBER));
}
