//! An entry that is ready to be written.

use super::head::{HAS_ITEM, HAS_TAG, HEAD_BYTES, Head, Kind, number_of};
use crate::made::Tag;
use base::{Change, Effect, Facts, SliceId, Value};
use std::sync::Arc;

/// An entry that is ready to be written, but for its version.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    pub(crate) head: Head,
    pub(crate) key: &'a [u8],
    pub(crate) value: Value<'a>,
    pub(super) tag: Option<&'a Tag>,
    /// Whether it takes room of all readers: it brings bytes that they must keep. An item takes
    /// room too, of its one reader.
    pub(crate) spends: bool,
    pub(super) has_key: bool,
}

impl<'a> Draft<'a> {
    /// The draft of a change.
    #[inline(always)]
    pub(crate) fn change(slice: SliceId, effect: &Effect<'a>) -> Self {
        match effect.change {
            Change::Put(value, facts) => {
                let mut draft = Self::keyed(Kind::Put, slice, effect.key, value);
                draft.head.set_facts(&facts);
                draft.spends = true;
                draft
            }
            Change::Touch(expiry_s, item) => {
                let (value, facts) = item.unwrap_or((Value::EMPTY, Facts::default()));
                let mut draft = Self::keyed(Kind::Touch, slice, effect.key, value);
                draft.head.set_facts(&facts);
                draft.head.set_marks(u8::from(item.is_some()) * HAS_ITEM);
                draft.head.set_expiry(expiry_s);
                draft.spends = item.is_some();
                draft
            }
            Change::Remove(why) => {
                let mut draft = Self::keyed(Kind::Remove, slice, effect.key, Value::EMPTY);
                draft.head.set_extra(number_of(why));
                draft
            }
        }
    }

    /// The same draft where `all` that clients ask for takes room, also what brings no bytes.
    #[inline(always)]
    pub(crate) fn spending(mut self, all: bool) -> Self {
        self.spends |= all && self.head.is_asked_for();
        self
    }

    /// The same draft with a tag, if there is one.
    #[inline(always)]
    pub(crate) fn tagged(mut self, tag: Option<&'a Tag>) -> Self {
        self.tag = tag;
        self.head.set_marks(if tag.is_some() { HAS_TAG } else { 0 });
        self
    }

    #[inline(always)]
    pub(super) fn keyed(kind: Kind, slice: SliceId, key: &'a [u8], value: Value<'a>) -> Self {
        let head = Head::keyed(kind, slice, key.len() as u8, value.bytes() as u32);
        Self { head, key, value, tag: None, spends: false, has_key: true }
    }

    /// The draft of an entry without a key.
    pub(super) fn bare(head: Head, value: Value<'a>) -> Self {
        Self { head, key: &[], value, tag: None, spends: false, has_key: false }
    }

    /// Its length without the value.
    #[inline(always)]
    pub(crate) fn head_bytes(&self) -> usize {
        self.head.bytes() + self.key.len()
    }

    /// Its length with the value.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> usize {
        self.head_bytes() + self.value.bytes()
    }

    /// Whether its key has a length that its kind may have.
    #[inline(always)]
    pub(crate) fn has_right_key(&self) -> bool {
        self.key.len() <= usize::from(u8::MAX) && self.key.is_empty() != self.has_key
    }

    /// Writes it without its value, at the front of `to`. Returns what follows it there.
    #[inline(always)]
    pub(crate) fn write_head<'t>(&self, to: &'t mut [u8]) -> &'t mut [u8] {
        let (fixed, mut rest) = to.split_at_mut(HEAD_BYTES);
        fixed.copy_from_slice(&self.head.fixed());
        if let Some(token) = self.head.token() {
            let (place, after) = rest.split_at_mut(token.len());
            place.copy_from_slice(&token);
            rest = after;
        }
        if let Some(tag) = self.tag {
            let (place, after) = rest.split_at_mut(tag.len());
            place.copy_from_slice(tag);
            rest = after;
        }
        let (place, rest) = rest.split_at_mut(self.key.len());
        copy_key(place, self.key);
        rest
    }

    /// Writes its value, which mostly is in one part. `to` is as long as that. `scratch` is empty.
    #[inline(always)]
    pub(crate) fn write_value(&self, to: &mut [u8], scratch: &mut Vec<u8>) {
        match &self.value {
            Value::Parts([first, []]) => to.copy_from_slice(first),
            value => {
                value.append_to(scratch);
                to.copy_from_slice(scratch);
                scratch.clear();
            }
        }
    }
}

/// Bytes that are copied as one number.
const PART: usize = 16;

/// Copies a key. Most have 16 to 32 bytes: for these, two numbers that may overlap take fewer
/// instructions than a call.
#[inline(always)]
fn copy_key(to: &mut [u8], from: &[u8]) {
    if let (Some(first), Some(last)) = (from.first_chunk::<PART>(), from.last_chunk::<PART>())
        && from.len() <= 2 * PART
        && to.len() == from.len()
    {
        to[..PART].copy_from_slice(first);
        to[from.len() - PART..].copy_from_slice(last);
    } else {
        to.copy_from_slice(from);
    }
}

/// A copy of a value that is too large for a block.
pub(crate) fn copy_of(value: &Value<'_>) -> Arc<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.bytes());
    value.append_to(&mut bytes);
    Arc::new(bytes)
}
