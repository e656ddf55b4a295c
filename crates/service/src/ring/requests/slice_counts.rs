//! How many jobs are about each slice.

use base::SliceId;
use std::collections::HashMap;

/// How many jobs are about each slice. A slice without one takes no place.
#[derive(Default)]
pub(crate) struct SliceCounts(HashMap<SliceId, u32>);

impl SliceCounts {
    /// One more is about `slice`.
    pub(crate) fn add(&mut self, slice: SliceId) {
        *self.0.entry(slice).or_default() += 1;
    }

    /// One less is about `slice`.
    pub(crate) fn remove(&mut self, slice: SliceId) {
        if let Some(count) = self.0.get_mut(&slice) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&slice);
            }
        }
    }

    /// Whether one is about `slice`.
    #[inline]
    pub(crate) fn has(&self, slice: SliceId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_jobs_until_the_last_is_gone() {
        let (one, other) = (SliceId::of(b"a"), SliceId::of(b"b"));
        let mut counts = SliceCounts::default();
        counts.add(one);
        counts.add(one);
        assert!(counts.has(one) && !counts.has(other));
        counts.remove(one);
        assert!(counts.has(one));
        counts.remove(one);
        counts.remove(one);
        assert!(!counts.has(one));
    }
}
