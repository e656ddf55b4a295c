//! Any bytes as the replies to one connection of the generator, or to a replay: no panic, counts
//! that fit the requests, and the same result however the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use load::fuzzing::{exchange, round};

fuzz_target!(|input: &[u8]| {
    match input.split_first() {
        Some((which, rest)) if which % 2 == 0 => exchange(rest),
        Some((_, rest)) => round(rest),
        None => {}
    }
});
