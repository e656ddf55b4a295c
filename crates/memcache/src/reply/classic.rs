//! Replies to classic commands.
//!
//! The line before a value is the hottest of them. [`short_value`] writes it without a loop where
//! the key has 16 to 32 bytes and the value less than 1000; [`value`] writes any.
//!
//! Invariant: both write the same bytes. Sizes are bytes.

use std::fmt::Display;
use std::io::Write;

use crate::key::Key;
use crate::refusal::Refusal;
use crate::text::number;

/// The beginning of the line before a value.
const VALUE: &[u8] = b"VALUE ";

/// Bytes of a key that are copied at once. A short key has one to two such blocks.
const BLOCK: usize = 16;

/// A value of this length or more is not short.
const SHORT_VALUE_BYTES_END: usize = 1000;

/// A short line before it is filled in: longer than any short line.
const BLANK: [u8; 48] = {
    let mut line = [b' '; _];
    line.split_at_mut(VALUE.len()).0.copy_from_slice(VALUE);
    line
};
const _: () = assert!(VALUE.len() + 2 * BLOCK + TAIL_BYTES < BLANK.len());

/// The end of the line before a short value, after the space that follows its key:
/// `0 <bytes>\r\n`, by the number of bytes.
static TAILS: [Tail; SHORT_VALUE_BYTES_END] = tails();

/// At most seven characters. The last byte is their number.
type Tail = [u8; TAIL_BYTES];

const TAIL_BYTES: usize = 8;

const fn tails() -> [Tail; SHORT_VALUE_BYTES_END] {
    let mut tails = [*b"0 \0\0\0\0\0\0"; _];
    let mut number = 0;
    while number < SHORT_VALUE_BYTES_END {
        let digits = [number / 100 % 10, number / 10 % 10, number % 10];
        let tail = &mut tails[number];
        let mut at = b"0 ".len();
        let mut digit = if number < 10 {
            2
        } else if number < 100 {
            1
        } else {
            0
        };
        while digit < digits.len() {
            tail[at] = b'0' + digits[digit] as u8;
            (at, digit) = (at + 1, digit + 1);
        }
        tail[at] = b'\r';
        tail[at + 1] = b'\n';
        tail[TAIL_BYTES - 1] = at as u8 + 2;
        number += 1;
    }
    tails
}

/// As [`value`] with flags 0 and without a token, if key and value are short, as they usually are.
/// If they are not, it returns false and writes nothing.
///
/// It appends a blank line, fills it in and cuts it off. Copies of a known length take a few moves,
/// and the capacity of `out` is checked once instead of once per word.
#[inline(always)]
#[must_use]
pub fn short_value(out: &mut Vec<u8>, key: Key<'_>, value_bytes: usize) -> bool {
    let key = key.as_bytes();
    if !(BLOCK..=2 * BLOCK).contains(&key.len()) {
        return false;
    }
    let Some(tail) = TAILS.get(value_bytes) else { return false };
    let (start, key_start) = (out.len(), VALUE.len());
    out.extend_from_slice(&BLANK);
    let line: &mut [u8; BLANK.len()] = out.last_chunk_mut().expect("a blank was just appended");
    let key_end = key_start + key.len();
    // The key as two blocks that overlap.
    line[key_start..key_start + BLOCK].copy_from_slice(&key[..BLOCK]);
    line[key_end - BLOCK..key_end].copy_from_slice(&key[key.len() - BLOCK..]);
    let tail_start = key_end + b" ".len();
    line[tail_start..tail_start + TAIL_BYTES].copy_from_slice(tail);
    out.truncate(start + tail_start + usize::from(tail[TAIL_BYTES - 1]));
    true
}

/// The line before a value: `VALUE <key> <flags> <bytes>[ <cas>]`.
#[inline(never)]
pub fn value(out: &mut Vec<u8>, key: Key<'_>, flags: u32, value_bytes: u64, cas: Option<u64>) {
    out.extend_from_slice(VALUE);
    out.extend_from_slice(key.as_bytes());
    if let Some(tail) = TAILS.get(value_bytes as usize).filter(|_| flags == 0 && cas.is_none()) {
        out.push(b' ');
        let end = out.len() + usize::from(tail[TAIL_BYTES - 1]);
        out.extend_from_slice(tail);
        out.truncate(end);
        return;
    }
    for number in [Some(u64::from(flags)), Some(value_bytes), cas].into_iter().flatten() {
        out.push(b' ');
        number::push(out, number);
    }
    out.extend_from_slice(b"\r\n");
}

/// The line of a number, which `incr` and `decr` reply with.
#[inline]
pub fn number(out: &mut Vec<u8>, number: u64) {
    number::push(out, number);
    out.extend_from_slice(b"\r\n");
}

/// The line `VERSION <text>`.
pub fn version(out: &mut Vec<u8>, text: &str) {
    line(out, format_args!("VERSION {text}"));
}

/// The line `STAT <name> <value>`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: impl Display) {
    line(out, format_args!("STAT {name} {value}"));
}

/// The line of a refusal.
#[inline]
pub fn refusal(out: &mut Vec<u8>, refusal: &Refusal<'_>) {
    refusal.write(out);
}

/// A line of any text.
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
    fn a_short_value_begins_like_any_other() {
        for key_bytes in 1..=40 {
            let letters = LETTERS.repeat(2);
            let key = Key::new(&letters[..key_bytes]).expect("short");
            for value_bytes in (0..=1_100).chain([usize::MAX]) {
                let mut is_short = false;
                let line = written(|out| is_short = short_value(out, key, value_bytes));
                assert_eq!(is_short, (16..=32).contains(&key_bytes) && value_bytes < 1000);
                let name = std::str::from_utf8(key.as_bytes()).expect("letters");
                let want = format!("VALUE {name} 0 {value_bytes}\r\n");
                assert_eq!(line, if is_short { want.as_str() } else { "" });
                assert_eq!(written(|out| value(out, key, 0, value_bytes as u64, None)), want);
            }
        }
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
                written(|out| value(out, key, u32::MAX, u64::MAX, None)),
                format!("VALUE {name} {} {}\r\n", u32::MAX, u64::MAX)
            );
        }
        let cases = [
            (written(|out| value(out, key, 0, 0, None)), "VALUE a\tkey 0 0\r\n".into()),
            (
                written(|out| value(out, middle, 10, 999, None)),
                format!("VALUE {} 10 999\r\n", "k".repeat(33)),
            ),
            (written(|out| value(out, key, 7, 300, Some(9))), "VALUE a\tkey 7 300 9\r\n".into()),
            (
                written(|out| value(out, longest, u32::MAX, u64::MAX, Some(u64::MAX))),
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
