//! Changes that the database refuses are given up.

use super::support::{Cell, directory};

use std::fs;
use std::time::{Duration, Instant};

/// Gives up what `words` name, once all of it is old enough. Returns all that is said.
fn give_up(cell: &Cell, words: &[&str]) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut all = String::new();
    loop {
        let (said, code) = cell.ctl(&[&["discard", "--i-lose-data"], words].concat());
        all.push_str(&said);
        if code == Some(0) {
            return all;
        }
        assert!(said.contains(" are younger than three seconds"), "{said}");
        assert!(Instant::now() < deadline, "it is young for ever: {said}");
    }
}

#[test]
fn what_is_given_up_has_what_the_database_has_now_and_after_a_kill() {
    let pages = directory("given-up-pages");
    let database = format!("file:{}", pages.display());
    let lengths = ["--item-bytes-max", "16KiB", "--tier-page-bytes", "64KiB"];
    let often = ["--tier-age-s", "0", "--allow-tier-discard"];
    let flags = [&["--tier-database", &*database], &lengths[..], &often[..]].concat();
    let path = directory("given-up");
    let cell = Cell::start(&path, &flags);
    let mut client = cell.client();
    for key in ["a:1", "a:2", "b:1"] {
        assert_eq!(client.set(key, 7, 0, "old"), "STORED");
    }
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    let token = client.token("a:1");
    // No page can be created where there is a file.
    let (place, away) = (pages.join("objects/page+"), pages.join("away"));
    fs::rename(&place, &away).expect("it has pages");
    fs::write(&place, b"").expect("it can be written");
    for key in ["a:1", "b:1", "c:1"] {
        assert_eq!(client.set(key, 0, 0, "new"), "STORED");
    }
    assert_eq!(client.ask("delete a:2"), "DELETED");
    let (said, code) = cell.ctl(&["discard", "a:1"]);
    assert!(code == Some(1) && said.contains("would be lost"), "{said}");
    assert_eq!(client.get("a:1").as_deref(), Some("new"), "nothing was given up");
    let said = give_up(&cell, &["--prefix", "a:"]);
    assert!(said.contains("given up: a:1 (value)") && said.contains("a:2 (removal)"), "{said}");
    let said = give_up(&cell, &["c:1", "nowhere"]);
    assert!(said.contains("1 changes are given up"), "{said}");
    let said = give_up(&cell, &["--run", "40"]);
    assert!(said.contains("0 changes are given up"), "there are 64 runs: {said}");
    fs::remove_file(&place).expect("it is there");
    fs::rename(&away, &place).expect("it is away");
    assert_eq!(client.token("a:1"), token);
    let there = |cell: &Cell| {
        let mut client = cell.client();
        ["a:1", "a:2", "b:1", "c:1"].map(|key| client.get(key))
    };
    let expected = [Some("old"), Some("old"), Some("new"), None].map(|it| it.map(str::to_owned));
    assert_eq!(there(&cell), expected);
    cell.kill();
    let cell = Cell::start(&path, &flags);
    assert_eq!(there(&cell), expected);
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    assert_eq!(there(&cell), expected);
}

#[test]
fn a_cell_that_does_not_allow_it_gives_nothing_up() {
    let cell = Cell::start(&directory("given-up-never"), &[]);
    let (said, code) = cell.ctl(&["discard", "--i-lose-data", "key"]);
    assert!(code == Some(1) && said.contains("protocol.allow_tier_discard is off"), "{said}");
    for (words, why) in [
        (&["discard", "--i-lose-data"][..], "one of them"),
        (&["discard", "--i-lose-data", "key", "--run", "1"], "one of them"),
        (&["discard", "--i-lose-data", "two words"], "has a space"),
    ] {
        let (said, code) = cell.ctl(words);
        assert!(code == Some(1) && said.contains(why), "{words:?}: {said}");
    }
    let (said, code) = Cell::start_plain().ctl(&["discard", "--i-lose-data", "key"]);
    assert!(code == Some(1) && said.contains("has no tier"), "{said}");
}
