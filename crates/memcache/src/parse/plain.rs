//! The two forms of nearly all traffic: `get` of one key, plain `set` and `add`. Each is matched in
//! one pass.
//!
//! A form has single spaces, plain numbers and a complete value. Everything else is left to
//! [`parse`](crate::parse()), which knows every rule: other forms, errors, incomplete requests.
//!
//! Invariant: a form accepts only what `parse` accepts, with the same meaning.
//!
//! Both functions are inlined into their callers and return numbers and slices, which stay in
//! registers. A [`Parsed`](crate::Parsed) is so large that it goes through memory, which costs more
//! than the match itself.

use crate::key::Key;
use crate::parse::value::VALUE_END;
use crate::request::{Store, StoreVerb};
use crate::text::scan;

/// The most digits of a number in a form. Any number of 10 digits fits 64 bits.
const DIGITS_MAX: usize = 10;

/// Matches `get <key>\r\n` at the front of `input`: the key, and the input after the line.
#[inline(always)]
#[must_use]
pub fn plain_get(input: &[u8]) -> Option<(Key<'_>, &[u8])> {
    let (word, line) = input.split_first_chunk()?;
    if word != b"get " {
        return None;
    }
    let (key, rest) = line.split_at_checked(scan::word_end(line, 0))?;
    let (end, rest) = rest.split_first_chunk()?;
    if end != b"\r\n" {
        return None;
    }
    Some((Key::new(key)?, rest))
}

