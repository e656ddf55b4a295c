//! The classic storage commands: `set`, `add`, `replace`, `append`, `prepend`, `cas`.
//!
//! The line is checked as soon as it has arrived, the value after it only for its end. The first
//! error that memcached would report is the one that is reported.

use crate::key::{Key, KeyToken};
use crate::limits::Limits;
use crate::parse::line::Line;
use crate::parse::parsed::Parsed;
use crate::parse::value::{ValueSlot, value_bytes};
use crate::refusal::Refusal;
use crate::request::{Request, Store, StoreVerb};
use crate::text::number;
use crate::text::{Words, has_noreply};

/// Any storage command. `line` is the first line of `input` and begins with `command`. With no
/// input, what the line alone announces.
pub(super) fn store<'a>(
    command: &[u8],
    line: Line<'a>,
    input: Option<&'a [u8]>,
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
    let slot = ValueSlot { line, value_bytes, quiet: has_noreply(line.text) };
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
