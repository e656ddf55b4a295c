//! The classic storage commands, and what they share with `ms`: the value behind the line.
//!
//! A line whose length of value cannot be read is refused alone; the value, if any, will be taken
//! for commands. Once the length is known, every refusal takes the value with it. All refusals but
//! a wrong end of the value come before the value has arrived.

use crate::key::{Key, KeyToken};
use crate::limits::{Limits, VALUE_BYTES_CEILING};
use crate::number;
use crate::parse::Parsed;
use crate::parse::line::Line;
use crate::refusal::Refusal;
use crate::request::{Request, Store, StoreVerb};
use crate::words::{Words, ask_noreply};

/// What ends a value: nothing shorter will do.
pub(super) const VALUE_END: &[u8; 2] = b"\r\n";

/// Any storage command.
pub(super) fn store<'a>(
    command: &[u8],
    line: Line<'a>,
    input: &'a [u8],
    limits: &Limits,
) -> Parsed<'a> {
    let mut words = Words::new(&line.text[command.len()..]);
    let mut word = || words.next();
    let (Some(key), Some(flags), Some(exptime), Some(bytes)) = (word(), word(), word(), word())
    else {
        return Parsed::refused(Refusal::BadFormat, line.consumed, false);
    };
    let Some(value_bytes) = value_bytes(bytes) else {
        return Parsed::refused(Refusal::BadFormat, line.consumed, false);
    };
    let slot = ValueSlot { line, value_bytes, quiet: ask_noreply(line.text) };
    let verb = match command {
        b"set" => Some(StoreVerb::Set),
        b"add" => Some(StoreVerb::Add),
        b"replace" => Some(StoreVerb::Replace),
        b"append" => Some(StoreVerb::Append),
        b"prepend" => Some(StoreVerb::Prepend),
        _ => word().and_then(number::parse_u64).map(StoreVerb::Cas),
    };
    let (Some(verb), Some(key), Some(flags), Some(exptime)) =
        (verb, Key::new(key), number::parse_u32(flags), number::parse_i64(exptime))
    else {
        return slot.refused(Refusal::BadFormat);
    };
    if value_bytes > limits.value_bytes_max {
        let unlink = (verb == StoreVerb::Set).then(|| KeyToken::plain(key));
        return slot.refused(Refusal::TooLarge { unlink });
    }
    slot.filled(input, |value| {
        let noreply = slot.quiet;
        Request::Store(Store { verb, key, flags, exptime, value, noreply })
    })
}

/// The announced length of a value, if it can be one.
pub(super) fn value_bytes(word: &[u8]) -> Option<u64> {
    number::parse_u64(word).filter(|bytes| *bytes <= VALUE_BYTES_CEILING)
}

/// A line that is followed by a value.
#[derive(Clone, Copy)]
pub(super) struct ValueSlot<'a> {
    pub(super) line: Line<'a>,
    pub(super) value_bytes: u64,
    pub(super) quiet: bool,
}

impl<'a> ValueSlot<'a> {
    /// The line is refused, and its value thrown away when it comes.
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

    /// The request made of the value, once it is there and ends as it must.
    #[inline]
    pub(super) fn filled(
        &self,
        input: &'a [u8],
        request: impl FnOnce(&'a [u8]) -> Request<'a>,
    ) -> Parsed<'a> {
        let value_at = self.line.consumed;
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
