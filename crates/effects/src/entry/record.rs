//! Entries as values, and as drafts that are ready to be written.

use super::draft::Draft;
use super::head::{Broken, HAS_ITEM, HAS_TAG, Head, Kind, SPENDS, removal_of};
use crate::made::{TAG_BYTES, Tag};
use base::{Change, Effect, Facts, SliceId, SliceRange, Value, Version};

/// What stands at one position of a log.
#[derive(Clone, Copy, Debug)]
pub enum Entry<'a> {
    /// A change of an item.
    Change {
        /// The slice of the key.
        slice: SliceId,
        /// The version of the change.
        version: Version,
        /// The change. A touch that carries the item carries it with its new expiry.
        effect: Effect<'a>,
        /// The request that it was made for, if that may be asked again.
        tag: Option<&'a Tag>,
    },
    /// An item as it is, for one reader. It is not a change: its version is an old one.
    Item {
        /// The slot of the reader.
        reader: u8,
        /// The slice of the key.
        slice: SliceId,
        /// The version of the item.
        version: Version,
        /// Its key.
        key: &'a [u8],
        /// Its value.
        value: Value<'a>,
        /// What else it carries.
        facts: Facts,
    },
    /// Of each of these slices that belongs to this log, all items are dead whose change stands
    /// before this. The number is one of its writer.
    Barrier(SliceRange, u32),
    /// What changes no item.
    Other {
        /// What it is: a number of its writer.
        kind: u8,
        /// What it says.
        bytes: &'a [u8],
        /// Whether it takes room that readers granted, because they keep the bytes.
        spends: bool,
    },
    /// What was for another reader.
    Skipped,
}

/// An entry at its position.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it stands in its log.
    pub position: u64,
    /// What stands there.
    pub entry: Entry<'a>,
}

impl Entry<'_> {
    /// Appends the entry as bytes. The key must have fewer than 256 bytes, the value fewer than
    /// 2^32.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let draft = self.draft();
        let start = to.len();
        to.resize(start + draft.head_bytes(), 0);
        let _ = draft.write_head(&mut to[start..]);
        draft.value.append_to(to);
    }
}

impl<'a> Entry<'a> {
    /// The entry that `bytes` begin with, and its length. There is one form of each entry: encoded
    /// again it is the same bytes. Whether an item's slice is that of its key is not checked:
    /// [`crate::Log::follow`] does.
    ///
    /// # Errors
    /// When the bytes do not begin with a whole entry.
    pub fn decode(bytes: &'a [u8]) -> Result<(Self, usize), Broken> {
        Self::decode_parts(bytes, &[])
    }

    /// [`Entry::decode`], where the value of the last entry in `bytes` may lie apart.
    #[inline]
    pub(crate) fn decode_parts(bytes: &'a [u8], apart: &'a [u8]) -> Result<(Self, usize), Broken> {
        let (head, rest) = Head::take(bytes)?;
        match Self::put_of(&head, rest) {
            Some((entry, after)) => Ok((entry, bytes.len() - after)),
            None => Self::decode_any(bytes, apart),
        }
    }

    /// What nearly all entries are: a put whose value follows its key, as `head` says it, and how
    /// much of `rest` follows that. `None` for any other, and for what is no entry.
    #[inline(always)]
    fn put_of(head: &Head, rest: &'a [u8]) -> Option<(Self, usize)> {
        if !head.is_plain_put() || head.key_bytes() == 0 {
            return None;
        }
        let slice = SliceId::new(head.slices().start)?;
        let (key, rest) = rest.split_at_checked(head.key_bytes())?;
        let (value, rest) = rest.split_at_checked(head.value_bytes())?;
        let change = Change::Put(Value::Parts([value, &[]]), head.facts());
        let version = Version::from_raw(head.version);
        let effect = Effect { key, change };
        Some((Self::Change { slice, version, effect, tag: None }, rest.len()))
    }

    /// [`Entry::decode_parts`] of any entry.
    #[inline(never)]
    fn decode_any(bytes: &'a [u8], apart: &'a [u8]) -> Result<(Self, usize), Broken> {
        let (head, rest) = Head::take(bytes)?;
        let kind = Kind::of(head.kind()).ok_or(Broken::Kind(head.kind()))?;
        let (tag, rest) = match rest.split_first_chunk::<TAG_BYTES>() {
            _ if !head.has(HAS_TAG) => (None, rest),
            Some((tag, rest)) => (Some(tag), rest),
            None => return Err(Broken::Short),
        };
        let (key, rest) = rest.split_at_checked(head.key_bytes()).ok_or(Broken::Short)?;
        let length = bytes.len() - rest.len();
        let (value, length) = match rest.get(..head.value_bytes()) {
            Some(value) => (value, length + value.len()),
            None if rest.is_empty() && apart.len() == head.value_bytes() => (apart, length),
            None => return Err(Broken::Short),
        };
        let entry = Self::of(kind, &head, tag, [key, value]).ok_or(Broken::Fields)?;
        let draft = entry.draft();
        // The fields that the kind does not use are 0.
        let is_whole = draft.head == head && draft.has_right_key();
        is_whole.then_some((entry, length)).ok_or(Broken::Fields)
    }

    /// The entry of these parts. Fields that its kind does not use are not checked.
    fn of(
        kind: Kind,
        head: &Head,
        tag: Option<&'a Tag>,
        [key, bytes]: [&'a [u8]; 2],
    ) -> Option<Self> {
        let value = Value::Parts([bytes, &[]]);
        let version = Version::from_raw(head.version);
        let (slices, facts) = (head.slices(), head.facts());
        if kind == Kind::Barrier {
            return Some(Self::Barrier(SliceRange::new(slices), head.expiry_s()));
        }
        let slice = SliceId::new(slices.start)?;
        let change = match kind {
            Kind::Put => Change::Put(value, facts),
            Kind::Touch => {
                let item = head.has(HAS_ITEM).then_some((value, facts));
                Change::Touch(head.expiry_s(), item)
            }
            Kind::Remove => Change::Remove(removal_of(head.extra())?),
            Kind::Item => {
                let reader = head.extra();
                return Some(Self::Item { reader, slice, version, key, value, facts });
            }
            Kind::Other => {
                return Some(Self::Other { kind: head.extra(), bytes, spends: head.has(SPENDS) });
            }
            Kind::Barrier | Kind::Skipped => return Some(Self::Skipped),
        };
        Some(Self::Change { slice, version, effect: Effect { key, change }, tag })
    }

    /// What is written of the entry.
    pub(crate) fn draft(&self) -> Draft<'a> {
        match *self {
            Self::Change { slice, version, effect, tag } => {
                let mut draft = Draft::change(slice, &effect).tagged(tag);
                draft.head.version = version.raw();
                draft
            }
            Self::Item { reader, slice, version, key, value, facts } => {
                let mut draft = Draft::keyed(Kind::Item, slice, key, value);
                draft.head.set_facts(&facts);
                draft.head.set_extra(reader);
                draft.head.version = version.raw();
                draft
            }
            Self::Barrier(slices, number) => {
                Draft::bare(Head::barrier(slices, number), Value::EMPTY)
            }
            Self::Other { kind, bytes, spends } => {
                let mut head = Head::new(Kind::Other);
                head.set_value_bytes(bytes.len() as u32);
                head.set_extra(kind);
                head.set_marks(u8::from(spends) * SPENDS);
                let draft = Draft::bare(head, Value::Parts([bytes, &[]]));
                Draft { spends, ..draft }
            }
            Self::Skipped => Draft::bare(Head::new(Kind::Skipped), Value::EMPTY),
        }
    }
}
