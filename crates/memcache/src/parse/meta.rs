//! The meta commands: two letters, a key, flags.
//!
//! Refusals of meta commands are always sent: `q` silences nominal replies only.

use crate::key::{Key, KeyToken};
use crate::limits::Limits;
use crate::meta::{KEYED_WORDS, MetaFlags, well_formed};
use crate::parse::Parsed;
use crate::parse::line::Line;
use crate::parse::store::{ValueSlot, value_bytes};
use crate::refusal::Refusal;
use crate::request::{Direction, MetaMode, Request};
use crate::scan;
use crate::words::Words;

/// Letters of every meta command.
const NAME_BYTES: usize = 2;

/// `mg`, from the input.
#[inline]
pub(super) fn get_line(input: &[u8]) -> Parsed<'_> {
    match Line::short(input) {
        Ok(line) => get(line),
        Err(none) => none.parsed(input),
    }
}

/// `ms`, from the input.
#[inline]
pub(super) fn set_line<'a>(input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    match Line::short(input) {
        Ok(line) => set(line, input, limits),
        Err(none) => none.parsed(input),
    }
}

/// `mg`.
#[inline]
pub(super) fn get(line: Line<'_>) -> Parsed<'_> {
    match keyed(line.text) {
        Ok((key, flags)) => Parsed::whole(Request::MetaGet { key, flags }, line.consumed),
        Err(refusal) => Parsed::refused(refusal, line.consumed, false),
    }
}

/// `md`.
pub(super) fn delete(line: Line<'_>) -> Parsed<'_> {
    match keyed(line.text) {
        Ok((key, flags)) => Parsed::whole(Request::MetaDelete { key, flags }, line.consumed),
        Err(refusal) => Parsed::refused(refusal, line.consumed, false),
    }
}

/// `ma`. Whatever is wrong with its flags, memcached says the same.
pub(super) fn arith(line: Line<'_>) -> Parsed<'_> {
    let refused = |refusal| Parsed::refused(refusal, line.consumed, false);
    let (key, flags) = match keyed(line.text) {
        Ok(parsed) => parsed,
        Err(Refusal::OpaqueTooLong) => return refused(Refusal::OpaqueTooLong),
        Err(_) if is_keyed(line.text) => return refused(Refusal::InvalidOrDuplicateFlag),
        Err(refusal) => return refused(refusal),
    };
    let direction = match flags.mode() {
        None | Some(b'I' | b'+') => Direction::Increment,
        Some(b'D' | b'-') => Direction::Decrement,
        Some(_) => return refused(Refusal::BadArithMode),
    };
    Parsed::whole(Request::MetaArith { key, direction, flags }, line.consumed)
}

/// `me`. Of its flags only `b` is looked at.
pub(super) fn debug(line: Line<'_>) -> Parsed<'_> {
    let mut words = Words::new(&line.text[NAME_BYTES..]);
    let key = words.next().and_then(Key::new).map(KeyToken::plain);
    let binary = words.next() == Some(b"b");
    let key = if binary { key.and_then(KeyToken::decoding) } else { key };
    match key.filter(|_| is_keyed(line.text)) {
        Some(key) => Parsed::whole(Request::MetaDebug { key }, line.consumed),
        None => Parsed::refused(Refusal::BadFormat, line.consumed, false),
    }
}

/// `ms`.
pub(super) fn set<'a>(line: Line<'a>, input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    const WORDS_BEFORE: usize = KEYED_WORDS + 1;
    let (word, rest) = split_key(line.text);
    let mut words = Words::new(rest);
    let Some(value_bytes) = words.next().and_then(value_bytes) else {
        return Parsed::refused(Refusal::BadFormat, line.consumed, false);
    };
    let slot = ValueSlot { line, value_bytes, quiet: false };
    let parsed = key_and_flags(word, words.rest(), WORDS_BEFORE);
    let (key, flags) = match parsed {
        Ok(parsed) => parsed,
        Err(refusal) if well_formed(words.rest(), WORDS_BEFORE) => return slot.refused(refusal),
        // Such a line is refused before its length is believed, so its value is not swallowed.
        Err(_) => return Parsed::refused(Refusal::BadFormat, line.consumed, false),
    };
    let mode = match flags.mode() {
        None | Some(b'S') => MetaMode::Set,
        Some(b'E') => MetaMode::Add,
        Some(b'A') => MetaMode::Append,
        Some(b'P') => MetaMode::Prepend,
        Some(b'R') => MetaMode::Replace,
        Some(_) => return slot.refused(Refusal::BadSetMode),
    };
    if value_bytes > limits.value_bytes_max {
        return slot.refused(Refusal::TooLarge { unlink: Some(key) });
    }
    slot.filled(input, |value| Request::MetaSet { key, mode, flags, value })
}

/// Key and flags of a command that has nothing else.
#[inline]
fn keyed(text: &[u8]) -> Result<(KeyToken<'_>, MetaFlags<'_>), Refusal<'_>> {
    let (word, rest) = split_key(text);
    key_and_flags(word, rest, KEYED_WORDS)
        .map_err(|refusal| if is_keyed(text) { refusal } else { Refusal::BadFormat })
}

/// The word behind the name, which may be empty, and what follows it.
#[inline]
fn split_key(text: &[u8]) -> (&[u8], &[u8]) {
    let start = scan::past_spaces(text, NAME_BYTES);
    let end = scan::space(text, start);
    (&text[start..end], &text[end..])
}

/// Whether a line has a key, and flags that look like flags.
fn is_keyed(text: &[u8]) -> bool {
    let mut words = Words::new(&text[NAME_BYTES..]);
    words.next().is_some() && well_formed(words.rest(), KEYED_WORDS)
}

#[inline]
fn key_and_flags<'a>(
    word: &'a [u8],
    rest: &'a [u8],
    words_before: usize,
) -> Result<(KeyToken<'a>, MetaFlags<'a>), Refusal<'a>> {
    let key = Key::new(word).ok_or(Refusal::BadFormat)?;
    if rest.is_empty() {
        return Ok((KeyToken::plain(key), MetaFlags::NONE));
    }
    MetaFlags::parse(key, rest, words_before)
}
