//! An item in memory: aligned to eight bytes, and self-describing, so that a segment can be walked.
//!
//! ```text
//! word 0   head, which `head.rs` unpacks
//! word 1   version: epoch(20) | counter(44)
//! byte 16  key, then expiry:u32 if HAS_EXPIRY, client flags:u32 if HAS_FLAGS,
//!          client cas:u64 if HAS_CAS, then the value, padded to eight bytes, then slack words
//! ```
//!
//! The key never changes while the item lives. Everything after it may change, under the lock of
//! its bucket. Readers without that lock may see a mixture; only the lengths in the head decide
//! how far they read, and copies check these against the pool.

use super::head::{Flags, HEADER_WORDS, Head};
use crate::raw::{append, begin_with, copy_in, prefetch};
use crate::sync::{AtomicU64, Ordering};
use base::{Facts, Version};
use std::ops::Range;

/// Bytes of the fields that an item may have beside its key: expiry, client flags, token.
pub(crate) const FIELDS_BYTES_MAX: usize = 4 + 4 + 8;

/// Words of a line, which a processor fetches as a whole.
const LINE_WORDS: usize = 8;
/// Words of an item that are fetched before they are needed, at most.
const FETCHED_WORDS_MAX: usize = 64;

/// What is to be written, apart from key and value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes {
    /// Second of the expiry clock from which the item is gone; 0 for never.
    pub(crate) expiry_s: u32,
    pub(crate) client_flags: u32,
    pub(crate) client_cas: Option<u64>,
    /// LARGE, STALE, TOKEN_SENT, FETCHED, VIVIFIED; the `HAS_*` flags follow from the fields above.
    pub(crate) flags: Flags,
    /// The version of the item that the new one is made from; zero when it is made from none.
    pub(crate) base: Version,
}

impl Attributes {
    /// The attributes of an item that another engine described.
    pub(crate) fn of(facts: &Facts) -> Self {
        let flags = Flags::default()
            .with_if(facts.stale, Flags::STALE)
            .with_if(facts.token_sent, Flags::TOKEN_SENT)
            .with_if(facts.vivified, Flags::VIVIFIED);
        Self {
            expiry_s: facts.expiry_s,
            client_flags: facts.client_flags,
            client_cas: facts.token,
            flags,
            base: Version::ZERO,
        }
    }

    /// What another engine must know of them.
    pub(crate) fn facts(&self) -> Facts {
        Facts {
            client_flags: self.client_flags,
            expiry_s: self.expiry_s,
            token: self.client_cas,
            stale: self.flags.has(Flags::STALE),
            token_sent: self.flags.has(Flags::TOKEN_SENT),
            vivified: self.flags.has(Flags::VIVIFIED),
        }
    }

    /// Whether an item with these attributes is the same as one with `other`.
    pub(crate) fn are_stored_like(&self, other: &Self) -> bool {
        self.facts() == other.facts() && self.flags == other.flags
    }

    /// The head of an item with these attributes.
    #[inline]
    pub(crate) fn head(&self, key_bytes: usize, value_bytes: usize) -> Head {
        let flags = self
            .flags
            .without(Flags::OPTIONAL)
            .with_if(self.expiry_s != 0, Flags::HAS_EXPIRY)
            .with_if(self.client_flags != 0, Flags::HAS_FLAGS)
            .with_if(self.client_cas.is_some(), Flags::HAS_CAS);
        Head::new(value_bytes, key_bytes, flags)
    }
}

/// An item at a place in the pool: its head and version, and the words from its key on.
#[derive(Clone, Copy)]
pub(crate) struct ItemRef<'p> {
    header: &'p [AtomicU64; HEADER_WORDS],
    body: &'p [AtomicU64],
}

impl<'p> ItemRef<'p> {
    /// The item that `words` begin with; `None` if there are too few for its header.
    #[inline]
    pub(crate) fn new(words: &'p [AtomicU64]) -> Option<Self> {
        let (header, body) = words.split_first_chunk()?;
        Some(Self { header, body })
    }

