//! The order of the requests of one link about one slice, where one of them is refused and is to be
//! asked again.
//!
//! ```text
//! asks     1 2 3 ---------- knows of the refusal of 1, takes 2 and 3 back --> 1 2 3
//! answers  1 is refused, and 2 and 3, which were sent before that was known   1 2 3
//! ```
//!
//! Without that 2 could be executed before 1: of `set k 1` and `set k 2`, sent together, the first
//! would stay.
//!
//! Invariant: a request about a slice is executed only if its sender knew of all earlier refusals
//! about that slice on this link.

use base::SliceId;
use std::collections::HashMap;

/// What a cell has refused on one link.
#[derive(Default)]
pub(crate) struct Refusals {
    /// How many replies said so.
    count: u64,
    /// By slice, the number of a refusal that the other cell does not know of yet. At most one for
    /// each slice.
    unknown: HashMap<SliceId, u64>,
}

impl Refusals {
    /// How many there were so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether what has come about `slice` was sent before its sender knew of a refusal. The first
    /// `ignored` ones do not count: they are of requests that have come after it, while it waited.
    #[inline]
    pub(crate) fn precede(&self, ignored: u64, slice: impl FnOnce() -> Option<SliceId>) -> bool {
        let counts = |slice| self.unknown.get(&slice).is_some_and(|number| *number > ignored);
        !self.unknown.is_empty() && slice().is_some_and(counts)
    }

    /// One more is refused.
    pub(crate) fn add(&mut self) {
        self.count += 1;
    }

    /// One more is refused, and what follows about `slice` until the other cell knows. What is
    /// refused for that alone is [added](Refusals::add) without a slice: it is taken back with the
    /// first.
    pub(crate) fn add_about(&mut self, slice: SliceId) {
        self.count += 1;
        self.unknown.insert(slice, self.count);
    }

    /// The other cell knows of the first `count`.
    pub(crate) fn are_known(&mut self, count: u64) {
        self.unknown.retain(|_, number| *number > count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_refused_until_the_first_refusal_is_known() {
        let slice = |key: &[u8]| Some(SliceId::of(key));
        let (one, other) = (SliceId::of(b"a"), SliceId::of(b"b"));
        let mut refusals = Refusals::default();
        assert!(!refusals.precede(0, || slice(b"a")));
        refusals.add();
        refusals.add_about(one);
        assert!(refusals.precede(0, || slice(b"a")) && !refusals.precede(0, || slice(b"b")));
        assert!(!refusals.precede(0, || None), "it has no key");
        // One that follows is refused, too; of another slice one is refused after that.
        refusals.add();
        refusals.add_about(other);
        refusals.are_known(1);
        assert!(refusals.precede(0, || slice(b"a")));
        refusals.are_known(2);
        assert!(!refusals.precede(0, || slice(b"a")) && refusals.precede(0, || slice(b"b")));
        // The same is refused once more.
        refusals.add_about(other);
        assert!(refusals.precede(4, || slice(b"b")) && !refusals.precede(5, || slice(b"b")));
        refusals.are_known(4);
        assert!(refusals.precede(0, || slice(b"b")));
        refusals.are_known(5);
        assert!(refusals.unknown.is_empty());
    }
}
