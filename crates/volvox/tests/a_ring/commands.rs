//! Every command about a key works through every cell, wherever the key is.

use crate::support::{CELLS, Client, Ring};

/// Keys for each cell: some of them are led by each.
const KEYS: usize = 24;

/// What is sent for a key `K`, and what is answered. `T` is the token of the last `gets`.
const CASES: &[(&str, &str)] = &[
    ("add K 5 0 1|1", "STORED"),
    ("add K 5 0 1|1", "NOT_STORED"),
    ("incr K 41", "42"),
    ("decr K 2", "40"),
    ("append K 0 0 1|7", "STORED"),
    ("prepend K 0 0 1|9", "STORED"),
    ("get K", "VALUE K 5 4|9407|END"),
    ("gets K", "VALUE K 5 4 T|9407|END"),
    ("cas K 1 0 2 T|zz", "STORED"),
    ("cas K 1 0 2 T|zz", "EXISTS"),
    ("touch K 100", "TOUCHED"),
    ("gat 100 K", "VALUE K 1 2|zz|END"),
    ("mg K s f v Oabc k", "VA 2 s2 f1 Oabc kK|zz"),
    ("mg absent-K v", "EN"),
    ("ms K 3 T0 F9|abc", "HD"),
    ("ma K-n N0 J5 v", "VA 1|5"),
    ("ma K-n v", "VA 1|6"),
    ("md K q|mn", "MN"),
    ("delete K", "NOT_FOUND"),
    ("set K 0 0 1 noreply|y|get K", "VALUE K 0 1|y|END"),
    ("incr K 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
    ("replace absent-K 0 0 1|y", "NOT_STORED"),
    ("delete K", "DELETED"),
    ("delete K", "NOT_FOUND"),
];

#[test]
fn each_is_answered_as_by_one_cell() {
    are_answered("commands", &[]);
}

#[test]
fn likewise_where_reads_rest_on_fences_and_changes_take_two_copies() {
    are_answered("commands-strict", &["--ring-reads", "fence", "--ring-durability", "d2"]);
}

#[test]
fn likewise_where_changes_wait_for_nothing() {
    are_answered("commands-d0", &["--ring-durability", "d0"]);
}

/// Flags of cells that have two logs each.
const TWO_LANES: &[&str] = &["--workers", "2", "--memory-limit", "256M"];

#[test]
fn likewise_where_cells_have_two_logs() {
    are_answered("commands-lanes", TWO_LANES);
}

fn are_answered(name: &str, of_cells: &[&str]) {
    let ring = Ring::start_with(name, CELLS, &[], of_cells);
    for (cell, at) in ring.clients.iter().enumerate() {
        let mut client = Client::connect(*at);
        for key in 0..KEYS {
            let key = format!("key-{cell}-{key}");
            let mut token = String::new();
            for (sent, expected) in CASES {
                let fill = |text: &str, token: &str| {
                    let text = text.replace(" T|", &format!(" {token}|"));
                    text.replace('K', &key).replace('|', "\r\n")
                };
                let mut lines = vec![client.ask(&format!("{}\r\n", fill(sent, &token)))];
                lines.extend(expected.split('|').skip(1).map(|_| client.line()));
                if sent.starts_with("gets") {
                    token = lines[0].rsplit(' ').next().unwrap_or_default().to_owned();
                }
                // The token stands at the end of a line here.
                let expected = expected.replace(" T|", &format!(" {token}|"));
                assert_eq!(
                    lines.join("\r\n"),
                    fill(&expected, &token),
                    "{sent} through cell {cell}"
                );
            }
        }
    }
}

#[test]
fn several_keys_and_long_values_come_in_order_from_their_owners() {
    come_in_order_and_are_flushed("several", &[]);
}

#[test]
fn likewise_from_cells_that_have_two_logs() {
    come_in_order_and_are_flushed("several-lanes", TWO_LANES);
}

fn come_in_order_and_are_flushed(name: &str, of_cells: &[&str]) {
    let ring = Ring::start_with(name, CELLS, &[], of_cells);
    let mut client = Client::connect(ring.clients[0]);
    let value = |key: usize| char::from(b'a' + key as u8).to_string().repeat(100_000 + key);
    for key in 0..KEYS {
        let (value, length) = (value(key), value(key).len());
        assert_eq!(client.ask(&format!("set key-{key} 0 0 {length}\r\n{value}\r\n")), "STORED");
    }
    for at in &ring.clients {
        let mut client = Client::connect(*at);
        let keys: Vec<_> = (0..KEYS).rev().map(|key| format!("key-{key} absent-{key}")).collect();
        let mut line = client.ask(&format!("get {}\r\n", keys.join(" ")));
        for key in (0..KEYS).rev() {
            assert_eq!(line, format!("VALUE key-{key} 0 {}", value(key).len()));
            assert_eq!(client.line(), value(key));
            line = client.line();
        }
        assert_eq!(line, "END");
    }
    assert_eq!(Client::connect(ring.clients[1]).ask("flush_all\r\n"), "OK");
    for at in &ring.clients {
        let mut client = Client::connect(*at);
        assert!((0..KEYS).all(|key| client.get(&format!("key-{key}")).is_none()));
    }
}

#[test]
fn pipelined_requests_of_one_client_keep_their_order() {
    let ring = Ring::start("pipelined");
    for at in &ring.clients {
        let mut client = Client::connect(*at);
        for key in 0..KEYS {
            let pair = |at: usize| format!("set k{key} 0 0 2\r\n{at:02}\r\nget k{key}\r\n");
            let mut line = client.ask(&(10..30).map(pair).collect::<String>());
            for at in 10..30 {
                let lines = [line, client.line(), client.line(), client.line()];
                let expected = ["STORED", &format!("VALUE k{key} 0 2"), &at.to_string(), "END"];
                assert_eq!(lines, expected);
                line = if at < 29 { client.line() } else { String::new() };
            }
        }
    }
}
