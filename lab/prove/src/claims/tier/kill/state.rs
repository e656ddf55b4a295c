//! What a key may hold, as exact bytes, and what bytes that are none of it are.
//!
//! A value of text is made of parts, each a stamp that is written several times. The stamp names
//! the key and the change, so that a value that was found says what it is: an older one of this
//! key, or bytes that nobody stored.

/// Bytes of a stamp.
const STAMP_BYTES: usize = 20;
/// Times to live are multiples of this: longer than any run, so that what is left says which.
const TTL_STEP_S: u64 = 400_000;

/// Which key: a writer, and a number among its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The writer that alone changes it.
    pub writer: usize,
    /// Which of its keys.
    pub number: usize,
}

/// A stamp, and how often it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The change that wrote it; a writer never uses one twice.
    pub change: u64,
    /// How often.
    pub times: usize,
}

/// The bytes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// What `set`, `cas` and `append` make.
    Parts(Vec<Part>),
    /// What `incr` adds to.
    Number(u64),
}

/// A value with what is kept beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The bytes.
    pub content: Content,
    /// The client's flags.
    pub flags: u32,
    /// Time to live in steps; 0 is for ever.
    pub ttl_steps: u64,
}

/// A value, or nothing.
pub type State = Option<Item>;

/// What a read of one key found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// Seconds that it has left; absent where it stays for ever.
    pub ttl_s: Option<u64>,
    /// The token of its last change.
    pub token: u64,
}

impl Key {
    fn stamp(self, change: u64) -> String {
        format!("{:02}{:06}{change:012}", self.writer, self.number)
    }
}

impl Item {
    /// The bytes that the key holds then.
    pub fn bytes(&self, key: Key) -> Vec<u8> {
        match &self.content {
            Content::Number(number) => number.to_string().into_bytes(),
            Content::Parts(parts) => {
                let text = parts.iter().map(|part| part.text(key));
                text.collect::<String>().into_bytes()
            }
        }
    }

    /// What is sent as its time to live.
    pub fn ttl_s(&self) -> u64 {
        self.ttl_steps * TTL_STEP_S
    }

    /// Whether a read found exactly this.
    pub fn is(&self, key: Key, found: &Found) -> bool {
        let steps = found.ttl_s.map_or(0, |ttl_s| ttl_s.div_ceil(TTL_STEP_S));
        (self.flags, self.ttl_steps) == (found.flags, steps) && self.bytes(key) == found.bytes
    }
}

impl Part {
    /// What it adds to a value.
    pub fn text(self, key: Key) -> String {
        key.stamp(self.change).repeat(self.times)
    }
}

/// Whether bytes are some value that was once written to this key.
pub fn was_written(key: Key, bytes: &[u8]) -> bool {
    let is_number = std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<u64>().is_ok());
    let owner = key.stamp(0);
    let owner = &owner.as_bytes()[..STAMP_BYTES - 12];
    let is_stamp = |part: &[u8]| part.len() == STAMP_BYTES && part.starts_with(owner);
    let is_number = is_number && bytes.len() != STAMP_BYTES;
    is_number || (!bytes.is_empty() && bytes.chunks(STAMP_BYTES).all(is_stamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { writer: 3, number: 42 };

    #[test]
    fn a_value_is_itself_alone() {
        let parts = vec![Part { change: 7, times: 2 }, Part { change: 9, times: 1 }];
        let item = Item { content: Content::Parts(parts), flags: 5, ttl_steps: 1 };
        let left = Some(TTL_STEP_S - 3_000);
        let found = Found { bytes: item.bytes(KEY), flags: 5, ttl_s: left, token: 1 };
        assert!(item.is(KEY, &found) && found.bytes.len() == 3 * STAMP_BYTES);
        assert!(!item.is(Key { number: 41, ..KEY }, &found), "the stamp names the key");
        assert!(!item.is(KEY, &Found { flags: 6, ..found.clone() }));
        assert!(!item.is(KEY, &Found { ttl_s: None, ..found.clone() }));
        let mut bytes = found.bytes.clone();
        bytes[30] ^= 1;
        assert!(!item.is(KEY, &Found { bytes, ..found }));
    }

    #[test]
    fn bytes_that_nobody_stored_are_known_as_such() {
        let text = Part { change: 7, times: 3 }.text(KEY);
        assert!(was_written(KEY, text.as_bytes()) && was_written(KEY, b"1000000000017"));
        assert!(!was_written(KEY, &text.as_bytes()[..50]), "cut off");
        assert!(!was_written(Key { writer: 2, ..KEY }, text.as_bytes()), "of another key");
        assert!(!was_written(KEY, b"") && !was_written(KEY, b"12x"));
    }
}
