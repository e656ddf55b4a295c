//! What a cell above a tier does not start with, and what it says then.

use super::support::{Cell, directory, refused};
use std::fs;

#[test]
fn what_cannot_be_served_is_refused_with_value_limit_and_remedy() {
    let path = directory("refusals");
    for (flags, said) in [
        (&["--tier-ack", "quorum"][..], "expected one of memory, os, disk"),
        (&["--tier-journal", "1MiB"], "choose a value from 19MiB"),
        (&["--memory-limit", "8MiB"], "a cell above a tier needs 16MiB or more"),
        (&["--evict=false"], "a cell above a tier evicts what its memory has no room for"),
        (&["--effect-log", "on"], "a cell above a tier keeps a log by itself"),
        (&["--tier-database", "s3:name"], "expected redb, files, s3://BUCKET/ROOT"),
        (&["--tier-page-bytes", "1KiB"], "choose a value from 16KiB to 4MiB"),
    ] {
        let message = refused(&path, flags);
        assert!(message.contains(said), "{flags:?}: {message}");
    }
    assert!(!path.exists(), "nothing was made");
    let message = refused(&path, &["--tier-journal", "19MiB", "--memory-limit", "1GiB"]);
    assert!(message.contains("too short for its segments"), "{message}");
    let database = format!("file:{}", directory("refusals-bucket").display());
    let paged = ["--tier-database", &database];
    let message = refused(&path, &paged);
    let remedy = "for the tier; raise it, or lower tier.page_bytes or memory.item_bytes_max";
    assert!(message.contains(remedy), "{message}");
    let message = refused(&path, &[&paged[..], &["--item-bytes-max", "8MiB"]].concat());
    assert!(message.contains("a bucket takes items of 7MiB at most"), "{message}");
}

#[test]
fn a_corrupt_journal_is_refused_and_passed_over_where_that_is_wanted() {
    const KEYS: usize = 50;
    let path = directory("corrupt");
    let flags = ["--tier-age-s", "86400", "--tier-ack", "disk"];
    let cell = Cell::start(&path, &flags);
    let mut client = cell.client();
    for number in 0..KEYS {
        assert_eq!(client.set(&format!("key-{number}"), 0, 0, "a value of 20 bytes."), "STORED");
    }
    cell.kill();
    let segment = path.join("segment-00000");
    let mut bytes = fs::read(&segment).expect("it is there");
    let find = |bytes: &[u8]| bytes.windows(20).position(|it| it == b"a value of 20 bytes.");
    let at = find(&bytes).expect("a record");
    bytes[at] ^= 1;
    fs::write(&segment, bytes).expect("it can be written");
    let said = refused(&path, &flags);
    assert!(said.contains("the journal is corrupt") && said.contains("--tier-salvage"), "{said}");
    let again = [&flags[..], &["--tier-salvage"]].concat();
    let there = |cell: &Cell| {
        let keys: Vec<_> = (0..KEYS).map(|number| format!("key-{number}")).collect();
        cell.client().get_all(&keys).into_iter().flatten().count()
    };
    let cell = Cell::start(&path, &again);
    assert_eq!(there(&cell), KEYS - 1, "one is lost");
    cell.kill();
    assert_eq!(there(&Cell::start(&path, &flags)), KEYS - 1);
}

#[test]
fn a_directory_of_another_process_or_of_another_journal_is_refused() {
    let path = directory("foreign");
    let cell = Cell::start(&path, &[]);
    assert_eq!(cell.client().set("key", 0, 0, "value"), "STORED");
    let message = refused(&path, &[]);
    assert!(message.contains(&path.display().to_string()), "{message}");
    cell.stop();
    // The database without its journal would bring back what was deleted.
    for entry in fs::read_dir(&path).expect("it is there") {
        let entry = entry.expect("it can be read");
        if entry.file_name() != "keys.redb" {
            fs::remove_file(entry.path()).expect("it can be removed");
        }
    }
    let message = refused(&path, &[]);
    assert!(message.contains("another journal"), "{message}");
}
