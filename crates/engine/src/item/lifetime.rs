//! Lifetimes: when an item is past its expiry, and which items share segments.
//!
//! Items of similar lifetimes lie in the same segments, so that a segment expires as a whole. All
//! times are seconds of the expiry clock; 0 means never.

use base::Now;

/// Classes of lifetime: none, then growing by about a factor of six.
pub(crate) const CLASSES: usize = 8;

/// The longest remaining lifetime, in seconds, of each class but the first (no expiry) and last.
const CLASS_LIMITS_S: [u32; CLASSES - 2] = [60, 600, 3_600, 21_600, 86_400, 604_800];

/// The class of an item that expires at `expiry_s` (0: never), when there are `classes`.
#[inline]
pub(crate) fn class(expiry_s: u32, now: Now, classes: impl FnOnce() -> usize) -> usize {
    if expiry_s == 0 || classes() == 1 { 0 } else { class_of(expiry_s, now) }
}

fn class_of(expiry_s: u32, now: Now) -> usize {
    let left_s = expiry_s.saturating_sub(now.expiry_s);
    1 + CLASS_LIMITS_S.partition_point(|limit| *limit < left_s)
}

/// Whether an item that expires at `expiry_s` (0: never) is gone.
#[inline]
pub(crate) fn expired(expiry_s: u32, now: Now) -> bool {
    expiry_s != 0 && expiry_s <= now.expiry_s
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn classes_part_at_their_limits() {
        let now = Now { mono_ns: 0, expiry_s: 1_000 };
        for (left_s, expected) in [(1, 1), (60, 1), (61, 2), (3_600, 3), (604_801, 7)] {
            assert_eq!(class(1_000 + left_s, now, || CLASSES), expected, "{left_s}");
            assert_eq!(class(1_000 + left_s, now, || 1), 0);
        }
        assert_eq!(class(0, now, || CLASSES), 0);
    }

    #[test]
    fn an_item_is_gone_in_its_last_second() {
        let now = Now { mono_ns: 0, expiry_s: 10 };
        assert!(expired(10, now) && expired(9, now));
        assert!(!expired(11, now) && !expired(0, now));
    }
}
