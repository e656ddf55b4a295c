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
    value_of(number, VALUE_BYTES)
}

fn value_of(number: usize, bytes: usize) -> String {
    format!("{number:0bytes$}")
}

fn fill(client: &mut Client, numbers: std::ops::Range<usize>) {
    fill_with(client, numbers, VALUE_BYTES);
}

/// Stores a value of this number of bytes for each number.
fn fill_with(client: &mut Client, numbers: std::ops::Range<usize>, bytes: usize) {
    for start in numbers.clone().step_by(BATCH) {
        let mut requests = String::new();
        let batch = start..numbers.end.min(start + BATCH);
        for number in batch.clone() {
            let value = value_of(number, bytes);
            requests.push_str(&format!("set {number} 0 0 {bytes}\r\n{value}\r\n"));
        }
        client.send(&requests);
        for _ in batch {
            assert_eq!(client.line(), "STORED");
        }
    }
}

/// The number of values that are there. Each is right.
fn count(client: &mut Client, numbers: impl Iterator<Item = usize>) -> usize {
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

/// Others have no room for what it has: had it left the ring, they would have evicted a third.
#[test]
fn a_cell_that_is_ended_does_not_leave_where_others_have_no_room() {
    let mut ring = Ring::start_with("full-ends", CELLS, &[], &["--memory-limit", LIMIT]);
    let mut client = Client::connect(ring.clients[0]);
    fill(&mut client, 0..VALUES);
    let before = count(&mut client, (0..VALUES).step_by(5));
    ring.signal(1, nix::sys::signal::Signal::SIGTERM);
    ring.heal(1);
    let after = count(&mut client, (0..VALUES).step_by(5));
    assert!(after * 10 > before * 9, "{after} of {before} are left");
}

/// There is nothing to copy then, however full they are.
#[test]
fn a_cell_that_is_ended_leaves_where_all_others_have_copies() {
    let flags = ["--memory-limit", LIMIT];
    let mut ring = Ring::start_with("full-leaves", CELLS, &["--copies", "3"], &flags);
    let mut client = Client::connect(ring.clients[0]);
    fill(&mut client, 0..VALUES);
    ring.signal(1, nix::sys::signal::Signal::SIGTERM);
    ring.heal(1);
    let log = client.list("stats ring log");
    assert!(log.iter().any(|line| line.contains("cell 2 is drained")), "{log:#?}");
}

#[test]
fn it_answers_reads_that_are_sent_together() {
    const LONG: usize = 4_000;
    const COUNT: usize = 12_000;
    const TOGETHER: usize = 32;
    let ring = Ring::start_with("full-reads", CELLS, &[], &["--memory-limit", LIMIT]);
    fill_with(&mut Client::connect(ring.clients[0]), 0..COUNT, LONG);
    for at in &ring.clients {
        let (mut client, mut found) = (Client::connect(*at), 0);
        for start in (COUNT / 2..COUNT).step_by(TOGETHER) {
            let numbers = start..COUNT.min(start + TOGETHER);
            let names: Vec<_> = numbers.clone().map(|number| number.to_string()).collect();
            // What comes early waits for what was asked for before it.
            let each = names.iter().map(|name| format!("mg {name} v\r\n")).collect::<String>();
            client.send(&each);
            for number in numbers.clone() {
                let line = client.line();
                if line == "EN" {
                    continue;
                }
                assert_eq!(line, format!("VA {LONG}"), "{number}");
                assert_eq!(client.line(), value_of(number, LONG));
                found += 1;
            }
            client.send(&format!("get {}\r\n", names.join(" ")));
            loop {
                let line = client.line();
                if line == "END" {
                    break;
                }
                assert!(line.starts_with("VALUE "), "{numbers:?}: {line}");
                client.line();
            }
        }
        assert!(found > COUNT / 16, "{found} of them are there");
    }
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
