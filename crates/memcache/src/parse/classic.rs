//! The classic commands without a value: `get`, `gets`, `gat`, `gats`, `delete`, `incr`, `decr`,
//! `touch`. Each function gets the text after the name of the command.
//!
//! Words after those that a command needs are ignored, except `noreply`, which counts if it is the
//! last. The retrieval commands have no `noreply`: there it is a key.
//!
//! A line with too few words is refused aloud even if `noreply` is among them, as in memcached.

use crate::key::Key;
use crate::keys::Keys;
use crate::parse::parsed::Meaning;
use crate::refusal::Refusal;
use crate::request::{Direction, Request};
use crate::text::number;
use crate::text::{Words, has_noreply};

/// A refusal that the client gets to see.
const LOUD_BAD_FORMAT: (Refusal<'_>, bool) = (Refusal::BadFormat, false);

/// `get` and `gets`.
pub(super) fn retrieve(args: &[u8], with_cas: bool) -> Meaning<'_> {
    let keys = Keys::of(args);
    if keys.is_empty() {
        return Err(LOUD_BAD_FORMAT);
    }
    Ok(Request::Get { keys, with_cas })
}

/// `gat` and `gats`.
pub(super) fn retrieve_and_touch(args: &[u8], with_cas: bool) -> Meaning<'_> {
    let mut words = Words::new(args);
    let exptime = words.next().unwrap_or_default();
    let keys = Keys::of(words.rest());
    if keys.is_empty() {
        return Err(LOUD_BAD_FORMAT);
    }
    let exptime = number::parse_i32(exptime).ok_or((Refusal::BadExptime, false))?;
    Ok(Request::Gat { exptime, keys, with_cas })
}

/// `delete`.
pub(super) fn delete(args: &[u8]) -> Meaning<'_> {
    let word = Words::new(args).next().ok_or(LOUD_BAD_FORMAT)?;
    let (key, noreply) = key(word, args)?;
    Ok(Request::Delete { key, noreply })
}

/// `incr` and `decr`.
pub(super) fn arith(args: &[u8], direction: Direction) -> Meaning<'_> {
    let (key, delta, noreply) = key_and_word(args)?;
    let delta = number::parse_u64(delta).ok_or((Refusal::BadDelta, noreply))?;
    Ok(Request::Arith { key, delta, direction, noreply })
}

/// `touch`.
pub(super) fn touch(args: &[u8]) -> Meaning<'_> {
    let (key, exptime, noreply) = key_and_word(args)?;
    let exptime = number::parse_i32(exptime).ok_or((Refusal::BadExptime, noreply))?;
    Ok(Request::Touch { key, exptime, noreply })
}

/// The key, the word after it, and whether the client wants no reply.
fn key_and_word(args: &[u8]) -> Result<(Key<'_>, &[u8], bool), (Refusal<'_>, bool)> {
    let mut words = Words::new(args);
    let (Some(word), Some(argument)) = (words.next(), words.next()) else {
        return Err(LOUD_BAD_FORMAT);
    };
    let (key, noreply) = key(word, args)?;
    Ok((key, argument, noreply))
}

/// `word` as a key, and whether the client wants no reply.
fn key<'a>(word: &'a [u8], args: &[u8]) -> Result<(Key<'a>, bool), (Refusal<'a>, bool)> {
    let noreply = has_noreply(args);
    Ok((Key::new(word).ok_or((Refusal::BadFormat, noreply))?, noreply))
}
