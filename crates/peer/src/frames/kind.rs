//! The kinds of frames, and what may have happened to a request. Numbers keep their meaning.

/// What has happened to a request at the cell that received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It was executed. The text is the reply.
    Done = 0,
    /// It was not executed: the key belongs to another cell, by the map of the reply.
    NotOwner = 1,
    /// It was not executed: too many cells have forwarded it.
    TooManyHops = 2,
    /// It was not executed. The text is an error line.
    Refused = 3,
    /// It may have been executed. The text is an error line.
    InDoubt = 4,
    /// It was asked before, and nobody knows any more what has come of that: it is not executed,
    /// and need not be asked again. No text.
    Forgotten = 5,
}

impl Verdict {
    /// Every verdict, by rising number.
    pub const ALL: [Self; 6] = [
        Self::Done,
        Self::NotOwner,
        Self::TooManyHops,
        Self::Refused,
        Self::InDoubt,
        Self::Forgotten,
    ];
}

/// The kinds, by their numbers.
const BY_NUMBER: [Option<FrameKind>; 19] = {
    let (mut kinds, mut at) = ([None; 19], 0);
    while at < FrameKind::ALL.len() {
        kinds[FrameKind::ALL[at] as usize] = Some(FrameKind::ALL[at]);
        at += 1;
    }
    kinds
};

/// The kinds of frames. No release has sent 8 and 12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// [`crate::Frame::Request`].
    Request = 1,
    /// [`crate::Frame::Reply`].
    Reply = 2,
    /// [`crate::Frame::StreamOpen`].
    StreamOpen = 3,
    /// [`crate::Frame::StreamFrom`].
    StreamFrom = 4,
    /// [`crate::Frame::StreamEnd`].
    StreamEnd = 5,
    /// [`crate::Frame::Entries`].
    Entries = 6,
    /// [`crate::Frame::Acked`].
    Acked = 7,
    /// [`crate::Frame::Heartbeat`].
    Heartbeat = 9,
    /// [`crate::Frame::Call`].
    Call = 10,
    /// [`crate::Frame::Answer`].
    Answer = 11,
    /// [`crate::Frame::Memory`].
    Memory = 13,
    /// [`crate::Frame::Shown`].
    Shown = 14,
    /// [`crate::Frame::Read`].
    Read = 15,
    /// [`crate::Frame::Serves`].
    Serves = 16,
    /// [`crate::Frame::Used`].
    Used = 17,
    /// [`crate::Frame::Refusals`].
    Refusals = 18,
}

impl FrameKind {
    /// Every kind, by rising number.
    pub const ALL: [Self; 16] = [
        Self::Request,
        Self::Reply,
        Self::StreamOpen,
        Self::StreamFrom,
        Self::StreamEnd,
        Self::Entries,
        Self::Acked,
        Self::Heartbeat,
        Self::Call,
        Self::Answer,
        Self::Memory,
        Self::Shown,
        Self::Read,
        Self::Serves,
        Self::Used,
        Self::Refusals,
    ];

    /// The highest number.
    pub(super) const LAST: usize = BY_NUMBER.len() - 1;

    /// The kind with this number.
    pub(super) fn of(number: u8) -> Option<Self> {
        BY_NUMBER.get(usize::from(number)).copied().flatten()
    }
}
