//! However many long values clients ask for at once, cells hold few of them at a time.

use crate::questions::{ctl, lines};
use crate::support::{CELLS, Client, Ring};

/// Keys of all ranges, and the length of their values.
const KEYS: usize = 40;
const VALUE_BYTES: usize = 100_000;
/// What a cell may hold beyond its limit, and the limit, by default.
const BEYOND_BYTES: u64 = 32 << 20;
const LIMIT_BYTES: u64 = 64 << 20;
/// Values that a client asks for at once: twice the limit.
const ASKED: usize = 1_300;
/// Clients that do so at the same time.
const CLIENTS: usize = 8;

fn key(number: usize) -> String {
    format!("key{}", number % KEYS)
}

/// A value that says of which key it is.
fn value(number: usize, mark: &str) -> String {
    let begin = format!("{mark}{} ", number % KEYS);
    let rest = "v".repeat(VALUE_BYTES - begin.len());
    begin + &rest
}

fn stored(name: &str) -> Ring {
    fill(Ring::start(name))
}

fn fill(ring: Ring) -> Ring {
    let mut client = Client::connect(ring.clients[0]);
    for number in 0..KEYS {
        let (key, value) = (key(number), value(number, "a"));
        let reply = client.ask(&format!("set {key} 0 0 {VALUE_BYTES}\r\n{value}\r\n"));
        assert_eq!(reply, "STORED");
    }
    ring
}

fn check_memory(ring: &Ring) {
    for cell in 0..CELLS {
        let peak = ring.peak_bytes(cell);
        assert!(peak < LIMIT_BYTES + BEYOND_BYTES, "cell {cell} has held {peak} bytes");
    }
}

/// Reads a value that must be there.
fn takes_value(client: &mut Client, number: usize, mark: &str) {
    assert_eq!(client.line(), format!("VALUE {} 0 {VALUE_BYTES}", key(number)));
    assert!(client.line() == value(number, mark), "{number}: another value");
}

#[test]
fn pipelined_gets_of_long_values_are_all_answered_in_little_memory() {
    let ring = stored("long-gets");
    let gets: String = (0..ASKED).map(|number| format!("get {}\r\n", key(number))).collect();
    let gets_all = || {
        let mut client = Client::connect(ring.clients[0]);
        client.send(&gets);
        for number in 0..ASKED {
            takes_value(&mut client, number, "a");
            assert_eq!(client.line(), "END");
        }
    };
    std::thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(gets_all))));
    check_memory(&ring);
}

#[test]
fn one_get_of_many_long_values_is_answered_before_what_follows_it_is_done() {
    let ring = stored("long-multiget");
    let keys: String = (0..ASKED).map(|number| format!(" {}", key(number))).collect();
    for (cell, clients) in ring.clients.iter().enumerate() {
        let (before, after) = (["a", "b", "c"][cell], ["b", "c", "d"][cell]);
        let mut client = Client::connect(*clients);
        let sets = (0..KEYS).map(|number| {
            format!("set {} 0 0 {VALUE_BYTES}\r\n{}\r\n", key(number), value(number, after))
        });
        let text = format!("get{keys}\r\n{}", sets.collect::<String>());
        let mut writer = client.writer();
        std::thread::scope(|scope| {
            scope.spawn(move || writer.send(&text));
            (0..ASKED).for_each(|number| takes_value(&mut client, number, before));
            assert_eq!(client.line(), "END");
            (0..KEYS).for_each(|_| assert_eq!(client.line(), "STORED"));
        });
    }
    check_memory(&ring);
}

#[test]
fn clients_that_read_nothing_hold_up_nobody_and_take_little_memory() {
    let ring = stored("long-unread");
    let gets: String = (0..ASKED).map(|number| format!("get {}\r\n", key(number))).collect();
    let unread: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::connect(ring.clients[number % CELLS]);
            client.send(&gets);
            client
        })
        .collect();
    for clients in &ring.clients {
        let mut client = Client::connect(*clients);
        for number in 0..10 * KEYS {
            assert_eq!(client.get(&key(number)), Some(value(number, "a")));
        }
    }
    check_memory(&ring);
    drop(unread);
}

/// What a cell leads itself comes faster than any client takes it.
#[test]
fn one_get_of_many_long_values_waits_for_its_client_also_where_one_cell_leads_all() {
    let alone = Ring::start_with("long-owner", 1, &[], &[]);
    for ring in [fill(alone), stored("long-slow-client")] {
        let keys: String = (0..ASKED).map(|number| format!(" {}", key(number))).collect();
        for (cell, clients) in ring.clients.iter().enumerate() {
            let mut slow = Client::connect(*clients);
            slow.send(&format!("get{keys}\r\n"));
            let mut other = Client::connect(*clients);
            for number in 0..10 * KEYS {
                assert_eq!(other.get(&key(number)), Some(value(number, "a")));
            }
            (0..ASKED).for_each(|number| takes_value(&mut slow, number, "a"));
            assert_eq!(slow.line(), "END");
            let peak = ring.peak_bytes(cell);
            assert!(peak < LIMIT_BYTES + BEYOND_BYTES, "cell {cell} has held {peak} bytes");
        }
    }
}

/// What other cells lead comes as fast as they send it.
#[test]
fn gets_of_long_values_that_one_other_cell_leads_wait_for_their_client() {
    let ring = stored("long-other");
    let names: Vec<String> = (0..KEYS).map(key).collect();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_, text) = ctl(&ring, 0, &[&["who-has", "--json"], &words[..]].concat());
    let leaders: Vec<_> = lines(&text).iter().map(|line| line["primary"].as_u64()).collect();
    for leader in 2..=CELLS as u64 {
        let led: Vec<_> = (0..KEYS).filter(|key| leaders[*key] == Some(leader)).collect();
        let asked: Vec<_> = led.into_iter().cycle().take(128).collect();
        let keys: String = asked.iter().map(|number| format!(" {}", key(*number))).collect();
        let gets: String = asked.iter().map(|number| format!("get {}\r\n", key(*number))).collect();
        for (text, ends) in [(format!("get{keys}\r\n"), 1), (gets, asked.len())] {
            let mut slow = Client::connect(ring.clients[0]);
            slow.send(&text);
            let mut other = Client::connect(ring.clients[0]);
            for number in 0..10 * KEYS {
                assert_eq!(other.get(&key(number)), Some(value(number, "a")));
            }
            for (at, number) in asked.iter().enumerate() {
                takes_value(&mut slow, *number, "a");
                if ends > 1 || at + 1 == asked.len() {
                    assert_eq!(slow.line(), "END");
                }
            }
        }
    }
    check_memory(&ring);
}
