//! Replies to classic commands.

use std::fmt::Display;
use std::io::Write;

use crate::key::Key;
use crate::number;
use crate::refusal::Refusal;

/// Room for ` <flags> <bytes>\r\n`.
const TAIL_BYTES: usize = 48;
const _: () = assert!(TAIL_BYTES >= 1 + 10 + 1 + 20 + 2);

/// `VALUE <key> <flags> <bytes>[ <cas>]`: what stands before a value.
///
/// The end of the line is written to a block of fixed size, appended whole and cut: a copy whose
/// length is known is a few moves, any other is a call.
#[inline]
pub fn value_header(
    out: &mut Vec<u8>,
    key: Key<'_>,
    flags: u32,
    value_bytes: u64,
    cas: Option<u64>,
) {
    out.reserve(b"VALUE ".len() + key.as_bytes().len() + TAIL_BYTES);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key.as_bytes());
    let mut tail = [b' '; TAIL_BYTES];
    let mut at = number::write(&mut tail, 1, u64::from(flags)) + 1;
    at = number::write(&mut tail, at, value_bytes);
    if let Some(cas) = cas {
        out.extend_from_slice(&tail[..at]);
        out.push(b' ');
        number::push(out, cas);
        out.extend_from_slice(b"\r\n");
        return;
    }
    tail[at..at + 2].copy_from_slice(b"\r\n");
    let end = out.len() + at + 2;
    out.extend_from_slice(&tail);
    out.truncate(end);
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
