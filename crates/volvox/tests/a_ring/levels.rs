//! What each level of acknowledgement answers while a range has two copies, and while it has one.

use std::thread;
use std::time::Instant;

use crate::support::{Client, DEADLINE, Ring};

/// A key of each range, as long as there are two.
const KEYS: [&str; 2] = ["a", "b"];

/// What is sent for a key `K` whose range has one copy, and the beginning of what is answered.
const ALONE: &[(&str, &str)] = &[
    ("ms K 1 Pd0|x", "HD"),
    ("ms K 1 Pd1|y", "HD"),
    ("ms K 1|z", "HD"),
    ("ms K 1 Pd2|n", "SERVER_ERROR not replicated: range "),
    ("ma K-n N0 Pd2", "SERVER_ERROR not replicated: range "),
    ("md K Pd2", "SERVER_ERROR not replicated: range "),
    ("mg K v T30 Pd2", "SERVER_ERROR not replicated: range "),
    ("mg K v Pd2", "VA 1|z"),
    ("mg K v Pfence", "VA 1|z"),
    ("mg K v Ppool", "VA 1|z"),
    ("mg K v Pd7", "CLIENT_ERROR flag P is d0, d1, d2 or fence in a ring"),
];

fn ask(client: &mut Client, text: &str, answer: &str) {
    let lines = answer.split('|').count();
    let mut answered = vec![client.ask(&format!("{}\r\n", text.replace('|', "\r\n")))];
    answered.extend((1..lines).map(|_| client.line()));
    let answered = answered.join("|");
    assert!(answered.starts_with(answer), "{text}: {answered}");
}

#[test]
fn d2_refuses_changes_while_one_copy_is_left_and_all_else_goes_on() {
    let ring = Ring::start_with("levels", 2, &["--stay-ended"], &[]);
    let slices = KEYS.map(|key| base::SliceId::of(key.as_bytes()).index() < base::SLICES / 2);
    assert_ne!(slices[0], slices[1], "they are of two ranges");
    let mut client = Client::connect(ring.clients[0]);
    for key in KEYS {
        for level in ["Pd0", "Pd1", "Pd2", "Pfence"] {
            ask(&mut client, &format!("ms {key} 1 {level}|x"), "HD");
            ask(&mut client, &format!("mg {key} v {level}"), "VA 1|x");
        }
    }
    ring.kill(1);
    for key in KEYS {
        // Until the dead cell is dropped it is a copy, or the primary.
        let start = Instant::now();
        let refused = format!("ms {key} 1 Pd2\r\nn\r\n");
        while !client.ask(&refused).starts_with("SERVER_ERROR not replicated: ") {
            assert!(start.elapsed() < DEADLINE, "it is not refused");
            thread::yield_now();
        }
        for (text, answer) in ALONE {
            ask(&mut client, &text.replace('K', key), answer);
        }
    }
}
