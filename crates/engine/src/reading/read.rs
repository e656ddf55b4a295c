//! What a read requests and returns, and where its value goes.
//!
//! Plain data, and one trait. Lengths are in bytes, expiries in seconds of the expiry clock, of
//! which 0 means never.

use super::held::HeldValue;
use crate::item::{Flags, Head, ItemRef};
use crate::items::Current;
use crate::obstacle::Obstacle;
use crate::segments::whole_value_bytes;
use base::{Now, Version};

/// What is known of an item that was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Length of the value.
    pub value_bytes: usize,
    /// The client's flags, returned as they were stored.
    pub client_flags: u32,
    /// The token to compare with on `cas`.
    pub cas: u64,
    /// Second of the expiry clock from which the item is gone; 0 for never.
    pub expiry_s: u32,
    /// Seconds since it was last read, to within a minute or so.
    pub idle_s: u32,
    /// Bytes the item takes in memory.
    pub size_bytes: usize,
    /// Whether it had been read before.
    pub fetched: bool,
    /// Whether a client marked it invalid.
    pub stale: bool,
    /// Whether the token to refresh it had been given out before.
    pub token_sent: bool,
    /// Whether this read received the token to refresh it.
    pub won: bool,
}

/// An item as a reader sees it. Each method reads its field when it is called. The item may be
/// overwritten meanwhile; then the read is repeated.
#[derive(Clone, Copy)]
pub struct ItemView<'e> {
    item: ItemRef<'e>,
    head: Head,
    value_bytes: usize,
    now: Now,
    won: bool,
}

impl<'e> ItemView<'e> {
    #[inline(always)]
    pub(super) fn new(item: ItemRef<'e>, head: Head, value_bytes: usize, now: Now) -> Self {
        Self { item, head, value_bytes, now, won: false }
    }

    /// A view of an item whose chain is locked.
    pub(crate) fn of(current: &Current<'e>, now: Now) -> Self {
        let Current { item, head, .. } = *current;
        Self::new(item, head, whole_value_bytes(item, head), now)
    }

    /// The same item with another head. `won` says whether this read won the token to refresh it.
    pub(crate) fn with(self, head: Head, won: bool) -> Self {
        Self { head, won, ..self }
    }

    #[inline]
    pub(super) fn parts(&self) -> (ItemRef<'e>, Head) {
        (self.item, self.head)
    }

    /// The version of the item: the place of its latest change among those of its slice.
    #[inline]
    #[must_use]
    pub fn version(&self) -> Version {
        self.item.version()
    }

    /// Length of the value.
    #[inline]
    #[must_use]
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// The client's flags.
    #[inline]
    #[must_use]
    pub fn client_flags(&self) -> u32 {
        self.item.client_flags(self.head)
    }

    /// Whether the client gave it flags other than zero.
    #[inline]
    #[must_use]
    pub fn has_client_flags(&self) -> bool {
        self.head.is(Flags::HAS_FLAGS)
    }

    /// The token to compare with on `cas`.
    #[inline]
    #[must_use]
    pub fn cas(&self) -> u64 {
        self.item.cas(self.head)
    }

    /// Everything, as it was before this read.
    #[must_use]
    pub fn found(&self) -> Found {
        let head = self.head;
        Found {
            value_bytes: self.value_bytes,
            client_flags: self.client_flags(),
            cas: self.cas(),
            expiry_s: self.item.expiry_s(head),
            idle_s: head.idle_s(self.now.expiry_s),
            size_bytes: head.span_words() * 8,
            fetched: head.is(Flags::FETCHED),
            stale: head.is(Flags::STALE),
            token_sent: head.is(Flags::TOKEN_SENT),
            won: self.won,
        }
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The sink was shown the item, and its value was appended.
    Hit,
    /// There is no such item.
    Miss,
    /// The read had to create or rewrite the item, and there is no memory for it.
    NoSpace,
    /// The read had to change the item, or to hold its value, which cannot be done now. It may be
    /// tried again.
    Later(Obstacle),
}

/// What a sink does with a value that is too long to be read as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongValues {
    /// It takes it as a whole all the same.
    Whole,
    /// It [holds](ReadSink::hold) it, to read it in parts. If too much is held, the read ends in
    /// [`Read::Later`].
    Held,
    /// It does not take it: the read ends in [`Read::Later`], and nothing was appended.
    Declined,
}

/// Where a value goes. If the value was changed while the engine copied it, the engine rewinds the
/// sink and starts over.
pub trait ReadSink {
    /// What is appended directly after each value.
    const AFTER: &'static [u8] = &[];

    /// What it does with a long value.
    const LONG: LongValues = LongValues::Whole;

    /// Looks at the item, writes what precedes its value, and returns the buffer to
    /// which the engine appends exactly `view.value_bytes()` bytes and [`Self::AFTER`]; `None`
    /// if the value is not wanted.
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>>;

    /// Forgets everything since the last value that was read to its end.
    fn rewind(&mut self);

    /// Takes a long value, of which nothing is appended, after it was opened.
    fn hold(&mut self, _value: HeldValue) {
        unreachable!("a sink that holds long values has a place for one");
    }
}

impl<S: ReadSink> ReadSink for &mut S {
    const AFTER: &'static [u8] = S::AFTER;
    const LONG: LongValues = S::LONG;

    #[inline]
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        (**self).open(view)
    }

    fn rewind(&mut self) {
        (**self).rewind();
    }

    fn hold(&mut self, value: HeldValue) {
        (**self).hold(value);
    }
}

/// A buffer for plain values.
#[derive(Debug, Default)]
pub struct ValueSink {
    /// The values read so far, one after the other.
    pub bytes: Vec<u8>,
    /// What was known of the last item.
    pub found: Found,
    start: usize,
}

impl ReadSink for ValueSink {
    fn open(&mut self, view: &ItemView<'_>) -> Option<&mut Vec<u8>> {
        self.found = view.found();
        self.start = self.bytes.len();
        Some(&mut self.bytes)
    }

    fn rewind(&mut self) {
        self.bytes.truncate(self.start);
    }
}

/// A read that also changes the item, and therefore takes the lock of its bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct FetchOptions {
    /// A new expiry second (0: never) for an item that is found.
    pub touch: Option<u32>,
    /// On a miss, create an empty item that expires at this second (0: never) and give the token
    /// to this reader.
    pub vivify: Option<u32>,
    /// The token that an item created so gets instead of its version.
    pub vivify_cas: Option<u64>,
    /// Give the token, if no reader has it, when the item expires before this second.
    pub recache_before_s: Option<u32>,
    /// Whether the read does not count as a use of the item.
    pub quiet: bool,
    /// Whether a token that is to be given stays for another reader.
    pub leaves_token: bool,
}
