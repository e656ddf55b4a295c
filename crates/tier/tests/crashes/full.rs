//! A disk that is full before its journal is: nothing is answered that is not kept, and changes go
//! on once something was written back, or the disk has space.

use crate::cell::{Cell, NOW};
use crate::life::Config;

use base::{Facts, Refused, SliceRange};
use tier::Disk;

/// Values of a length between these.
const VALUE_BYTES: [usize; 2] = [3_000, 20_000];

/// A cell with logs that are longer than many segments.
fn cell(lanes: usize) -> Cell {
    let shortest = Config::shortest(lanes);
    let journal_bytes = 6 * shortest.journal_bytes;
    Cell::new(Config { log_bytes: 32 << 20, journal_bytes, entries: 3_000_000, ..shortest }, 60)
}

/// Bytes of a segment, or a little more.
fn segment(cell: &Cell) -> usize {
    (cell.config.journal_bytes / 16) as usize / cell.config.lanes
}

/// Bytes of all files.
fn bytes(cell: &Cell) -> usize {
    let names = cell.disk.list().expect("it is a list");
    names.iter().map(|name| cell.disk.bytes_of(name).len()).sum()
}

/// Stores values without having them written, until one is refused. How many were stored.
fn fill(cell: &mut Cell, from: usize) -> usize {
    for set in from.. {
        let mut value = format!("{set}:").into_bytes();
        value.resize(VALUE_BYTES[set % 2], b'v');
        let key = &mut cell.keys[set % 60];
        match cell.life.set(&mut cell.given, key, (value, Facts::default())) {
            Ok(()) => assert!(set < from + 100_000, "nothing is refused"),
            Err(refused) => {
                assert_eq!(refused, Refused::Full);
                return set - from;
            }
        }
    }
    unreachable!("something is refused")
}

/// Whether all that the logs have is durable after a few syncs.
fn is_durable(cell: &Cell) -> bool {
    (0..4).for_each(|_| cell.sync());
    !cell.life.tier.is_behind()
}

#[test]
fn more_changes_at_once_than_the_disk_has_room_for_do_not_fill_the_journal_for_good() {
    for lanes in 1..=3 {
        for more in 0..2 {
            let mut cell = cell(lanes);
            (0..2).for_each(|_| cell.sync());
            // Space for a few more segments, and a part of one.
            cell.disk.limit(Some(bytes(&cell) + more * segment(&cell) + segment(&cell) / 2));
            let mut stored = 0;
            for round in 0..4 {
                let set = fill(&mut cell, stored);
                stored += set;
                // A record may take four times what its entry is charged.
                let made = bytes(&cell);
                let charged = set * (VALUE_BYTES[0] + VALUE_BYTES[1]) / 2;
                assert!(charged <= made / 4 + 2 * VALUE_BYTES[1], "{charged} of {made} bytes");
                cell.life.sink.end_batch();
                assert!(is_durable(&cell), "lanes {lanes}, round {round}: {stored} stored");
                cell.check();
                cell.life.drain(NOW).unwrap_or_else(|what| panic!("{lanes}, {round}: {what}"));
                assert!(is_durable(&cell));
                assert!(set > 0, "lanes {lanes}, round {round}: {set} stored");
            }
            let report = cell.life.tier.report();
            assert!(report.failure.is_none() && report.repairs == 0, "{report:?}");
            cell.begin_again();
            cell.check();
        }
    }
}

#[test]
fn changes_go_on_by_themselves_once_the_disk_has_space() {
    let mut cell = cell(2);
    (0..2).for_each(|_| cell.sync());
    cell.disk.limit(Some(bytes(&cell)));
    let mut stored = 0;
    loop {
        let set = fill(&mut cell, stored);
        stored += set;
        cell.life.sink.end_batch();
        assert!(is_durable(&cell));
        if set == 0 {
            break;
        }
    }
    assert!(cell.life.tier.report().unprepared.is_some());
    // It is granted no room, and the open segments have too little.
    cell.life.flush_all(&mut cell.keys, SliceRange::ALL).expect("it needs none");
    cell.life.sink.end_batch();
    assert!(is_durable(&cell));
    // Reads go on.
    cell.check();
    cell.disk.limit(None);
    let mut now = NOW;
    now.mono_ns += 2_000_000_000;
    cell.life.tier.sync(now);
    assert!(fill(&mut cell, stored) > 0);
    cell.life.sink.end_batch();
    assert!(is_durable(&cell) && cell.life.tier.report().unprepared.is_none());
    cell.begin_again();
    cell.check();
}

#[test]
fn a_file_that_is_cut_short_is_no_segment_before_the_disk_has_space_for_its_rest() {
    let mut cell = cell(1);
    (0..2).for_each(|_| cell.sync());
    cell.end();
    // As where a process has ended while it made one.
    let file = cell.disk.open("segment-00900").expect("it is made");
    file.write_at(0, &[0; 50_000]).expect("there is space");
    file.sync().expect("it is durable");
    cell.disk.sync_directory().expect("its name, too");
    cell.disk.limit(Some(bytes(&cell)));
    cell.begin_again();
    let mut stored = 0;
    for round in 0..12 {
        stored += fill(&mut cell, stored);
        cell.life.sink.end_batch();
        assert!(is_durable(&cell), "round {round}");
        cell.life.drain(NOW).unwrap_or_else(|what| panic!("round {round}: {what}"));
        assert!(is_durable(&cell));
    }
    assert!(stored > 60, "{stored}");
    cell.check();
}
