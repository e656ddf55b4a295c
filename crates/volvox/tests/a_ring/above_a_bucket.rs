//! A ring above a bucket: kills of single cells and of all at once lose nothing that was answered,
//! and bring nothing back.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use crate::support::{CELLS, Client, DEADLINE, Ring};

const WRITERS: usize = 4;
/// Keys of a writer, and bytes of each value.
const KEYS: usize = 6_000;
const VALUE_BYTES: usize = 2_000;
/// Answered changes before each kill, and after it.
const CHANGES: usize = 600;
/// Clients that ask for one key at once.
const COLD_CLIENTS: usize = 300;

/// The bucket of one test, removed at the end.
pub struct Bucket(PathBuf);

impl Bucket {
    pub fn of(test: &str) -> Self {
        let name = format!("volvox-bucket-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    fn ring(&self, test: &str, ack: &str) -> Ring {
        self.ring_with(test, ack, "128MiB")
    }

    fn ring_with(&self, test: &str, ack: &str, journal: &str) -> Ring {
        self.ring_of(test, &[], &["--tier-ack", ack, "--tier-journal", journal])
    }

    /// A ring above it, of as many cells and as those words say, each with those flags too.
    pub fn ring_of(&self, test: &str, words: &[&str], of_cells: &[&str]) -> Ring {
        let database = format!("file:{}", self.0.display());
        let flags = [
            ["--tier-database", &*database],
            ["--tier-age-s", "1"],
            ["--memory-limit", "32MiB"],
            ["--tier-page-bytes", "64KiB"],
            ["--item-bytes-max", "16KiB"],
        ];
        let flags = [&flags.concat()[..], &["--tier-ring-preview"], of_cells].concat();
        Ring::start_with(test, CELLS, words, &flags)
    }

    /// Nothing can be read or written there, until [`Bucket::returns`].
    fn goes_away(&self) {
        std::fs::rename(&self.0, self.away()).expect("it is there");
        std::fs::write(&self.0, "no directory").expect("a file");
    }

    fn returns(&self) {
        std::fs::remove_file(&self.0).expect("it is a file");
        std::fs::rename(self.away(), &self.0).expect("it is there");
    }

    fn away(&self) -> PathBuf {
        self.0.with_extension("away")
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.away());
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a key may have: what was answered last, or what was sent since. `None`: nothing.
#[derive(Default)]
struct Known {
    answered: Option<u64>,
    sent: Vec<Option<u64>>,
}

type KnownKeys = Mutex<HashMap<String, Known>>;

fn value(stamp: u64) -> String {
    format!("{stamp:020}").repeat(VALUE_BYTES / 20)
}

/// Changes the keys of one writer, one after the other, until it is stopped.
fn write(
    at: SocketAddr,
    (writer, round): (usize, usize),
    (count, stops): (&AtomicUsize, &AtomicBool),
    known: &KnownKeys,
) {
    let mut client = Client::connect(at);
    for number in 0.. {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        let key = format!("{writer}-{}", (number * 7 + round * 1_301) % KEYS);
        let stamp = (round * 1_000_000 + number) as u64 + 1;
        let wanted = (number % 5 > 0).then_some(stamp);
        let mut known = known.lock().expect("nobody panics");
        let of_key = known.entry(key.clone()).or_default();
        of_key.sent.push(wanted);
        let reply = match wanted {
            Some(stamp) => {
                let value = value(stamp);
                client.try_ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()))
            }
            None => client.try_ask(&format!("delete {key}\r\n")),
        };
        let Some(reply) = reply else {
            // It was killed, or was busy for too long.
            match Client::try_connect(at) {
                Some(again) => client = again,
                None => return,
            }
            continue;
        };
        if ["STORED", "DELETED", "NOT_FOUND"].contains(&&*reply) {
            (of_key.answered, of_key.sent) = (wanted, Vec::new());
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            assert!(reply.starts_with("SERVER_ERROR "), "{reply}");
        }
    }
}

/// What a key has; an error is asked again.
fn read(client: &mut Client, key: &str) -> Option<u64> {
    let start = Instant::now();
    loop {
        let line = client.ask(&format!("get {key}\r\n"));
        if line == "END" {
            return None;
        }
        if line.starts_with("VALUE ") {
            let (found, end) = (client.line(), client.line());
            let stamp = found[..20].parse().expect("a number");
            assert!(found == value(stamp) && end == "END", "{key}: it is whole");
            return Some(stamp);
        }
        assert!(start.elapsed() < DEADLINE, "{key}: {line}");
    }
}

