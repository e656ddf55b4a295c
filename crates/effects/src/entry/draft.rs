//! An entry that is ready to be written.

use super::head::{HAS_ITEM, Head, Kind, SPENDS, number_of};
use base::{Change, Effect, Facts, SliceId, Value};

/// An entry that is ready to be written, but for its version.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) head: Head,
    pub(crate) key: &'a [u8],
    pub(crate) value: Value<'a>,
}

impl<'a> Draft<'a> {
    /// The draft of a change.
    #[inline(always)]
    pub(crate) fn change(slice: SliceId, effect: &Effect<'a>) -> Self {
        match effect.change {
            Change::Put(value, facts) => {
                let mut draft = Self::keyed(Kind::Put, slice, effect.key, value);
                draft.head.set_facts(&facts);
                draft
            }
            Change::Touch(expiry_s, item) => {
                let (value, facts) = item.unwrap_or((Value::EMPTY, Facts::default()));
                let mut draft = Self::keyed(Kind::Touch, slice, effect.key, value);
                draft.head.set_facts(&facts);
                draft.head.marks |= u8::from(item.is_some()) * HAS_ITEM;
                draft.head.expiry_s = expiry_s;
                draft
            }
            Change::Remove(why) => {
                let mut draft = Self::keyed(Kind::Remove, slice, effect.key, Value::EMPTY);
                draft.head.extra = number_of(why);
                draft
            }
        }
    }

    #[inline(always)]
    pub(super) fn keyed(kind: Kind, slice: SliceId, key: &'a [u8], value: Value<'a>) -> Self {
        let mut head = Head::new(kind);
        head.slice = slice.index() as u16;
        head.key_bytes = key.len() as u8;
        head.value_bytes = value.bytes() as u32;
        Self { head, key, value }
    }

    /// Its length without the value.
    #[inline(always)]
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.bytes() + self.key.len()
    }

    /// The length of the value.
    #[inline(always)]
    pub(crate) fn value_bytes(&self) -> usize {
        self.head.value_bytes as usize
    }

    /// Whether its key has a length that its kind may have.
    #[inline(always)]
    pub(crate) fn has_right_key(&self) -> bool {
        let has_key = match self.head.kind {
            Kind::Put | Kind::Touch | Kind::Remove | Kind::Item => 1,
            Kind::Barrier | Kind::Other | Kind::Skipped => 0,
        };
        (has_key..=has_key * usize::from(u8::MAX)).contains(&self.key.len())
    }

    /// Whether it takes room that readers granted: it brings bytes that they must keep.
    #[inline(always)]
    pub(crate) fn spends(&self) -> bool {
        match self.head.kind {
            Kind::Put => true,
            Kind::Touch => self.head.marks & HAS_ITEM != 0,
            Kind::Other => self.head.marks & SPENDS != 0,
            Kind::Remove | Kind::Barrier | Kind::Item | Kind::Skipped => false,
        }
    }
}
