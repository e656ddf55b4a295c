//! The version of an item: its CAS token, its place in the order of its slice, and the cut of
//! `flush_all`.
//!
//! ```text
//! 63..........44 43.............0
//! epoch (20)     counter (44)
//! ```
//!
//! The counter rises with every change in a slice; restart, recovery and promotion raise the
//! epoch, so a version never goes backwards and none is ever handed out twice.

const COUNTER_BITS: u32 = 44;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// Epoch and counter in eight bytes, compared as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Below every version that an item can carry.
    pub const ZERO: Self = Self(0);

    /// The version with counter `counter` (44 bits) of epoch `epoch` (20 bits); higher bits are
    /// cut off.
    #[must_use]
    pub fn new(epoch: u32, counter: u64) -> Self {
        Self(u64::from(epoch) << COUNTER_BITS | counter & COUNTER_MASK)
    }

    /// The version whose eight bytes read as `raw`.
    #[inline]
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Its eight bytes as a number: what clients see as the CAS token.
    #[inline]
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The view of the ring it was given in.
    #[must_use]
    pub fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    /// Its place among the changes of its slice in that epoch.
    #[must_use]
    pub fn counter(self) -> u64 {
        self.0 & COUNTER_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_outrank_counters() {
        let old = Version::new(1, COUNTER_MASK);
        let new = Version::new(2, 0);
        assert!(new > old);
        assert_eq!((old.epoch(), old.counter()), (1, COUNTER_MASK));
        assert_eq!(Version::from_raw(new.raw()), new);
    }
}
