//! What the dirty index knows of a key.

use base::Version;

/// Where a record lies. Later places of a lane are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of its segment. No number is used twice.
    pub segment: u32,
    /// Where it begins in the segment, in bytes.
    pub offset: u32,
    /// The length of the record, in bytes.
    pub bytes: u32,
}

/// What the record at a place says of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// It holds the value.
    Value = 1,
    /// The key was removed.
    Tombstone = 2,
    /// The value lies below; only expiry and version are newer than what is there.
    TouchOf = 3,
}

/// The newest record of a key, and what was changed since without a new record of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the record lies.
    pub place: Place,
    /// The version of the last change of the key, which may be a touch that came after the record.
    pub version: Version,
    /// When the item expires, as the caller counts seconds; as of the last change.
    pub expiry_s: u32,
    /// What the record says.
    pub kind: Kind,
}

/// What a record that a start finds says of the entry of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// It is this one, unless that of the key is newer.
    Set(Entry),
    /// It has this version and expiry, or is this one where there is none.
    Touch(Entry),
    /// It has this version and expiry, if there is one.
    Raise(Entry),
    /// There is none, if it has this version or an older one.
    Supersede(Version),
}
