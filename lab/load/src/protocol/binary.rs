//! The binary dialect: frames of a header of 24 bytes and a body, numbers with the large end first.
//!
//! ```text
//! 0      1       2         4       5     6        8       12      16       24
//! | magic | opcode | key u16 | extras | 0 | status | body u32 | opaque | version |
//! body = extras | key | value        request: 0 in place of the status
//! ```
//!
//! A quiet command is answered only by a hit or a failure. A no-op, which is always answered,
//! closes a batch of them. Lengths are bytes.

use super::token::{LINE_BYTES_MAX, Token};
use crate::workload::{Request, Workload};

const REQUEST_MAGIC: u8 = 0x80;
const REPLY_MAGIC: u8 = 0x81;

/// Bytes of a header.
const HEADER_BYTES: usize = 24;

/// Bytes that a hit carries before its key: the flags.
const HIT_EXTRAS: usize = 4;

/// Bytes that a set carries before its key: flags and lifetime.
const SET_EXTRAS: usize = 8;

const GET: u8 = 0x00;
const SET: u8 = 0x01;
const DELETE: u8 = 0x04;
const NOOP: u8 = 0x0a;
const GET_KEY_QUIET: u8 = 0x0d;
const SET_QUIET: u8 = 0x11;
const DELETE_QUIET: u8 = 0x14;

const DONE: u16 = 0;
const KEY_NOT_FOUND: u16 = 1;
const KEY_EXISTS: u16 = 2;
const ITEM_NOT_STORED: u16 = 5;

fn header(opcode: u8, key: usize, extras: usize, value: usize, out: &mut Vec<u8>) {
    let body = (extras + key + value) as u32;
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1]) = (REQUEST_MAGIC, opcode);
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[4] = extras as u8;
    header[8..12].copy_from_slice(&body.to_be_bytes());
    out.extend_from_slice(&header);
}

/// Appends a get; the reply to a quiet one names its key in a hit, and a miss has no reply.
pub(super) fn compose_get(workload: &Workload, key: u64, quiet: bool, out: &mut Vec<u8>) {
    let opcode = if quiet { GET_KEY_QUIET } else { GET };
    header(opcode, workload.keys.bytes_of(key), 0, 0, out);
    workload.keys.write(key, out);
}

/// Appends a set; a quiet one that is stored has no reply.
pub(super) fn compose_set(workload: &Workload, set: Request, quiet: bool, out: &mut Vec<u8>) {
    let opcode = if quiet { SET_QUIET } else { SET };
    let key_bytes = workload.keys.bytes_of(set.key);
    header(opcode, key_bytes, SET_EXTRAS, set.value_bytes as usize, out);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&set.ttl_s.to_be_bytes());
    workload.keys.write(set.key, out);
    workload.values.write(set.key, set.value_bytes, out);
}

/// Appends a delete; a quiet one that deletes has no reply.
pub(super) fn compose_delete(workload: &Workload, key: u64, quiet: bool, out: &mut Vec<u8>) {
    let opcode = if quiet { DELETE_QUIET } else { DELETE };
    header(opcode, workload.keys.bytes_of(key), 0, 0, out);
    workload.keys.write(key, out);
}

/// Appends what closes a batch.
pub(super) fn compose_end(out: &mut Vec<u8>) {
    header(NOOP, 0, 0, 0, out);
}

/// Takes the next frame off `input`, or the front of a hit up to its value; the second part is the
/// length of the value that follows.
pub(super) fn next<'a>(input: &mut &'a [u8]) -> (Token<'a>, Option<u32>) {
    let whole = *input;
    // Checked at the first byte: a server of another dialect may never send a whole header.
    if whole.first().is_some_and(|magic| *magic != REPLY_MAGIC) {
        return (Token::Malformed(&whole[..whole.len().min(HEADER_BYTES)]), None);
    }
    let Some((head, rest)) = whole.split_at_checked(HEADER_BYTES) else {
        return (Token::Incomplete, None);
    };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let body = u32::from_be_bytes([head[8], head[9], head[10], head[11]]);
    let (opcode, status) = (head[1], word(6));
    let (key_bytes, extras) = (usize::from(word(2)), usize::from(head[4]));
    if status == DONE && matches!(opcode, GET | GET_KEY_QUIET) {
        let front = extras + key_bytes;
        // A hit names its key if and only if the get requested it, and has the flags of the set.
        let shaped = extras == HIT_EXTRAS && (key_bytes > 0) == (opcode == GET_KEY_QUIET);
        let Some(value_bytes) = (body as usize).checked_sub(front).filter(|_| shaped) else {
            return (Token::Malformed(head), None);
        };
        let Some((front, rest)) = rest.split_at_checked(front) else {
            return (Token::Incomplete, None);
        };
        if front[..HIT_EXTRAS] != [0; HIT_EXTRAS] {
            return (Token::Malformed(head), None);
        }
        *input = rest;
        let value_bytes = value_bytes as u32;
        return (Token::Value { key: &front[HIT_EXTRAS..], value_bytes }, Some(value_bytes));
    }
    if body as usize > LINE_BYTES_MAX {
        return (Token::Malformed(head), None);
    }
    let Some((text, rest)) = rest.split_at_checked(body as usize) else {
        return (Token::Incomplete, None);
    };
    *input = rest;
    (judge(opcode, status, head, text), None)
}

