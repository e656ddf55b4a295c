//! Who speaks, for what purpose, and in which versions of the frames.

use std::fmt;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 32;

/// Random bytes that are used for one handshake only, so that no message of it proves anything in
/// another one.
pub type Nonce = [u8; NONCE_BYTES];

/// Who a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The ring that it is a member of. 0: not a member yet.
    pub ring: u64,
    /// Its number in the ring. 0: it has none yet.
    pub cell: u32,
    /// Which start of its process this is. It rises with every start.
    pub incarnation: u64,
}

impl Identity {
    /// Whether both are the same cell, in whatever incarnation. Cells without a number are the
    /// same if their incarnations are.
    pub(crate) fn is_same_cell(&self, other: &Self) -> bool {
        let same = (self.ring, self.cell) == (other.ring, other.cell);
        same && (self.cell != 0 || self.incarnation == other.incarnation)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ring, cell, incarnation } = self;
        write!(f, "cell {cell} of ring {ring:016x} in incarnation {incarnation}")
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Requests of clients that belong to the other cell.
    Requests,
    /// The logs of a primary, on their way to a copy.
    Stream,
    /// Agreement, heartbeats, and the map.
    Control,
}

impl Purpose {
    /// Every purpose, by rising number.
    pub const ALL: [Self; 3] = [Self::Requests, Self::Stream, Self::Control];

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Requests => 1,
            Self::Stream => 2,
            Self::Control => 3,
        }
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|purpose| purpose.number() == number)
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "requests",
            Self::Stream => "a stream",
            Self::Control => "control",
        })
    }
}

/// The versions of the handshake and the frames that a cell speaks, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The lowest.
    pub min: u16,
    /// The highest.
    pub max: u16,
}

impl Versions {
    /// What this build speaks. Version 2 has the worker, the first id and the count of repetitions
    /// in a request, that count in its reply, and tags in the entries of a stream; version 3 says
    /// with entries what the other copies have; cells of version 4 understand
    /// [`crate::Frame::Used`], and commands of the map that remove a cell or use an edition.
    pub const OURS: Self = Self { min: 4, max: if cfg!(feature = "next-version") { 5 } else { 4 } };

    /// The highest version that both speak.
    pub(crate) fn common(self, other: Self) -> Option<u16> {
        let version = self.max.min(other.max);
        (version >= self.min.max(other.min)).then_some(version)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { min, max } if min == max => write!(f, "version {min}"),
            Self { min, max } => write!(f, "versions {min} to {max}"),
        }
    }
}

/// The feature of a cell that says how much memory is free, and understands
/// [`crate::Frame::Memory`].
pub const SAYS_MEMORY: u64 = 1;

/// The feature of a cell that says which second requests were shown, and understands
/// [`crate::Frame::Shown`].
pub const SAYS_SHOWN: u64 = 2;

/// The feature of a cell that says when it may answer for what it leads, and understands
/// [`crate::Frame::Serves`].
pub const SAYS_SERVES: u64 = 8;

/// A feature of connections for requests: the cell takes [`crate::Frame::Read`] and
/// [`crate::Frame::Used`], and its replies name the map of the moment in which they may leave.
pub const COPIES_READ: u64 = 4;

/// A feature of connections for requests: the cell takes [`crate::Frame::Refusals`]. Of requests
/// about one slice it refuses those that follow one that it has refused, until the other cell
/// knows.
pub const KEEPS_ORDER: u64 = 16;

/// What a cell says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Who it is.
    pub identity: Identity,
    /// The versions that it speaks.
    pub versions: Versions,
    /// What it can do besides, one bit each. A session has the features of both sides.
    pub features: u64,
}

impl Local {
    /// A cell that speaks [`Versions::OURS`] and has no features.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self { identity, versions: Versions::OURS, features: 0 }
    }
}

/// Whom a connector wants to reach, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The number of the cell; 0 for any.
    pub cell: u32,
    /// What the connection is for.
    pub purpose: Purpose,
}
