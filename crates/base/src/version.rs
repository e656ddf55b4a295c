//! The version of an item: its CAS token, its place in the order of its slice's changes, and what
//! `flush_all` compares.
//!
//! ```text
//! 63..........44 43.............0
//! epoch (20)     counter (44)
//! ```
//!
//! The counter rises with every change in a slice. The epoch is the view of the ring in which the
//! change was made; a cell without a ring stays in epoch 0. Versions are compared as one number, so
//! the epoch decides before the counter does.
//!
//! Invariants, which the engine keeps: within a slice versions only rise, and no two changes have
//! the same.
//!
//! ```
//! use base::Version;
//!
//! let last_of_old_epoch = Version::new(1, (1 << 44) - 1);
//! let first_of_new_epoch = Version::new(2, 0);
//! assert!(first_of_new_epoch > last_of_old_epoch);
//! assert_eq!(Version::from_raw(first_of_new_epoch.raw()), first_of_new_epoch);
//! ```

const COUNTER_BITS: u32 = 44;
const COUNTER_MASK: u64 = (1 << COUNTER_BITS) - 1;

/// An epoch and a counter in eight bytes, compared as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u64);

impl Version {
    /// Lower than the version of any item.
    pub const ZERO: Self = Self(0);

    /// The version with the lower 20 bits of `epoch` and the lower 44 bits of `counter`. Higher
    /// bits are dropped.
    #[must_use]
    pub fn new(epoch: u32, counter: u64) -> Self {
        Self(u64::from(epoch) << COUNTER_BITS | counter & COUNTER_MASK)
    }

    /// The version that [`Version::raw`] returned as `raw`.
    #[inline]
    #[must_use]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// The eight bytes as one number: the CAS token that clients see.
    #[inline]
    #[must_use]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The epoch in which the version was given.
    #[must_use]
    pub fn epoch(self) -> u32 {
        (self.0 >> COUNTER_BITS) as u32
    }

    /// The place of the change among those of its slice, in that epoch.
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
