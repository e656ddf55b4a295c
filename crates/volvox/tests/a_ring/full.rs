//! A ring that is filled beyond its memory keeps two copies of what it keeps. Where it evicts
//! nothing, it keeps all that it has stored, and refuses the rest.

use crate::support::{CELLS, Client, DEADLINE, Ring};
use std::time::Instant;

/// What the cells have, and how many values are stored: more than twice what fits with copies.
const LIMIT: &str = "16M";
const VALUES: usize = 150_000;
const VALUE_BYTES: usize = 300;
/// Requests that are sent before their replies are read.
const BATCH: usize = 250;

fn value(number: usize) -> String {
    format!("{number:0VALUE_BYTES$}")
}

fn fill(client: &mut Client, numbers: std::ops::Range<usize>) {
    for start in numbers.clone().step_by(BATCH) {
        let mut requests = String::new();
        let batch = start..numbers.end.min(start + BATCH);
        for number in batch.clone() {
            requests.push_str(&format!("set {number} 0 0 {VALUE_BYTES}\r\n{}\r\n", value(number)));
        }
        client.send(&requests);
        for _ in batch {
            assert_eq!(client.line(), "STORED");
        }
    }
}

/// The number of values that are there. Each is right.
fn count(client: &mut Client, numbers: std::ops::Range<usize>) -> usize {
    let is_there = |number: &usize| match client.get(&number.to_string()) {
        Some(read) => {
            assert_eq!(read, value(*number));
            true
        }
        None => false,
    };
    numbers.filter(is_there).count()
}

fn short(ring: &Ring, cell: usize) -> String {
    let lines = Client::connect(ring.clients[cell]).list("stats ring");
    lines.into_iter().find(|line| line.contains("ranges_short_of_copies")).expect("it is reported")
}

#[test]
fn it_has_two_copies_before_a_kill_and_after_it() {
    let mut ring = Ring::start_with("full", CELLS, &[], &["--memory-limit", LIMIT]);
    let mut client = Client::connect(ring.clients[0]);
    fill(&mut client, 0..VALUES);
    for cell in 0..CELLS {
        assert_eq!(short(&ring, cell), "STAT ranges_short_of_copies 0");
    }
    ring.kill(1);
    ring.heal(1);
    fill(&mut client, VALUES..VALUES + VALUES / 4);
    for cell in 0..CELLS {
        assert_eq!(short(&ring, cell), "STAT ranges_short_of_copies 0");
    }
    // Where the killed cell returns late, another one keeps a part of each range: then no more is
    // kept twice than fits into that cell.
    let kept = count(&mut client, 0..VALUES + VALUES / 4);
    assert!(kept * VALUE_BYTES > 9 << 20, "{kept} are left");
}

/// Stores values until one is refused for lack of memory. Returns how many were stored. Nothing
/// else may be answered.
fn fill_until_refused(client: &mut Client, numbers: std::ops::Range<usize>) -> usize {
    for number in numbers.clone() {
        let text = format!("set {number} 0 0 {VALUE_BYTES}\r\n{}\r\n", value(number));
        match client.ask(&text).as_str() {
            "STORED" => {}
            "SERVER_ERROR out of memory storing object" => return number - numbers.start,
            other => panic!("{number}: {other}"),
        }
    }
    panic!("{numbers:?} fit in {CELLS} cells of {LIMIT}")
}

fn statistic(ring: &Ring, cell: usize, name: &str) -> String {
    let lines = Client::connect(ring.clients[cell]).list("stats");
    let line =
        lines.into_iter().find_map(|it| it.strip_prefix(&format!("STAT {name} ")).map(Into::into));
    line.expect("it is reported")
}

#[test]
fn without_eviction_it_refuses_what_does_not_fit_and_takes_more_after_deletes() {
    let flags = ["--memory-limit", LIMIT, "--evict=false"];
    let ring = Ring::start_with("refusing", CELLS, &[], &flags);
    let mut client = Client::connect(ring.clients[0]);
    let stored = fill_until_refused(&mut client, 0..VALUES);
    assert!(stored * VALUE_BYTES > 10 << 20, "{stored} were stored");
    // The one that was refused is not there; each of those before it is.
    assert_eq!(client.get(&stored.to_string()), None);
    assert_eq!(count(&mut client, 0..stored), stored);
    // Deletes need no room in any cell.
    let deleted = stored / 2;
    for number in 0..deleted {
        assert_eq!(client.ask(&format!("delete {number}\r\n")), "DELETED");
    }
    let again = fill_until_refused(&mut client, VALUES..2 * VALUES);
    assert!(again > deleted / 2, "{again} after {deleted} were deleted");
    assert_eq!(count(&mut client, deleted..stored), stored - deleted);
    assert_eq!(count(&mut client, VALUES..VALUES + again), again);
    for cell in 0..CELLS {
        assert_eq!(short(&ring, cell), "STAT ranges_short_of_copies 0");
        assert_eq!(statistic(&ring, cell, "evictions"), "0");
    }
}

/// What is copied to the cell that returned takes no room of the copies that are full.
#[test]
fn without_eviction_a_full_ring_has_two_copies_again_after_a_kill() {
    let flags = ["--memory-limit", LIMIT, "--evict=false"];
    let mut ring = Ring::start_with("refilled", CELLS, &[], &flags);
    let stored = fill_until_refused(&mut Client::connect(ring.clients[0]), 0..VALUES);
    ring.kill(1);
    ring.heal(1);
    for cell in 0..CELLS {
        // One cell has said so; the others get its map a moment later.
        let began = Instant::now();
        while short(&ring, cell) != "STAT ranges_short_of_copies 0" {
            assert!(began.elapsed() < DEADLINE, "cell {} has another map", cell + 1);
        }
        assert_eq!(statistic(&ring, cell, "evictions"), "0");
        assert_eq!(count(&mut Client::connect(ring.clients[cell]), 0..stored), stored);
    }
}
