//! The one rule that says whether a new value is written over the old one.
//!
//! In place, an item keeps its address, its key and its slot; readers notice by the version of the
//! bucket. The new item must need no more words than the old one stands on. What it leaves unused
//! is its slack, which has few bits in the head. The segment must be of the class of lifetime that
//! the new expiry belongs to, because a segment expires as a whole. A long copy under the lock
//! would delay readers, so long values always get new space.

use crate::item::{FIELDS_BYTES_MAX, Flags, Head, SLACK_WORDS_MAX};
use crate::segments::Header;

/// The largest value, in bytes, that is written over an older one.
pub(super) const BYTES_MAX: usize = 8 << 10;

/// Whether nothing is written over the value of an item with this head: it is in chunks, or longer
/// than a value of [`BYTES_MAX`] with all slack, and with all fields that the new item may have and
/// this one not.
pub(super) fn is_never_over(head: Head) -> bool {
    let longest = BYTES_MAX + 8 * (SLACK_WORDS_MAX + 1) + FIELDS_BYTES_MAX;
    head.is(Flags::LARGE) || head.value_bytes() > longest
}

/// The slack, in words, of an item with head `new` where the item with head `old` lies. `None` if
/// it does not fit there. `class` is that of the new lifetime. Chunks lie outside the item: a table
/// is only replaced by one with the `same_chunks`, so that none is lost.
#[inline(always)]
pub(super) fn slack(
    old: Head,
    segment: Header<'_>,
    new: Head,
    class: usize,
    same_chunks: bool,
) -> Option<usize> {
    let slack = (old.used_words() + old.slack_words()).checked_sub(new.used_words())?;
    let fits = old.is(Flags::LARGE) == same_chunks
        && new.value_bytes() <= BYTES_MAX
        && slack <= SLACK_WORDS_MAX
        && segment.class() == class;
    fits.then_some(slack)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::item::Attributes;
    use crate::segments::{HeaderWords, Pool};

    /// Attributes with every choice of the optional fields.
    fn all() -> impl Iterator<Item = Attributes> + Clone {
        (0..8_u32).map(|of| Attributes {
            expiry_s: (of & 1) * 9,
            client_flags: (of >> 1 & 1) * 9,
            client_cas: (of >> 2 == 1).then_some(9),
            ..Attributes::default()
        })
    }

    #[test]
    fn what_is_copied_without_the_lock_is_never_written_over() {
        let words = HeaderWords::default();
        let segment = Header::new(&words);
        segment.open(Pool::Small, 0);
        let mut over = 0;
        for (key_bytes, old_bytes) in
            (1..=17).flat_map(|key| (8_100..8_800).map(move |old| (key, old)))
        {
            for old in all().map(|with| with.head(key_bytes, old_bytes)) {
                let afterwards =
                    all().flat_map(|with| [BYTES_MAX, BYTES_MAX - 1].map(|new| (with, new)));
                let is_over = afterwards
                    .map(|(with, bytes)| with.head(key_bytes, bytes))
                    .any(|new| slack(old, segment, new, 0, false).is_some());
                over += u32::from(is_over);
                assert!(!is_over || !is_never_over(old), "{old_bytes} bytes, key of {key_bytes}");
            }
        }
        assert!(over > 0);
    }
}
