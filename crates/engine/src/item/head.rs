//! The head of an item: its first word.
//!
//! ```text
//! 63......43 42...37 36...28 27....20 19......0
//! access(21) slack(6) flags(9)  klen(8) vlen(20)
//! ```
//!
//! `access` counts units of [`ACCESS_UNIT_S`] of the expiry clock, and wraps after 48 days.
//! `slack` counts the words that
//! an overwrite in place left unused. A filler covers words that hold no item: its `vlen` is its
//! whole length in words. Lengths of keys and values are in bytes, all others in words.
//!
//! The fields never overlap. [`Head::span_words`] is where the next item of the segment begins, so
//! it must be right even for an item that is dead.

const VLEN_BITS: u32 = 20;
const KLEN_BITS: u32 = 8;
const FLAGS_BITS: u32 = 9;
const SLACK_BITS: u32 = 6;
const ACCESS_BITS: u32 = 21;
const KLEN_SHIFT: u32 = VLEN_BITS;
const FLAGS_SHIFT: u32 = KLEN_SHIFT + KLEN_BITS;
const SLACK_SHIFT: u32 = FLAGS_SHIFT + FLAGS_BITS;
const ACCESS_SHIFT: u32 = SLACK_SHIFT + SLACK_BITS;
const _: () = assert!(ACCESS_SHIFT + ACCESS_BITS == u64::BITS);

/// Seconds in one unit of the time of last access.
pub(crate) const ACCESS_UNIT_S: u32 = 2;

/// Head and version.
pub(crate) const HEADER_WORDS: usize = 2;

/// Bytes of head and version.
pub(crate) const HEADER_BYTES: usize = HEADER_WORDS * 8;

/// Words that an overwrite in place may leave unused at most.
pub(crate) const SLACK_WORDS_MAX: usize = (1 << SLACK_BITS) - 1;

/// The longest value, in bytes, that one item can hold.
pub(crate) const INLINE_VALUE_BYTES_MAX: usize = (1 << VLEN_BITS) - 1;

/// What an item is and carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    pub(crate) const HAS_EXPIRY: Self = Self(1);
    pub(crate) const HAS_FLAGS: Self = Self(1 << 1);
    pub(crate) const HAS_CAS: Self = Self(1 << 2);
    /// The flags of fields that stand between key and value.
    pub(crate) const OPTIONAL: Self = Self(0b111);
    /// The value is a table of chunks.
    pub(crate) const LARGE: Self = Self(1 << 3);
    /// A piece of a large value; it has no key.
    pub(crate) const CHUNK: Self = Self(1 << 4);
    /// No item: words to skip. Nothing is both of the above.
    pub(crate) const FILLER: Self = Self(Self::LARGE.0 | Self::CHUNK.0);
    /// Read at least once since it was stored.
    pub(crate) const FETCHED: Self = Self(1 << 5);
    /// Marked invalid by a client. The reader that wins the token refreshes it.
    pub(crate) const STALE: Self = Self(1 << 6);
    /// The token to refresh it has been given out.
    pub(crate) const TOKEN_SENT: Self = Self(1 << 7);
    /// A read created it, and no value has been stored since.
    pub(crate) const VIVIFIED: Self = Self(1 << 8);

    #[inline]
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[inline]
    pub(crate) fn has_any(self, others: Self) -> bool {
        self.0 & others.0 != 0
    }

    #[inline]
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[inline]
    pub(crate) fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }
}

/// The first word of an item, unpacked by its methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(u64);

impl Head {
    #[inline]
    pub(crate) fn new(value_bytes: usize, key_bytes: usize, flags: Flags) -> Self {
        debug_assert!(value_bytes < 1 << VLEN_BITS && key_bytes < 1 << KLEN_BITS);
        Self(
            value_bytes as u64
                | (key_bytes as u64) << KLEN_SHIFT
                | u64::from(flags.0) << FLAGS_SHIFT,
        )
    }

    #[inline]
    pub(crate) fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(crate) fn filler(words: usize) -> Self {
        Self::new(words, 0, Flags::FILLER)
    }