/// Matches `set <key> <flags> <exptime> <bytes>[ noreply]\r\n<value>\r\n` at the front of `input`,
/// or the same with `add`: the command, and the input after its value. A value of more than
/// `value_bytes_max` bytes is no match.
#[inline(always)]
#[must_use]
pub fn plain_store(input: &[u8], value_bytes_max: u64) -> Option<(Store<'_>, &[u8])> {
    let (word, line) = input.split_first_chunk()?;
    // Arrays are compared as one number, patterns byte by byte.
    let verb = if word == b"set " {
        StoreVerb::Set
    } else if word == b"add " {
        StoreVerb::Add
    } else {
        return None;
    };
    let (key, rest) = line.split_at_checked(scan::word_end(line, 0))?;
    let (flags, exptime, rest) = flags_and_exptime(rest)?;
    let (noreply, value_bytes, rest) = match number(rest)? {
        (value_bytes, b'\r', [b'\n', rest @ ..]) => (false, value_bytes, rest),
        (value_bytes, b' ', rest) => (true, value_bytes, rest.strip_prefix(b"noreply\r\n")?),
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(value_bytes as usize)?;
    let (end, rest) = rest.split_first_chunk()?;
    if end != VALUE_END || value_bytes > value_bytes_max {
        return None;
    }
    let (key, flags) = (Key::new(key)?, u32::try_from(flags).ok()?);
    let store = Store { verb, key, flags, exptime: exptime as i64, value, noreply };
    Some((store, rest))
}

/// The second word of a request in canonical form: nearly always its key.
#[inline]
#[must_use]
pub fn second_word(text: &[u8]) -> Option<&[u8]> {
    let (_, rest) = text.split_at_checked(scan::word_end(text, 0) + 1)?;
    Some(&rest[..scan::word_end(rest, 0)])
}

/// Matches ` <flags> <exptime> ` at the front of `text`: both numbers, and the text after them.
#[inline(always)]
fn flags_and_exptime(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    // Most clients send zero for both.
    if let Some((zeroes, rest)) = text.split_first_chunk()
        && zeroes == b" 0 0 "
    {
        return Some((0, 0, rest));
    }
    let [b' ', text @ ..] = text else { return None };
    let (flags, b' ', text) = number(text)? else { return None };
    let (exptime, b' ', text) = number(text)? else { return None };
    Some((flags, exptime, text))
}

/// The number that `text` begins with, the byte after it, and the text after that byte.
#[inline(always)]
fn number(text: &[u8]) -> Option<(u64, u8, &[u8])> {
    let mut sum = 0_u64;
    for (digits, byte) in text.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let is_number = (1..=DIGITS_MAX).contains(&digits);
            return is_number.then_some((sum, *byte, &text[digits + 1..]));
        }
        sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::parse::dispatch::general;
    use crate::parse::parsed::Parsed;
    use crate::request::Request;

    /// Whether a form matches `input`. If one does, the general path must agree with it.
    fn matches_a_form(input: &[u8], limits: &Limits) -> bool {
        let whole = |request, rest: &[u8]| Parsed::whole(request, input.len() - rest.len());
        let parsed = match (plain_get(input), plain_store(input, limits.value_bytes_max)) {
            (Some((key, rest)), None) => whole(Request::get(key), rest),
            (None, Some((store, rest))) => whole(Request::Store(store), rest),
            (None, None) => return false,
            both => panic!("two forms match {}: {both:?}", String::from_utf8_lossy(input)),
        };
        assert_eq!(parsed, general(input, limits), "{}", String::from_utf8_lossy(input));
        true
    }

    /// Every byte of a request is replaced, doubled and left out in turn.
    #[test]
    fn near_forms_agree_with_the_general_path() {
        let requests =
            [&b"get key\r\n"[..], b"set key 0 0 3\r\nabc\r\n", b"add k 17 60 2 noreply\r\nab\r\n"];
        for request in requests {
            assert!(matches_a_form(request, &Limits::default()));
            for at in 0..request.len() {
                let (before, after) = (&request[..at], &request[at + 1..]);
                for byte in 0..=u8::MAX {
                    matches_a_form(&[before, &[byte], after].concat(), &Limits::default());
                    matches_a_form(&[before, &[byte], &request[at..]].concat(), &Limits::default());
                }
                matches_a_form(&[before, after].concat(), &Limits::default());
            }
        }
    }

    #[test]
    fn the_second_word_ends_with_a_space_or_the_line() {
        let cases: [(&[u8], Option<&[u8]>); 5] = [
            (b"get a_key_of_more_than_sixteen\r\n", Some(b"a_key_of_more_than_sixteen")),
            (b"set k 0 0 1\r\nx\r\n", Some(b"k")),
            (b"mn\r\n", Some(b"")),
            (b"mn", None),
            (b"", None),
        ];
        for (text, word) in cases {
            assert_eq!(second_word(text), word, "{}", String::from_utf8_lossy(text));
        }
    }

    /// Requests that fit, nearly fit and do not fit, cut everywhere.
    #[test]
    fn forms_agree_with_the_general_path() {
        let limits = Limits { value_bytes_max: 9, ..Limits::default() };
        let key = "k".repeat(250);
        let cases = [
            ("get a\r\n".into(), true),
            ("get a\n".into(), false),
            (format!("get {key}\r\n"), true),
            (format!("get {key}k\r\n"), false),
            ("get a b\r\n".into(), false),
            ("get \r\n".into(), false),
            ("gets a\r\n".into(), false),
            ("set a 0 0 1\r\nx\r\n".into(), true),
            ("add a 4294967295 9999999999 0 noreply\r\n\r\n".into(), true),
            (format!("set {key} 7 0 9\r\n123456789\r\n"), true),
            (format!("set {key}k 7 0 1\r\nx\r\n"), false),
            ("set a 4294967296 0 1\r\nx\r\n".into(), false),
            ("set a 0 -1 1\r\nx\r\n".into(), false),
            ("set a 0 00000000001 1\r\nx\r\n".into(), false),
            ("set a 00 0 1\r\nx\r\n".into(), true),
            ("set a 0 60 1\r\nx\r\n".into(), true),
            ("set a 1 0 1\r\nx\r\n".into(), true),
            ("set a 0 0 0 noreply\r\n\r\n".into(), true),
            ("set a 0 0  noreply\r\n\r\n".into(), false),
            ("set a  0 0 1\r\nx\r\n".into(), false),
            ("set a 0 0 10\r\n0123456789\r\n".into(), false),
            ("set a 0 0 1 \r\nx\r\n".into(), false),
            ("set a 0 0 1\nx\r\n".into(), false),
            ("set a 0 0 1\r\nxy\r\n".into(), false),
            ("set a 0 0 18446744073709551615\r\n".into(), false),
            ("replace a 0 0 1\r\nx\r\n".into(), false),
        ];
        for (input, fits) in cases {
            let input: String = input;
            for len in 0..=input.len() {
                matches_a_form(&input.as_bytes()[..len], &limits);
            }
            assert_eq!(matches_a_form(input.as_bytes(), &limits), fits, "{input}");
        }
    }
}
