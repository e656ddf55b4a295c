//! What keeps keys below the journal: a directory, an embedded database, a bucket.
//!
//! A backend keeps a record for each key, and some notes of the tier itself. It does not look into
//! either. Its calls block, and are made by threads of the tier alone.

use base::{SliceId, SliceRange};
use std::fmt;

/// Most bytes of a key. The fewest are 1.
pub const KEY_BYTES_MAX: usize = 250;

/// One change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key has this record.
    Put {
        /// The key, of 1 to 250 bytes.
        key: &'a [u8],
        /// The record.
        record: &'a [u8],
    },
    /// The key has no record. Not an error where it had none.
    Delete {
        /// The key.
        key: &'a [u8],
    },
}

impl Change<'_> {
    /// The key that it changes.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Why a call of a backend failed, as far as that decides what follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was not carried out, and may succeed later.
    Transient,
    /// Whether it was carried out is unknown, and it may still be.
    Unknown,
    /// There is no space.
    Full,
    /// It will fail again.
    Permanent,
    /// What lies there is not what was written.
    Corrupt,
    /// It was not carried out: this cell does not lead the slices of it.
    NotLed,
    /// The same, because another cell has taken them over.
    TakenOver,
}

/// An error of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// What follows.
    pub failure: Failure,
    /// What the backend says: one line, which names what it was about.
    pub what: String,
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for BackendError {}

/// What a backend has requested of a service that charges for each, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Objects that were written.
    pub writes: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Objects that were read.
    pub reads: u64,
    /// Bytes of those.
    pub read_bytes: u64,
    /// Lists of names.
    pub lists: u64,
    /// Objects that were deleted.
    pub deletes: u64,
}

/// Is shown a key with its record, or why that cannot be read; returns whether to go on.
pub type See<'a> = dyn FnMut(&[u8], Result<&[u8], BackendError>) -> bool + 'a;

/// Keeps a record for each key.
///
/// What [`Backend::apply`] has returned `Ok` for survives a power cut, and every later
/// [`Backend::get`] finds it. At most one call of `apply` is under way at a time; any number of
/// `get` may be.
pub trait Backend: Send + Sync {
    /// What it is and where, for messages.
    fn name(&self) -> &str;

    /// Begins to be the one that keeps all keys, and the notes: called once by a cell alone, before
    /// anything but notes is asked for or changed, when it is known that it belongs to the journal.
    ///
    /// # Errors
    /// When it cannot be used.
    fn begin(&self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Begins to be the one that reads and writes the keys of `slices`, of those that several cells
    /// share: any other that writes them is refused from then on. May be called again for slices
    /// that were left, or taken over by another; not twice at once for the same. `slices` are whole
    /// groups of [`Backend::group`]. A cell that has called [`Backend::begin`] need not call it.
    ///
    /// Calls about keys of slices that are not led here fail with [`Failure::NotLed`], and those of
    /// slices that another has taken over with [`Failure::TakenOver`]; other slices go on. What is
    /// left meanwhile by [`Backend::leave`] is not led when this returns.
    ///
    /// # Errors
    /// When none of them is led, those that were before too. [`Failure::TakenOver`] where another
    /// has begun to lead some of them meanwhile, [`Failure::Permanent`] where they are not whole
    /// groups.
    fn lead(&self, _slices: SliceRange) -> Result<(), BackendError> {
        Ok(())
    }

    /// Reads and writes nothing of `slices` any more. Waits for no other call: one that is under
    /// way fails, or what it says was so before.
    fn leave(&self, _slices: SliceRange) {}

    /// Appends the record of `key` to `into`. Returns whether there is one.
    ///
    /// # Errors
    /// When that cannot be found out. `into` may have any bytes more then.
    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError>;

    /// Shows each key with its record to `see`, or why that cannot be read, until `see` returns
    /// `false`; in any order, and at least those that are there all the time. Where the key of what
    /// cannot be read is unknown, a name of it stands in its place. `see` may wait long, and calls
    /// nothing of this backend. Returns `false` where it cannot show what it has.
    ///
    /// # Errors
    /// When some are not shown.
    fn show(&self, _see: &mut See<'_>) -> Result<bool, BackendError> {
        Ok(false)
    }

    /// Carries out `changes`, of which each is about another key. All or none of them, unless
    /// [`Backend::is_atomic`] says otherwise.
    ///
    /// # Errors
    /// When some may not have been carried out.
    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError>;

    /// Clears away a part of what changes have left over. Called again and again, also where
    /// nothing was changed; what cannot be cleared away now is later.
    fn tidy(&self) {}

    /// Whether the changes of one call of [`Backend::apply`] are carried out as one, also where the
    /// power is cut.
    fn is_atomic(&self) -> bool;

    /// The slices whose keys are written for less together with those of `slice`; none, unless a
    /// backend writes the keys of many slices at once anyway.
    fn group(&self, _slice: SliceId) -> SliceRange {
        SliceRange::NONE
    }

    /// Whether it writes a record of this many bytes apart from those of its group: next to nothing
    /// is saved by writing it together with them.
    fn is_written_alone(&self, _record_bytes: usize) -> bool {
        false
    }

    /// What it has requested of a service, if it has one.
    fn requests(&self) -> Option<Requests> {
        None
    }

    /// The note of this name. Notes are few and short.
    ///
    /// # Errors
    /// As [`Backend::get`].
    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError>;

    /// Keeps a note, which is durable when this returns.
    ///
    /// # Errors
    /// As [`Backend::apply`].
    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError>;

    /// Keeps a note if there is none of this name, also where several cells do that at once: one of
    /// them succeeds. Returns whether the note is `bytes` now. Needs no [`Backend::begin`].
    ///
    /// # Errors
    /// As [`Backend::apply`]. It may be called again.
    fn claim(&self, name: &str, bytes: &[u8]) -> Result<bool, BackendError> {
        if let Some(before) = self.note(name)? {
            return Ok(before == bytes);
        }
        self.set_note(name, bytes).map(|()| true)
    }
}
