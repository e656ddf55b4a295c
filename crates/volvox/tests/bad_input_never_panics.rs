//! Any text in a file, a variable or a command line gives a result or an error, never a panic.
//!
//! The input is made of fragments that the parsers look for, joined at random, so it goes deeper
//! than noise would. The sequence is the same in every run.

use std::path::Path;

use measure::rng::Rng;
use volvox::auth::Users;
use volvox::config::{
    Assignment, KEYS, Listen, Origin, Value, environment, file, load, parse_size,
};
use volvox::memcached;

const ROUNDS: usize = 4_000;
const FRAGMENTS_MAX: u64 = 12;

const FRAGMENTS: &[&str] = &[
    "[server]",
    "[memory]",
    "[",
    "]",
    "\n",
    "\r\n",
    "=",
    " ",
    "\"",
    "'",
    "#",
    ",",
    ";",
    ":",
    "::",
    "listen",
    "workers",
    "limit",
    "unix_mode",
    ".",
    "-",
    "--",
    "-1",
    "0",
    "18446744073709551616",
    "0x10",
    "1e9",
    "true",
    "-o",
    "-p",
    "-l",
    "-U",
    "-vvv",
    "-m",
    "-D",
    "--memory-",
    "--verbose",
    "idle_timeout",
    "hashpower=",
    "proto[",
    "tag[",
    "tag_",
    "notls:",
    "[::1",
    "*",
    "k",
    "MiB",
    "user:password",
    "\0",
    "\u{e9}",
    "\u{1f9ea}",
    "VOLVOX_",
    "SERVER_WORKERS",
    "PORT",
];

/// Some fragments, one after the other.
fn text(random: &mut Rng) -> String {
    let length = random.below(FRAGMENTS_MAX);
    let fragments = FRAGMENTS.len() as u64;
    (0..length).map(|_| FRAGMENTS[random.below(fragments) as usize]).collect()
}

#[test]
fn every_parser_answers() {
    let mut random = Rng::new(1, 0);
    for _ in 0..ROUNDS {
        let (text, other) = (text(&mut random), text(&mut random));
        if let Ok(assignments) = file::parse(Path::new("f"), &text) {
            let _ = load(&assignments);
        }
        let words = [text.clone(), other.clone(), format!("-{text}"), format!("--{other}")];
        if let Ok(memcached::Command::Start(start)) = memcached::parse(&words) {
            let _ = load(&start.assignments);
        }
        for value in [Value::Word(text.clone()), Value::Text(text.clone()), Value::Number(-1)] {
            let key = random.below(KEYS.len() as u64) as usize;
            let _ = load(&[Assignment { key, value, origin: Origin::Default }]);
        }
        let _ = environment::parse([(format!("VOLVOX_{text}"), other.clone())]);
        let _ = Users::parse(text.as_bytes()).map(|users| users.check(other.as_bytes()));
        let _ = Listen::parse(&text, 1);
        let _ = parse_size(&other, 1 << 20);
    }
}
