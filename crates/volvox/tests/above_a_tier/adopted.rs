//! A cell whose journal is lost, and its database or bucket is not.

use super::support::{Cell, directory, refused};
use std::fs;
use std::path::Path;

/// Removes all files of a tier but its database.
fn lose_journal(path: &Path) {
    for entry in fs::read_dir(path).expect("it is there") {
        let entry = entry.expect("it can be read");
        if !entry.file_name().to_string_lossy().starts_with("keys") {
            fs::remove_file(entry.path()).expect("it can be removed");
        }
    }
}

#[test]
fn what_was_written_back_is_served_by_a_new_journal() {
    let bucket = format!("file:{}", directory("adopted-bucket").display());
    for database in ["redb", "files", &bucket] {
        let path = directory("adopted");
        let lengths = ["--item-bytes-max", "16KiB", "--tier-page-bytes", "64KiB"];
        let flags = [&["--tier-database", database][..], &lengths].concat();
        let cell = Cell::start(&path, &flags);
        let mut client = cell.client();
        assert_eq!(client.set("ended", 0, 0, "old"), "STORED");
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        assert_eq!(client.ask("flush_all"), "OK");
        for key in ["kept", "other"] {
            assert_eq!(client.set(key, 77, 0, "value"), "STORED");
        }
        assert_eq!(client.ask("touch kept 1000"), "TOUCHED");
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        let (token, other) = (client.token("kept"), client.token("other"));
        cell.kill();
        lose_journal(&path);
        let said = refused(&path, &flags);
        assert!(said.contains("another journal") && said.contains("--tier-adopt"), "{said}");
        let cell = Cell::start(&path, &[&flags[..], &["--tier-adopt"]].concat());
        let mut client = cell.client();
        assert_eq!(client.token("kept"), token, "{database}");
        assert_eq!(client.get_all(&["kept".into()]), [Some((77, b"value".to_vec()))]);
        assert_eq!(client.ask("mg ended v"), "EN", "a barrier has ended it");
        assert_eq!(client.ask(&format!("cas other 0 0 1 {other}\r\nx")), "STORED");
        assert!(client.token("other") > other, "{database}: a token is given again");
        assert_eq!(client.set("ended", 0, 0, "new"), "STORED");
        cell.kill();
        // What it has begun needs no word.
        let cell = Cell::start(&path, &flags);
        assert_eq!(cell.client().get("ended").as_deref(), Some("new"), "{database}");
    }
}
