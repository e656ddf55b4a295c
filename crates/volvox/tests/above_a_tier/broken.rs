//! A cell whose disk stays full, whose journal cannot be written, and whose database fails: each
//! gets the answer that is documented, and nothing that was answered is lost.

use super::support::{Cell, Client, command, directory};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest that anything may take to go on.
const LONG: Duration = Duration::from_secs(60);
/// Nothing is written back by its age.
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

fn key(number: usize) -> String {
    format!("key-{number}")
}

fn value(number: usize) -> String {
    format!("{number:08}").repeat(500)
}

/// Stores one value after another until one is refused; how many were stored, and the refusal.
fn until_refused(client: &mut Client, from: usize) -> (usize, String) {
    for number in from..100_000 {
        let said = client.set(&key(number), 0, 0, &value(number));
        if said != "STORED" {
            return (number, said);
        }
    }
    panic!("nothing is refused");
}

/// Stores a value until that is answered.
fn until_stored(client: &mut Client, number: usize) {
    let began = Instant::now();
    loop {
        let said = client.set(&key(number), 0, 0, &value(number));
        if said == "STORED" {
            return;
        }
        assert!(said.starts_with("SERVER_ERROR ") && began.elapsed() < LONG, "{said}");
    }
}

/// Waits until nothing is wrong any more.
fn until_ok(cell: &Cell) {
    let began = Instant::now();
    while cell.state() != "ok" {
        assert!(began.elapsed() < LONG, "{}", cell.state());
    }
}

