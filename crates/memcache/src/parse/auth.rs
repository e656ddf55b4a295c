//! The only request of a client that has yet to say who it is (`-Y`): a `set` of any key, whose
//! value is `user password`.
//!
//! Who may enter is for the caller to decide; a good answer is [`crate::reply::STORED`], a bad
//! one [`crate::reply::AUTH_FAILED`].

use crate::number;
use crate::parse::line::{Line, NoLine};
use crate::scan;
use crate::words::Words;

/// The longest `user password`.
pub const AUTH_BYTES_MAX: u32 = 16_384;

/// The shortest line, without its end, that gets an answer.
const AUTH_LINE_BYTES_MIN: usize = 6;

/// What stands at the front of the input of a client without a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth<'a> {
    /// A name and what goes with it.
    Credentials {
        /// The name.
        user: &'a [u8],
        /// What goes with it.
        password: &'a [u8],
        /// Bytes of input they take up.
        consumed: usize,
    },
    /// The beginning of one.
    Incomplete {
        /// Bytes the input must have before it can be whole; one more than it has when unknown.
        needed: usize,
    },
    /// Anything else.
    Refused {
        /// The line to answer with; nothing when the connection closes.
        line: &'static [u8],
        /// Bytes of input it takes up.
        consumed: usize,
        /// Whether the connection is closed.
        close: bool,
    },
}

/// Takes credentials off the front of `input`.
#[must_use]
pub fn parse_auth(input: &[u8]) -> Auth<'_> {
    let line = match Line::short(input) {
        Ok(line) if line.text.len() >= AUTH_LINE_BYTES_MIN => line,
        Err(NoLine::Incomplete) => return Auth::Incomplete { needed: input.len() + 1 },
        Ok(_) | Err(NoLine::TooLong | NoLine::Binary) => {
            return Auth::Refused { line: b"", consumed: input.len(), close: true };
        }
    };
    let refused = |line, consumed| Auth::Refused { line, consumed, close: false };
    let mut words = Words::new(line.text);
    let is_set = words.next() == Some(b"set");
    let Some(bytes) = words.nth(3).filter(|_| is_set).and_then(number::parse_u32) else {
        return refused(b"CLIENT_ERROR unauthenticated\r\n", line.consumed);
    };
    if bytes > AUTH_BYTES_MAX {
        return refused(b"CLIENT_ERROR auth token too long\r\n", line.consumed);
    }
    let end = line.consumed + bytes as usize;
    let consumed = end + b"\r\n".len();
    match input.get(end..consumed) {
        None => return Auth::Incomplete { needed: consumed },
        Some(b"\r\n") => {}
        Some(_) => return refused(b"CLIENT_ERROR bad command line termination\r\n", consumed),
    }
    let token = &input[line.consumed..end];
    let (user, rest) = token.split_at(scan::space(token, 0));
    match rest.split_first() {
        Some((_, password)) => Auth::Credentials { user, password, consumed },
        None => refused(b"CLIENT_ERROR bad authentication token format\r\n", consumed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_user_and_password_is_the_only_way_in() {
        let refused =
            |line: &'static [u8], consumed| Auth::Refused { line, consumed, close: false };
        let closed = |consumed| Auth::Refused { line: b"", consumed, close: true };
        let foo = Auth::Credentials { user: b"foo", password: b"bar baz", consumed: 30 };
        let cases: [(&[u8], Auth<'_>); 10] = [
            (
                b"set any 0 0 11\r\nfoo bar baz\r\nget",
                Auth::Credentials { consumed: 29, user: b"foo", password: b"bar baz" },
            ),
            (b"set any 0 0 11 \r\nfoo bar baz\r\nget", foo),
            (b"set any 0 0 11\r\nfoo bar ba", Auth::Incomplete { needed: 29 }),
            (b"set an", Auth::Incomplete { needed: 7 }),
            (
                b"set any 0 0 3\r\nfoo\r\n",
                refused(b"CLIENT_ERROR bad authentication token format\r\n", 20),
            ),
            (
                b"set any 0 0 3\r\na bcd",
                refused(b"CLIENT_ERROR bad command line termination\r\n", 20),
            ),
            (b"set any 0 0 16385\r\n", refused(b"CLIENT_ERROR auth token too long\r\n", 19)),
            (b"get foo\r\nget", refused(b"CLIENT_ERROR unauthenticated\r\n", 9)),
            (b"set any 0 x\r\n", refused(b"CLIENT_ERROR unauthenticated\r\n", 13)),
            (b"quit\r\n", closed(6)),
        ];
        for (input, want) in cases {
            assert_eq!(parse_auth(input), want, "{}", String::from_utf8_lossy(input));
        }
        assert_eq!(parse_auth(&[b'x'; 2049]), closed(2049));
    }
}
