//! Replies to classic commands.

use std::fmt::Display;
use std::io::Write;

use crate::key::Key;
use crate::number;
use crate::refusal::Refusal;

/// What every value begins with.
const VALUE: &[u8] = b"VALUE ";

/// The longest key whose line is written in place.
const SHORT_KEY_BYTES_MAX: usize = 32;

/// The length from which on a value is not short.
const SHORT_VALUE_BYTES_END: u64 = 1000;

/// Room for ` 0 <bytes>\r\n` of a short value.
const SHORT_TAIL_BYTES: usize = size_of::<u64>();

/// A short line before it is filled in.
const BLANK: [u8; 48] = {
    let mut line = [b' '; _];
    line.split_at_mut(VALUE.len()).0.copy_from_slice(VALUE);
    line
};
const _: () = assert!(VALUE.len() + SHORT_KEY_BYTES_MAX + SHORT_TAIL_BYTES <= BLANK.len());

/// `VALUE <key> <flags> <bytes>[ <cas>]`: what stands before a value.
#[inline(always)]
pub fn value_header(
    out: &mut Vec<u8>,
    key: Key<'_>,
    flags: u32,
    value_bytes: u64,
    cas: Option<u64>,
) {
    let key_is_short = key.as_bytes().len() <= SHORT_KEY_BYTES_MAX;
    if cas.is_none() && flags == 0 && value_bytes < SHORT_VALUE_BYTES_END && key_is_short {
        short_value_header(out, key, value_bytes);
    } else {
        any_value_header(out, key, flags, value_bytes, cas);
    }
}

/// Appends a blank line, fills it in and cuts it: copies whose length is known are a few moves,
/// and there is one look for room instead of one per word.
#[inline(always)]
fn short_value_header(out: &mut Vec<u8>, key: Key<'_>, value_bytes: u64) {
    let start = out.len();
    out.extend_from_slice(&BLANK);
    let line: &mut [u8; BLANK.len()] = out.last_chunk_mut().expect("a blank was just appended");
    let key_end = write_short(line, VALUE.len(), key.as_bytes());
    let (tail, tail_bytes) = short_tail(value_bytes);
    line[key_end..key_end + SHORT_TAIL_BYTES].copy_from_slice(&tail.to_le_bytes());
    out.truncate(start + key_end + tail_bytes);
}

/// ` 0 <bytes>\r\n` as one word, and its length.
#[inline(always)]
fn short_tail(value_bytes: u64) -> (u64, usize) {
    const FLAGS: u64 = u32::from_le_bytes(*b" 0 \0") as u64;
    const ZEROES: u64 = u32::from_le_bytes(*b"000\0") as u64;
    const LINE_END: u64 = u16::from_le_bytes(*b"\r\n") as u64;
    let number = value_bytes as u32;
    let (hundreds, tens) = (number / 100, number / 10);
    let digits = hundreds | (tens - 10 * hundreds) << 8 | (number - 10 * tens) << 16;
    let leading = u32::from(number < 100) + u32::from(number < 10);
    let digits = (u64::from(digits) | ZEROES) >> (8 * leading);
    let tail = FLAGS | digits << 24 | LINE_END << (48 - 8 * leading);
    (tail, SHORT_TAIL_BYTES - leading as usize)
}

/// Copies a key, which most often is two overlapping blocks long; returns where it ends.
#[inline(always)]
fn write_short(line: &mut [u8; BLANK.len()], start: usize, key: &[u8]) -> usize {
    const BLOCK: usize = SHORT_KEY_BYTES_MAX / 2;
    let end = start + key.len();
    match (key.first_chunk::<BLOCK>(), key.last_chunk::<BLOCK>()) {
        (Some(first), Some(last)) => {
            line[start..start + BLOCK].copy_from_slice(first);
            line[end - BLOCK..end].copy_from_slice(last);
        }
        _ => line[start..end].copy_from_slice(key),
    }
    end
}

#[inline(never)]
fn any_value_header(
    out: &mut Vec<u8>,
    key: Key<'_>,
    flags: u32,
    value_bytes: u64,
    cas: Option<u64>,
) {
    out.extend_from_slice(VALUE);
    out.extend_from_slice(key.as_bytes());
    for number in [Some(u64::from(flags)), Some(value_bytes), cas].into_iter().flatten() {
        out.push(b' ');
        number::push(out, number);
    }
    out.extend_from_slice(b"\r\n");
}

/// A number on a line, as `incr` and `decr` reply.
#[inline]
pub fn number(out: &mut Vec<u8>, number: u64) {
    number::push(out, number);
    out.extend_from_slice(b"\r\n");
}

/// `VERSION <text>`.
pub fn version(out: &mut Vec<u8>, text: &str) {
    line(out, format_args!("VERSION {text}"));
}

/// `STAT <name> <value>`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: impl Display) {
    line(out, format_args!("STAT {name} {value}"));
}

/// The line of a refusal.
#[inline]
pub fn refusal(out: &mut Vec<u8>, refusal: &Refusal<'_>) {
    out.extend_from_slice(refusal.line());
}

pub(super) fn line(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    write!(out, "{text}\r\n").expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyzABCDEF";

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(b"before ".len())).expect("ASCII")
    }

    #[test]
    fn lines_are_those_of_the_protocol() {
        let key = Key::new(b"a\tkey").expect("short");
        let longest = [b'k'; 250];
        let middle = Key::new(&longest[..33]).expect("not empty");
        let longest = Key::new(&longest).expect("just short enough");
        let short: Vec<_> = (1..=32).map(|len| Key::new(&LETTERS[..len]).expect("short")).collect();
        for key in short {
            let name = std::str::from_utf8(key.as_bytes()).expect("letters");
            assert_eq!(
                written(|out| value_header(out, key, u32::MAX, u64::MAX, None)),
                format!("VALUE {name} {} {}\r\n", u32::MAX, u64::MAX)
            );
        }
        let cases = [
            (written(|out| value_header(out, key, 0, 0, None)), "VALUE a\tkey 0 0\r\n".into()),
            (
                written(|out| value_header(out, middle, 10, 999, None)),
                format!("VALUE {} 10 999\r\n", "k".repeat(33)),
            ),
            (
                written(|out| value_header(out, key, 7, 300, Some(9))),
                "VALUE a\tkey 7 300 9\r\n".into(),
            ),
            (
                written(|out| value_header(out, longest, u32::MAX, u64::MAX, Some(u64::MAX))),
                format!("VALUE {} {} {2} {2}\r\n", "k".repeat(250), u32::MAX, u64::MAX),
            ),
            (written(|out| number(out, 1999)), "1999\r\n".into()),
            (written(|out| version(out, "1.6.45")), "VERSION 1.6.45\r\n".into()),
            (written(|out| stat(out, "curr_items", 3)), "STAT curr_items 3\r\n".into()),
            (written(|out| refusal(out, &Refusal::UnknownCommand)), "ERROR\r\n".into()),
        ];
        for (line, want) in cases {
            assert_eq!(line, want);
        }
    }
}
