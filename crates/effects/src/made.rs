//! What a tagged change has made: all that is needed to answer its request again.

use base::{Change, Effect, Value, Version};

/// Bytes of a tag. What they say is known to the one that gives it.
pub const TAG_BYTES: usize = 26;

/// The tag of a change: it names the request that the change was made for.
pub type Tag = [u8; TAG_BYTES];

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// What kind of change was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MadeKind {
    /// The item holds a value.
    Put,
    /// Its expiry has changed.
    Touch,
    /// It is removed.
    Remove,
}

/// What a tagged change has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// What kind of change it was.
    pub kind: MadeKind,
    /// The token that the item has had since.
    pub token: u64,
    /// Length of its value.
    pub value_bytes: u32,
    /// Its value, if that is a decimal number; else 0.
    pub number: u64,
}

impl Made {
    /// What `effect` has made, which got `version`.
    #[must_use]
    pub fn of(effect: &Effect<'_>, version: Version) -> Self {
        let (kind, item) = match effect.change {
            Change::Put(value, facts) => (MadeKind::Put, Some((value, facts))),
            Change::Touch(_, item) => (MadeKind::Touch, item),
            Change::Remove(_) => (MadeKind::Remove, None),
        };
        let token = item.and_then(|(_, facts)| facts.token).unwrap_or(version.counter());
        let value_bytes = item.map_or(0, |(value, _)| value.bytes()) as u32;
        Self { kind, token, value_bytes, number: item.map_or(0, |(value, _)| number(&value)) }
    }
}

/// The number that `value` spells; spaces may follow it. 0 if it spells none.
fn number(value: &Value<'_>) -> u64 {
    match value {
        Value::Parts([digits, []]) if digits.len() <= DIGITS_MAX => {
            let digits = std::str::from_utf8(digits.trim_ascii_end());
            digits.ok().and_then(|digits| digits.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use base::{Facts, Removal};

    #[test]
    fn what_was_made_is_what_its_reply_may_show() {
        let version = Version::new(3, 77);
        let made = |change| Made::of(&Effect { key: b"k", change }, version);
        let put = |value: &'static [u8], token| {
            let facts = Facts { token, ..Facts::default() };
            made(Change::Put(Value::Parts([value, &[]]), facts))
        };
        let expected = |kind, token, value_bytes, number| Made { kind, token, value_bytes, number };
        assert_eq!(put(b"12  ", None), expected(MadeKind::Put, 77, 4, 12));
        assert_eq!(put(b"x", Some(5)), expected(MadeKind::Put, 5, 1, 0));
        let largest = b"18446744073709551615";
        assert_eq!(put(largest, None), expected(MadeKind::Put, 77, 20, u64::MAX));
        assert_eq!(made(Change::Touch(9, None)), expected(MadeKind::Touch, 77, 0, 0));
        let removed = made(Change::Remove(Removal::Deleted));
        assert_eq!(removed, expected(MadeKind::Remove, 77, 0, 0));
    }
}
