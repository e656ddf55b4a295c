//! The cells of a ring share one bucket, and have the same levels: one that differs is refused when
//! it joins, and when it starts again.

use std::time::Instant;
use std::{fs, thread};

use crate::cells::Cells;
use crate::support::{Client, DEADLINE};

/// Cells of a ring above a bucket.
fn plan(name: &str, cells: usize) -> Cells {
    let flags = [
        "--tier-ring-preview",
        "--memory-limit=32MiB",
        "--item-bytes-max=16KiB",
        "--tier-page-bytes=64KiB",
    ];
    let mut ring = Cells::plan(name, cells, &flags);
    for cell in 0..cells {
        let path = |name: String| ring.directory().join(name).display().to_string();
        let (own, bucket) = (path(format!("{}-tier", cell + 1)), path("bucket".to_owned()));
        ring.set(cell, "--tier-dir", Some(&own));
        ring.set(cell, "--tier-journal", Some("64MiB"));
        ring.set(cell, "--tier-database", Some(&format!("file:{bucket}")));
        ring.set(cell, "--tier-ack", Some("os"));
    }
    ring
}

/// The path of another bucket, or of the same one in another spelling.
fn other(ring: &Cells, name: &str) -> String {
    format!("file:{}", ring.directory().join(name).display())
}

/// A cell ends at its start, and has logged these texts since its start before.
fn is_refused(ring: &mut Cells, cell: usize, texts: &[&str]) {
    let before = ring.log(cell).len();
    ring.start(cell);
    let (code, log) = ring.ends(cell);
    let log = &log[before..];
    assert!(code == Some(1) && texts.iter().all(|text| log.contains(text)), "{code:?}: {log}");
}

#[test]
fn a_cell_above_another_bucket_or_none_is_refused_when_it_joins_and_when_it_starts_again() {
    let mut ring = plan("one-bucket", 3);
    // The ring forms with the two that fit, however they spell the place.
    (0..3).for_each(|cell| ring.set(cell, "--ring-cells", Some("2")));
    let same = other(&ring, "other/../bucket");
    fs::create_dir_all(ring.directory().join("other")).expect("a directory");
    ring.set(1, "--tier-database", Some(&same));
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    let another = other(&ring, "other");
    ring.set(2, "--tier-database", Some(&another));
    let differs = ["tier.database of this cell is the bucket ", "that of cell 1 of the ring is "];
    is_refused(&mut ring, 2, &differs);
    ring.start(1);
    ring.until(0, &["ranges 2", "ranges_short_of_copies 0"]);
    is_refused(&mut ring, 2, &differs);
    let of_tier = ["dir", "journal", "database", "ack", "page-bytes", "ring-preview"];
    for flag in of_tier.map(|name| format!("--tier-{name}")) {
        ring.set(2, &flag, None);
    }
    is_refused(
        &mut ring,
        2,
        &["tier.database of this cell is none, and that of cell 1 of the ring is the bucket "],
    );

    let mut client = Client::connect(ring.clients(0));
    assert_eq!(client.ask("set key 0 0 1\r\nv\r\n"), "STORED");
    ring.kill(1);
    ring.set(1, "--tier-database", Some(&another));
    is_refused(&mut ring, 1, &["all cells of a ring share one bucket"]);
    let notes = fs::read_dir(ring.directory().join("other/objects/note+")).expect("it has one");
    let notes: Vec<_> = notes.map(|it| it.expect("a name").file_name()).collect();
    assert_eq!(notes, ["identity+"], "it is not made that of the ring");
    ring.set(1, "--tier-database", Some(&same));
    ring.start(1);
    ring.until(0, &["ranges_short_of_copies 0"]);
    ring.until(1, &["ranges_short_of_copies 0"]);
    assert_eq!(Client::connect(ring.clients(1)).get("key").as_deref(), Some("v"));
}

#[test]
fn the_levels_of_all_cells_are_changed_by_starting_one_after_the_other() {
    let mut ring = plan("levels", 2);
    (0..2).for_each(|cell| ring.set(cell, "--tier-prefixes", Some("session:=memory,page:=none")));
    ring.set(1, "--tier-ack", Some("disk"));
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    let differs = "tier.ack of this cell is disk, and that of cell 1 of the ring is os: ";
    is_refused(&mut ring, 1, &[differs, "tier.change_levels"]);
    ring.set(1, "--tier-ack", Some("os"));
    ring.start(1);
    ring.until(0, &["ranges 2", "ranges_short_of_copies 0"]);
    let wait = "in a ring all answers wait like those that are safe from the end of the process";
    assert!(ring.log(0).contains(wait), "{}", ring.log(0));
    for key in ["key", "session:key", "page:key"] {
        let mut client = Client::connect(ring.clients(0));
        assert_eq!(client.ask(&format!("set {key} 0 0 1\r\nv\r\n")), "STORED");
    }
    for (cell, start) in [(1, 4), (0, 3)] {
        ring.kill(cell);
        ring.set(cell, "--tier-ack", Some("disk"));
        is_refused(&mut ring, cell, &["start each again with tier.change_levels"]);
        ring.set(cell, "--tier-change-levels", Some("true"));
        ring.start(cell);
        // Until then the map may be that of before it was killed.
        let has_started = format!("cell {} has started again: start {start}", cell + 1);
        ring.until_log(1 - cell, &has_started);
        ring.until(1 - cell, &["ranges_short_of_copies 0"]);
        ring.until(cell, &["ranges_short_of_copies 0"]);
    }
    ring.kill(1);
    ring.set(1, "--tier-ack", Some("os"));
    ring.set(1, "--tier-change-levels", None);
    is_refused(&mut ring, 1, &["tier.ack of this cell is os", "is disk"]);
    ring.set(1, "--tier-ack", Some("disk"));
    ring.set(1, "--tier-prefixes", Some("page:=none"));
    is_refused(&mut ring, 1, &["tier.prefixes of this cell is a list with the checksum "]);
    ring.set(1, "--tier-prefixes", Some("page:=none,session:=memory"));
    ring.start(1);
    ring.until(1, &["ranges_short_of_copies 0"]);
    let mut client = Client::connect(ring.clients(1));
    for key in ["key", "session:key"] {
        assert_eq!(client.get(key).as_deref(), Some("v"), "{key}");
    }
}

#[test]
fn a_ring_whose_ranges_cut_runs_of_slices_gets_no_bucket() {
    let mut ring = plan("runs", 2);
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    ring.start(1);
    ring.until(0, &["ranges 2", "ranges_short_of_copies 0"]);
    // What the cell knows of the map, as if an earlier build had formed the ring.
    let (path, start) = (ring.directory().join("1/known-map.json"), Instant::now());
    let bounds = [r#""end":8192"#, r#""start":8192"#];
    let known = loop {
        let known = fs::read_to_string(&path).unwrap_or_default();
        if bounds.iter().all(|bound| known.contains(bound)) {
            break known;
        }
        assert!(start.elapsed() < DEADLINE, "{known}");
        thread::yield_now();
    };
    ring.kill(0);
    fs::write(
        &path,
        known.replace(bounds[0], r#""end":8000"#).replace(bounds[1], r#""start":8000"#),
    )
    .expect("it is written");
    is_refused(&mut ring, 0, &["begins at slice 8000: ", "multiples of 256", "64 cells or fewer"]);
}
