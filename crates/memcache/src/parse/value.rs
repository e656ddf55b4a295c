//! The value after a line, which the classic storage commands and `ms` share.
//!
//! A line whose length of value cannot be read is refused alone; its value, if there is one, is
//! then read as commands. Once the length is known, a refusal skips the value too. A wrong end of
//! the value is found when the value has arrived. All other errors are found before.
//!
//! Lengths are bytes, without the end of the value.

use crate::limits::VALUE_BYTES_CEILING;
use crate::parse::line::Line;
use crate::parse::parsed::Parsed;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::text::number;

/// The end of a value. Unlike a line, a value does not end with a lone `\n`.
pub(super) const VALUE_END: &[u8; 2] = b"\r\n";

/// The announced length of a value, in bytes. `None` if no value can have it.
pub(super) fn value_bytes(word: &[u8]) -> Option<u64> {
    number::parse_u64(word).filter(|bytes| *bytes <= VALUE_BYTES_CEILING)
}

/// A line that announces a value after it.
#[derive(Clone, Copy)]
pub(super) struct ValueSlot<'a> {
    pub(super) line: Line<'a>,
    pub(super) value_bytes: u64,
    /// Whether the client wants no reply.
    pub(super) quiet: bool,
}

impl<'a> ValueSlot<'a> {
    /// The line is refused. Its value is skipped when it arrives.
    #[cold]
    pub(super) fn refused(&self, refusal: Refusal<'a>) -> Parsed<'a> {
        Parsed::Refused {
            refusal,
            consumed: self.line.consumed,
            swallow: self.value_bytes + VALUE_END.len() as u64,
            close: false,
            quiet: self.quiet,
        }
    }

    /// The request that `request` makes of the value, once all of it is in `input`. With no input,
    /// a request with an empty value, which takes no more than its line.
    #[inline]
    pub(super) fn filled(
        &self,
        input: Option<&'a [u8]>,
        request: impl FnOnce(&'a [u8]) -> Request<'a>,
    ) -> Parsed<'a> {
        let value_at = self.line.consumed;
        let Some(input) = input else { return Parsed::whole(request(&[]), value_at) };
        let value_end = value_at + self.value_bytes as usize;
        let consumed = value_end + VALUE_END.len();
        match input.get(value_end..consumed) {
            None => Parsed::Incomplete { needed: consumed },
            Some(end) if end == VALUE_END => {
                Parsed::whole(request(&input[value_at..value_end]), consumed)
            }
            Some(_) => Parsed::refused(Refusal::BadDataChunk, consumed, self.quiet),
        }
    }
}
