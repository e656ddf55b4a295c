//! The role of the primary moves between cells that run, and clients notice nothing.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::above_a_bucket::Bucket;
use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Times that each range is handed over, and keys of each client.
const ROUNDS: usize = 6;
const KEYS: usize = 64;
/// Keys above a bucket that are stored first, which memory has no room for, and bytes of each.
const COLD_KEYS: usize = 30_000;
const COLD_BYTES: usize = 4_000;

/// Sets, counts and reads its keys through one cell until it is stopped: each answer is the one
/// that a single server gives.
fn use_keys(at: std::net::SocketAddr, name: usize, stops: &AtomicBool, count: &AtomicUsize) {
    let mut client = Client::connect(at);
    let key = |number: usize| format!("{name}-{number}");
    for number in 0..KEYS {
        assert_eq!(client.ask(&format!("set {} 0 0 1\r\n0\r\n", key(number))), "STORED");
    }
    for round in 1.. {
        for number in 0..KEYS {
            if stops.load(Ordering::Relaxed) {
                return;
            }
            let counted = client.ask(&format!("incr {} 1\r\n", key(number)));
            assert_eq!(counted, round.to_string(), "{}", key(number));
            assert_eq!(client.get(&key(number)), Some(counted));
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What `volvox ctl --json` says to these words in the end, if it is done.
fn ctl(at: std::net::SocketAddr, words: &[&str]) -> serde_json::Value {
    let server = at.to_string();
    let all = ["ctl", "--json", "--server", &server].into_iter().chain(words.iter().copied());
    let said = Command::new(env!("CARGO_BIN_EXE_volvox")).args(all).output().expect("it runs");
    let (out, error) =
        (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{words:?}: {out}{error}");
    serde_json::from_str(out.lines().last().unwrap_or_default()).expect("an object")
}

/// Has cells hand over ranges by `volvox ctl move`.
fn moves(ring: &Ring, range: usize, cell: u64) {
    let words = ["move", &range.to_string(), &cell.to_string()];
    assert_eq!(ctl(ring.clients[range % CELLS], &words)["cell"], cell);
}

/// The number after this name in the report of the ring.
fn of_range(report: &[String], range: usize, name: &str) -> u64 {
    let begin = format!("STAT range:{range}:{name} ");
    let value = report.iter().find_map(|line| line.strip_prefix(&begin));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{begin}: {report:#?}"))
}

/// Each cell has a client, whose answers are all right, while `steps` are taken: it is given how
/// many requests were answered, and whether a client has ended.
fn under_load(ring: &Ring, steps: impl FnOnce(&AtomicUsize, &dyn Fn() -> bool)) {
    under_load_of(&ring.clients, steps);
}

/// The same with clients of these cells.
fn under_load_of(
    cells: &[std::net::SocketAddr],
    steps: impl FnOnce(&AtomicUsize, &dyn Fn() -> bool),
) {
    let (stops, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients = cells.iter().enumerate();
        let clients = clients.map(|(name, at)| {
            let (stops, count) = (&stops, &count);
            scope.spawn(move || use_keys(*at, name, stops, count))
        });
        let clients: Vec<_> = clients.collect();
        // Also where a step fails: else the clients would go on for ever.
        let stopping = Stopping(&stops);
        steps(&count, &|| clients.iter().any(|client| client.is_finished()));
        drop(stopping);
        clients.into_iter().for_each(|client| client.join().expect("each answer was right"));
    });
}

/// Stops the clients when it is dropped.
struct Stopping<'a>(&'a AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// No range of the ring was lost, and each has its copies.
fn is_whole(report: &[String], range: usize) {
    assert_eq!(of_range(report, range, "losses"), 0);
    assert!(report.iter().any(|line| line == "STAT ranges_short_of_copies 0"), "{report:#?}");
}

/// It has joined after the ring had formed.
#[test]
fn a_spare_takes_a_range_and_gives_it_back_while_clients_go_on() {
    let ring = Ring::start_with("spares", CELLS, &["--spares", "1"], &[]);
    assert_eq!(ring.clients.len(), CELLS + 1);
    let mut asked = Client::connect(ring.clients[0]);
    under_load(&ring, |_, _| {
        for cell in [4, 1, 4, 2, 4] {
            moves(&ring, 1, cell);
            assert_eq!(of_range(&asked.list("stats ring"), 1, "primary"), cell);
        }
    });
    is_whole(&asked.list("stats ring"), 1);
}

#[test]
fn a_cell_is_divided_for_a_spare_while_clients_go_on() {
    let ring = Ring::start_with("divides", CELLS, &["--spares", "1"], &[]);
    let mut asked = Client::connect(ring.clients[1]);
    await_lines(&mut asked, &["STAT cell:4:heard yes"]);
    under_load(&ring, |_, _| {
        let divided = ctl(ring.clients[1], &["divide", "2"]);
        let [lower, upper] = [0, 1].map(|at| &divided["ranges"][at]);
        assert_eq!((lower["range"].as_u64(), upper["range"].as_u64()), (Some(2), Some(4)));
        assert_eq!((lower["primary"].as_u64(), upper["primary"].as_u64()), (Some(2), Some(4)));
        // The spare has replaced the copy of the one, and the primary of the other.
        assert_eq!((lower["copies"][0].as_u64(), upper["copies"][0].as_u64()), (Some(4), Some(3)));
    });
    let report = asked.list("stats ring");
    (1..=4).for_each(|range| is_whole(&report, range));
    assert_eq!(of_range(&report, 2, "epoch") + 1, of_range(&report, 4, "epoch"));
    // A cell may have more than one range divided, and a cell that is no spare may take a part.
    let divided = ctl(ring.clients[1], &["divide", "1", "--to", "4"]);
    assert_eq!(divided["ranges"][1]["primary"].as_u64(), Some(4));
    (1..=5).for_each(|range| is_whole(&asked.list("stats ring"), range));
}

#[test]
fn a_spare_gets_its_share_while_clients_go_on() {
    let ring = Ring::start_with("balances", CELLS, &["--spares", "1"], &[]);
    let mut asked = Client::connect(ring.clients[0]);
    await_lines(&mut asked, &["STAT cell:4:heard yes"]);
    under_load(&ring, |_, _| {
        let left = ctl(ring.clients[0], &["balance"]);
        assert_eq!(left["steps"].as_u64(), Some(0), "it stays a spare");
        let planned = ctl(ring.clients[0], &["balance", "--all", "--dry-run"]);
        let done = ctl(ring.clients[0], &["balance", "--all"]);
        assert_eq!(done, planned);
        assert!(done["most"].as_u64() <= done["least"].as_u64().map(|least| least + 512), "{done}");
    });
    let report = asked.list("stats ring");
    let ranges = report.iter().filter(|line| line.contains(":slices ")).count();
    (1..=ranges).for_each(|range| is_whole(&report, range));
    let of_spare = (1..=ranges).filter(|range| of_range(&report, *range, "primary") == 4);
    assert!(of_spare.count() > 0);
}

/// Reads keys of the first slices alone, while `steps` are taken.
fn under_load_of_first(ring: &Ring, slices: usize, steps: impl FnOnce()) {
    let keys = (0..).map(|number| format!("hot-{number}"));
    let keys = keys.filter(|key| base::SliceId::of(key.as_bytes()).index() < slices);
    let keys: Vec<_> = keys.take(KEYS).collect();
    let stops = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::connect(ring.clients[1]);
            for key in keys.iter().cycle().take_while(|_| !stops.load(Ordering::Relaxed)) {
                assert_eq!(client.get(key), None);
            }
        });
        let stopping = Stopping(&stops);
        steps();
        drop(stopping);
    });
}

