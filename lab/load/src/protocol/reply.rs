//! Replies as tokens: incremental, without copying, without knowing what was asked.
//!
//! ```text
//!          VALUE.. / VA..                 last byte and CRLF
//! Line ------------------> Body(left) ----------------------> Line
//!   +- END, EN, MN, STORED, HD, .. -> Line
//! ```
//!
//! Bytes of a value are returned as they come, so a value of a gigabyte needs no buffer. The parser
//! leaves only an unfinished line, at most [`LINE_BYTES_MAX`] bytes, or the end of a value that is
//! cut inside its CRLF: the caller presents it again with more bytes after it. Invariant: the same
//! bytes give the same tokens, wherever they are cut, except that a value comes in other pieces.

use memchr::memchr;

use super::binary;
use super::dialect::Protocol;
use super::token::{LINE_BYTES_MAX, Token};

/// The state of one connection between two tokens.
///
/// ```
/// use load::protocol::{Parser, Protocol, Token};
///
/// let mut parser = Parser::new(Protocol::Text);
/// let mut input = &b"STORED\r\nEN"[..];
/// assert_eq!(parser.next(&mut input), Token::Stored);
/// assert_eq!((parser.next(&mut input), input), (Token::Incomplete, &b"EN"[..]));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Parser {
    /// Bytes of the value that have not been seen, without its CRLF.
    left: u32,
    in_body: bool,
    /// Frames with lengths instead of lines and CRLFs.
    binary: bool,
}

impl Parser {
    /// A parser of replies in `protocol`, before the first.
    #[must_use]
    pub fn new(protocol: Protocol) -> Self {
        Self { binary: protocol == Protocol::Binary, ..Self::default() }
    }

    /// Takes the next token off `input`.
    #[inline]
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Token<'a> {
        if self.binary {
            self.frame(input)
        } else if self.in_body {
            self.body(input)
        } else {
            self.line(input)
        }
    }

    /// Kept out of line: the other dialects are more frequent.
    #[inline(never)]
    fn frame<'a>(&mut self, input: &mut &'a [u8]) -> Token<'a> {
        if !self.in_body {
            let (token, value_bytes) = binary::next(input);
            if let Some(value_bytes) = value_bytes {
                (self.left, self.in_body) = (value_bytes, true);
            }
            return token;
        }
        let left = self.left as usize;
        if input.is_empty() && left > 0 {
            return Token::Incomplete;
        }
        let (bytes, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        self.left -= bytes.len() as u32;
        self.in_body = self.left > 0;
        Token::Data { bytes, last: !self.in_body }
    }

    #[inline]
    fn body<'a>(&mut self, input: &mut &'a [u8]) -> Token<'a> {
        let left = self.left as usize;
        if input.len() >= left + 2 {
            let (bytes, rest) = input.split_at(left);
            if &rest[..2] != b"\r\n" {
                return Token::Malformed(&rest[..2]);
            }
            *input = &rest[2..];
            *self = Self::default();
            return Token::Data { bytes, last: true };
        }
        // The CRLF belongs to the last token, so a value is never whole before it is checked.
        let whole = input.len().min(left.saturating_sub(1));
        if whole == 0 {
            return Token::Incomplete;
        }
        let (bytes, rest) = input.split_at(whole);
        *input = rest;
        self.left -= whole as u32;
        Token::Data { bytes, last: false }
    }

    #[inline]
    fn line<'a>(&mut self, input: &mut &'a [u8]) -> Token<'a> {
        // The three most frequent lines have a fixed length: compared whole, without a search.
        if let Some(rest) = input.strip_prefix(b"END\r\n") {
            *input = rest;
            return Token::End;
        }
        if let Some(rest) = input.strip_prefix(b"STORED\r\n") {
            *input = rest;
            return Token::Stored;
        }
        if let Some(rest) = input.strip_prefix(b"HD\r\n") {
            *input = rest;
            return Token::Done;
        }
        let window = &input[..input.len().min(LINE_BYTES_MAX)];
        let Some(end) = memchr(b'\n', window) else {
            let hopeless = window.len() == LINE_BYTES_MAX;
            return if hopeless { Token::Malformed(window) } else { Token::Incomplete };
        };
        let line = &input[..end];
        let Some(line) = line.strip_suffix(b"\r") else { return Token::Malformed(line) };
        let token = classify(line);
        if let Token::Value { value_bytes, .. } = token {
            *self = Self { left: value_bytes, in_body: true, binary: false };
        }
        *input = &input[end + 1..];
        token
    }
}

/// The token of a whole line.
#[inline]
fn classify(line: &[u8]) -> Token<'_> {
    if let Some(rest) = line.strip_prefix(b"VALUE ") {
        return classic_value(rest).unwrap_or(Token::Malformed(line));
    }
    if let Some(rest) = line.strip_prefix(b"VA ") {
        return meta_value(rest).unwrap_or(Token::Malformed(line));
    }
    match line {
        b"EN" => Token::End,
        b"MN" => Token::BatchEnd,
        b"DELETED" => Token::Deleted,
        b"NOT_FOUND" | b"NF" => Token::NotFound,
        b"NOT_STORED" | b"NS" => Token::NotStored,
        b"ERROR" => Token::Failed(line),
        _ if line.starts_with(b"SERVER_ERROR ") => Token::Failed(line),
        _ if line.starts_with(b"CLIENT_ERROR ") => Token::Failed(line),
        _ => Token::Malformed(line),
    }
}

/// `KEY FLAGS LEN`, where the flags are those the generator stores: 0.
#[inline]
fn classic_value(rest: &[u8]) -> Option<Token<'_>> {
    let (key, rest) = rest.split_at(memchr(b' ', rest)?);
    let value_bytes = number(rest.strip_prefix(b" 0 ")?)?;
    Some(Token::Value { key, value_bytes })
}

/// `LEN [kKEY]`.
#[inline]
fn meta_value(rest: &[u8]) -> Option<Token<'_>> {
    let (length, key) = match memchr(b' ', rest) {
        None => (rest, &rest[..0]),
        Some(space) => (&rest[..space], rest[space..].strip_prefix(b" k")?),
    };
    Some(Token::Value { key, value_bytes: number(length)? })
}

/// A whole number of 32 bits without leading zeros.
#[inline]
fn number(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || digits.len() > 10 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let mut value = 0u64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    u32::try_from(value).ok()
}

#[cfg(test)]
#[path = "reply_test.rs"]
pub(super) mod tests;
