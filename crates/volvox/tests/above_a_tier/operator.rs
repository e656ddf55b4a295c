//! What an operator asks of a tier that runs.

use super::support::{Cell, directory};

use std::fs;
use std::time::{Duration, Instant};

/// Written back by age, nothing would be in the database before the test has ended.
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

/// A number of `ctl tier status --json`.
fn number(cell: &Cell, name: &str) -> u64 {
    let (said, code) = cell.ctl(&["status", "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let report: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    report[name].as_u64().unwrap_or_else(|| panic!("{said} has no number {name}"))
}

#[test]
fn what_is_dirty_is_shown_and_written_back_when_that_is_asked() {
    let directory = directory("operator-drain");
    let cell = Cell::start(&directory, &OLD);
    let mut client = cell.client();
    for key in 0..300 {
        assert_eq!(client.set(&format!("key-{key}"), 0, 0, "value"), "STORED");
    }
    assert_eq!(client.ask("delete key-0"), "DELETED");
    assert_eq!((number(&cell, "dirty_keys"), number(&cell, "flushed_keys")), (300, 0));
    let (said, code) = cell.ctl(&["status"]);
    assert!(code == Some(0) && said.contains("keys.redb") && said.contains("300"), "{said}");
    let (said, code) = cell.ctl(&["drain"]);
    assert!(code == Some(0) && said.starts_with("nothing is dirty: 300 keys"), "{said}");
    assert_eq!((number(&cell, "dirty_keys"), number(&cell, "flushed_keys")), (0, 300));
    let (said, code) = cell.ctl(&["flush"]);
    assert!(code == Some(0) && said.starts_with("0 keys are being written back"), "{said}");
    // One request is enough, whatever is durable when it comes.
    for round in 0..3 {
        assert_eq!(client.set(&format!("key-{round}"), 0, 0, "value"), "STORED");
        assert_eq!(client.ask("stats tier flush"), "OK");
        let deadline = Instant::now() + Duration::from_secs(60);
        while number(&cell, "dirty_keys") > 0 {
            assert!(Instant::now() < deadline, "round {round}: it is still dirty");
        }
    }
    assert_eq!(client.ask("delete key-0"), "DELETED");
    cell.kill();
    let cell = Cell::start(&directory, &OLD);
    let mut client = cell.client();
    assert_eq!(client.get("key-0"), None);
    assert_eq!(client.get("key-299").as_deref(), Some("value"));
}

#[test]
fn what_was_refused_is_tried_again_at_once_when_that_is_asked() {
    let pages = directory("operator-retry-pages");
    let database = format!("file:{}", pages.display());
    let lengths = ["--item-bytes-max", "16KiB", "--tier-page-bytes", "64KiB"];
    let flags = [&["--tier-database", &*database], &lengths[..], &OLD[..]].concat();
    let cell = Cell::start(&directory("operator-retry"), &flags);
    let mut client = cell.client();
    assert_eq!(client.set("key", 0, 0, "value"), "STORED");
    // Pages cannot be created where there is a file.
    let (place, away) = (pages.join("objects/page+"), pages.join("away"));
    let _ = fs::rename(&place, &away);
    fs::write(&place, b"").expect("it can be written");
    let (said, code) = cell.ctl(&["retry"]);
    assert!(code == Some(1) && said.contains("0 keys were written back, 1 are dirty"), "{said}");
    assert!(said.contains("not written back: "), "{said}");
    fs::remove_file(&place).expect("it is there");
    let _ = fs::rename(&away, &place);
    let (said, code) = cell.ctl(&["retry", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((code, &report["state"], &report["dirty_keys"]), (Some(0), &"ok".into(), &0.into()));
    cell.kill();
}

#[test]
fn keys_that_change_all_the_time_are_not_waited_for_longer_than_asked() {
    let cell = Cell::start(&directory("operator-busy"), &OLD);
    let mut client = cell.client();
    let (said, code) = std::thread::scope(|scope| {
        let drain = scope.spawn(|| cell.ctl(&["drain", "--wait", "1", "--json"]));
        for set in 0.. {
            if drain.is_finished() {
                break;
            }
            assert_eq!(client.set("key", 0, 0, &set.to_string()), "STORED");
        }
        drain.join().expect("it ends")
    });
    let report: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let is_dirty = report["dirty_keys"].as_u64().is_some_and(|count| count > 0);
    assert_eq!(code, Some(i32::from(is_dirty)), "{said}");
    assert_eq!(report["state"], "ok", "{said}");
}

#[test]
fn a_cell_without_a_tier_and_words_that_mean_nothing_are_refused() {
    let cell = Cell::start_plain();
    for words in [["status"], ["flush"], ["drain"], ["retry"]] {
        let (said, code) = cell.ctl(&words);
        assert!(code == Some(1) && said.contains("has no tier"), "{said}");
    }
    let mut client = cell.client();
    assert_eq!(client.ask("stats tier flush"), "CLIENT_ERROR this cell has no tier");
    assert_eq!(client.ask("stats tier retry"), "CLIENT_ERROR this cell has no tier");
    assert_eq!(client.ask("stats tier nonsense"), "ERROR");
}
