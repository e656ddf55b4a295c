//! The file that names the journal, and why a journal cannot be used.

use super::format::{JournalId, SEGMENT_HEAD_BYTES, SegmentHead};
use crate::disk::Disk;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The file that names the journal.
pub(crate) const IDENTITY: &str = "journal";

/// Why a journal cannot be used. A message names the file, and the remedy where there is one.
#[derive(Debug)]
#[non_exhaustive]
pub enum RecoverError {
    /// The disk refuses.
    Disk {
        /// What was tried.
        what: String,
        /// What the system says.
        error: io::Error,
    },
    /// A segment of another journal, or segments without the file that names theirs.
    Foreign(String),
    /// What was durable is not there any more.
    Corrupt(String),
    /// The same of what stands for the whole journal: nothing of it can be read.
    Useless(String),
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { what, error } => write!(f, "{what}: {error}"),
            Self::Foreign(what) => write!(f, "{what}: give the tier a directory of its own"),
            Self::Useless(what) => write!(
                f,
                "the journal is corrupt: {what}; restore the directory from a copy, or move it \
                 away: a cell of a ring begins without it, and another one with --tier-adopt"
            ),
            Self::Corrupt(what) => {
                write!(
                    f,
                    "the journal is corrupt: {what}; restore the directory from a copy, or give up \
                     what cannot be read with --tier-salvage"
                )
            }
        }
    }
}

impl std::error::Error for RecoverError {}

impl RecoverError {
    /// That the floors of slices cannot be read.
    pub(crate) fn of_floors(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Useless(error.to_string()),
            _ => disk("the file floors")(error),
        }
    }
}

/// An error of the disk while `what` was tried.
pub(crate) fn disk(what: impl Into<String>) -> impl FnOnce(io::Error) -> RecoverError {
    let what = what.into();
    move |error| RecoverError::Disk { what, error }
}

/// What says how a journal is called.
pub(crate) enum Identity {
    /// Nothing: there is none.
    None,
    /// Its file.
    Written(JournalId),
    /// Its segments, as the file is lost.
    OfSegments(JournalId),
}

/// How the journal on a disk is called that has files of these names, of which some are segments.
///
/// # Errors
/// When nothing says so, and there are segments. `salvages`: these may say so.
pub(crate) fn find_identity(
    disk_of: &Arc<dyn Disk>,
    (names, segments): (&[String], &[String]),
    salvages: bool,
) -> Result<Identity, RecoverError> {
    match identity(&**disk_of, names) {
        Ok(Some(journal)) => Ok(Identity::Written(journal)),
        Ok(None) | Err(RecoverError::Useless(_)) if !segments.is_empty() => {
            let named = name_in(disk_of, segments).filter(|_| salvages);
            named.map(Identity::OfSegments).ok_or_else(|| {
                let what = "is not there, or not what was written, and segments of it are there";
                RecoverError::Corrupt(format!("the file {IDENTITY}, which names it, {what}"))
            })
        }
        Ok(None) => Ok(Identity::None),
        Err(error) => Err(error),
    }
}

/// The name of the journal of these segments, by the first head that can be read.
fn name_in(disk_of: &Arc<dyn Disk>, segments: &[String]) -> Option<JournalId> {
    segments.iter().find_map(|name| {
        let mut head = [0; SEGMENT_HEAD_BYTES];
        disk_of.open(name).and_then(|file| file.read_at(0, &mut head)).ok()?;
        SegmentHead::decode(&head).map(|head| head.journal)
    })
}

/// The name of the journal on a disk with files of these `names`; `None` if it has none.
fn identity(disk_of: &dyn Disk, names: &[String]) -> Result<Option<JournalId>, RecoverError> {
    if !names.iter().any(|name| name == IDENTITY) {
        return Ok(None);
    }
    let file = disk_of.open(IDENTITY).map_err(disk(IDENTITY))?;
    let mut id = [0; 20];
    match file.read_at(0, &mut id) {
        Ok(()) => {}
        // It was being written when the machine stopped: nothing else was there then.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(disk(IDENTITY)(error)),
    }
    if id == [0; 20] {
        // Likewise: its length was durable, and its bytes were not.
        return Ok(None);
    }
    let (name, crc) = id.split_at(16);
    if crc32fast::hash(name).to_le_bytes() != crc {
        let what = format!("the file {IDENTITY} is not what was written");
        return Err(RecoverError::Useless(what));
    }
    // Once more: a sync of an earlier start may have failed, and what it has not written down is
    // then read from the memory of the system, and not written by another sync.
    file.write_at(0, &id).and_then(|()| file.sync()).map_err(disk(IDENTITY))?;
    Ok(name.try_into().ok())
}

/// Names the journal, durably.
pub(crate) fn write_identity(disk_of: &dyn Disk, name: JournalId) -> io::Result<()> {
    let file = disk_of.open(IDENTITY)?;
    let mut bytes = name.to_vec();
    bytes.extend_from_slice(&crc32fast::hash(&name).to_le_bytes());
    file.write_at(0, &bytes)?;
    file.sync()?;
    disk_of.sync_directory()
}
