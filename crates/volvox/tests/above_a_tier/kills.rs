//! What was answered is there after a kill.

use super::support::{Cell, Client, directory};
use measure::rng::Rng;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use std::{fs, io};

/// Kills of one cell under load.
const KILLS: u64 = 12;
const WRITERS: usize = 4;
/// How long the test waits for answers to some requests.
const WAIT: Duration = Duration::from_secs(60);
const KEYS_OF_A_WRITER: u64 = 400;

#[test]
fn ten_times_the_memory_is_there_after_a_kill() {
    holds_ten_times("ten-times", &[]);
}

#[test]
fn ten_times_the_memory_is_there_after_a_kill_where_it_lies_in_pages() {
    let database = paged("ten-times");
    let flags =
        ["--tier-database", &*database, "--tier-page-bytes", "64KiB", "--item-bytes-max", "16KiB"];
    let pages = holds_ten_times("ten-times-in-pages", &flags);
    let (changes, objects) = (40_000, files(&pages) as u64);
    assert!(objects > 1_000 && objects < changes / 8, "{objects} objects");
}

/// A bucket in a directory of its own, as the setting names it.
fn paged(test: &str) -> String {
    format!("file:{}", directory(&format!("pages-{test}")).display())
}

/// How many files a directory has, those of its directories included.
fn files(path: &Path) -> usize {
    let entries =
        fs::read_dir(path).expect("it is a directory").map(|it| it.expect("an entry").path());
    entries.map(|it| if it.is_dir() { files(&it) } else { 1 }).sum()
}

/// Returns where its objects lie, if they do.
fn holds_ten_times(test: &str, flags: &[&str]) -> PathBuf {
    const KEYS: usize = 40_000;
    const AT_ONCE: usize = 100;
    let directory = directory(test);
    let value = |number: usize| format!("{number:08}").repeat(512);
    let key = |number: usize| format!("key-{number}");
    let cell = Cell::start(&directory, flags);
    let mut client = cell.client();
    for first in (0..KEYS).step_by(AT_ONCE) {
        let mut requests = String::new();
        for number in first..first + AT_ONCE {
            let (key, value) = (key(number), value(number));
            requests.push_str(&format!("set {key} {number} 0 {}\r\n{value}\r\n", value.len()));
        }
        client.send(requests.as_bytes()).expect("it takes them");
        for number in first..first + AT_ONCE {
            assert_eq!(client.line().expect("it answers"), "STORED", "key {number}");
        }
    }
    cell.kill();
    let cell = Cell::start(&directory, flags);
    let mut client = cell.client();
    for first in (0..KEYS).step_by(AT_ONCE) {
        let keys: Vec<_> = (first..first + AT_ONCE).map(key).collect();
        for (number, found) in (first..).zip(client.get_all(&keys)) {
            let (flags, found) = found.unwrap_or_else(|| panic!("key {number} is there"));
            assert!(flags as usize == number && found == value(number).as_bytes(), "{number}");
        }
    }
    assert_eq!(cell.ctl(&["drain"]).1, Some(0));
    let database = flags.get(1).and_then(|it| it.strip_prefix("file:"));
    database.map_or(directory, PathBuf::from)
}

/// What a writer knows of a key: the last value that was answered, and those that were sent since.
/// `None`: deleted, or never stored.
#[derive(Clone, Default)]
struct Known {
    answered: Option<u64>,
    sent: Vec<Option<u64>>,
}

#[test]
fn no_answered_change_is_lost_by_kills_under_load() {
    for (ack, age_s, batches_max) in [("os", "0", 2000), ("disk", "1", 200), ("backend", "1", 60)] {
        survives_kills(&format!("kills-{ack}"), batches_max, &[ack, age_s, "redb"]);
    }
}

#[test]
fn no_answered_change_is_lost_by_kills_where_it_lies_in_pages() {
    for (ack, age_s, batches_max) in [("os", "0", 2000), ("backend", "1", 20)] {
        let test = format!("kills-in-pages-{ack}");
        survives_kills(&test, batches_max, &[ack, age_s, &paged(&test)]);
    }
}

