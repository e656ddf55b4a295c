//! Which parser a request goes to: first the two plain forms, then by its first bytes or first
//! word.
//!
//! Nothing here reads the words after the first one.
//!
//! Invariant: the order of the attempts changes no result. Each shorter path accepts only what the
//! general one accepts, with the same meaning.

use crate::limits::Limits;
use crate::parse::line::Line;
use crate::parse::parsed::{Meaning, Parsed};
use crate::parse::plain::{plain_get, plain_store};
use crate::parse::{admin, classic, meta, store};
use crate::refusal::Refusal;
use crate::request::{Direction, Request};
use crate::text::scan;
use crate::text::{Words, has_noreply};

/// The shortest line that can be a command, with its end. memcached refuses shorter ones.
const LINE_BYTES_MIN: usize = 4;

/// The first three bytes of the two most frequent meta commands, compared as one number.
const META_GET: u32 = u32::from_le_bytes(*b"mg \0");
const META_SET: u32 = u32::from_le_bytes(*b"ms \0");
const FIRST_THREE: u32 = u32::from_le_bytes([0xff, 0xff, 0xff, 0]);

/// Takes one request off the front of `input`.
#[inline]
#[must_use]
pub fn parse<'a>(input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    if let Some((key, rest)) = plain_get(input) {
        return Parsed::whole(Request::get(key), input.len() - rest.len());
    }
    if let Some((store, rest)) = plain_store(input, limits.value_bytes_max) {
        return Parsed::whole(Request::Store(store), input.len() - rest.len());
    }
    match input.first_chunk().map(|word| u32::from_le_bytes(*word) & FIRST_THREE) {
        Some(META_GET) => meta::get_line(input),
        Some(META_SET) => meta::set_line(input, limits),
        _ => general(input, limits),
    }
}

/// The general path: by the first word of the line.
#[inline(never)]
pub(super) fn general<'a>(input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let line = match Line::first(input, limits) {
        Ok(line) => line,
        Err(none) => return none.parsed(input),
    };
    let Line { text, consumed } = line;
    if consumed < LINE_BYTES_MIN {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    }
    let (command, args) = text.split_at(scan::space(text, 0));
    let meaning: Meaning<'a> = match command {
        b"get" => classic::retrieve(args, false),
        b"gets" => classic::retrieve(args, true),
        b"gat" => classic::retrieve_and_touch(args, false),
        b"gats" => classic::retrieve_and_touch(args, true),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            return store::store(command, line, Some(input), limits);
        }
        b"delete" => classic::delete(args),
        b"incr" => classic::arith(args, Direction::Increment),
        b"decr" => classic::arith(args, Direction::Decrement),
        b"touch" => classic::touch(args),
        b"mg" => meta::get(text),
        b"ms" => return meta::set(line, Some(input), limits),
        b"md" => meta::delete(text),
        b"ma" => meta::arith(text),
        b"me" => meta::debug(text),
        b"mn" => Ok(Request::MetaNoop),
        b"quit" => Ok(Request::Quit),
        b"version" => Ok(Request::Version),
        b"stats" => Ok(Request::Stats(Words::new(args))),
        b"watch" => Ok(Request::Watch(Words::new(args))),
        _ => return admin(line),
    };
    Parsed::line(meaning, consumed)
}

/// The storage command that `input` begins with, with an empty value in place of its own, and the
/// bytes of its line: for a value that is taken in piece by piece. `None` if `input` does not begin
/// with the whole line of such a command, or the command is refused.
#[must_use]
pub fn announced<'a>(input: &'a [u8], limits: &Limits) -> Option<(Request<'a>, usize)> {
    let line = Line::first(input, limits).ok()?;
    let (command, _) = line.text.split_at(scan::space(line.text, 0));
    let parsed = match command {
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            store::store(command, line, None, limits)
        }
        b"ms" => meta::set(line, None, limits),
        _ => return None,
    };
    match parsed {
        Parsed::Request { request, consumed } => Some((request, consumed)),
        _ => None,
    }
}

/// The commands of operators, which may be indented, and every line that is no command.
fn admin(line: Line<'_>) -> Parsed<'_> {
    match admin::parse(line.text) {
        Ok(request) => Parsed::whole(request, line.consumed),
        Err(refusal) => Parsed::Refused {
            refusal,
            consumed: line.consumed,
            swallow: 0,
            close: refusal == Refusal::Http,
            quiet: has_noreply(line.text),
        },
    }
}