/// Each key has what was answered last, or what was sent since.
fn check(at: SocketAddr, known: &[KnownKeys], when: &str) {
    let mut client = Client::connect(at);
    for known in known {
        for (key, known) in known.lock().expect("nobody panics").iter_mut() {
            let found = read(&mut client, key);
            let may = known.answered == found || known.sent.contains(&found);
            assert!(may, "{when}, {key}: {found:?}, not {:?}", known.answered);
            (known.answered, known.sent) = (found, Vec::new());
        }
    }
}

/// Writes through `at`, calls `kill` in the middle, and goes on a while where that `lasts`.
fn write_around(
    at: SocketAddr,
    round: usize,
    known: &[KnownKeys],
    (kill, lasts): (impl FnOnce(), bool),
) {
    let (count, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for (writer, known) in known.iter().enumerate() {
            let (count, stops) = (&count, &stops);
            scope.spawn(move || write(at, (writer, round), (count, stops), known));
        }
        let wait = |changes: usize| {
            let (start, until) = (Instant::now(), count.load(Ordering::Relaxed) + changes);
            while count.load(Ordering::Relaxed) < until {
                assert!(start.elapsed() < DEADLINE, "nothing is answered any more");
                thread::yield_now();
            }
        };
        wait(CHANGES);
        kill();
        if lasts {
            wait(CHANGES);
        }
        stops.store(true, Ordering::Relaxed);
    });
}

/// The sum of what the cells count in `stats tier` under one of these names.
fn sum_of(ring: &Ring, names: &[&str]) -> u64 {
    let count = |line: &String| {
        let (name, number) = line.strip_prefix("STAT ")?.split_once(' ')?;
        names.contains(&name).then(|| number.parse::<u64>().expect("a number"))
    };
    let of_cell = |at: &SocketAddr| -> u64 {
        Client::connect(*at).list("stats tier").iter().filter_map(count).sum()
    };
    ring.clients.iter().map(of_cell).sum()
}

#[test]
fn many_requests_for_a_key_that_is_in_no_memory_cause_one_read() {
    let bucket = Bucket::of("tier-cold");
    let mut ring = bucket.ring("tier-cold", "os");
    let mut client = Client::connect(ring.clients[0]);
    assert_eq!(client.ask("set cold 0 0 1\r\nv\r\n"), "STORED");
    let start = Instant::now();
    while sum_of(&ring, &["dirty_keys"]) > 0 {
        assert!(start.elapsed() < DEADLINE, "it is not written back");
        thread::yield_now();
    }
    (0..CELLS).for_each(|cell| ring.kill(cell));
    ring.await_starts(CELLS);
    ring.await_copies();
    let mut clients: Vec<_> =
        (0..COLD_CLIENTS).map(|number| Client::connect(ring.clients[number % CELLS])).collect();
    for client in &mut clients {
        client.send("get cold\r\n");
    }
    for client in &mut clients {
        assert_eq!([client.line(), client.line(), client.line()], ["VALUE cold 0 1", "v", "END"]);
    }
    assert_eq!(sum_of(&ring, &["loads_below", "loads_journal"]), 1);
}

fn survives(test: &str, ack: &str) {
    let bucket = Bucket::of(test);
    let mut ring = bucket.ring(test, ack);
    let known: Vec<KnownKeys> = (0..WRITERS).map(|_| Mutex::default()).collect();
    for round in 0..2 * CELLS {
        let victim = round % CELLS;
        let at = ring.clients[(round + 1) % CELLS];
        if round % 2 == 0 {
            write_around(at, round, &known, (|| ring.kill(victim), true));
            check(ring.clients[(round + 2) % CELLS], &known, &format!("round {round}"));
            ring.heal(victim);
        } else {
            let kill_all = || (0..CELLS).for_each(|cell| ring.kill(cell));
            write_around(at, round, &known, (kill_all, false));
            ring.await_starts(CELLS);
            ring.await_copies();
            check(ring.clients[victim], &known, &format!("all at once, round {round}"));
        }
    }
}

