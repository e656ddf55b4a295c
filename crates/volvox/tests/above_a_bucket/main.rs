//! A cell above a bucket of S3 and of GCS, by their emulators: what was answered is there after
//! kills, and a service that does not answer is no miss.
//!
//! The emulators are installed by pip the first time.

#[path = "../above_a_tier/support.rs"]
mod support;

use measure::process::Server;
use measure::process::emulators::{BUCKET, Emulator};
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use support::{Cell, Client, command, directory, statistic};

const EMULATORS: [(Emulator, &str); 2] = [(Emulator::S3, "s3"), (Emulator::Gcs, "gs")];
const KEYS: usize = 6_000;
const AT_ONCE: usize = 100;

/// A cell above a bucket of an emulator, with memory for a part of what it stores.
struct Above<'a> {
    emulator: Emulator,
    server: &'a Server,
    directory: PathBuf,
    database: String,
}

impl Above<'_> {
    fn start(&self, flags: &[&str]) -> Cell {
        let database = ["--tier-database", &self.database, "--tier-bucket-timeout-s", "2"];
        let pages = ["--tier-page-bytes", "64KiB", "--memory-limit", "16MiB"];
        let mut command = command(&self.directory, &[&database[..], &pages, flags].concat());
        Cell::run(command.envs(self.emulator.environment(self.server.address())))
    }
}

/// Runs `check` above each emulator, with a bucket of its own.
fn above_each(test: &str, check: impl Fn(&Above<'_>)) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("emulators");
    for (emulator, scheme) in EMULATORS {
        let server = emulator.start(&folder).expect("an emulator");
        let above = Above {
            emulator,
            server: &server,
            directory: directory(&format!("{test}-{scheme}")),
            database: format!("{scheme}://{BUCKET}/root/{test}"),
        };
        check(&above);
        server.stop().expect("it ends");
    }
}

fn key(number: usize) -> String {
    format!("key-{number}")
}

fn value(number: usize) -> String {
    format!("{number:08}").repeat(400)
}

fn fill(client: &mut Client) {
    for first in (0..KEYS).step_by(AT_ONCE) {
        let set = |number: usize| {
            let (key, value) = (key(number), value(number));
            format!("set {key} {number} 0 {}\r\n{value}\r\n", value.len())
        };
        let requests: String = (first..first + AT_ONCE).map(set).collect();
        client.send(requests.as_bytes()).expect("it takes them");
        for number in first..first + AT_ONCE {
            assert_eq!(client.line().expect("it answers"), "STORED", "key {number}");
        }
    }
}

fn check_all(client: &mut Client) {
    for first in (0..KEYS).step_by(AT_ONCE) {
        let keys: Vec<_> = (first..first + AT_ONCE).map(key).collect();
        for (number, found) in (first..).zip(client.get_all(&keys)) {
            let (flags, found) = found.unwrap_or_else(|| panic!("key {number} is there"));
            assert!(flags as usize == number && found == value(number).as_bytes(), "{number}");
        }
    }
}

#[test]
fn what_was_stored_is_there_after_kills_and_one_object_has_many_keys() {
    above_each("kills", |above| {
        let cell = above.start(&[]);
        fill(&mut cell.client());
        cell.kill();
        let cell = above.start(&["--tier-age-s", "1"]);
        let mut client = cell.client();
        check_all(&mut client);
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        let (keys, objects) =
            ["flushed_keys", "bucket_writes"].map(|it| statistic(&mut client, it)).into();
        assert!(keys >= KEYS as u64 && objects > 64 && objects < keys / 4, "{keys}, {objects}");
        client.send(b"delete key-7\r\n").expect("it takes it");
        assert_eq!(client.line().expect("it answers"), "DELETED");
        assert_eq!(client.set(&key(8), 8, 0, &value(8)), "STORED");
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        cell.kill();
        let cell = above.start(&[]);
        let mut client = cell.client();
        assert_eq!(client.get(&key(7)), None);
        assert_eq!(client.get(&key(8)), Some(value(8)));
        assert_eq!(client.set(&key(7), 7, 0, &value(7)), "STORED");
        check_all(&mut client);
    });
}

#[test]
fn a_service_that_does_not_answer_is_no_miss_and_what_is_in_memory_is_served() {
    above_each("outage", |above| {
        let cell = above.start(&["--tier-age-s", "1"]);
        let mut client = cell.client();
        fill(&mut client);
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        assert_eq!(client.set("hot", 0, 0, "in memory"), "STORED");
        signal(above.server, Signal::STOP);
        assert_eq!(client.get("hot").as_deref(), Some("in memory"));
        client.send(b"get key-1\r\n").expect("it takes it");
        let answer = client.line().expect("it answers");
        assert!(answer.starts_with("SERVER_ERROR tier busy"), "{answer}");
        assert_eq!(client.set("during", 0, 0, "the outage"), "STORED");
        let (state, _) = cell.ctl(&["drain", "--wait", "6"]);
        assert!(state.contains("keys are dirty still"), "{state}");
        signal(above.server, Signal::CONT);
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        assert_eq!(client.get(&key(1)), Some(value(1)));
        cell.kill();
        let cell = above.start(&[]);
        let mut client = cell.client();
        assert_eq!(client.get("during").as_deref(), Some("the outage"));
        check_all(&mut client);
    });
}

#[test]
fn a_cell_that_was_taken_over_says_so_and_writes_nothing_more() {
    above_each("taken", |above| {
        let first = above.start(&["--tier-age-s", "1"]);
        let mut client = first.client();
        assert_eq!(client.set("key", 0, 0, "first"), "STORED");
        assert_eq!(first.ctl(&["drain"]).1, Some(0));
        let directory = above.directory.with_extension("other");
        let _ = std::fs::remove_dir_all(&directory);
        let other = Above { directory, database: above.database.clone(), ..*above };
        let said = support::said_of(other.command(&[]));
        assert!(said.contains("was written through another journal"), "{said}");
        // It took the bucket over all the same.
        assert_eq!(client.set("key", 0, 0, "second"), "STORED");
        let (state, code) = first.ctl(&["drain", "--wait", "3"]);
        assert!(code == Some(1) && state.contains("another cell has taken it over"), "{state}");
        first.kill();
        assert_eq!(above.start(&[]).client().get("key").as_deref(), Some("second"));
    });
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is ours");
}
