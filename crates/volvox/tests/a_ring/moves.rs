//! The role of the primary moves between cells that run, and clients notice nothing.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Times that each range is handed over, and keys of each client.
const ROUNDS: usize = 6;
const KEYS: usize = 64;

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

/// Has cells hand over ranges by `volvox ctl move`.
fn moves(ring: &Ring, range: usize, cell: u64) {
    let server = ring.clients[range % CELLS].to_string();
    let (range, cell) = (range.to_string(), cell.to_string());
    let words = ["ctl", "--json", "--server", &server, "move", &range, &cell];
    let said = Command::new(env!("CARGO_BIN_EXE_volvox")).args(words).output().expect("it runs");
    let (out, error) =
        (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "range {range} to cell {cell}: {out}{error}");
    let moved: serde_json::Value = serde_json::from_str(&out).expect("an object");
    assert_eq!(moved["cell"].to_string(), cell);
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
    let (stops, count) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let clients = ring.clients.iter().enumerate();
        let clients = clients.map(|(name, at)| {
            let (stops, count) = (&stops, &count);
            scope.spawn(move || use_keys(*at, name, stops, count))
        });
        let clients: Vec<_> = clients.collect();
        steps(&count, &|| clients.iter().any(|client| client.is_finished()));
        stops.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("each answer was right"));
    });
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
