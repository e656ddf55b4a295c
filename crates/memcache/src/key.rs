//! Keys: what they may be, and how they stand on the wire.
//!
//! A key is any 1 to 250 bytes but space and newline. A classic command sends it as it is; a meta
//! command may send it in base64, and then any byte is allowed. Nothing here copies a key, except
//! a base64 one into the scratch of the caller.

use crate::base64;
use crate::limits::KEY_BYTES_MAX;
use crate::refusal::Refusal;
use crate::scan;

/// The bytes of a key: 1 to 250 of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// `bytes` as a key, or `None` when it is empty or longer than [`KEY_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (!bytes.is_empty() && bytes.len() <= KEY_BYTES_MAX).then_some(Self(bytes))
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Where a base64 key is decoded to.
pub type KeyScratch = [u8; KEY_BYTES_MAX];

/// A key as a meta command wrote it: plain, or in base64 that has been checked to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyToken<'a> {
    token: &'a [u8],
    binary: bool,
}

impl<'a> KeyToken<'a> {
    /// A token that is the key itself.
    #[inline]
    pub(crate) fn plain(key: Key<'a>) -> Self {
        Self { token: key.0, binary: false }
    }

    /// The same token, taken for base64; `None` when it does not decode.
    pub(crate) fn decoding(self) -> Option<Self> {
        base64::decoded_len(self.token).map(|_| Self { binary: true, ..self })
    }

    /// The token, to be sent back by the flag `k`.
    #[inline]
    #[must_use]
    pub fn token(self) -> &'a [u8] {
        self.token
    }

    /// Whether the token is base64, told to the client by a `b` behind the key.
    #[inline]
    #[must_use]
    pub fn is_binary(self) -> bool {
        self.binary
    }

    /// The key that is stored: the token, or what it decodes to in `scratch`.
    #[inline]
    #[must_use]
    pub fn key<'s>(self, scratch: &'s mut KeyScratch) -> Key<'s>
    where
        'a: 's,
    {
        if self.binary { Key(base64::decode(self.token, scratch)) } else { Key(self.token) }
    }
}

/// The keys of a retrieval command, in order, at least one.
///
/// A key that is too long ends the iteration with a refusal. memcached then drops the values it
/// already found for this command and sends the refusal alone; so must the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    /// The next key, or nothing.
    next: &'a [u8],
    /// What follows it, with spaces.
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// One key alone.
    #[inline]
    pub(crate) fn one(key: Key<'a>) -> Self {
        Self { next: key.0, rest: &[] }
    }

    /// The keys of `text`; empty when there is none.
    #[inline(always)]
    pub(crate) fn of(text: &'a [u8]) -> Self {
        let start = scan::past_spaces(text, 0);
        let end = scan::space(text, start);
        Self { next: &text[start..end], rest: &text[end..] }
    }

    /// Whether no key is left.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next.is_empty()
    }

    /// Passes over so many keys, as they were answered before.
    #[inline]
    pub fn pass(&mut self, count: u32) {
        for _ in 0..count {
            let _ = self.next();
        }
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = Result<Key<'a>, Refusal<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next.is_empty() {
            return None;
        }
        let Some(key) = Key::new(self.next) else {
            *self = Self { next: &[], rest: &[] };
            return Some(Err(Refusal::BadFormat));
        };
        *self = Self::of(self.rest);
        Some(Ok(key))
    }
}

impl std::iter::FusedIterator for Keys<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &[u8]) -> Vec<Option<Vec<u8>>> {
        Keys::of(text).map(|key| key.ok().map(|key| key.as_bytes().to_vec())).collect()
    }

    #[test]
    fn keys_are_split_at_spaces_only() {
        let cases: [(&[u8], &[&[u8]]); 6] = [
            (b"", &[]),
            (b"   ", &[]),
            (b"a", &[b"a"]),
            (b"  a  b ", &[b"a", b"b"]),
            (b"a\tb \0 \r", &[b"a\tb", b"\0", b"\r"]),
            (b"a-key-of-more-than-one-word another", &[b"a-key-of-more-than-one-word", b"another"]),
        ];
        for (text, want) in cases {
            let want: Vec<_> = want.iter().map(|key| Some(key.to_vec())).collect();
            assert_eq!(listed(text), want);
        }
    }

    #[test]
    fn a_key_too_long_ends_the_list_at_its_place() {
        let text = [b"a ".to_vec(), vec![b'x'; 250], vec![b' '], vec![b'y'; 251], b" b".to_vec()];
        let keys = listed(&text.concat());
        assert_eq!(keys, [Some(b"a".to_vec()), Some(vec![b'x'; 250]), None]);
    }

    #[test]
    fn base64_keys_decode_into_the_scratch() {
        let token = KeyToken::plain(Key(b"Zm9v")).decoding().expect("base64");
        assert_eq!(token.key(&mut [0; KEY_BYTES_MAX]).as_bytes(), b"foo");
        assert_eq!((token.token(), token.is_binary()), (&b"Zm9v"[..], true));
        assert_eq!(KeyToken::plain(Key(b"Zm9")).decoding(), None);
    }
}
