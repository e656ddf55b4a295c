//! The one rule that says whether a new value is written over the old one.
//!
//! In place, an item keeps its address, its key and its slot; readers notice by the version of the
//! bucket. The new item must need no more words than the old one stands on. What it leaves unused
//! is its slack, which has few bits in the head. The segment must be of the class of lifetime that
//! the new expiry belongs to, because a segment expires as a whole. A long copy under the lock
//! would delay readers, so long values always get new space.

use crate::item::{Flags, Head, SLACK_WORDS_MAX};
use crate::segments::Header;

/// The largest value, in bytes, that is written over an older one.
pub(super) const BYTES_MAX: usize = 8 << 10;

/// Whether nothing is written over the value of an item with this head: it is in chunks, or longer
/// than a value of [`BYTES_MAX`] with all slack.
pub(super) fn is_never_over(head: Head) -> bool {
    head.is(Flags::LARGE) || head.value_bytes() > BYTES_MAX + 8 * (SLACK_WORDS_MAX + 1)
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