/// The load is at the beginning of the first range, so it is divided there, and not in its middle.
#[test]
fn a_cell_is_divided_where_its_load_has_its_middle() {
    const LOADED: u64 = 600;
    let ring = Ring::start_with("loaded", CELLS, &["--spares", "1"], &[]);
    let mut asked = Client::connect(ring.clients[0]);
    await_lines(&mut asked, &["STAT cell:4:heard yes"]);
    let report = asked.list("stats ring load");
    let lines = report.iter().filter(|line| line.starts_with("STAT range:1:parts "));
    assert!(lines.map(|line| line.split(' ').count() - 2).eq([64]), "{report:#?}");
    let server = ring.clients[0].to_string();
    let divide = ["ctl", "--server", &server, "divide", "1", "--by", "load"];
    let said = Command::new(env!("CARGO_BIN_EXE_volvox")).args(divide).output().expect("it runs");
    let error = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success() && error.contains("too few to go by"), "{error}");
    under_load_of_first(&ring, LOADED as usize, || {
        let planned = ctl(ring.clients[0], &["balance", "--by", "load", "--all", "--dry-run"]);
        assert_eq!(planned["by"].as_str(), Some("load"), "{planned}");
        assert!(planned["steps"].as_u64() >= Some(3), "one cell does all: {planned}");
        let divided = ctl(ring.clients[0], &["divide", "1", "--by", "load"]);
        let first = divided["ranges"][1]["first"].as_u64();
        assert!(first > Some(0) && first < Some(LOADED), "{divided}");
    });
    (1..=4).for_each(|range| is_whole(&asked.list("stats ring"), range));
}