    #[inline]
    pub(crate) fn head(self) -> Head {
        Head::from_raw(self.header[0].load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_head(self, head: Head) {
        self.header[0].store(head.raw(), Ordering::Relaxed);
    }

    /// Swaps the head from `old` to `new` unless another thread changed it meanwhile. Readers use
    /// it for hints (access, fetched) without a lock; losing is harmless.
    pub(crate) fn hint_head(self, old: Head, new: Head) {
        let relaxed = Ordering::Relaxed;
        let _ = self.header[0].compare_exchange(old.raw(), new.raw(), relaxed, relaxed);
    }

    #[inline]
    pub(crate) fn version(self) -> Version {
        Version::from_raw(self.header[1].load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn set_version(self, version: Version) {
        self.header[1].store(version.raw(), Ordering::Relaxed);
    }

    /// Lets the processor fetch where the item begins.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch(&self.header[0]);
    }

    /// Lets the processor fetch the rest of the item described by `head`, as far as that is worth
    /// while: of a long one the processor fetches more by itself.
    #[inline]
    pub(crate) fn prefetch_rest(self, head: Head) {
        let words = self.body.len().min(head.used_words()).min(FETCHED_WORDS_MAX);
        let rest = self.body[..words].iter().skip(LINE_WORDS - HEADER_WORDS);
        rest.step_by(LINE_WORDS).for_each(prefetch);
    }

    /// Whether the whole item described by `head` lies within the pool.
    #[inline]
    pub(crate) fn fits(self, head: Head) -> bool {
        head.used_words() <= HEADER_WORDS + self.body.len()
    }

    /// Whether the key is `key`, whose length the caller has compared with the head.
    #[inline(always)]
    pub(crate) fn key_is(self, key: &[u8]) -> bool {
        begin_with(self.body, key)
    }

    /// Appends the value to `target`, and `after` after it.
    #[inline(always)]
    pub(crate) fn append_value(self, head: Head, after: &[u8], target: &mut Vec<u8>) {
        append(self.body, head.value_at(), head.value_bytes(), after, target);
    }

    /// Appends the bytes of the value in `range` to `target`.
    pub(crate) fn append_value_part(self, head: Head, range: Range<usize>, target: &mut Vec<u8>) {
        debug_assert!(range.end <= head.value_bytes());
        append(self.body, head.value_at() + range.start, range.len(), &[], target);
    }

    /// Appends the key to `target`.
    pub(crate) fn append_key(self, head: Head, target: &mut Vec<u8>) {
        append(self.body, 0, head.key_bytes(), &[], target);
    }

    /// The eight bytes from byte `at` of the value on, as a number. Torn if they are being written.
    pub(crate) fn value_u64(self, head: Head, at: usize) -> u64 {
        let at = head.value_at() + at;
        u64::from(self.read_u32(at)) | u64::from(self.read_u32(at + 4)) << 32
    }

    /// Writes bytes of the value from its byte `at` on: under the lock of the bucket, or where no
    /// reader sees the item.
    pub(crate) fn write_value_at(self, head: Head, at: usize, bytes: &[u8]) {
        copy_in(self.body, head.value_at() + at, bytes);
    }

    /// Second of the expiry clock from which the item is gone; 0 for never.
    #[inline]
    pub(crate) fn expiry_s(self, head: Head) -> u32 {
        if !head.is(Flags::HAS_EXPIRY) {
            return 0;
        }
        self.read_u32(head.key_bytes())
    }

    /// Rewrites the expiry of an item that has the field.
    pub(crate) fn set_expiry_s(self, head: Head, expiry_s: u32) {
        debug_assert!(head.is(Flags::HAS_EXPIRY) && expiry_s != 0);
        copy_in(self.body, head.key_bytes(), &expiry_s.to_le_bytes());
    }

    #[inline]
    pub(crate) fn client_flags(self, head: Head) -> u32 {
        if !head.is(Flags::HAS_FLAGS) {
            return 0;
        }
        let expiry_bytes = 4 * usize::from(head.is(Flags::HAS_EXPIRY));
        self.read_u32(head.key_bytes() + expiry_bytes)
    }

    /// The token a client compares with: its own choice, or else the counter of the version.
    #[inline]
    pub(crate) fn cas(self, head: Head) -> u64 {
        self.client_cas(head).unwrap_or_else(|| self.version().counter())
    }

    #[inline]
    pub(crate) fn client_cas(self, head: Head) -> Option<u64> {
        if !head.is(Flags::HAS_CAS) {
            return None;
        }
        let at = head.value_at() - 8;
        Some(u64::from(self.read_u32(at)) | u64::from(self.read_u32(at + 4)) << 32)
    }

    /// All attributes, for a copy of the item.
    pub(crate) fn attributes(self, head: Head) -> Attributes {
        Attributes {
            expiry_s: self.expiry_s(head),
            client_flags: self.client_flags(head),
            client_cas: self.client_cas(head),
            flags: head.flags(),
            base: self.version(),
        }
    }

    /// Writes key, attributes and the parts of the value, in that order, and the head last.
    pub(crate) fn write(self, head: Head, key: &[u8], with: &Attributes, value: [&[u8]; 2]) {
        copy_in(self.body, 0, key);
        self.write_after_key(head, with, value);
    }

    /// Writes everything after the key, and the head last: an overwrite in place.
    #[inline(always)]
    pub(crate) fn write_after_key(self, head: Head, with: &Attributes, value: [&[u8]; 2]) {
        if head.flags().has_any(Flags::OPTIONAL) {
            // A copy, so that the attributes are in memory here only.
            let with = *with;
            self.write_optional(head, &with);
        }
        let at = head.value_at();
        copy_in(self.body, at, value[0]);
        copy_in(self.body, at + value[0].len(), value[1]);
        self.set_head(head);
    }

    fn write_optional(self, head: Head, with: &Attributes) {
        let mut at = head.key_bytes();
        let mut put = |bytes: &[u8]| {
            copy_in(self.body, at, bytes);
            at += bytes.len();
        };
        if head.is(Flags::HAS_EXPIRY) {
            put(&with.expiry_s.to_le_bytes());
        }
        if head.is(Flags::HAS_FLAGS) {
            put(&with.client_flags.to_le_bytes());
        }
        if let Some(cas) = with.client_cas {
            put(&cas.to_le_bytes());
        }
    }

    /// Copies all words but the slack of the item at `source` here.
    pub(crate) fn copy_from(self, source: Self, head: Head) {
        self.set_version(source.version());
        for (to, from) in self.body[..head.body_words()].iter().zip(source.body) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.set_head(head.with_slack(0));
    }

    #[inline]
    fn read_u32(self, offset: usize) -> u32 {
        let (word, shift) = (offset / 8, offset % 8 * 8);
        let low = self.body[word].load(Ordering::Relaxed) >> shift;
        if shift <= 32 {
            return low as u32;
        }
        let high = self.body[word + 1].load(Ordering::Relaxed);
        (low | high << (64 - shift)) as u32
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    #[test]
    fn every_field_survives_a_round_trip() {
        let words = memory(64);
        let item = ItemRef::new(&words).expect("64 words");
        for key_len in 1..=30 {
            let key = vec![b'k'; key_len];
            for case in 0..8_u32 {
                let with = Attributes {
                    expiry_s: 7 * (case & 1),
                    client_flags: 0xFFFF_FFF0 * (case >> 1 & 1),
                    client_cas: (case >> 2 == 1).then_some(u64::MAX - 5),
                    flags: Flags::default(),
                    base: Version::ZERO,
                };
                let head = with.head(key_len, 9);
                item.write(head, &key, &with, [b"12345", b"6789"]);
                let head = item.head();
                assert!(item.key_is(&key) && !item.key_is(&vec![b'x'; key_len]));
                assert_eq!(item.expiry_s(head), with.expiry_s);
                assert_eq!(item.client_flags(head), with.client_flags);
                assert_eq!(item.client_cas(head), with.client_cas);
                let mut value = Vec::new();
                item.append_value(head, &[], &mut value);
                assert_eq!(value, b"123456789");
                assert_eq!(head.span_words(), head.used_words());
            }
        }
    }
}
