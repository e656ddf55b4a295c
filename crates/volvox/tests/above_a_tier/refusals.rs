//! What a cell above a tier does not start with, and what it says then.

use super::support::{Cell, directory, refused};
use std::fs;

#[test]
fn what_cannot_be_served_is_refused_with_value_limit_and_remedy() {
    let path = directory("refusals");
    for (flags, said) in [
        (&["--tier-ack", "quorum"][..], "expected one of memory, os, disk"),
        (&["--tier-journal", "1MiB"], "choose a value from 16MiB"),
        (&["--memory-limit", "8MiB"], "a cell above a tier needs 16MiB or more"),
        (&["--effect-log", "on"], "a cell above a tier keeps a log by itself"),
    ] {
        let message = refused(&path, flags);
        assert!(message.contains(said), "{flags:?}: {message}");
    }
    assert!(!path.exists(), "nothing was made");
    let message = refused(&path, &["--tier-journal", "16MiB", "--memory-limit", "1GiB"]);
    assert!(message.contains("too short for its segments"), "{message}");
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