/// The token of a frame without a value.
fn judge<'a>(opcode: u8, status: u16, head: &'a [u8], text: &'a [u8]) -> Token<'a> {
    match (opcode, status) {
        (GET, KEY_NOT_FOUND) => Token::End,
        (NOOP, DONE) => Token::BatchEnd,
        (SET, DONE) => Token::Stored,
        (SET | SET_QUIET, KEY_EXISTS | ITEM_NOT_STORED) => Token::NotStored,
        (DELETE, DONE) => Token::Deleted,
        (DELETE | DELETE_QUIET, KEY_NOT_FOUND) => Token::NotFound,
        (GET | GET_KEY_QUIET | SET | SET_QUIET | DELETE | DELETE_QUIET, status)
            if status > KEY_EXISTS =>
        {
            Token::Failed(text)
        }
        _ => Token::Malformed(head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::reply::tests::tokens_of;
    use crate::protocol::{Parser, Protocol};

    /// A reply as memcached would send it.
    fn reply(opcode: u8, status: u16, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        (out[0], out[1], out[4]) = (REPLY_MAGIC, opcode, extras.len() as u8);
        out[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
        out[6..8].copy_from_slice(&status.to_be_bytes());
        let body = (extras.len() + key.len() + value.len()) as u32;
        out[8..12].copy_from_slice(&body.to_be_bytes());
        out.extend([extras, key, value].concat());
        out
    }

    fn tokens(pieces: &[&[u8]]) -> Vec<String> {
        tokens_of(Parser::new(Protocol::Binary), pieces)
    }

    #[test]
    fn frames_become_tokens_wherever_they_are_cut() {
        let flags = &[0; 4][..];
        let stream = [
            reply(GET, DONE, flags, b"", b"abc"),
            reply(GET, KEY_NOT_FOUND, b"", b"", b"Not found"),
            reply(GET_KEY_QUIET, DONE, flags, b"k7", b""),
            reply(NOOP, DONE, b"", b"", b""),
            reply(SET, DONE, b"", b"", b""),
            reply(SET_QUIET, ITEM_NOT_STORED, b"", b"", b"Not stored."),
            reply(DELETE, DONE, b"", b"", b""),
            reply(DELETE_QUIET, KEY_NOT_FOUND, b"", b"", b"Not found"),
            reply(SET, 0x82, b"", b"", b""),
        ]
        .concat();
        let expected = [
            "value  3",
            "data abc",
            "end",
            "value k7 0",
            "data ",
            "batchend",
            "stored",
            "notstored",
            "deleted",
            "notfound",
            "failed ",
        ];
        for cut in 0..=stream.len() {
            assert_eq!(tokens(&[&stream[..cut], &stream[cut..]]), expected, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(tokens(&bytes), expected, "byte by byte");
    }

    #[test]
    fn frames_of_another_shape_are_malformed() {
        let mut wrong_magic = reply(NOOP, DONE, b"", b"", b"");
        wrong_magic[0] = REQUEST_MAGIC;
        let mut short_body = reply(GET, DONE, &[0; 4], b"", b"");
        short_body[11] = 3;
        for frame in [
            wrong_magic,
            short_body,
            b"VALUE k 0 3\r\nabc\r\nEND\r\n".to_vec(),
            reply(GET, DONE, b"", b"", b"abc"),
            reply(GET, DONE, &[0, 0, 0, 1], b"", b"abc"),
            reply(GET, DONE, &[0; 4], b"k", b"abc"),
            reply(GET_KEY_QUIET, DONE, &[0; 4], b"", b"abc"),
            reply(GET_KEY_QUIET, KEY_NOT_FOUND, b"", b"", b"Not found"),
            reply(SET_QUIET, DONE, b"", b"", b""),
            reply(0x07, DONE, b"", b"", b""),
            reply(SET, 0x82, b"", b"", &vec![b'x'; LINE_BYTES_MAX + 1]),
        ] {
            let seen = tokens(&[&frame]);
            assert!(seen.len() == 1 && seen[0].starts_with("malformed"), "{frame:?}: {seen:?}");
        }
    }

    #[test]
    fn any_bytes_are_survived() {
        let mut rng = measure::rng::Rng::new(2, 1);
        for _ in 0..20_000 {
            let mut noise: Vec<u8> = (0..rng.below(60)).map(|_| rng.below(6) as u8).collect();
            if let Some(first) = noise.first_mut() {
                *first = REPLY_MAGIC;
            }
            tokens(&[&noise]);
        }
    }
}
