//! What the calls of both sides return.

use crate::identity::{Identity, Purpose};

/// What a side has made of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It needs more bytes.
    NeedMore {
        /// Bytes of the input that were used. The rest must be given again, with more after it.
        consumed: usize,
    },
    /// The other side has proven that it knows the secret. What follows are frames.
    Done {
        /// Bytes of the input that were used. The rest belongs to frames.
        consumed: usize,
        /// What was agreed.
        session: Session,
    },
}

impl Step {
    /// Bytes of the input that were used.
    #[must_use]
    pub fn consumed(&self) -> usize {
        match self {
            Self::NeedMore { consumed } | Self::Done { consumed, .. } => *consumed,
        }
    }
}

/// What a handshake has agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Who the other side is.
    pub peer: Identity,
    /// What the connection is for.
    pub purpose: Purpose,
    /// The version of the frames.
    pub version: u16,
    /// The features of both sides.
    pub features: u64,
}
