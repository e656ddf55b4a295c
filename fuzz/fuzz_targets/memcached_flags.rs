//! Any words as a command line of memcached, and any bytes as its file of users: each is refused
//! with a reason or accepted, and accepted flags give valid settings or reasons.
#![no_main]

use libfuzzer_sys::fuzz_target;
use volvox::auth::Users;
use volvox::config::load;
use volvox::memcached::{Command, parse};

/// The most words of a command line that are tried.
const WORDS_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    match Users::parse(input) {
        Ok(users) => _ = users.check(input),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
    let text = String::from_utf8_lossy(input);
    let words: Vec<String> = text.split('\n').take(WORDS_MAX).map(str::to_owned).collect();
    match parse(&words) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(Command::Start(start)) => match load(&start.assignments) {
            Ok(loaded) => assert!(loaded.settings.memory.limit > 0),
            Err(errors) => assert!(!errors.is_empty()),
        },
        Ok(_) => {}
    }
});