/// No read is a miss: each is the value, or says that it cannot be looked up. How many do.
fn read(cell: &Cell, stored: usize) -> usize {
    let mut refused = 0;
    for first in (0..stored).step_by(100) {
        let numbers = first..(first + 100).min(stored);
        let keys: Vec<_> = numbers.clone().map(key).collect();
        for (number, found) in numbers.zip(cell.get_each(&keys)) {
            match found {
                Ok(Some((_, found))) => assert!(found == value(number).as_bytes(), "{number}"),
                Ok(None) => panic!("key {number} is missed"),
                Err(error) if is_refusal(&error) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
    }
    refused
}

fn is_refusal(said: &str) -> bool {
    ["tier busy", "in doubt"].iter().any(|it| said.starts_with(&format!("SERVER_ERROR {it}")))
}

/// A command that mounts a small disk at `directory`, which only the cell sees, and starts the
/// cell; `None` where that is not allowed.
fn on_a_small_disk(directory: &Path, mib: u64, cell: &Command) -> Option<Command> {
    fs::create_dir_all(directory).expect("a directory");
    let mount = format!("mount -t tmpfs -o size={mib}m tmpfs {}", directory.display());
    let words = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh"]);
        command
    };
    let is_allowed = words(&mount).status().is_ok_and(|status| status.success());
    if !is_allowed {
        // Where all that changes is checked, it must be.
        assert!(std::env::var_os("CI").is_none(), "no disk can be mounted here");
        return None;
    }
    let mut command = words(&format!("{mount} && exec \"$@\""));
    command.arg(cell.get_program()).args(cell.get_args());
    Some(command)
}

#[test]
fn a_disk_that_is_full_refuses_changes_until_it_has_room_and_loses_nothing() {
    let path = directory("full");
    let plain = command(&path, &[&OLD[..], &["--tier-journal", "64MiB"]].concat());
    let Some(mut command) = on_a_small_disk(&path, 96, &plain) else { return };
    let cell = Cell::run(&mut command);
    let seen = PathBuf::from(format!("/proc/{}/root", cell.pid()));
    let ballast = seen.join(path.strip_prefix("/").expect("an absolute path")).join("ballast");
    let mut zeros = std::io::repeat(0).take(128 << 20);
    let mut file = fs::File::create(&ballast).expect("a file");
    assert!(std::io::copy(&mut zeros, &mut file).is_err(), "it fills the disk");
    let mut client = cell.client();
    let (first, said) = until_refused(&mut client, 0);
    assert!(first > 100 && said.starts_with("SERVER_ERROR "), "{first}: {said}");
    let began = Instant::now();
    let full = loop {
        let said = client.set("one-more", 0, 0, &value(0));
        assert!(said != "STORED" && began.elapsed() < LONG, "{said}");
        if said.starts_with("SERVER_ERROR tier full: ") {
            break said;
        }
    };
    assert!(full.contains("bytes of the journal are in use"), "{full}");
    assert_ne!(cell.state(), "ok");
    let some = first.min(200);
    assert!(read(&cell, some) < some, "what is in memory is served");
    drop(file);
    fs::remove_file(ballast).expect("it is there");
    assert_eq!(cell.ctl(&["flush"]).1, Some(0));
    until_stored(&mut client, first);
    assert_eq!(read(&cell, first + 1), 0);
    let (said, code) = cell.ctl(&["drain"]);
    assert_eq!(code, Some(0), "{said}");
    until_ok(&cell);
}

#[test]
fn a_disk_that_is_shorter_than_its_journal_is_used_again_and_again() {
    const STORED: usize = 15_000;
    let (path, below) = (directory("short"), directory("short-objects"));
    let database = format!("file:{}", below.display());
    let paged = ["--tier-database", &database, "--tier-page-bytes", "64KiB"];
    let small = ["--tier-journal", "48MiB", "--item-bytes-max", "16KiB", "--tier-age-s", "1"];
    let plain = command(&path, &[&paged[..], &small].concat());
    let Some(mut command) = on_a_small_disk(&path, 30, &plain) else { return };
    let cell = Cell::run(&mut command);
    let mut client = cell.client();
    for number in 0..STORED {
        until_stored(&mut client, number);
    }
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    assert_eq!(read(&cell, STORED), 0);
}

#[test]
fn a_journal_that_cannot_be_written_is_read_only_until_the_next_start() {
    let path = directory("read-only");
    let cell = command(&path, &OLD);
    // A write beyond the limit of the process is an error then, and no signal.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(cell.get_program()).args(cell.get_args());
    let cell = Cell::run(&mut command);
    let mut client = cell.client();
    const STORED: usize = 200;
    for number in 0..STORED {
        assert_eq!(client.set(&key(number), 0, 0, &value(number)), "STORED");
    }
    let limit = ["--pid", &cell.pid().to_string(), "--fsize=0:unlimited"];
    assert!(Command::new("prlimit").args(limit).status().expect("it runs").success());
    let began = Instant::now();
    let said = loop {
        let said = client.set("refused", 0, 0, "value");
        assert!(said != "STORED" && began.elapsed() < LONG, "{said}");
        if said.starts_with("SERVER_ERROR tier read-only: ") {
            break said;
        }
    };
    assert!(!said.ends_with("read-only: "), "it says why: {said}");
    assert_eq!(read(&cell, STORED), 0, "reads go on");
    let limit = ["--pid", &cell.pid().to_string(), "--fsize=unlimited:unlimited"];
    assert!(Command::new("prlimit").args(limit).status().expect("it runs").success());
    let said = client.set("refused", 0, 0, "value");
    assert!(said.starts_with("SERVER_ERROR tier read-only: "), "until it starts again: {said}");
    assert_ne!(cell.state(), "ok");
    cell.kill();
    let cell = Cell::start(&path, &OLD);
    let mut client = cell.client();
    assert_eq!(read(&cell, STORED), 0);
    assert_eq!(client.set("refused", 0, 0, "stored"), "STORED");
    assert_eq!(client.get("refused").as_deref(), Some("stored"));
}

#[test]
fn a_database_that_fails_is_busy_then_full_and_goes_on_by_itself() {
    let (path, below) = (directory("failing"), directory("failing-objects"));
    let database = format!("file:{}", below.display());
    let paged = ["--tier-database", &database, "--tier-page-bytes", "64KiB"];
    let small = ["--tier-journal", "40MiB", "--item-bytes-max", "16KiB", "--tier-age-s", "1"];
    let flags = [&paged[..], &small].concat();
    let cell = Cell::start(&path, &flags);
    let mut client = cell.client();
    const STORED: usize = 6_000;
    for number in 0..STORED {
        until_stored(&mut client, number);
    }
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    assert_eq!(client.set("hot", 0, 0, "in memory"), "STORED");
    let (objects, away) = (below.join("objects"), below.join("away"));
    fs::rename(&objects, &away).expect("it is there");
    fs::write(&objects, "no directory").expect("it can be written");
    assert!(read(&cell, 400) > 0, "memory has not all of them");
    assert_eq!(client.get("hot").as_deref(), Some("in memory"));
    let (stored, said) = until_refused(&mut client, STORED);
    assert!(stored > STORED, "changes go on until the journal is full");
    assert!(said.starts_with("SERVER_ERROR tier full: "), "{said}");
    assert_ne!(cell.state(), "ok");
    assert_eq!(client.get("hot").as_deref(), Some("in memory"));
    fs::remove_file(&objects).expect("it is there");
    fs::rename(&away, &objects).expect("it is there");
    until_stored(&mut client, stored);
    let (said, code) = cell.ctl(&["drain"]);
    assert_eq!(code, Some(0), "{said}");
    until_ok(&cell);
    assert_eq!(read(&cell, stored + 1), 0);
    cell.kill();
    assert_eq!(read(&Cell::start(&path, &flags), stored + 1), 0);
}
