//! The head of an entry, in bytes.
//!
//! ```text
//! 0     1      2    3      4      6    8      12      16      20       28
//! kind  marks  key  extra  slice  end  value  expiry  client  version  token  tag  key  value
//!              len                     len            flags            (8)    (26)
//! ```
//!
//! Token and tag are there if marks say so. Numbers are little-endian. `extra` is the reason of a
//! removal, the reader of an item, or the number of another kind. `slice` is also the first slice
//! of a barrier, and `end` the one after its last.
//! Fields that a kind does not use are 0. The value of a large entry lies elsewhere in the memory
//! of a log, and follows the key again where the entry is sent.
//!
//! An entry has no position: it is that of the first entry of the bytes, plus one for each before
//! it.

use crate::made::TAG_BYTES;
use base::{Facts, Removal, SliceId, SliceRange};
use std::fmt;
use std::ops::Range;

/// Bytes before the token.
pub(crate) const HEAD_BYTES: usize = 28;
/// Bytes of the token.
const TOKEN_BYTES: usize = 8;
/// Longest head with its key.
pub(crate) const HEAD_BYTES_MAX: usize = HEAD_BYTES + TOKEN_BYTES + TAG_BYTES + u8::MAX as usize;

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
/// A tag follows the token: the change was made for a request that may be asked again.
pub(crate) const HAS_TAG: u8 = 64;

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
    /// The kind with this number.
    pub(crate) fn of(number: u8) -> Option<Self> {
        use Kind::{Barrier, Item, Other, Put, Remove, Skipped, Touch};
        let all = [Put, Touch, Remove, Barrier, Other, Item, Skipped];
        all.into_iter().find(|kind| *kind as u8 == number)
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

/// The key of the entry that `bytes` begin with, and what follows the entry, as its head says.
#[inline]
pub(crate) fn key_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = Head::take(bytes).ok()?;
    let rest = rest.get(if head.has(HAS_TAG) { TAG_BYTES } else { 0 }..)?;
    let (key, rest) = rest.split_at_checked(head.key_bytes())?;
    Some((key, rest.get(head.value_bytes()..)?))
}

/// The slice of the item that the entry is about, if it is about one. `entry` holds a whole head.
#[inline]
pub(crate) fn slice_of(entry: &[u8]) -> Option<SliceId> {
    let kinds = [Kind::Put, Kind::Touch, Kind::Remove, Kind::Item].map(|kind| kind as u8);
    let number = u16::from_le_bytes([entry[4], entry[5]]);
    if kinds.contains(&entry[0]) { SliceId::new(number.into()) } else { None }
}

/// Whether the entry takes room of all readers: it brings bytes that they must keep, or `all` does
/// that clients ask for. `entry` holds a whole head.
pub(crate) fn spends(entry: &[u8], all: bool) -> bool {
    match Kind::of(entry[0]) {
        Some(kind) if all && is_asked_for(kind, entry[3]) => true,
        Some(Kind::Put) => true,
        Some(Kind::Touch) => entry[1] & HAS_ITEM != 0,
        Some(Kind::Other) => entry[1] & SPENDS != 0,
        _ => false,
    }
}

/// Whether clients ask for what such an entry does. `extra`: why an item is removed.
fn is_asked_for(kind: Kind, extra: u8) -> bool {
    match kind {
        Kind::Put | Kind::Touch | Kind::Barrier => true,
        Kind::Remove => extra == number_of(Removal::Deleted),
        Kind::Other | Kind::Item | Kind::Skipped => false,
    }
}

/// Bytes of the head and the key of the entry, and bytes of its value.
pub(crate) fn whole_bytes(entry: &[u8]) -> (usize, usize) {
    let (head, _) = Head::take(entry).expect("invariant: a log holds whole entries");
    (head.bytes() + head.key_bytes(), head.value_bytes())
}

/// Bytes that the entry takes where it lies, which begins with a whole head: those of its value as
/// well, if these are not more than `inline_max`.
pub(crate) fn lying_bytes(entry: &[u8], inline_max: usize) -> usize {
    let (head, value) = whole_bytes(entry);
    head + if value > inline_max { 0 } else { value }
}

/// The head, in words as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Kind, marks, length of the key, extra, slice, end.
    names: u64,
    /// Length of the value, expiry.
    value: u64,
    pub(crate) client_flags: u32,
    pub(crate) version: u64,
    token: u64,
}

const MARKS_AT: u32 = 8;
const KEY_BYTES_AT: u32 = 16;
const EXTRA_AT: u32 = 24;
const SLICE_AT: u32 = 32;
const END_AT: u32 = 48;
const EXPIRY_AT: u32 = 32;

