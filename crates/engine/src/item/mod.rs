//! Items: how one lies in memory, and how long it lives.
//!
//! This room knows the words of one item and nothing around it: no segment, no index, no key but
//! the bytes it compares. Sizes are in bytes or in words of eight bytes, as their names say.

mod head;
mod layout;
mod lifetime;

pub(crate) use head::{
    Flags, HEADER_BYTES, HEADER_WORDS, Head, INLINE_VALUE_BYTES_MAX, SLACK_WORDS_MAX,
};
pub(crate) use layout::{Attributes, FIELDS_BYTES_MAX, ItemRef};
pub(crate) use lifetime::{CLASSES, class, expired};
