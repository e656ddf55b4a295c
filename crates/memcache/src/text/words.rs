//! The words of a line: the bytes between spaces.
//!
//! Only the space parts words. Tabs, carriage returns and zeroes are ordinary bytes of a word, as
//! in memcached. A word is never empty.

/// The words of a text, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words of `text`.
    #[inline]
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self { rest: text }
    }

    /// The text after the words that were taken, with its spaces.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        // Byte by byte: most words have a few bytes and end before a block would be loaded.
        let start = self.rest.iter().position(|byte| *byte != b' ')?;
        let text = &self.rest[start..];
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

/// Whether the last word of `text` is `noreply`.
///
/// memcached checks nothing else: `delete noreply` deletes the key `noreply` without a reply.
#[inline]
pub(crate) fn has_noreply(text: &[u8]) -> bool {
    const NOREPLY: &[u8] = b"noreply";
    let end = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    let before = text[..end].strip_suffix(NOREPLY);
    before.is_some_and(|before| before.last().is_none_or(|byte| *byte == b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_between_spaces() {
        let mut words = Words::new(b"  stats items\t1  x ");
        assert_eq!(words.next(), Some(&b"stats"[..]));
        assert_eq!(words.rest(), b" items\t1  x ");
        assert_eq!(words.collect::<Vec<_>>(), [&b"items\t1"[..], b"x"]);
        assert_eq!(Words::new(b"").next(), None);
    }

    #[test]
    fn only_the_last_word_silences() {
        for (text, want) in [
            (&b"delete k noreply"[..], true),
            (b"delete k noreply  ", true),
            (b"noreply", true),
            (b"delete knoreply", false),
            (b"delete noreply k", false),
            (b"delete k noreply\r", false),
            (b"", false),
        ] {
            assert_eq!(has_noreply(text), want, "{}", String::from_utf8_lossy(text));
        }
    }
}
