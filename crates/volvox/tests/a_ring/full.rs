//! A ring that is filled beyond its memory keeps two copies of what it keeps.

use crate::support::{CELLS, Client, Ring};

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
    // What fits of two copies in the memory of two cells, at least.
    let kept = count(&mut client, 0..VALUES + VALUES / 4);
    assert!(kept * VALUE_BYTES > 10 << 20, "{kept} are left");
}
