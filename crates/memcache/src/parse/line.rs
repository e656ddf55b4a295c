//! One line of input.
//!
//! A line ends with `\n`; one `\r` before it belongs to the end. The longest line allowed depends
//! on its first word alone, so the result is the same however the bytes arrive.
//!
//! Invariant: a [`Line`] holds no `\n`, and no more bytes than its command allows. All numbers are
//! bytes.

use crate::limits::{LINE_BYTES_MAX, Limits};
use crate::parse::parsed::Parsed;
use crate::refusal::{BinaryRequest, Refusal};

/// The first byte of every request of the binary protocol. No text command begins with it.
const BINARY_MAGIC: u8 = 0x80;

/// A line without its end, and the bytes of input that it takes with its end.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    pub(super) consumed: usize,
}

/// Why there is no line.
#[derive(Clone, Copy)]
pub(super) enum NoLine {
    /// Its end has not arrived.
    Incomplete,
    /// It has no end within the longest line allowed.
    TooLong,
    /// The input is a request of the binary protocol, whose header may be incomplete.
    Binary,
}

impl NoLine {
    /// What this means for `input`.
    #[cold]
    pub(super) fn parsed(self, input: &[u8]) -> Parsed<'_> {
        let refusal = match self {
            Self::Incomplete => return Parsed::Incomplete { needed: input.len() + 1 },
            Self::TooLong => Refusal::LineTooLong,
            Self::Binary => match BinaryRequest::first(input) {
                Some(request) => Refusal::Binary(request),
                None => return Parsed::Incomplete { needed: BinaryRequest::HEADER_BYTES },
            },
        };
        Parsed::Refused { refusal, consumed: input.len(), swallow: 0, close: true, quiet: false }
    }
}

impl<'a> Line<'a> {
    /// The first line of `input`.
    #[inline]
    pub(super) fn first(input: &'a [u8], limits: &Limits) -> Result<Self, NoLine> {
        if input.first() == Some(&BINARY_MAGIC) {
            return Err(NoLine::Binary);
        }
        Self::within(input, bytes_max(input, limits))
    }

    /// As [`Line::first`], for a command that is known to be no multiget.
    #[inline]
    pub(super) fn short(input: &'a [u8]) -> Result<Self, NoLine> {
        Self::within(input, LINE_BYTES_MAX)
    }

    #[inline]
    fn within(input: &'a [u8], bytes_max: usize) -> Result<Self, NoLine> {
        let searched = &input[..input.len().min(bytes_max.saturating_add(1))];
        match memchr::memchr(b'\n', searched) {
            Some(end) => {
                let text = &input[..end];
                let text = text.strip_suffix(b"\r").unwrap_or(text);
                Ok(Self { text, consumed: end + 1 })
            }
            None if input.len() > bytes_max => Err(NoLine::TooLong),
            None => Err(NoLine::Incomplete),
        }
    }
}

/// The longest line allowed for the command that `input` begins with.
#[inline]
fn bytes_max(input: &[u8], limits: &Limits) -> usize {
    let multiget =
        [&b"get "[..], b"gets ", b"gat ", b"gats "].iter().any(|word| input.starts_with(word));
    if multiget { limits.multiget_line_bytes_max.max(LINE_BYTES_MAX) } else { LINE_BYTES_MAX }
}
