//! What a log does with its positions, and why it refuses what others send.

use base::Version;

/// What a log does with its positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It gives them.
    Leads,
    /// It takes those of the log that it is a copy of.
    Follows,
    /// It has ended.
    Sealed,
}

/// A reader lost entries that it had not read. It leaves, and begins again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FellOut;

/// Why a log does not take an entry that it should follow. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfollowed {
    /// It is not the next one: this position is.
    Gap(u64),
    /// Its version is not above this, the last of its slice.
    Order(Version),
    /// Its slice is in another lane, or is not the slice of its key.
    Slice,
    /// There is no memory for it now.
    Full,
    /// Its key or its value has a length that no entry may have.
    Length,
    /// The log does not follow.
    NotFollowing,
}

/// How often entries were refused and marks ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Positions with a gap before them, or that were there already.
    pub gap: u64,
    /// Versions that were not above the last of their slice.
    pub order: u64,
    /// Slices of other lanes, and keys of other slices.
    pub slice: u64,
    /// Entries with a key or a value of a wrong length.
    pub length: u64,
    /// Entries of a log that does not follow.
    pub not_following: u64,
    /// Entries for which there was no memory at that time.
    pub full: u64,
    /// Marks after the last position.
    pub mark: u64,
}

impl Refusals {
    /// Counts one.
    pub(crate) fn count(&mut self, why: Unfollowed) {
        match why {
            Unfollowed::Gap(_) => self.gap += 1,
            Unfollowed::Order(_) => self.order += 1,
            Unfollowed::Slice => self.slice += 1,
            Unfollowed::Length => self.length += 1,
            Unfollowed::NotFollowing => self.not_following += 1,
            Unfollowed::Full => self.full += 1,
        }
    }
}
