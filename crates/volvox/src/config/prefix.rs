//! What holds for the keys with a prefix: `PREFIX=LEVEL`, and prefixes alone.

use std::fmt;
use tier::PrefixRule;

use super::field::Listed;

impl Listed for PrefixRule {
    const EXAMPLE: &'static str = "[\"session:=memory\"]";

    fn parse(item: &str) -> Result<Self, String> {
        item.parse()
    }
}

/// Bytes of the longest prefix: a key is no longer.
const PREFIX_BYTES_MAX: usize = 250;

/// What some keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(String);

impl KeyPrefix {
    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Listed for KeyPrefix {
    const EXAMPLE: &'static str = "[\"page:\"]";

    fn parse(item: &str) -> Result<Self, String> {
        let is_of_keys = |byte: u8| byte > b' ' && byte != 0x7f;
        match item.len() {
            0 => Err("an empty prefix fits every key; leave it out".to_owned()),
            bytes if bytes > PREFIX_BYTES_MAX => {
                Err(format!("prefix of {bytes} bytes; a key has {PREFIX_BYTES_MAX} at most"))
            }
            _ if !item.bytes().all(is_of_keys) => {
                Err(format!("prefix \"{item}\" has a space or a control character; no key has"))
            }
            _ => Ok(Self(item.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_what_a_key_can_begin_with() {
        let long = "k".repeat(PREFIX_BYTES_MAX + 1);
        assert!(KeyPrefix::parse("page:").is_ok_and(|it| it.as_bytes() == b"page:"));
        assert!(KeyPrefix::parse(&long[1..]).is_ok());
        for wrong in ["", "a b", "a\tb", &long] {
            assert!(KeyPrefix::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