fn survives_kills(test: &str, batches_max: u64, settings: &[&str; 3]) {
    let directory = directory(test);
    let [ack, age_s, database] = settings;
    let flags = ["--tier-ack", ack, "--tier-age-s", age_s, "--tier-database", database];
    let flags = [&flags[..], &["--tier-page-bytes", "64KiB", "--item-bytes-max", "16KiB"]].concat();
    let known: Vec<Mutex<HashMap<u64, Known>>> = (0..WRITERS).map(|_| Mutex::default()).collect();
    let mut rng = Rng::new(7, 0);
    for life in 0..KILLS {
        let cell = Cell::start(&directory, &flags);
        check(&cell, &known);
        let (answered, answers) = channel();
        let batches = rng.below(batches_max);
        thread::scope(|scope| {
            for (writer, known) in known.iter().enumerate() {
                let (client, answered) = (cell.client(), answered.clone());
                scope.spawn(move || write(client, (writer, life), known, &answered));
            }
            for _ in 0..batches {
                answers.recv_timeout(WAIT).expect("the writers go on");
            }
            // In the middle of what they send and are answered.
            cell.kill();
        });
    }
    check(&Cell::start(&directory, &flags), &known);
}

/// Stores and deletes until the connection ends. Says so after each batch of answers.
fn write(
    mut client: Client,
    (writer, life): (usize, u64),
    known: &Mutex<HashMap<u64, Known>>,
    answered: &Sender<()>,
) {
    const AT_ONCE: u64 = 16;
    let mut rng = Rng::new(life, writer as u64);
    let mut known = known.lock().expect("nothing has panicked");
    let mut stamp = life << 32;
    loop {
        let mut requests = String::new();
        let mut sent = Vec::new();
        for _ in 0..AT_ONCE {
            let key = rng.below(KEYS_OF_A_WRITER);
            stamp += 1;
            let value = (rng.below(4) > 0).then_some(stamp);
            match value {
                Some(stamp) => {
                    let value = format!("{stamp:020}").repeat(1 + rng.below(60) as usize);
                    let bytes = value.len();
                    requests.push_str(&format!("set w{writer}-{key} 0 0 {bytes}\r\n{value}\r\n"));
                }
                None => requests.push_str(&format!("delete w{writer}-{key}\r\n")),
            }
            known.entry(key).or_default().sent.push(value);
            sent.push((key, value));
        }
        if client.send(requests.as_bytes()).is_err() {
            return;
        }
        for (key, value) in sent {
            let Ok(line) = whole_line(&mut client) else { return };
            assert!(["STORED", "DELETED", "NOT_FOUND"].contains(&&*line), "{line}");
            let known = known.entry(key).or_default();
            known.answered = value;
            // Those that were sent before it are superseded.
            let at = known.sent.iter().position(|sent| *sent == value);
            known.sent.drain(..=at.expect("it was sent"));
        }
        // The test may have heard enough.
        let _ = answered.send(());
    }
}

/// The next answer; an error where it was cut off.
fn whole_line(client: &mut Client) -> io::Result<String> {
    let line = client.line()?;
    match ["STORED", "DELETED", "NOT_FOUND"]
        .iter()
        .any(|whole| whole != &line && whole.starts_with(&line))
    {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(line),
    }
}

/// Each key has the value that was answered last, or one that was sent after it.
fn check(cell: &Cell, known: &[Mutex<HashMap<u64, Known>>]) {
    let mut client = cell.client();
    for (writer, known) in known.iter().enumerate() {
        let mut known = known.lock().expect("nothing has panicked");
        let keys: Vec<_> = known.keys().copied().collect();
        let names: Vec<_> = keys.iter().map(|key| format!("w{writer}-{key}")).collect();
        for (key, found) in keys.into_iter().zip(client.get_all(&names)) {
            let found = found.map(|(_, value)| {
                let stamp = String::from_utf8_lossy(&value[..20]).parse::<u64>();
                assert!(value.chunks(20).all(|part| part == &value[..20]), "it is whole");
                stamp.expect("a number")
            });
            let known = known.get_mut(&key).expect("it was sent");
            let may_be = [known.answered].into_iter().chain(known.sent.iter().copied());
            let may_be: Vec<_> = may_be.collect();
            assert!(may_be.contains(&found), "w{writer}-{key}: {found:?}, and not {may_be:?}");
            // What was read stays.
            (known.answered, known.sent) = (found, Vec::new());
        }
    }
}
