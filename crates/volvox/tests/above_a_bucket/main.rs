//! A cell above a bucket of S3 and of GCS, by their emulators: what was answered is there after
//! kills, and a service that does not answer is no miss.
//!
//! The emulators are installed by pip the first time.

#[path = "../above_a_tier/support.rs"]
#[allow(dead_code, reason = "the tests above a tier use all of it")]
mod support;

mod faults;

use measure::process::Server;
use measure::process::emulators::{BUCKET, Emulator};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Cell, Client, command, directory, refused_by, statistic};

const EMULATORS: [(Emulator, &str); 2] = [(Emulator::S3, "s3"), (Emulator::Gcs, "gs")];
const KEYS: usize = 3_000;
const AT_ONCE: usize = 100;

/// A cell above a bucket of an emulator, with memory for a part of what it stores.
struct Above<'a> {
    emulator: Emulator,
    server: &'a Server,
    /// Where the cell reaches it.
    address: SocketAddr,
    directory: PathBuf,
    database: String,
}

impl Above<'_> {
    fn start(&self, flags: &[&str]) -> Cell {
        Cell::run(&mut self.command(&self.directory, flags))
    }

    fn command(&self, directory: &Path, flags: &[&str]) -> Command {
        let database = ["--tier-database", &self.database, "--tier-bucket-timeout-s", "2"];
        let pages = ["--tier-page-bytes", "64KiB", "--item-bytes-max", "16KiB"];
        let mut command = command(directory, &[&database[..], &pages, flags].concat());
        command.envs(self.emulator.environment(self.address));
        command
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
            address: server.address(),
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
        signal(above.server, Signal::SIGSTOP);
        assert_eq!(client.get("hot").as_deref(), Some("in memory"));
        client.send(b"get key-1\r\n").expect("it takes it");
        let answer = client.line().expect("it answers");
        assert!(answer.starts_with("SERVER_ERROR tier busy"), "{answer}");
        assert_eq!(client.set("during", 0, 0, "the outage"), "STORED");
        let (state, _) = cell.ctl(&["drain", "--wait", "6"]);
        assert!(state.contains("keys are dirty still"), "{state}");
        signal(above.server, Signal::SIGCONT);
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
        let of_other = directory("taken-by-another");
        let said = refused_by(&mut above.command(&of_other, &[]));
        assert!(said.contains("was written through another journal"), "{said}");
        assert_eq!(client.set("key", 0, 0, "second"), "STORED");
        assert_eq!(first.ctl(&["drain"]).1, Some(0), "what was refused took nothing over");
        // A copy of the journal, as after a restore on another machine.
        let copied = directory("taken-by-a-copy");
        fs::create_dir(&copied).expect("a directory");
        for entry in fs::read_dir(&above.directory).expect("it is there") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, copied.join(path.file_name().expect("a name"))).expect("a copy");
        }
        let other = Cell::run(&mut above.command(&copied, &["--tier-age-s", "1"]));
        assert_eq!(other.client().get("key").as_deref(), Some("second"));
        assert_eq!(client.set("key", 0, 0, "third"), "STORED");
        let (said, code) = first.ctl(&["drain", "--wait", "3"]);
        assert!(code == Some(1) && said.contains("another cell has taken it over"), "{said}");
        assert_eq!(other.client().set("key", 0, 0, "of the other"), "STORED");
        assert_eq!(other.ctl(&["drain"]).1, Some(0));
        first.kill();
        other.kill();
        let cell = Cell::run(&mut above.command(&copied, &[]));
        assert_eq!(cell.client().get("key").as_deref(), Some("of the other"));
    });
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).expect("a number of a process");
    kill(Pid::from_raw(pid), signal).expect("it is ours");
}
