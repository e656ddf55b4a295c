//! The classic commands without a value: `get`, `gets`, `gat`, `gats`, `delete`, `incr`, `decr`,
//! `touch`.
//!
//! Words past those a command needs are ignored, but for `noreply`, which counts when it is last.
//! The retrieval commands know no `noreply`: there it is a key.

use crate::key::{Key, Keys};
use crate::number;
use crate::parse::Parsed;
use crate::refusal::Refusal;
use crate::request::{Direction, Request};
use crate::words::{Words, ask_noreply};

/// `get` and `gets`, after the word.
pub(super) fn retrieve(args: &[u8], consumed: usize, with_cas: bool) -> Parsed<'_> {
    let keys = Keys::of(args);
    if keys.is_empty() {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    }
    Parsed::whole(Request::Get { keys, with_cas }, consumed)
}

/// `gat` and `gats`, after the word.
pub(super) fn retrieve_and_touch(args: &[u8], consumed: usize, with_cas: bool) -> Parsed<'_> {
    let mut words = Words::new(args);
    let exptime = words.next().unwrap_or_default();
    let keys = Keys::of(words.rest());
    if keys.is_empty() {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    }
    match number::parse_i32(exptime) {
        Some(exptime) => Parsed::whole(Request::Gat { exptime, keys, with_cas }, consumed),
        None => Parsed::refused(Refusal::BadExptime, consumed, false),
    }
}

/// `delete`, after the word.
pub(super) fn delete(args: &[u8], consumed: usize) -> Parsed<'_> {
    let mut words = Words::new(args);
    let Some(word) = words.next() else {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    };
    let noreply = ask_noreply(args);
    match Key::new(word) {
        Some(key) => Parsed::whole(Request::Delete { key, noreply }, consumed),
        None => Parsed::refused(Refusal::BadFormat, consumed, noreply),
    }
}

/// `incr` and `decr`, after the word.
pub(super) fn arith<'a>(command: &[u8], args: &'a [u8], consumed: usize) -> Parsed<'a> {
    let mut words = Words::new(args);
    let (Some(word), Some(delta)) = (words.next(), words.next()) else {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    };
    let noreply = ask_noreply(args);
    let Some(key) = Key::new(word) else {
        return Parsed::refused(Refusal::BadFormat, consumed, noreply);
    };
    let Some(delta) = number::parse_u64(delta) else {
        return Parsed::refused(Refusal::BadDelta, consumed, noreply);
    };
    let direction = if command == b"incr" { Direction::Increment } else { Direction::Decrement };
    Parsed::whole(Request::Arith { key, delta, direction, noreply }, consumed)
}

/// `touch`, after the word.
pub(super) fn touch(args: &[u8], consumed: usize) -> Parsed<'_> {
    let mut words = Words::new(args);
    let (Some(word), Some(exptime)) = (words.next(), words.next()) else {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    };
    let noreply = ask_noreply(args);
    let Some(key) = Key::new(word) else {
        return Parsed::refused(Refusal::BadFormat, consumed, noreply);
    };
    match number::parse_i32(exptime) {
        Some(exptime) => Parsed::whole(Request::Touch { key, exptime, noreply }, consumed),
        None => Parsed::refused(Refusal::BadExptime, consumed, noreply),
    }
}
