//! A check of all that lies below memory: it finds what is broken, and nothing else.

use crate::cell::{Cell, NOW};
use crate::life::Config;
use crate::number;

use base::{Now, SliceRange};
use measure::rng::Rng;
use std::time::Duration;
use tier::{Backend, Change, Checked, Disk, Stage};

/// Checks all. `meanwhile` is called each time that the check rests.
fn check(cell: &mut Cell, mut meanwhile: impl FnMut(&mut Cell)) -> Checked {
    let tier = cell.life.tier.clone();
    assert!(tier.want_check(), "no check is under way");
    let (before, _) = tier.checked();
    tier.check(|pause| {
        assert!(pause > Duration::ZERO && !tier.want_check(), "one at a time");
        meanwhile(cell);
        true
    });
    let (count, checked) = tier.checked();
    assert_eq!((count, checked.stage), (before + 1, Stage::Over));
    checked
}

/// Checks all while nothing happens.
fn check_alone(cell: &mut Cell) -> Checked {
    check(cell, |_| {})
}

/// A cell with one lane and a segment that is longer than a piece.
fn with_a_long_segment() -> Cell {
    let mut cell = Cell::new(Config::shortest(1), 90);
    set_all(&mut cell, 70, 19_000);
    cell
}

/// Sets the first keys to values of this length, durably.
fn set_all(cell: &mut Cell, keys: usize, bytes: usize) {
    for at in 0..keys {
        cell.set(at, bytes).expect("there is room");
        // The log is short.
        if at % 2 == 1 {
            cell.sync();
        }
    }
    cell.sync();
}

#[test]
fn what_is_whole_is_right_whatever_has_happened() {
    for seed in 0..number("CRASH_SEEDS").unwrap_or(12) {
        let mut rng = Rng::new(seed, 0);
        let mut cell = Cell::new(Config::shortest(2), 40);
        let mut now = NOW;
        for _ in 0..200 {
            let at = rng.below(40) as usize;
            let Cell { life, given, keys, .. } = &mut cell;
            match rng.below(20) {
                0..=9 => _ = cell.set(at, rng.below(15_000) as usize),
                10 | 11 => _ = life.delete(given, &mut keys[at]),
                12 | 13 => {
                    if let Ok(Some(item)) = life.load(&keys[at], now) {
                        let with_item = rng.below(2) == 0;
                        _ = life.touch(given, &mut keys[at], &item, (now.expiry_s + 9, with_item));
                    }
                }
                14 => _ = life.flush_all(keys, SliceRange::ALL),
                15 => life.tier.sync(now),
                16 => _ = life.tier.flush(now, true),
                17 => now = Now { mono_ns: now.mono_ns + 1_000_000_000, ..now },
                18 => {
                    cell.sync();
                    cell.begin_again();
                }
                _ => {
                    let checked = check_alone(&mut cell);
                    assert_eq!((checked.wrong, checked.failure), (0, None), "seed {seed}");
                    assert_eq!(checked.findings, [""; 0], "seed {seed}");
                    let Checked { places, places_right, freed, changed, .. } = checked;
                    assert_eq!((places_right, freed, changed), (places, 0, 0), "seed {seed}");
                    let records = cell.backend.memory.records().len() as u64;
                    assert_eq!(checked.keys_below, Some(records), "seed {seed}");
                }
            }
            cell.life.sink.end_batch();
            cell.life.tier.write();
        }
    }
}

#[test]
fn all_is_read_and_each_byte_that_is_not_what_was_written_is_found() {
    let mut cell = with_a_long_segment();
    let whole = check_alone(&mut cell);
    assert_eq!((whole.wrong, whole.places, whole.places_right), (0, 70, 70));
    assert!(whole.journal_bytes > 70 * 19_000 && whole.batches > 70, "{whole:?}");
    assert_eq!(whole.journal_bytes_read, whole.journal_bytes);
    // The segment that was used first.
    let holds_value = |name: &String| {
        let bytes = cell.disk.bytes_of(name);
        bytes.windows(4).any(|it| it == b"1:vv")
    };
    let names = cell.disk.list().expect("nothing fails");
    let name = names.iter().find(|name| holds_value(name)).expect("it has the first value");
    let name = name.clone();
    let end = cell.disk.bytes_of(&name).iter().rposition(|byte| *byte != 0).expect("some") as u64;
    assert!(end > 1 << 20, "it is longer than a piece");
    let mut rng = Rng::new(1, 0);
    let around = (1 << 20)..(1 << 20) + 1024;
    let mut at: Vec<u64> = around.step_by(31).chain([0, 511, 512, 516, 560, end]).collect();
    at.extend((0..60).map(|_| rng.below(end)));
    for at in at {
        cell.disk.flip(&name, at * 8 + 3);
        let checked = check_alone(&mut cell);
        assert!(checked.wrong > 0, "byte {at} of {end}");
        assert!(checked.places_right >= 69, "one record at most is lost: {:?}", checked.findings);
        let found = &checked.findings;
        let names_it = |text: &str| found.iter().any(|what| what.contains(text));
        assert!(if at < 512 { names_it("head") } else { names_it("not whole") }, "{found:?}");
        assert_eq!(checked.places_right == 69, names_it("the newest of a key"), "{found:?}");
        // The rest was read all the same.
        assert!(checked.batches + 1 >= whole.batches, "{found:?}");
        cell.disk.flip(&name, at * 8 + 3);
    }
    assert_eq!(check_alone(&mut cell), whole, "nothing was changed");
}

