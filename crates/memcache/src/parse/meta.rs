//! The meta commands: a name of two letters, a key, flags.
//!
//! An error in a meta command is always sent: `q` silences nominal replies only. Which error is
//! sent depends on the order in which memcached checks, so the checks here keep that order.

use crate::key::{Key, KeyToken};
use crate::limits::Limits;
use crate::meta::{KEYED_WORDS, MetaArgs, well_formed};
use crate::parse::line::Line;
use crate::parse::parsed::{Meaning, Parsed};
use crate::parse::value::{ValueSlot, value_bytes};
use crate::refusal::Refusal;
use crate::request::{Direction, MetaMode, Request};
use crate::text::Words;
use crate::text::scan;

/// Bytes of the name of a meta command.
const NAME_BYTES: usize = 2;

/// `mg`, from the input.
#[inline]
pub(super) fn get_line(input: &[u8]) -> Parsed<'_> {
    match Line::short(input) {
        Ok(line) => Parsed::line(get(line.text), line.consumed),
        Err(none) => none.parsed(input),
    }
}

/// `ms`, from the input.
#[inline]
pub(super) fn set_line<'a>(input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    match Line::short(input) {
        Ok(line) => set(line, Some(input), limits),
        Err(none) => none.parsed(input),
    }
}

/// `mg`.
#[inline]
pub(super) fn get(text: &[u8]) -> Meaning<'_> {
    keyed(text).map(Request::MetaGet).map_err(loud)
}

/// `md`.
pub(super) fn delete(text: &[u8]) -> Meaning<'_> {
    keyed(text).map(Request::MetaDelete).map_err(loud)
}

/// `ma`. Whatever is wrong with its flags, memcached sends the same line.
pub(super) fn arith(text: &[u8]) -> Meaning<'_> {
    let args = keyed(text).map_err(|refusal| match refusal {
        Refusal::OpaqueTooLong => loud(refusal),
        _ if is_keyed(text) => loud(Refusal::InvalidOrDuplicateFlag),
        refusal => loud(refusal),
    })?;
    let direction = match args.flags.mode() {
        None | Some(b'I' | b'+') => Direction::Increment,
        Some(b'D' | b'-') => Direction::Decrement,
        Some(_) => return Err(loud(Refusal::BadArithMode)),
    };
    Ok(Request::MetaArith { args, direction })
}

/// `me`. Of its flags only `b` has an effect.
pub(super) fn debug(text: &[u8]) -> Meaning<'_> {
    let mut words = Words::new(&text[NAME_BYTES..]);
    let key = words.next().and_then(Key::new).map(KeyToken::plain);
    let binary = words.next() == Some(b"b");
    let key = if binary { key.and_then(KeyToken::decoding) } else { key };
    key.filter(|_| is_keyed(text)).map(Request::MetaDebug).ok_or(loud(Refusal::BadFormat))
}

/// A refusal that the client gets to see.
fn loud(refusal: Refusal<'_>) -> (Refusal<'_>, bool) {
    (refusal, false)
}

/// `ms`. With no input, what the line alone announces.
pub(super) fn set<'a>(line: Line<'a>, input: Option<&'a [u8]>, limits: &Limits) -> Parsed<'a> {
    const WORDS_BEFORE: usize = KEYED_WORDS + 1;
    let (word, rest) = split_key(line.text);
    let mut words = Words::new(rest);
    let Some(value_bytes) = words.next().and_then(value_bytes) else {
        return Parsed::refused(Refusal::BadFormat, line.consumed, false);
    };
    let slot = ValueSlot { line, value_bytes, quiet: false };
    let args = match key_and_flags(word, words.rest(), WORDS_BEFORE) {
        Ok(args) => args,
        Err(refusal) if well_formed(words.rest(), WORDS_BEFORE) => return slot.refused(refusal),
        // memcached refuses such a line before it reads the length, so the value is not skipped.
        Err(_) => return Parsed::refused(Refusal::BadFormat, line.consumed, false),
    };
    let mode = match args.flags.mode() {
        None | Some(b'S') => MetaMode::Set,
        Some(b'E') => MetaMode::Add,
        Some(b'A') => MetaMode::Append,
        Some(b'P') => MetaMode::Prepend,
        Some(b'R') => MetaMode::Replace,
        Some(_) => return slot.refused(Refusal::BadSetMode),
    };
    if value_bytes > limits.value_bytes_max {
        let unlink = (!mode.joins()).then_some(args.key);
        return slot.refused(Refusal::TooLarge { unlink });
    }
    slot.filled(input, |value| Request::MetaSet { args, mode, value })
}

/// Key and flags of a command that has nothing else.
#[inline]
fn keyed(text: &[u8]) -> Result<MetaArgs<'_>, Refusal<'_>> {
    let (word, rest) = split_key(text);
    key_and_flags(word, rest, KEYED_WORDS)
        .map_err(|refusal| if is_keyed(text) { refusal } else { Refusal::BadFormat })
}

/// The word after the name, which may be empty, and the text after it.
#[inline]
fn split_key(text: &[u8]) -> (&[u8], &[u8]) {
    let start = scan::past_spaces(text, NAME_BYTES);
    let end = scan::space(text, start);
    (&text[start..end], &text[end..])
}

/// Whether a line has a key, and its flags begin as flags do.
fn is_keyed(text: &[u8]) -> bool {
    let mut words = Words::new(&text[NAME_BYTES..]);
    words.next().is_some() && well_formed(words.rest(), KEYED_WORDS)
}

#[inline]
fn key_and_flags<'a>(
    word: &'a [u8],
    rest: &'a [u8],
    words_before: usize,
) -> Result<MetaArgs<'a>, Refusal<'a>> {
    let key = Key::new(word).ok_or(Refusal::BadFormat)?;
    if rest.is_empty() {
        return Ok(MetaArgs::bare(key));
    }
    MetaArgs::parse(key, rest, words_before)
}
