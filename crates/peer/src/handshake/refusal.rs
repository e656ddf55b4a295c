//! What ends a handshake, and how the other side gets to know it.

use super::limits::HANDSHAKE_BYTES_MAX;
use crate::identity::{Identity, Purpose, Versions};
use std::fmt;

/// The reason of a refusal, as a number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are no message of a handshake, or not the one that is due.
    Malformed,
    /// The proof is wrong: the secrets differ, or the messages belong to another handshake.
    WrongSecret,
    /// The cells are members of different rings.
    WrongRing,
    /// There is no version that both speak.
    UnknownVersion,
    /// The cell that was reached is not the one that was wanted.
    WrongCell,
    /// Both sides are the same cell, or a nonce came back.
    Replayed,
    /// A cell that is no member wants more than to join.
    NotMember,
    /// A reason that a later release has added.
    Other(u8),
}

impl Refusal {
    /// Every known reason, by rising number.
    const KNOWN: [Self; 7] = [
        Self::Malformed,
        Self::WrongSecret,
        Self::WrongRing,
        Self::UnknownVersion,
        Self::WrongCell,
        Self::Replayed,
        Self::NotMember,
    ];

    pub(super) fn number(self) -> u8 {
        match self {
            Self::Malformed => 1,
            Self::WrongSecret => 2,
            Self::WrongRing => 3,
            Self::UnknownVersion => 4,
            Self::WrongCell => 5,
            Self::Replayed => 6,
            Self::NotMember => 7,
            Self::Other(number) => number,
        }
    }

    pub(super) fn of(number: u8) -> Self {
        let known = Self::KNOWN.into_iter().find(|reason| reason.number() == number);
        known.unwrap_or(Self::Other(number))
    }
}

/// Why a handshake has failed. The connection closes, after what was appended to the output is
/// sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// A message is longer than any of a handshake.
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// Another message than the one that is due.
    Unexpected {
        /// The number of its kind.
        kind: u8,
        /// The name of the one that is due.
        due: &'static str,
    },
    /// A message ends before its fields do, or goes on after them.
    Length {
        /// The name of its kind.
        message: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A field has a value that it may not have.
    Field {
        /// The name of the message.
        message: &'static str,
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The first bytes are not those of a cell.
    NoCell,
    /// The proof of the other side is wrong.
    WrongSecret {
        /// Who it claims to be.
        peer: Identity,
    },
    /// The other side is a member of another ring.
    WrongRing {
        /// The ring of this side.
        own: u64,
        /// The ring of the other side.
        peer: u64,
    },
    /// There is no version that both speak.
    UnknownVersion {
        /// What this side speaks.
        own: Versions,
        /// What the other side speaks.
        peer: Versions,
    },
    /// The cell that was reached is not the one that was wanted.
    WrongCell {
        /// The number that was wanted.
        wanted: u32,
        /// The number of the cell that was reached.
        reached: u32,
    },
    /// The other side is this cell itself.
    SameCell(Identity),
    /// The nonce of the other side is that of this side: its own message came back.
    SameNonce,
    /// A cell that is no member wants more than to join.
    NotMember(Purpose),
    /// The other side has refused.
    Refused {
        /// Its reason.
        reason: Refusal,
        /// Its words. They are not proven to come from a cell, and hold no control characters.
        text: String,
    },
    /// The handshake has ended before.
    Ended,
}

impl HandshakeError {
    /// The reason that the other side is given. `None` if it is given none, because it knows.
    pub(super) fn reason(&self) -> Option<Refusal> {
        Some(match self {
            Self::TooLong { .. }
            | Self::Unexpected { .. }
            | Self::Length { .. }
            | Self::Field { .. }
            | Self::NoCell => Refusal::Malformed,
            Self::WrongSecret { .. } => Refusal::WrongSecret,
            Self::WrongRing { .. } => Refusal::WrongRing,
            Self::UnknownVersion { .. } => Refusal::UnknownVersion,
            Self::WrongCell { .. } => Refusal::WrongCell,
            Self::SameCell(_) | Self::SameNonce => Refusal::Replayed,
            Self::NotMember(_) => Refusal::NotMember,
            Self::Refused { .. } | Self::Ended => return None,
        })
    }
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { bytes } => write!(
                f,
                "a message of {bytes} bytes, at most {HANDSHAKE_BYTES_MAX} are taken: this port \
                 is for cells only"
            ),
            Self::Unexpected { kind, due } => {
                write!(f, "a message of kind {kind}, due is {due}: connect again")
            }
            Self::Length { message, bytes } => {
                write!(f, "a {message} of {bytes} bytes does not hold its fields and nothing else")
            }
            Self::Field { message, field, value, allowed } => {
                write!(f, "a {message} whose {field} is {value}, allowed is {allowed}")
            }
            Self::NoCell => {
                write!(f, "the first bytes are not those of a cell: this port is for cells only")
            }
            Self::WrongSecret { peer } => write!(
                f,
                "the proof of {peer} is wrong: give all cells of the cluster the same secret"
            ),
            Self::WrongRing { own, peer } => write!(
                f,
                "the other cell is in ring {peer:016x}, this one in ring {own:016x}: connect only \
                 cells of one ring"
            ),
            Self::UnknownVersion { own, peer } => write!(
                f,
                "the other cell speaks {peer}, this one {own}: run releases that share a version"
            ),
            Self::WrongCell { wanted, reached } => write!(
                f,
                "cell {wanted} is wanted, this address is that of cell {reached}: read the map \
                 again"
            ),
            Self::SameCell(own) => {
                write!(f, "both sides are {own}: give each cell an address of its own")
            }
            Self::SameNonce => write!(f, "the nonce of this side came back: connect again"),
            Self::NotMember(purpose) => write!(
                f,
                "a cell that is not in the ring yet wants {purpose}, allowed is control: join first"
            ),
            Self::Refused { reason, text } => {
                write!(f, "the other cell refuses ({reason:?}): {text}")
            }
            Self::Ended => write!(f, "the handshake has ended before: connect again"),
        }
    }
}

impl std::error::Error for HandshakeError {}
