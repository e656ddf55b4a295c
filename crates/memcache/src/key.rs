//! A key, and how it is written in a request.
//!
//! A key is any 1 to 250 bytes but space and newline. A classic command sends it as it is. A meta
//! command may send it in base64, and then any byte is allowed. Nothing here copies a key, except a
//! decoded one into the scratch buffer of the caller.
//!
//! Invariants: a [`Key`] has 1 to [`KEY_BYTES_MAX`] bytes; a [`KeyToken`] that is marked as base64
//! decodes.

use crate::base64;
use crate::limits::KEY_BYTES_MAX;

/// The 1 to 250 bytes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key<'a>(&'a [u8]);

impl<'a> Key<'a> {
    /// `bytes` as a key. `None` if they are none or more than [`KEY_BYTES_MAX`].
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

/// A buffer that a base64 key is decoded to.
pub type KeyScratch = [u8; KEY_BYTES_MAX];

/// A key as a meta command wrote it: plain, or in base64 that is known to decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyToken<'a> {
    token: &'a [u8],
    binary: bool,
}

impl<'a> KeyToken<'a> {
    /// The token of a key that is written as it is.
    #[inline]
    pub(crate) fn plain(key: Key<'a>) -> Self {
        Self { token: key.0, binary: false }
    }

    /// A token in base64. `None` if it is longer than a key, or does not decode.
    #[must_use]
    pub fn binary(token: &'a [u8]) -> Option<Self> {
        Key::new(token).and_then(|key| Self::plain(key).decoding())
    }

    /// The same token, read as base64. `None` if it does not decode.
    pub(crate) fn decoding(self) -> Option<Self> {
        base64::decoded_len(self.token).map(|_| Self { binary: true, ..self })
    }

    /// The token as the client sent it, which the flag `k` returns.
    #[inline]
    #[must_use]
    pub fn token(self) -> &'a [u8] {
        self.token
    }

    /// Whether the token is base64. A reply shows it by a `b` after the key.
    #[inline]
    #[must_use]
    pub fn is_binary(self) -> bool {
        self.binary
    }

    /// The key itself: the token, or what it decodes to, which is written to `scratch`.
    #[inline]
    #[must_use]
    pub fn key<'s>(self, scratch: &'s mut KeyScratch) -> Key<'s>
    where
        'a: 's,
    {
        if self.binary { Key(base64::decode(self.token, scratch)) } else { Key(self.token) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_keys_decode_into_the_scratch() {
        let token = KeyToken::plain(Key(b"Zm9v")).decoding().expect("base64");
        assert_eq!(KeyToken::binary(b"Zm9v"), Some(token));
        assert_eq!([&[b'A'; 252][..], b"", b"a b="].map(KeyToken::binary), [None; 3]);
        assert_eq!(token.key(&mut [0; KEY_BYTES_MAX]).as_bytes(), b"foo");
        assert_eq!((token.token(), token.is_binary()), (&b"Zm9v"[..], true));
        assert_eq!(KeyToken::plain(Key(b"Zm9")).decoding(), None);
    }
}
