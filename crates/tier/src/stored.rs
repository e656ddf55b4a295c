//! The record of a key below: an item as bytes.
//!
//! ```text
//! 0      1        2      3  4             8           12       20     28   32
//! magic, version, marks, 0, client flags, expiry (s), version, token, CRC, value ...
//! ```
//!
//! Numbers are little-endian. The CRC is that of the key and of everything but itself, so a record
//! that lies under another key is noticed.

use base::{Change, Effect, Facts, Version};
use crc32fast::Hasher;

const MAGIC: u8 = 0x56;
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 32;
const CRC_AT: usize = 28;

const STALE: u8 = 1;
const TOKEN_SENT: u8 = 2;
const HAS_TOKEN: u8 = 4;

/// An item below the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its value.
    pub value: Vec<u8>,
    /// What else it carries.
    pub facts: Facts,
    /// Its version.
    pub version: Version,
}

impl Stored {
    /// The item that a change has made; `None` for one that carries no value.
    #[must_use]
    pub fn of(effect: &Effect<'_>, version: Version) -> Option<Self> {
        let (value, facts) = match effect.change {
            Change::Put(value, facts) => (value, facts),
            Change::Touch(expiry_s, Some((value, facts))) => (value, Facts { expiry_s, ..facts }),
            Change::Touch(_, None) | Change::Remove(_) => return None,
        };
        let mut bytes = Vec::with_capacity(value.bytes());
        value.append_to(&mut bytes);
        Some(Self { value: bytes, facts, version })
    }

    /// The record of this item under `key`.
    #[must_use]
    pub fn encode(&self, key: &[u8]) -> Vec<u8> {
        let Facts { client_flags, expiry_s, token, stale, token_sent, vivified: _ } = self.facts;
        let mark = |is_so: bool, mark: u8| u8::from(is_so) * mark;
        let marks =
            mark(stale, STALE) | mark(token_sent, TOKEN_SENT) | mark(token.is_some(), HAS_TOKEN);
        let mut record = Vec::with_capacity(HEAD_BYTES + self.value.len());
        record.extend_from_slice(&[MAGIC, FORMAT, marks, 0]);
        record.extend_from_slice(&client_flags.to_le_bytes());
        record.extend_from_slice(&expiry_s.to_le_bytes());
        record.extend_from_slice(&self.version.raw().to_le_bytes());
        record.extend_from_slice(&token.unwrap_or(0).to_le_bytes());
        record.extend_from_slice(&[0; 4]);
        record.extend_from_slice(&self.value);
        let crc = crc_of(key, &record);
        record[CRC_AT..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
        record
    }

    /// The item whose record under `key` this is. `None` for what is not one.
    #[must_use]
    pub fn decode(key: &[u8], mut record: Vec<u8>) -> Option<Self> {
        let head: [u8; HEAD_BYTES] = *record.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|index| head[at + index]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| head[at + index]));
        let is_right = head[..2] == [MAGIC, FORMAT]
            && head[2] & !(STALE | TOKEN_SENT | HAS_TOKEN) == 0
            && head[3] == 0
            && word(CRC_AT) == crc_of(key, &record);
        if !is_right {
            return None;
        }
        let has = |mark: u8| head[2] & mark != 0;
        let facts = Facts {
            client_flags: word(4),
            expiry_s: word(8),
            token: has(HAS_TOKEN).then(|| long(20)),
            stale: has(STALE),
            token_sent: has(TOKEN_SENT),
            vivified: false,
        };
        let version = Version::from_raw(long(12));
        record.drain(..HEAD_BYTES);
        Some(Self { value: record, facts, version })
    }

    /// The same item after a touch, which changes its version and its expiry, and not its token.
    pub(crate) fn touched(mut self, version: Version, expiry_s: u32) -> Self {
        if version > self.version {
            self.facts.token = Some(self.facts.token.unwrap_or_else(|| self.version.counter()));
            (self.version, self.facts.expiry_s) = (version, expiry_s);
        }
        self
    }
}

fn crc_of(key: &[u8], record: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&[key.len() as u8]);
    hasher.update(key);
    hasher.update(&record[..CRC_AT]);
    hasher.update(&record[HEAD_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Stored {
        let facts = Facts {
            client_flags: 0xdead_beef,
            expiry_s: 1_800_000_000,
            token: Some(u64::MAX),
            stale: true,
            token_sent: false,
            vivified: false,
        };
        Stored { value: b"a value".to_vec(), facts, version: Version::new(3, 77) }
    }

    #[test]
    fn an_item_is_read_as_it_was_written_and_not_under_another_key_or_when_a_bit_differs() {
        let plain = Stored { facts: Facts::default(), value: Vec::new(), ..item() };
        for item in [item(), plain] {
            let record = item.encode(b"key");
            assert_eq!(Stored::decode(b"key", record.clone()), Some(item));
            assert_eq!(Stored::decode(b"kez", record.clone()), None);
            for bit in 0..record.len() * 8 {
                let mut flipped = record.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Stored::decode(b"key", flipped), None, "bit {bit}");
            }
            for short in 0..record.len() {
                assert_eq!(Stored::decode(b"key", record[..short].to_vec()), None, "{short}");
            }
        }
    }

    #[test]
    fn a_touch_keeps_the_token_that_clients_know() {
        let untouched = Stored { facts: Facts::default(), ..item() };
        let touched = untouched.clone().touched(Version::new(3, 80), 99);
        assert_eq!((touched.version.counter(), touched.facts.expiry_s), (80, 99));
        assert_eq!(touched.facts.token, Some(77), "the counter of the version before");
        let again = touched.touched(Version::new(3, 81), 0);
        assert_eq!(again.facts.token, Some(77));
        assert_eq!(
            untouched.clone().touched(Version::new(3, 77), 99),
            untouched,
            "it has it already"
        );
    }
}