/// From one cell to two, and back: nothing is learned twice, and nobody sees it.
#[test]
fn two_cells_share_what_one_has_led_while_clients_go_on() {
    let ring = Ring::start_with("shares", 1, &["--spares", "1"], &["--allow-shutdown"]);
    let mut asked = Client::connect(ring.clients[0]);
    await_lines(&mut asked, &["STAT ranges_short_of_copies 0"]);
    under_load(&ring, |_, _| {
        let divided = ctl(ring.clients[0], &["divide", "1"]);
        assert_eq!(divided["ranges"][1]["primary"].as_u64(), Some(2), "{divided}");
        let report = asked.list("stats ring");
        assert_eq!([1, 2].map(|range| of_range(&report, range, "primary")), [1, 2]);
        (1..=2).for_each(|range| is_whole(&report, range));
        moves(&ring, 1, 2);
        let even = ctl(ring.clients[0], &["balance"]);
        assert_eq!((even["least"].as_u64(), even["is_even"].as_bool()), (Some(8192), Some(true)));
    });
    let left = ctl(ring.clients[0], &["absorb", "2", "--force"]);
    assert_eq!(left["state"].as_str(), Some("absorbed"), "{left}");
    let ended = ctl(ring.clients[0], &["stop", "2"]);
    assert_eq!(ended["lacks_copies"].as_array().map(Vec::len), Some(0), "none could have more");
}

