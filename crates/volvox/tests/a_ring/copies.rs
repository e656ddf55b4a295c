//! Copies answer reads, where clients allow it, and a connection notices nothing but the time.

use std::net::SocketAddr;
use std::time::Instant;

use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Keys, which are read together. Those of one slice would all be asked of one cell.
const KEYS: usize = 40;
/// Changes of all keys, each followed by reads.
const ROUNDS: usize = 50;

/// The number after this name in `stats ring`, of all cells together.
fn sum(cells: &[SocketAddr], name: &str) -> u64 {
    let of = |at: &SocketAddr| {
        let report = Client::connect(*at).list("stats ring");
        let begin = format!("STAT {name} ");
        let number = |line: &String| line.strip_prefix(&begin)?.parse().ok();
        let value: Option<u64> = report.iter().find_map(number);
        value.unwrap_or_else(|| panic!("{name}: {report:#?}"))
    };
    cells.iter().map(of).sum::<u64>()
}

/// Stores this value for all keys.
fn store(client: &mut Client, value: &str) {
    for key in 0..KEYS {
        let set = format!("set key-{key} 0 0 {}\r\n{value}\r\n", value.len());
        assert_eq!(client.ask(&set), "STORED");
    }
}

/// Reads all keys at once, by these requests, and expects these lines of each.
fn read_together(
    client: &mut Client,
    request: impl Fn(usize) -> String,
    expected: impl Fn(usize) -> Vec<String>,
) {
    client.send(&(0..KEYS).map(request).collect::<String>());
    for key in 0..KEYS {
        for line in expected(key) {
            assert_eq!(client.line(), line, "key {key}");
        }
    }
}

/// Reads all keys by `get`.
fn get_together(client: &mut Client, value: &str) {
    let get = |key: usize| format!("get key-{key}\r\n");
    let header = |key: usize| format!("VALUE key-{key} 0 {}", value.len());
    read_together(client, get, |key| vec![header(key), value.to_owned(), "END".to_owned()]);
}

/// Reads all keys by `mg` with this flag.
fn meta_get_together(client: &mut Client, flag: &str) {
    let get = |key: usize| format!("mg key-{key} v {flag}\r\n");
    read_together(client, get, |_| vec!["VA 1".to_owned(), "7".to_owned()]);
}

#[test]
fn copies_answer_where_they_may_and_a_connection_reads_its_own_changes() {
    let ring = Ring::start_with("copies", CELLS, &[], &["--ring-copy-reads-ms", "250"]);
    let start = Instant::now();
    let mut clients: Vec<_> = ring.clients.iter().map(|at| Client::connect(*at)).collect();
    for round in 0.. {
        let value = round.to_string();
        // Of some keys the client's cell is the primary, of some a copy, of some neither.
        for client in &mut clients {
            store(client, &value);
            get_together(client, &value);
        }
        if round >= ROUNDS && sum(&ring.clients, "copy_reads") > 0 {
            break;
        }
        assert!(start.elapsed() < DEADLINE, "no copy answers");
    }
}

#[test]
fn a_request_has_a_copy_answer_and_else_the_primary_does() {
    let ring = Ring::start("copies-chosen");
    let mut clients: Vec<_> = ring.clients.iter().map(|at| Client::connect(*at)).collect();
    store(&mut clients[0], "7");
    for client in &mut clients {
        get_together(client, "7");
        meta_get_together(client, "Lprimary");
    }
    assert_eq!(sum(&ring.clients, "copy_reads"), 0);
    let start = Instant::now();
    while sum(&ring.clients, "copy_reads") == 0 {
        for client in &mut clients {
            meta_get_together(client, "Lcopy250");
        }
        assert!(start.elapsed() < DEADLINE, "no copy answers");
    }
    let words = "flag L is primary, copy, or copy and 1 to 250 milliseconds in a ring";
    let refused = clients.iter_mut().map(|client| client.ask("mg key-0 v Lcopy251\r\n"));
    refused.for_each(|line| assert_eq!(line, format!("CLIENT_ERROR {words}")));
}