    #[inline]
    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) fn value_bytes(self) -> usize {
        (self.0 & ((1 << VLEN_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) fn key_bytes(self) -> usize {
        (self.0 >> KLEN_SHIFT & ((1 << KLEN_BITS) - 1)) as usize
    }

    #[inline]
    pub(crate) fn flags(self) -> Flags {
        Flags((self.0 >> FLAGS_SHIFT & ((1 << FLAGS_BITS) - 1)) as u16)
    }

    #[inline]
    pub(crate) fn is(self, flags: Flags) -> bool {
        self.flags().has(flags)
    }

    #[inline]
    pub(crate) fn slack_words(self) -> usize {
        (self.0 >> SLACK_SHIFT & ((1 << SLACK_BITS) - 1)) as usize
    }

    pub(crate) fn access(self) -> u32 {
        (self.0 >> ACCESS_SHIFT) as u32
    }

    pub(crate) fn with_flags(self, flags: Flags) -> Self {
        let mask = ((1_u64 << FLAGS_BITS) - 1) << FLAGS_SHIFT;
        Self(self.0 & !mask | u64::from(flags.0) << FLAGS_SHIFT)
    }

    #[inline]
    pub(crate) fn with_slack(self, words: usize) -> Self {
        debug_assert!(words <= SLACK_WORDS_MAX);
        let mask = ((1_u64 << SLACK_BITS) - 1) << SLACK_SHIFT;
        Self(self.0 & !mask | (words as u64) << SLACK_SHIFT)
    }

    #[inline]
    pub(crate) fn with_access(self, now_s: u32) -> Self {
        Self(self.0 & ((1 << ACCESS_SHIFT) - 1) | u64::from(now_s / ACCESS_UNIT_S) << ACCESS_SHIFT)
    }

    /// Seconds since the last recorded access, in steps of [`ACCESS_UNIT_S`].
    #[inline]
    pub(crate) fn idle_s(self, now_s: u32) -> u32 {
        let now = now_s / ACCESS_UNIT_S;
        (now.wrapping_sub(self.access()) & ((1 << ACCESS_BITS) - 1)) * ACCESS_UNIT_S
    }

    /// Bytes of the optional fields between key and value.
    #[inline(always)]
    fn optional_bytes(self) -> usize {
        let flags = self.flags();
        if !flags.has_any(Flags::OPTIONAL) {
            return 0;
        }
        4 * usize::from(flags.has(Flags::HAS_EXPIRY))
            + 4 * usize::from(flags.has(Flags::HAS_FLAGS))
            + 8 * usize::from(flags.has(Flags::HAS_CAS))
    }

    /// Where the value starts, in bytes from the key.
    #[inline(always)]
    pub(crate) fn value_at(self) -> usize {
        self.key_bytes() + self.optional_bytes()
    }

    /// Words from the key to the end of the value.
    #[inline(always)]
    pub(crate) fn body_words(self) -> usize {
        (self.value_at() + self.value_bytes()).div_ceil(8)
    }

    /// Words the item needs, without its slack.
    #[inline(always)]
    pub(crate) fn used_words(self) -> usize {
        HEADER_WORDS + self.body_words()
    }

    /// Words from this item to the next one.
    #[inline(always)]
    pub(crate) fn span_words(self) -> usize {
        if self.is(Flags::FILLER) {
            return self.value_bytes();
        }
        self.used_words() + self.slack_words()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn heads_keep_their_fields_apart() {
        let head = Head::new(INLINE_VALUE_BYTES_MAX, 250, Flags::STALE)
            .with_slack(SLACK_WORDS_MAX)
            .with_access(400);
        assert_eq!(head.value_bytes(), INLINE_VALUE_BYTES_MAX);
        assert_eq!((head.key_bytes(), head.slack_words()), (250, SLACK_WORDS_MAX));
        assert!(head.is(Flags::STALE) && !head.is(Flags::LARGE));
        assert_eq!((head.idle_s(400), head.idle_s(500)), (0, 100));
        for days in [11, 13, 48] {
            let idle_s = head.idle_s(400 + days * 86_400);
            assert!(idle_s.abs_diff(days * 86_400) < ACCESS_UNIT_S, "{days} days: {idle_s} s");
        }
        let span = head.with_slack(0).span_words();
        assert_eq!(head.span_words(), span + SLACK_WORDS_MAX);
        assert_eq!(Head::filler(9).span_words(), 9);
    }
}
