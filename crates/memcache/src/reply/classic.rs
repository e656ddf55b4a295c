//! Replies to classic commands.

use std::fmt::Display;
use std::io::Write;

use crate::key::Key;
use crate::number;
use crate::refusal::Refusal;

/// The longest ` <flags> <bytes> <cas>\r\n`.
const TAIL_BYTES_MAX: usize = 3 + 3 * number::DIGITS_MAX + 2;

/// `VALUE <key> <flags> <bytes>[ <cas>]`: what stands before a value.
#[inline]
pub fn value_header(
    out: &mut Vec<u8>,
    key: Key<'_>,
    flags: u32,
    value_bytes: u64,
    cas: Option<u64>,
) {
    let mut tail = [0; TAIL_BYTES_MAX];
    let mut at = TAIL_BYTES_MAX - 2;
    tail[at..].copy_from_slice(b"\r\n");
    let mut field = |number| {
        at = number::write_back(&mut tail, at, number) - 1;
        tail[at] = b' ';
    };
    if let Some(cas) = cas {
        field(cas);
    }
    field(value_bytes);
    field(u64::from(flags));
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(&tail[at..]);
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

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"before ".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(b"before ".len())).expect("ASCII")
    }

    #[test]
    fn lines_are_those_of_the_protocol() {
        let key = Key::new(b"a\tkey").expect("short");
        let longest = [b'k'; 250];
        let longest = Key::new(&longest).expect("just short enough");
        let cases = [
            (written(|out| value_header(out, key, 0, 0, None)), "VALUE a\tkey 0 0\r\n".into()),
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