impl Head {
    /// The head of an entry that uses none of its fields.
    #[inline(always)]
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { names: kind as u64, value: 0, client_flags: 0, version: 0, token: 0 }
    }

    /// The head of an entry with a key and a value of these lengths.
    #[inline(always)]
    pub(crate) fn keyed(kind: Kind, slice: SliceId, key_bytes: u8, value_bytes: u32) -> Self {
        let names = u64::from(key_bytes) << KEY_BYTES_AT | (slice.index() as u64) << SLICE_AT;
        Self { names: kind as u64 | names, value: value_bytes.into(), ..Self::new(kind) }
    }

    /// The head of a barrier with this number.
    pub(crate) fn barrier(slices: SliceRange, number: u32) -> Self {
        let Range { start, end } = slices.numbers();
        let names = (start as u64) << SLICE_AT | (end as u64) << END_AT;
        let value = u64::from(number) << EXPIRY_AT;
        Self { names: Kind::Barrier as u64 | names, value, ..Self::new(Kind::Barrier) }
    }

    /// Sets what an item carries.
    #[inline(always)]
    pub(crate) fn set_facts(&mut self, facts: &Facts) {
        let mark = |is_so: bool, mark: u8| u8::from(is_so) * mark;
        self.set_marks(
            mark(facts.stale, STALE)
                | mark(facts.token_sent, TOKEN_SENT)
                | mark(facts.vivified, VIVIFIED)
                | mark(facts.token.is_some(), HAS_TOKEN),
        );
        self.token = facts.token.unwrap_or(0);
        self.client_flags = facts.client_flags;
        self.set_expiry(facts.expiry_s);
    }

    /// Sets more marks.
    #[inline(always)]
    pub(crate) fn set_marks(&mut self, marks: u8) {
        self.names |= u64::from(marks) << MARKS_AT;
    }

    /// Sets the reason, the reader, or the number of another kind. It was 0.
    #[inline(always)]
    pub(crate) fn set_extra(&mut self, extra: u8) {
        self.names |= u64::from(extra) << EXTRA_AT;
    }

    pub(crate) fn set_value_bytes(&mut self, value_bytes: u32) {
        self.value |= u64::from(value_bytes);
    }

    #[inline(always)]
    pub(crate) fn set_expiry(&mut self, expiry_s: u32) {
        self.value = self.value & u64::from(u32::MAX) | u64::from(expiry_s) << EXPIRY_AT;
    }

    #[inline(always)]
    pub(crate) fn kind(&self) -> u8 {
        self.names as u8
    }

    #[inline(always)]
    pub(crate) fn has(&self, mark: u8) -> bool {
        (self.names >> MARKS_AT) as u8 & mark != 0
    }

    pub(crate) fn key_bytes(&self) -> usize {
        usize::from((self.names >> KEY_BYTES_AT) as u8)
    }

    pub(crate) fn extra(&self) -> u8 {
        (self.names >> EXTRA_AT) as u8
    }

    /// Whether clients ask for what such an entry does.
    pub(crate) fn is_asked_for(&self) -> bool {
        Kind::of(self.kind()).is_some_and(|kind| is_asked_for(kind, self.extra()))
    }

    /// Whether it is the head of a put with no fields but those that a put uses.
    #[inline(always)]
    pub(crate) fn is_plain_put(&self) -> bool {
        let marks = u64::from(STALE | TOKEN_SENT | VIVIFIED | HAS_TOKEN) << MARKS_AT;
        let used = marks | 0xff << KEY_BYTES_AT | 0xffff << SLICE_AT;
        self.names & !used == Kind::Put as u64
    }

    /// The slice, and the one after the last.
    pub(crate) fn slices(&self) -> Range<usize> {
        let number = |at: u32| usize::from((self.names >> at) as u16);
        number(SLICE_AT)..number(END_AT)
    }

    pub(crate) fn value_bytes(&self) -> usize {
        self.value as u32 as usize
    }

    pub(crate) fn expiry_s(&self) -> u32 {
        (self.value >> EXPIRY_AT) as u32
    }

    /// What the item carries.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            client_flags: self.client_flags,
            expiry_s: self.expiry_s(),
            token: self.has(HAS_TOKEN).then_some(self.token),
            stale: self.has(STALE),
            token_sent: self.has(TOKEN_SENT),
            vivified: self.has(VIVIFIED),
        }
    }

    /// Its length, with the tag.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        let token = if self.has(HAS_TOKEN) { TOKEN_BYTES } else { 0 };
        HEAD_BYTES + token + if self.has(HAS_TAG) { TAG_BYTES } else { 0 }
    }

    /// The fields before the token.
    #[inline(always)]
    pub(crate) fn fixed(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.names.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.value.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.client_flags.to_le_bytes());
        bytes[20..].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// The token, if it has one.
    #[inline(always)]
    pub(crate) fn token(&self) -> Option<[u8; TOKEN_BYTES]> {
        self.has(HAS_TOKEN).then(|| self.token.to_le_bytes())
    }

    /// The fields of a head but for its tag, and the bytes after them.
    ///
    /// # Errors
    /// When the bytes end before.
    #[inline]
    pub(crate) fn take(from: &[u8]) -> Result<(Self, &[u8]), Broken> {
        let (bytes, mut rest) = from.split_first_chunk::<HEAD_BYTES>().ok_or(Broken::Short)?;
        let mut head = Self {
            names: u64::from_le_bytes(part(bytes, 0)),
            value: u64::from_le_bytes(part(bytes, 8)),
            client_flags: u32::from_le_bytes(part(bytes, 16)),
            version: u64::from_le_bytes(part(bytes, 20)),
            token: 0,
        };
        if head.has(HAS_TOKEN) {
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
