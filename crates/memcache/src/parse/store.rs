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
use crate::scan;
use crate::words::{Words, ask_noreply};

/// What ends a value: nothing shorter will do.
const VALUE_END: &[u8; 2] = b"\r\n";

/// `set <key> <flags> <exptime> <bytes>[ noreply]\r\n<value>\r\n`, and `add` alike, with single
/// spaces and plain numbers, in one pass. Anything else, and anything wrong, is left to the
/// general way.
#[inline]
pub(super) fn plain<'a>(verb: StoreVerb, input: &'a [u8], limits: &Limits) -> Option<Parsed<'a>> {
    const KEY_AT: usize = b"set ".len();
    let key_end = scan::word_end(input, KEY_AT);
    let (flags, flags_end) = digits(input, past(input, key_end, b' ')?)?;
    let (exptime, exptime_end) = digits(input, past(input, flags_end, b' ')?)?;
    let (value_bytes, bytes_end) = digits(input, past(input, exptime_end, b' ')?)?;
    let noreply = input[bytes_end..].starts_with(b" noreply");
    let line_end = if noreply { bytes_end + b" noreply".len() } else { bytes_end };
    let value_at = past(input, past(input, line_end, b'\r')?, b'\n')?;
    let key = Key::new(&input[KEY_AT..key_end])?;
    let flags = u32::try_from(flags).ok()?;
    if value_bytes > limits.value_bytes_max.min(VALUE_BYTES_CEILING) {
        return None;
    }
    let value_end = value_at + value_bytes as usize;
    let consumed = value_end + VALUE_END.len();
    match input.get(value_end..).and_then(<[u8]>::first_chunk) {
        None => Some(Parsed::Incomplete { needed: consumed }),
        Some(end) if end == VALUE_END => {
            let value = &input[value_at..value_end];
            let store = Store { verb, key, flags, exptime: exptime as i64, value, noreply };
            Some(Parsed::whole(Request::Store(store), consumed))
        }
        Some(_) => None,
    }
}

/// The index behind `byte`, if it stands at `at`.
#[inline]
fn past(input: &[u8], at: usize, byte: u8) -> Option<usize> {
    (input.get(at) == Some(&byte)).then_some(at + 1)
}

/// A run of one to ten digits, which any 64 bits hold, and the index behind it.
#[inline]
fn digits(input: &[u8], at: usize) -> Option<(u64, usize)> {
    const DIGITS_MAX: usize = 10;
    let mut sum = 0_u64;
    let mut end = at;
    while let Some(byte) = input.get(end) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
        end += 1;
    }
    (1..=DIGITS_MAX).contains(&(end - at)).then_some((sum, end))
}

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
