//! A cell that runs is checked: what is broken on its disk is named.

use super::support::{Cell, directory};

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Written back by age, nothing would be in the journal alone.
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

/// The file in `directory` that has `text`, and where.
fn find(directory: &Path, text: &str) -> (PathBuf, u64) {
    let files = fs::read_dir(directory).expect("it is there").map(|it| it.expect("a file").path());
    let found = files.filter(|path| path.is_file()).find_map(|path| {
        let bytes = fs::read(&path).expect("it can be read");
        let at = bytes.windows(text.len()).position(|it| it == text.as_bytes())?;
        Some((path, at as u64))
    });
    found.unwrap_or_else(|| panic!("no file in {} has {text}", directory.display()))
}

/// Flips a bit of a file.
fn flip((path, at): &(PathBuf, u64)) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("it is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, *at).expect("it is as long");
    file.write_all_at(&[byte[0] ^ 4], *at).expect("it can be written");
}

/// The report of a check that finds something wrong, or not, as it should.
fn check(cell: &Cell, is_wrong: bool) -> serde_json::Value {
    let (said, code) = cell.ctl(&["check", "--json"]);
    assert_eq!(code, Some(i32::from(is_wrong)), "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((&report["stage"], &report["failure"]), (&"over".into(), &"none".into()), "{said}");
    report
}

#[test]
fn a_byte_that_is_flipped_on_the_disk_is_found_and_reads_go_on() {
    let path = directory("checked");
    let database = ["--tier-database", "files"];
    let cell = Cell::start(&path, &[&database[..], &OLD].concat());
    let mut client = cell.client();
    for key in 0..300 {
        let value = format!("value-of-{key}-and-more");
        assert_eq!(client.set(&format!("key-{key}"), 0, 0, &value), "STORED");
    }
    let report = check(&cell, false);
    assert_eq!((&report["places"], &report["places_right"]), (&300.into(), &300.into()));
    assert_eq!((&report["wrong"], &report["keys_below"]), (&0.into(), &0.into()));
    let place = find(&path, "value-of-150-and-more");
    flip(&place);
    let report = check(&cell, true);
    assert_eq!((&report["wrong"], &report["places_right"]), (&2.into(), &299.into()), "{report}");
    let (said, code) = cell.ctl(&["check"]);
    assert_eq!(code, Some(1), "{said}");
    for text in ["is not whole from byte", "is not what was written", "2 things are wrong"] {
        assert!(said.contains(text), "{said} without: {text}");
    }
    flip(&place);
    let (said, code) = cell.ctl(&["check"]);
    assert!(code == Some(0) && said.ends_with("nothing is wrong\n"), "{said}");
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    let report = check(&cell, false);
    assert_eq!((&report["places"], &report["keys_below"]), (&0.into(), &300.into()));
    flip(&find(&path.join("keys/keys"), "value-of-7-and-more"));
    let (said, code) = cell.ctl(&["check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("below, key-7: its record is not what was written"), "{said}");
    assert_eq!(client.get("key-8").as_deref(), Some("value-of-8-and-more"));
}

#[test]
fn databases_show_all_their_keys_while_clients_store() {
    for (name, database) in [("redb", "redb"), ("pages", "file")] {
        let pages = directory(&format!("checked-{name}-pages"));
        let place = format!("file:{}", pages.display());
        let database = if database == "file" { &place } else { database };
        let lengths = ["--item-bytes-max", "16KiB", "--tier-page-bytes", "64KiB"];
        let flags = [&["--tier-database", database], &lengths[..], &OLD].concat();
        let cell = Cell::start(&directory(&format!("checked-{name}")), &flags);
        let mut client = cell.client();
        for key in 0..500 {
            assert_eq!(client.set(&format!("key-{key}"), 0, 0, "value"), "STORED");
        }
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        let report = std::thread::scope(|scope| {
            let checks = scope.spawn(|| check(&cell, false));
            for round in 0.. {
                if checks.is_finished() {
                    break;
                }
                assert_eq!(client.set("key-0", 0, 0, &round.to_string()), "STORED");
            }
            checks.join().expect("nothing is wrong")
        });
        assert_eq!(report["keys_below"], 500, "{name}: {report}");
    }
}

#[test]
fn a_cell_without_a_tier_is_not_checked() {
    let cell = Cell::start_plain();
    let (said, code) = cell.ctl(&["check"]);
    assert!(code == Some(1) && said.contains("has no tier"), "{said}");
    assert_eq!(cell.client().ask("stats tier check"), "CLIENT_ERROR this cell has no tier");
}
