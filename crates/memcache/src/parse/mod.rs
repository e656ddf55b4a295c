//! Bytes to requests.
//!
//! [`parse`] looks at the front of the input and takes one request off it, or asks for more, or
//! refuses it. It holds no state: the same bytes give the same answer however they arrived, and
//! until a request is whole every prefix of it is [`Parsed::Incomplete`].
//!
//! Nearly all traffic has one of two fixed shapes, which [`plain_get`] and [`plain_store`] match in
//! one pass; everything else goes the general way, which knows every rule.

mod admin;
mod classic;
mod line;
mod meta;
mod plain;
mod store;

use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::scan;
use crate::words::{Words, ask_noreply};
use line::Line;

pub use plain::{plain_get, plain_store};

/// The shortest line that can be a command, with its end. memcached finds shorter ones malformed.
const LINE_BYTES_MIN: usize = 4;

/// The first three bytes of the two busiest meta commands, compared as one number.
const META_GET: u32 = u32::from_le_bytes(*b"mg \0");
const META_SET: u32 = u32::from_le_bytes(*b"ms \0");
const FIRST_THREE: u32 = u32::from_le_bytes([0xff, 0xff, 0xff, 0]);

/// What stands at the front of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parsed<'a> {
    /// A whole request.
    Request {
        /// The request.
        request: Request<'a>,
        /// Bytes of input it takes up.
        consumed: usize,
    },
    /// The beginning of a request.
    Incomplete {
        /// Bytes the input must have before it can be whole; one more than it has when unknown.
        needed: usize,
    },
    /// Something that is answered with an error.
    Refused {
        /// The error.
        refusal: Refusal<'a>,
        /// Bytes of input it takes up.
        consumed: usize,
        /// Bytes to be thrown away after those: a value that will not be stored.
        swallow: u64,
        /// Whether the connection is closed once the error is sent.
        close: bool,
        /// Whether the client asked for no reply, and so gets none, not even an error.
        quiet: bool,
    },
}

impl<'a> Parsed<'a> {
    #[inline]
    fn whole(request: Request<'a>, consumed: usize) -> Self {
        Self::Request { request, consumed }
    }

    fn refused(refusal: Refusal<'a>, consumed: usize, quiet: bool) -> Self {
        Self::Refused { refusal, consumed, swallow: 0, close: false, quiet }
    }
}

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

/// The general way, by the first word of the line.
#[inline(never)]
fn general<'a>(input: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let line = match Line::first(input, limits) {
        Ok(line) => line,
        Err(none) => return none.parsed(input),
    };
    let Line { text, consumed } = line;
    if consumed < LINE_BYTES_MIN {
        return Parsed::refused(Refusal::BadFormat, consumed, false);
    }
    let (command, args) = text.split_at(scan::space(text, 0));
    match command {
        b"get" => classic::retrieve(args, consumed, false),
        b"gets" => classic::retrieve(args, consumed, true),
        b"gat" => classic::retrieve_and_touch(args, consumed, false),
        b"gats" => classic::retrieve_and_touch(args, consumed, true),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            store::store(command, line, input, limits)
        }
        b"delete" => classic::delete(args, consumed),
        b"incr" | b"decr" => classic::arith(command, args, consumed),
        b"touch" => classic::touch(args, consumed),
        b"mg" => meta::get(line),
        b"ms" => meta::set(line, input, limits),
        b"md" => meta::delete(line),
        b"ma" => meta::arith(line),
        b"me" => meta::debug(line),
        b"mn" => Parsed::whole(Request::MetaNoop, consumed),
        b"quit" => Parsed::whole(Request::Quit, consumed),
        b"version" => Parsed::whole(Request::Version, consumed),
        b"stats" => Parsed::whole(Request::Stats { args: Words::new(args) }, consumed),
        b"watch" => Parsed::whole(Request::Watch { args: Words::new(args) }, consumed),
        _ => admin(line),
    }
}

/// The rare commands, which may be indented, and everything that is no command.
fn admin(line: Line<'_>) -> Parsed<'_> {
    match admin::parse(line.text) {
        Ok(request) => Parsed::whole(request, line.consumed),
        Err(refusal) => Parsed::Refused {
            refusal,
            consumed: line.consumed,
            swallow: 0,
            close: refusal == Refusal::Http,
            quiet: ask_noreply(line.text),
        },
    }
}
