//! The keys of a retrieval command, split one by one as they are needed.
//!
//! Nothing is copied and nothing is counted in advance: a line may hold thousands of keys. Only
//! spaces part keys.
//!
//! Invariant: the next key is always split off already, so that an empty list is known at once.

use crate::key::Key;
use crate::refusal::Refusal;
use crate::text::{Words, scan};

/// The keys of a retrieval command, in order.
///
/// A key that is too long ends the list with a refusal. memcached then drops the values that it has
/// already found for this command, and sends the refusal alone. The caller must do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys<'a> {
    /// The next key; empty if there is none.
    next: &'a [u8],
    /// The text after it, with its spaces.
    rest: &'a [u8],
}

impl<'a> Keys<'a> {
    /// A list of one key.
    #[inline]
    #[must_use]
    pub fn one(key: Key<'a>) -> Self {
        Self { next: key.as_bytes(), rest: &[] }
    }

    /// The keys in `text`.
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

    /// The keys that are left, as they were written. One of them may be too long.
    pub(crate) fn words(&self) -> impl Iterator<Item = &'a [u8]> {
        let next = Some(self.next).filter(|word| !word.is_empty());
        next.into_iter().chain(Words::new(self.rest))
    }

    /// Skips `count` keys, which an earlier part of the reply has answered.
    #[inline]
    pub fn skip_answered(&mut self, count: u32) {
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
}