/// Each round loses the disk of one cell: its journal, or all that it has, so that it joins as a
/// new one.
#[test]
fn a_power_cut_of_all_and_the_loss_of_one_disk_lose_nothing_that_was_answered() {
    let bucket = Bucket::of("tier-lost");
    let mut ring = bucket.ring("tier-lost", "os");
    let known: Vec<KnownKeys> = (0..WRITERS).map(|_| Mutex::default()).collect();
    for (round, (victim, what)) in [(0, "tier"), (1, "tier"), (2, "")].into_iter().enumerate() {
        let cut = || {
            ring.lose(victim, what);
            (0..CELLS).for_each(|cell| ring.kill(cell));
        };
        write_around(ring.clients[0], round, &known, (cut, false));
        ring.await_starts(CELLS);
        check(ring.clients[victim], &known, &format!("the disk of {victim} was lost"));
        ring.await_copies();
        let report = Client::connect(ring.clients[0]).list("stats ring");
        assert!(report.iter().any(|line| line == "STAT losses 0"), "{report:#?}");
    }
}

/// What `volvox ctl` prints of these words.
fn ctl(at: SocketAddr, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
    command.arg("ctl").args(words).args(["--server", &at.to_string()]);
    let output = command.output().expect("the binary runs");
    let is_understood = output.status.code().is_some_and(|code| code < 2);
    assert!(is_understood, "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is text")
}

/// Of a range with two cells both lose their journals: what was deleted, and not written back,
/// would be there again.
#[test]
fn a_range_without_any_journal_waits_until_it_is_forgiven() {
    let bucket = Bucket::of("tier-forgive");
    let mut ring = bucket.ring("tier-forgive", "os");
    let slices_of = |range: u32, report: &[String]| {
        let name = format!("STAT range:{range}:slices ");
        let slices = report.iter().find_map(|line| line.strip_prefix(&name)).expect("its slices");
        let (first, last) = slices.split_once('-').expect("two numbers");
        let number = |text: &str| text.parse::<usize>().expect("a number");
        number(first)..=number(last)
    };
    let mut client = Client::connect(ring.clients[2]);
    let report = client.list("stats ring");
    // Each range is led by the cell with its number, and copied by the next.
    assert!(report.iter().any(|line| line == "STAT range:1:copies 2"), "{report:#?}");
    let lost = slices_of(1, &report);
    let is_lost = |key: &str| lost.contains(&base::SliceId::of(key.as_bytes()).index());
    let keys: Vec<_> = (0..100).map(|key| format!("key-{key}")).collect();
    for key in &keys {
        assert_eq!(client.ask(&format!("set {key} 0 0 1\r\nx\r\n")), "STORED");
    }
    for cell in [0, 1] {
        ring.lose(cell, "tier");
    }
    (0..CELLS).for_each(|cell| ring.kill(cell));
    ring.await_starts(CELLS);
    let start = Instant::now();
    let key = keys.iter().find(|key| is_lost(key)).expect("some key has such a slice");
    for cell in 0..CELLS {
        let mut client = Client::connect(ring.clients[cell]);
        loop {
            let line = client.ask(&format!("get {key}\r\n"));
            assert!(line.starts_with("SERVER_ERROR "), "{line}");
            if line.ends_with("an operator is to forgive it, by volvox ctl forgive 1") {
                break;
            }
            assert!(start.elapsed() < DEADLINE, "{line}");
        }
    }
    let mut client = Client::connect(ring.clients[2]);
    let others: Vec<_> = keys.iter().filter(|key| !is_lost(key)).collect();
    others.iter().for_each(|key| assert_eq!(client.get(key).as_deref(), Some("x"), "{key}"));
    let ctl = |words: &[&str]| ctl(ring.clients[2], words);
    let text = ctl(&["ring"]);
    assert!(text.contains("range 1: its last copy has lost its journal"), "{text}");
    let text = ctl(&["forgive", "1"]);
    assert!(text.contains("may be back"), "{text}");
    let text = ctl(&["forgive", "1", "--yes", "--timeout", "30"]);
    assert!(text.contains("range 1 begins again at cell "), "{text}");
    ring.await_copies();
    for key in keys.iter().filter(|key| is_lost(key)) {
        assert!(matches!(client.get(key).as_deref(), None | Some("x")), "{key}");
        assert_eq!(client.ask(&format!("set {key} 0 0 1\r\ny\r\n")), "STORED");
    }
    assert!(client.list("stats ring").iter().any(|line| line == "STAT losses 1"));
}

#[test]
fn kills_of_one_and_of_all_lose_nothing_that_was_answered() {
    survives("tier-os", "os");
}

