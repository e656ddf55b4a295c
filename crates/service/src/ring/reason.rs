//! Why a stream to a copy ends.

/// Why a copy takes no more of a stream, as [`peer::Frame::StreamEnd`] says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// It does not follow that primary in that epoch.
    NotFollowing = 1,
    /// Its memory is full.
    NoSpace = 2,
    /// The stream has a gap, or an entry that is no entry.
    Malformed = 3,
    /// It knows a later log of that cell.
    OldLog = 4,
}

impl Reason {
    /// The reason with this number, as people read it.
    pub(crate) fn describe(number: u8) -> &'static str {
        match number {
            1 => "it does not follow this cell in this epoch",
            2 => "its memory is full",
            3 => "the stream has a gap, or an entry that is none",
            4 => "it knows a later log of this cell",
            _ => "for an unknown reason",
        }
    }
}
