//! The time of a ring of real processes: delayed flushes, items that expire, and a restart of all.

use std::thread;
use std::time::Instant;

use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Keys for each cell: some of them are led by each.
const KEYS: usize = 24;

fn store(ring: &Ring, through: usize, exptime: u32) {
    let mut client = Client::connect(ring.clients[through]);
    for key in 0..KEYS {
        assert_eq!(client.ask(&format!("set key-{key} 0 {exptime} 1\r\nx\r\n")), "STORED");
    }
}

/// The keys that a cell finds. While a cell takes over, it is asked again.
fn found(client: &mut Client) -> Vec<usize> {
    let start = Instant::now();
    let mut is_there = |key: &usize| loop {
        let line = client.ask(&format!("get key-{key}\r\n"));
        if line.starts_with("VALUE ") {
            assert_eq!([client.line(), client.line()], ["x", "END"]);
        }
        if !line.starts_with("SERVER_ERROR") {
            return line != "END";
        }
        assert!(start.elapsed() < DEADLINE, "{line}");
    };
    (0..KEYS).filter(&mut is_there).collect()
}

fn clients(ring: &Ring) -> Vec<Client> {
    ring.clients.iter().map(|at| Client::connect(*at)).collect()
}

fn wait_until_gone(ring: &Ring) {
    let (start, mut clients) = (Instant::now(), clients(ring));
    while !clients.iter_mut().all(|client| found(client).is_empty()) {
        assert!(start.elapsed() < DEADLINE, "items stay");
        thread::yield_now();
    }
}

fn stat(client: &mut Client, name: &str) -> Option<String> {
    let report = client.list("stats ring");
    let prefix = format!("STAT {name} ");
    report.iter().find_map(|line| Some(line.strip_prefix(&prefix)?.to_owned()))
}

#[test]
fn a_delayed_flush_ends_what_came_before_it_once_also_where_another_cell_takes_over() {
    let mut ring = Ring::start("delayed-flush");
    store(&ring, 0, 0);
    assert_eq!(Client::connect(ring.clients[1]).ask("flush_all 1\r\n"), "OK");
    wait_until_gone(&ring);
    store(&ring, 2, 0);
    for victim in 0..CELLS {
        ring.kill(victim);
        for other in (0..CELLS).filter(|other| *other != victim) {
            let mut other = Client::connect(ring.clients[other]);
            assert_eq!(found(&mut other).len(), KEYS, "the flush is not repeated");
        }
        ring.heal(victim);
    }
    // One that is not due is replaced by a later one.
    assert_eq!(Client::connect(ring.clients[0]).ask("flush_all 100\r\n"), "OK");
    assert_eq!(Client::connect(ring.clients[2]).ask("flush_all 1\r\n"), "OK");
    // It is decided; each cell gets the map that says so a little later.
    let (start, mut asked) = (Instant::now(), clients(&ring));
    while !asked.iter_mut().all(|client| stat(client, "flush").as_deref() == Some("3")) {
        assert!(start.elapsed() < DEADLINE, "a cell does not get the map");
        thread::yield_now();
    }
    wait_until_gone(&ring);
}

#[test]
fn what_is_stored_in_the_due_second_of_a_flush_stays() {
    let ring = Ring::start("due-second");
    let mut client = Client::connect(ring.clients[0]);
    let is_led = |key: &String| {
        let report = Client::connect(ring.clients[0]).list(&format!("stats ring key {key}"));
        report.iter().any(|line| line == "STAT primary 1")
    };
    let mut keys = (0..).map(|key| format!("key-{key}")).filter(is_led);
    let (old, new) = (keys.next().expect("one"), keys.next().expect("another"));
    assert_eq!(client.ask(&format!("set {old} 0 0 1\r\nx\r\n")), "STORED");
    assert_eq!(client.ask("flush_all 2\r\n"), "OK");
    let start = Instant::now();
    let mut asking = Client::connect(ring.clients[0]);
    let mut second = |name| stat(&mut asking, name).and_then(|second| second.parse::<u64>().ok());
    while second("flush_due").is_none_or(|due_s| second("time") < Some(due_s)) {
        assert!(start.elapsed() < DEADLINE, "the second does not come");
        thread::yield_now();
    }
    // The cell shows the second already, and has led the key all the time.
    assert_eq!(client.ask(&format!("set {new} 0 0 1\r\nx\r\n")), "STORED");
    while stat(&mut asking, "range:1:flushed").as_deref() != Some("1") {
        assert!(start.elapsed() < DEADLINE, "it is not carried out");
        thread::yield_now();
    }
    assert_eq!((client.get(&old), client.get(&new)), (None, Some("x".to_owned())));
}

#[test]
fn items_expire_in_all_cells_and_cells_that_all_start_again_have_one_time() {
    let mut ring = Ring::start("expiry");
    store(&ring, 0, 1);
    wait_until_gone(&ring);
    store(&ring, 1, 1000);
    assert_eq!(found(&mut Client::connect(ring.clients[2])).len(), KEYS);
    let time = |ring: &Ring, cell| -> u64 {
        stat(&mut Client::connect(ring.clients[cell]), "time")
            .expect("it is shown")
            .parse()
            .expect("a second")
    };
    let before = time(&ring, 0);
    (0..CELLS).for_each(|cell| ring.kill(cell));
    ring.await_starts(CELLS);
    let start = Instant::now();
    let mut client = Client::connect(ring.clients[0]);
    while client.ask("set key-0 0 1 1\r\nx\r\n") != "STORED" {
        assert!(start.elapsed() < DEADLINE, "it is not served");
    }
    let times: Vec<_> = (0..CELLS).map(|cell| time(&ring, cell)).collect();
    assert!(times.iter().all(|it| *it >= before && it.abs_diff(times[0]) <= 2), "{times:?}");
    wait_until_gone(&ring);
}