#[test]
fn a_record_of_another_key_is_found() {
    let mut cell = Cell::new(Config::shortest(1), 10);
    set_all(&mut cell, 10, 100);
    let names = cell.disk.list().expect("nothing fails");
    // Where the record is that is the whole batch with this value.
    let record = |bytes: &[u8], value: &[u8]| {
        let at = bytes.windows(value.len()).position(|it| it == value)?;
        let batch = bytes[..at].windows(4).rposition(|it| it == b"VXB1")?;
        let length = bytes[batch + 12..].first_chunk().map(|it| u32::from_le_bytes(*it))?;
        Some(batch + 64..batch + 64 + length as usize)
    };
    let records = names.iter().find_map(|name| {
        let bytes = cell.disk.bytes_of(name);
        Some((name, record(&bytes, b"3:vvv")?, record(&bytes, b"4:vvv")?, bytes))
    });
    let (name, from, to, bytes) = records.expect("both are in one segment");
    assert_eq!(from.len(), to.len());
    // Its own CRC holds in the whole segment.
    let file = cell.disk.open(name).expect("it is there");
    file.write_at(to.start as u64, &bytes[from]).expect("nothing fails");
    file.sync().expect("nothing fails");
    let checked = check_alone(&mut cell);
    assert_eq!((checked.wrong, checked.places_right), (2, 9), "{:?}", checked.findings);
    assert!(checked.findings[1].ends_with("is not that of its key"), "{:?}", checked.findings);
}

#[test]
fn what_is_changed_written_back_or_freed_meanwhile_is_not_wrong() {
    let mut cell = with_a_long_segment();
    let mut rests = 0;
    let checked = check(&mut cell, |cell| {
        rests += 1;
        cell.life.drain(NOW).expect("nothing fails");
        // Two rounds over the journal: the files of all segments are used again.
        for round in 0..30 {
            set_all(cell, 70, 18_000 + round);
            cell.life.drain(NOW).expect("nothing fails");
        }
        set_all(cell, 70, 18_000);
    });
    assert!(rests > 1 && checked.freed > 0, "{rests} {checked:?}");
    assert_eq!((checked.wrong, &checked.findings[..]), (0, &[][..]));
    // Each place counts for a few kilobytes: it rests among them.
    let mut cell = Cell::new(Config::shortest(1), 900);
    set_all(&mut cell, 900, 10);
    let mut rests = 0;
    let checked = check(&mut cell, |cell| {
        if cell.life.tier.checked().1.stage != Stage::Index {
            return;
        }
        rests += 1;
        cell.life.drain(NOW).expect("nothing fails");
        for round in 0..20 {
            set_all(cell, 70, 19_000 + round);
            cell.life.drain(NOW).expect("nothing fails");
        }
    });
    assert!(rests > 0 && checked.changed > 0, "{rests} {checked:?}");
    assert_eq!((checked.wrong, &checked.findings[..]), (0, &[][..]));
}

#[test]
fn what_lies_below_is_checked_by_its_key() {
    let mut cell = Cell::new(Config::shortest(1), 20);
    set_all(&mut cell, 20, 100);
    cell.life.drain(NOW).expect("nothing fails");
    let whole = check_alone(&mut cell);
    assert_eq!((whole.wrong, whole.places, whole.keys_below), (0, 0, Some(20)));
    let records = cell.backend.memory.records();
    let put = |cell: &Cell, key: &[u8], record: &[u8]| {
        cell.backend.memory.apply(&[Change::Put { key, record }]).expect("nothing fails");
    };
    let mut flipped = records[&b"key-3"[..]].clone();
    *flipped.last_mut().expect("some") ^= 1;
    put(&cell, b"key-3", &flipped);
    put(&cell, b"key-4", &records[&b"key-5"[..]]);
    let checked = check_alone(&mut cell);
    let found =
        ["key-3", "key-4"].map(|key| format!("below, {key}: its record is not what was written"));
    assert_eq!((checked.wrong, checked.keys_below, checked.findings), (2, Some(20), found.into()));
}

#[test]
fn a_check_of_a_cell_that_ends_says_that_it_has_not_read_all() {
    let cell = with_a_long_segment();
    let tier = &cell.life.tier;
    tier.check(|_| panic!("nobody wants one"));
    assert_eq!(tier.checked().0, 0);
    assert!(tier.want_check());
    tier.check(|_| false);
    let (count, checked) = tier.checked();
    assert_eq!((count, checked.wrong, checked.keys_below), (1, 0, None));
    assert_eq!(checked.failure.as_deref(), Some("the cell is ending"));
}
