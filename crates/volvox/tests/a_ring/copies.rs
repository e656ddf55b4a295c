//! Copies answer reads, where clients allow it, and a connection notices nothing but the time.

use std::net::SocketAddr;
use std::time::Instant;

use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Reads that are sent at once.
const TOGETHER: usize = 40;
/// Changes of the key, each followed by reads.
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

/// Sends the same read many times at once, and expects this line and the same end each time.
fn read_together(client: &mut Client, request: &str, expected: &[&str]) {
    client.send(&request.repeat(TOGETHER));
    for nth in 0..TOGETHER {
        for line in expected {
            assert_eq!(client.line(), *line, "{nth}. of {request:?}");
        }
    }
}

#[test]
fn copies_answer_where_they_may_and_a_connection_reads_its_own_changes() {
    let ring = Ring::start_with("copies", CELLS, &[], &["--ring-copy-reads-ms", "250"]);
    let start = Instant::now();
    let mut clients: Vec<_> = ring.clients.iter().map(|at| Client::connect(*at)).collect();
    for round in 0.. {
        let value = round.to_string();
        let bytes = value.len();
        // Of one of these the client's cell is the primary, of one a copy, of one neither.
        for client in &mut clients {
            let set = format!("set key 0 0 {bytes}\r\n{value}\r\n");
            assert_eq!(client.ask(&set), "STORED");
            let header = format!("VALUE key 0 {bytes}");
            read_together(client, "get key\r\n", &[&header, &value, "END"]);
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
    assert_eq!(clients[0].ask("set key 0 0 1\r\n7\r\n"), "STORED");
    for client in &mut clients {
        read_together(client, "get key\r\n", &["VALUE key 0 1", "7", "END"]);
        read_together(client, "mg key v Lprimary\r\n", &["VA 1", "7"]);
    }
    assert_eq!(sum(&ring.clients, "copy_reads"), 0);
    let start = Instant::now();
    while sum(&ring.clients, "copy_reads") == 0 {
        for client in &mut clients {
            read_together(client, "mg key v Lcopy250\r\n", &["VA 1", "7"]);
        }
        assert!(start.elapsed() < DEADLINE, "no copy answers");
    }
    let words = "flag L is primary, copy, or copy and 1 to 250 milliseconds in a ring";
    let refused = clients.iter_mut().map(|client| client.ask("mg key v Lcopy251\r\n"));
    refused.for_each(|line| assert_eq!(line, format!("CLIENT_ERROR {words}")));
}