/// What a client that finds the cells by itself asks for: a newer map, as soon as there is one.
#[test]
fn a_client_waits_for_a_newer_map() {
    let ring = Ring::start("watched");
    let map = |client: &mut Client| {
        let head = client.line();
        let version = head.strip_prefix("MAP ").and_then(|rest| rest.split(' ').next());
        let version: u64 =
            version.and_then(|it| it.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        (version, serde_json::from_str::<serde_json::Value>(&client.line()).expect("a map"))
    };
    let mut watching = Client::connect(ring.clients[1]);
    watching.send("CELLCYCLE MAP\r\n");
    let mut known = map(&mut watching);
    assert_eq!(known.1["ranges"][0]["primary"], ring.clients[0].to_string());
    // It waits for two seconds, and is asked again: nothing else is sent meanwhile. A ring that has
    // just begun may have one more map.
    let is_same = (0..CELLS).any(|_| {
        watching.send(&format!("cellcycle map {}\r\n", known.0));
        let next = map(&mut watching);
        std::mem::replace(&mut known, next.clone()) == next
    });
    assert!(is_same, "{known:?}");
    let version = known.0;
    watching.send(&format!("cellcycle map {version}\r\n"));
    moves(&ring, 1, 2);
    let start = std::time::Instant::now();
    loop {
        let (newer, after) = map(&mut watching);
        if after["ranges"][0]["primary"] == ring.clients[1].to_string() {
            break assert!(newer > version);
        }
        assert!(start.elapsed() < DEADLINE, "{after}");
        watching.send(&format!("cellcycle map {newer}\r\n"));
    }
    let mut asked = Client::connect(ring.clients[2]);
    let first = asked.ask("cellcycle keys\r\n");
    assert!(first.starts_with(&format!("2 {} 0:", ring.clients[1])), "{first}");
    (0..CELLS).for_each(|_| _ = asked.line());
    assert!(asked.ask("cellcycle scaleup\r\n").contains("authenticated"));
}

/// The same where most keys are in a bucket alone, and all that the cells have stored since is
/// dirty: what is not written back moves with its range.
#[test]
fn ranges_above_a_bucket_move_with_what_is_not_written_back() {
    let bucket = Bucket::of("moving");
    let flags = ["--tier-ack", "os", "--tier-journal", "128MiB", "--allow-shutdown"];
    let mut ring = bucket.ring_of("moving", &["--spares", "1"], &flags);
    let mut asked = Client::connect(ring.clients[0]);
    await_lines(&mut asked, &["STAT cell:4:heard yes"]);
    let value = |key: usize| format!("{key:010}").repeat(COLD_BYTES / 10);
    for key in 0..COLD_KEYS {
        let stored = asked.ask(&format!("set cold-{key} 0 0 {COLD_BYTES}\r\n{}\r\n", value(key)));
        assert_eq!(stored, "STORED", "{key}");
    }
    under_load_of(&ring.clients[..CELLS - 1], |_, _| {
        ctl(ring.clients[0], &["divide", "2"]);
        for cell in [3, 4, 1] {
            moves(&ring, 1, cell);
        }
        ctl(ring.clients[0], &["balance"]);
        assert_eq!(ctl(ring.clients[0], &["restart", "3"])["cell"].as_u64(), Some(3));
        let absorbed = ctl(ring.clients[0], &["absorb", "4"]);
        assert_eq!(absorbed["state"].as_str(), Some("absorbed"));
    });
    under_load_of(&ring.clients.clone()[..CELLS - 1], |_, _| {
        ring.signal(2, nix::sys::signal::Signal::SIGTERM);
        ring.await_starts(1);
        let back = ["STAT cell:3:start 3", "STAT ranges_short_of_copies 0"];
        await_lines(&mut asked, &back);
    });
    let log = asked.list("stats ring log");
    assert!(log.iter().filter(|line| line.contains("cell 3 is drained")).count() >= 2, "{log:#?}");
    for key in 0..COLD_KEYS {
        assert_eq!(asked.get(&format!("cold-{key}")), Some(value(key)), "{key}");
    }
    let report = asked.list("stats ring");
    assert!(report.iter().any(|line| line == "STAT ranges_short_of_copies 0"), "{report:#?}");
    assert!(!report.iter().any(|line| line.contains(":losses ") && !line.ends_with(" 0")));
}

/// Waits until the report of the ring has all of these lines.
fn await_lines(asked: &mut Client, lines: &[&str]) {
    let start = std::time::Instant::now();
    loop {
        let report = asked.list("stats ring");
        if lines.iter().all(|line| report.iter().any(|it| it == line)) {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{lines:?}: {report:#?}");
        thread::yield_now();
    }
}

#[test]
fn a_cell_that_is_ended_gives_away_all_that_it_has_and_takes_its_place_again() {
    let mut ring = Ring::start("restarts");
    let others = ring.clients[..2].to_vec();
    let mut asked = Client::connect(others[0]);
    under_load_of(&others, |_, _| {
        for start in [2, 3] {
            ring.signal(2, nix::sys::signal::Signal::SIGTERM);
            ring.await_starts(1);
            // It waits for the map.
            let cells = Client::connect(ring.clients[2]).ask("config get cluster\r\n");
            assert!(cells.starts_with("CONFIG cluster 0 "), "{cells}");
            let is_back = format!("STAT cell:3:start {start}");
            let lines =
                [&*is_back, "STAT range:3:primary 3", "STAT ranges_short_of_copies 0", "END"];
            await_lines(&mut asked, &lines);
        }
    });
    (1..=3).for_each(|range| is_whole(&asked.list("stats ring"), range));
}

#[test]
fn all_cells_begin_again_one_after_the_other_and_clients_of_the_others_go_on() {
    let ring = Ring::start_with("rolls", CELLS, &[], &["--allow-shutdown"]);
    let other = |cell: usize| ring.clients[(cell + 1) % CELLS];
    for cell in 0..CELLS {
        let mut asked = Client::connect(other(cell));
        let clients: Vec<_> =
            (0..CELLS).filter(|it| *it != cell).map(|it| ring.clients[it]).collect();
        under_load_of(&clients, |_, _| {
            let number = (cell + 1).to_string();
            assert_eq!(
                ctl(other(cell), &["restart", &number])["cell"].as_u64(),
                Some(cell as u64 + 1)
            );
        });
        let report = asked.list("stats ring");
        assert!(
            report.iter().any(|it| *it == format!("STAT cell:{}:start 2", cell + 1)),
            "{report:#?}"
        );
        assert_eq!(of_range(&report, cell + 1, "primary"), cell as u64 + 1);
        (1..=CELLS).for_each(|range| is_whole(&report, range));
    }
}

/// Some clients leave a server alone for a minute that has refused them once.
#[test]
fn a_client_that_connects_while_a_cell_begins_again_waits_and_is_not_refused() {
    let ring = Ring::start_with("queues", CELLS, &[], &["--allow-shutdown"]);
    let (at, ends) = (ring.clients[1], AtomicBool::new(false));
    thread::scope(|scope| {
        let connects = scope.spawn(|| {
            let mut answers = 0;
            while !ends.load(Ordering::Relaxed) {
                let mut client = Client::try_connect(at).expect("it is not refused");
                // A connection that the program before has accepted ends with that.
                answers += usize::from(client.try_ask("mn\r\n").as_deref() == Some("MN"));
            }
            answers
        });
        let stopping = Stopping(&ends);
        for _ in 0..3 {
            assert_eq!(ctl(ring.clients[0], &["restart", "2"])["cell"].as_u64(), Some(2));
        }
        drop(stopping);
        assert!(connects.join().expect("each connection was taken") > 0);
    });
    let report = Client::connect(at).list("stats ring");
    assert!(report.iter().any(|line| line == "STAT cell:2:start 4"), "{report:#?}");
}

#[test]
fn a_cell_is_absorbed_and_another_one_emptied_while_clients_go_on() {
    let ring = Ring::start_with("absorbs", 4, &[], &[]);
    let mut asked = Client::connect(ring.clients[0]);
    under_load_of(&ring.clients[..3], |_, _| {
        let absorbed = ctl(ring.clients[0], &["absorb", "4"]);
        assert_eq!(absorbed["state"].as_str(), Some("absorbed"));
        let report = asked.list("stats ring");
        assert!(report.iter().any(|line| line == "STAT ranges 3"), "{report:#?}");
        assert!(report.iter().any(|line| line == "STAT cell:4:leaves absorbed"), "{report:#?}");
        // One that is to stay takes its place again.
        assert_eq!(ctl(ring.clients[1], &["drain", "2"])["state"].as_str(), Some("drained"));
        let report = asked.list("stats ring");
        (1..=3).for_each(|range| assert_ne!(of_range(&report, range, "primary"), 2));
        let undone = ctl(ring.clients[1], &["drain", "2", "--undo"]);
        assert_eq!(undone["state"].as_str(), Some("stays"));
        await_lines(&mut asked, &["STAT range:2:primary 2", "STAT ranges_short_of_copies 0"]);
    });
    (1..=3).for_each(|range| is_whole(&asked.list("stats ring"), range));
}

#[test]
fn a_range_that_is_handed_over_answers_as_one_server_does() {
    let ring = Ring::start("moves");
    let mut asked = Client::connect(ring.clients[0]);
    under_load(&ring, |count, has_ended| {
        for (round, range) in (0..ROUNDS).flat_map(|round| (1..=CELLS).map(move |it| (round, it))) {
            let report = asked.list("stats ring");
            let [primary, copy] = ["primary", "copies"].map(|name| of_range(&report, range, name));
            // To the copy, and in the next round to the cell that has nothing of the range.
            let other = (1..=CELLS as u64).sum::<u64>() - primary - copy;
            moves(&ring, range, if round % 2 == 0 { copy } else { other });
            let (before, start) = (count.load(Ordering::Relaxed), std::time::Instant::now());
            while count.load(Ordering::Relaxed) < before + KEYS {
                assert!(start.elapsed() < DEADLINE, "nothing is answered any more");
                if has_ended() {
                    return;
                }
                thread::yield_now();
            }
        }
    });
    let report = asked.list("stats ring");
    for range in 1..=CELLS {
        is_whole(&report, range);
        assert_eq!(of_range(&report, range, "epoch"), 1 + ROUNDS as u64);
        assert_ne!(of_range(&report, range, "copies"), of_range(&report, range, "primary"));
    }
}
