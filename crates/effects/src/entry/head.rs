//! The head of an entry, in bytes.
//!
//! ```text
//! 0     1      2    3      4      6     8      12      16      20       28
//! kind  marks  key  extra  slice  last  value  expiry  client  version  token    key  value
//!              len                      len            flags            (8, if
//!                                                                       marked)
//! ```
//!
//! Numbers are little-endian. `extra` is the reason of a removal, the reader of an item, or the
//! number of another kind. `last` is the last slice of a barrier's run; `slice` is its first.
//! Fields that a kind does not use are 0. The value of a large entry lies elsewhere in the memory
//! of a log, and follows the key again where the entry is sent.
//!
//! An entry has no position: it is that of the first entry of the bytes, plus one for each before
//! it.

use base::{Facts, Removal};
use std::fmt;

/// Bytes before the token.
pub(crate) const HEAD_BYTES: usize = 28;
/// Bytes of the token.
const TOKEN_BYTES: usize = 8;
/// Longest head with its key.
pub(crate) const HEAD_BYTES_MAX: usize = HEAD_BYTES + TOKEN_BYTES + u8::MAX as usize;

const _: () = assert!(1 + 1 + 1 + 1 + 2 + 2 + 4 + 4 + 4 + 8 == HEAD_BYTES);

/// Marks of an entry.
const STALE: u8 = 1;
const TOKEN_SENT: u8 = 2;
const VIVIFIED: u8 = 4;
/// A token follows the fixed fields.
const HAS_TOKEN: u8 = 8;
/// A touch carries the whole item.
pub(crate) const HAS_ITEM: u8 = 16;
/// What changes no item takes room that readers granted.
pub(crate) const SPENDS: u8 = 32;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Put = 1,
    Touch = 2,
    Remove = 3,
    Barrier = 4,
    Other = 5,
    Item = 6,
    Skipped = 7,
}

impl Kind {
    const ALL: [Self; 7] = [
        Self::Put,
        Self::Touch,
        Self::Remove,
        Self::Barrier,
        Self::Other,
        Self::Item,
        Self::Skipped,
    ];

    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// An entry that was for another reader.
pub(crate) const SKIPPED: [u8; HEAD_BYTES] = {
    let mut bytes = [0; HEAD_BYTES];
    bytes[0] = Kind::Skipped as u8;
    bytes
};

/// The reader that an entry is for, if it is for one alone. `entry` holds a whole head.
pub(crate) fn is_for_reader(entry: &[u8]) -> Option<u8> {
    (entry[0] == Kind::Item as u8).then_some(entry[3])
}

/// The head as fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) marks: u8,
    pub(crate) key_bytes: u8,
    pub(crate) extra: u8,
    pub(crate) slice: u16,
    pub(crate) last: u16,
    pub(crate) value_bytes: u32,
    pub(crate) expiry_s: u32,
    pub(crate) client_flags: u32,
    pub(crate) version: u64,
    pub(crate) token: u64,
}

impl Head {
    /// The head of an entry that uses none of its fields.
    pub(crate) const fn new(kind: Kind) -> Self {
        Self {
            kind,
            marks: 0,
            key_bytes: 0,
            extra: 0,
            slice: 0,
            last: 0,
            value_bytes: 0,
            expiry_s: 0,
            client_flags: 0,
            version: 0,
            token: 0,
        }
    }

    /// Its length.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        HEAD_BYTES + if self.marks & HAS_TOKEN == 0 { 0 } else { TOKEN_BYTES }
    }

    /// Sets what an item carries.
    #[inline]
    pub(crate) fn set_facts(&mut self, facts: &Facts) {
        let mark = |is_so: bool, mark: u8| u8::from(is_so) * mark;
        self.marks |= mark(facts.stale, STALE)
            | mark(facts.token_sent, TOKEN_SENT)
            | mark(facts.vivified, VIVIFIED)
            | mark(facts.token.is_some(), HAS_TOKEN);
        self.token = facts.token.unwrap_or(0);
        self.expiry_s = facts.expiry_s;
        self.client_flags = facts.client_flags;
    }

    /// What the item carries.
    pub(crate) fn facts(&self) -> Facts {
        let has = |mark| self.marks & mark != 0;
        Facts {
            client_flags: self.client_flags,
            expiry_s: self.expiry_s,
            token: has(HAS_TOKEN).then_some(self.token),
            stale: has(STALE),
            token_sent: has(TOKEN_SENT),
            vivified: has(VIVIFIED),
        }
    }

    /// Appends the head.
    #[inline]
    pub(crate) fn append_to(&self, to: &mut Vec<u8>) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[0] = self.kind as u8;
        bytes[1] = self.marks;
        bytes[2] = self.key_bytes;
        bytes[3] = self.extra;
        bytes[4..6].copy_from_slice(&self.slice.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.last.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.value_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.expiry_s.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.client_flags.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.version.to_le_bytes());
        to.extend_from_slice(&bytes);
        if self.marks & HAS_TOKEN != 0 {
            to.extend_from_slice(&self.token.to_le_bytes());
        }
    }

    /// The fields of a head, and the bytes after it.
    ///
    /// # Errors
    /// When the bytes end before, or the kind is unknown.
    pub(crate) fn take(from: &[u8]) -> Result<(Self, &[u8]), Broken> {
        let (bytes, mut rest) = from.split_first_chunk::<HEAD_BYTES>().ok_or(Broken::Short)?;
        let kind = Kind::of(bytes[0]).ok_or(Broken::Kind(bytes[0]))?;
        let mut head = Self {
            kind,
            marks: bytes[1],
            key_bytes: bytes[2],
            extra: bytes[3],
            slice: u16::from_le_bytes(part(bytes, 4)),
            last: u16::from_le_bytes(part(bytes, 6)),
            value_bytes: u32::from_le_bytes(part(bytes, 8)),
            expiry_s: u32::from_le_bytes(part(bytes, 12)),
            client_flags: u32::from_le_bytes(part(bytes, 16)),
            version: u64::from_le_bytes(part(bytes, 20)),
            token: 0,
        };
        if head.marks & HAS_TOKEN != 0 {
            let (token, after) = rest.split_first_chunk::<TOKEN_BYTES>().ok_or(Broken::Short)?;
            (head.token, rest) = (u64::from_le_bytes(*token), after);
        }
        Ok((head, rest))
    }
}

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// They end before the entry does.
    Short,
    /// There is no kind of this number.
    Kind(u8),
    /// A field has a value that its kind does not allow.
    Fields,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "the bytes end within an entry"),
            Self::Kind(number) => write!(f, "no entry is of kind {number}"),
            Self::Fields => write!(f, "a field of the entry has a value that its kind forbids"),
        }
    }
}

impl std::error::Error for Broken {}

fn part<const N: usize>(bytes: &[u8; HEAD_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

/// The number of a reason.
pub(crate) fn number_of(why: Removal) -> u8 {
    match why {
        Removal::Deleted => 0,
        Removal::Evicted => 1,
        Removal::Expired => 2,
    }
}

/// The reason with that number.
pub(crate) fn removal_of(number: u8) -> Option<Removal> {
    [Removal::Deleted, Removal::Evicted, Removal::Expired].get(usize::from(number)).copied()
}