#[test]
fn the_same_where_an_answer_waits_for_the_disks() {
    survives("tier-disk", "disk");
}

#[test]
fn what_is_written_back_outlives_the_journals_of_all_cells() {
    let test = "tier-lost";
    let bucket = Bucket::of(test);
    let mut ring = bucket.ring(test, "os");
    let known: Vec<KnownKeys> = (0..WRITERS).map(|_| Mutex::default()).collect();
    write_around(ring.clients[0], 0, &known, (|| (), true));
    check(ring.clients[1], &known, "before");
    for at in &ring.clients {
        ctl(*at, &["tier", "drain", "--wait", "60"]);
    }
    ring.kill_all_without("tier");
    ring.await_starts(CELLS);
    for range in 1..=CELLS {
        await_line(&ring, "stats ring", &format!("STAT range:{range}:waits_for_operator yes"));
        ctl(ring.clients[0], &["forgive", &range.to_string(), "--yes", "--timeout", "30"]);
    }
    ring.await_copies();
    check(ring.clients[2], &known, "without journals");
}

/// Changes that a writer is refused before it stops: each has waited for room as long as it may.
const REFUSALS: usize = 3;

/// Stores keys, and removes each fourth again, until it was refused [`REFUSALS`] times. Returns
/// what each key has; those of which an answer was refused are left out.
fn write_until_full(at: SocketAddr, writer: usize) -> HashMap<String, Option<u64>> {
    let (mut client, mut has, mut refusals) = (Client::connect(at), HashMap::new(), 0);
    for number in 1_u64.. {
        let key = |number: u64| format!("{writer}-{number}");
        let value = value(number);
        let set = (key(number), Some(number), format!("{}\r\n{value}\r\n", value.len()));
        let removed = number.is_multiple_of(4).then(|| (key(number - 2), None, String::new()));
        for (key, wanted, rest) in [Some(set), removed].into_iter().flatten() {
            let reply = match wanted {
                Some(_) => client.ask(&format!("set {key} 0 0 {rest}")),
                None => client.ask(&format!("delete {key}\r\n")),
            };
            if reply == "STORED" || reply == "DELETED" {
                has.insert(key, wanted);
                continue;
            }
            let is_full = reply.starts_with("SERVER_ERROR tier full")
                || reply.ends_with(" or a journal is full");
            assert!(is_full, "{key}: {reply}");
            has.remove(&key);
            refusals += 1;
            if refusals == REFUSALS {
                return has;
            }
        }
    }
    unreachable!("it is full in the end")
}

/// Waits until a report of each cell has this line.
fn await_line(ring: &Ring, report: &str, line: &str) {
    for at in &ring.clients {
        let (start, mut client) = (Instant::now(), Client::connect(*at));
        loop {
            let lines = client.list(report);
            if lines.iter().any(|it| it == line) {
                break;
            }
            assert!(start.elapsed() < DEADLINE, "{line}: {lines:#?}");
            thread::yield_now();
        }
    }
}

#[test]
fn copies_stay_in_sync_while_the_bucket_is_away_and_journals_are_full() {
    let bucket = Bucket::of("tier-full");
    let ring = bucket.ring_with("tier-full", "os", "40MiB");
    ring.await_copies();
    bucket.goes_away();
    let writers = ring.clients.iter().enumerate();
    let has: Vec<_> = thread::scope(|scope| {
        let writers =
            writers.map(|(writer, at)| scope.spawn(move || write_until_full(*at, writer)));
        let writers: Vec<_> = writers.collect();
        writers.into_iter().map(|it| it.join().expect("it is refused in the end")).collect()
    });
    for at in &ring.clients {
        let report = Client::connect(*at).list("stats ring");
        let is_whole = report.iter().any(|line| line == "STAT ranges_short_of_copies 0");
        assert!(is_whole, "a copy was dropped: {report:#?}");
    }
    let stored: Vec<_> = has.iter().map(HashMap::len).collect();
    assert!(stored.iter().all(|stored| *stored > 1_000), "{stored:?}");
    bucket.returns();
    await_line(&ring, "stats tier", "STAT dirty_keys 0");
    for (writer, has) in has.iter().enumerate() {
        let mut client = Client::connect(ring.clients[(writer + 1) % CELLS]);
        for (key, wanted) in has {
            assert_eq!(read(&mut client, key), *wanted, "{key}");
        }
    }
}
