//! Files, as the journal and an embedded database need them.
//!
//! All file access of a tier goes through these two traits, so that a simulated disk can stand in:
//! one that loses what was not synced, tears writes and returns errors.
//!
//! The calls block. What reads or writes is called where nothing is locked but the right to write
//! that file; how long a file is may be asked under the lock of a table.

use std::io;
use std::sync::Arc;

/// One directory of files. Names have no separator.
pub trait Disk: Send + Sync {
    /// The names of all files, in no order.
    ///
    /// # Errors
    /// What the system answers; so below.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens a file to read and write. It is created if it is not there; a new file survives a
    /// power cut only after [`Disk::sync_directory`].
    ///
    /// # Errors
    /// What the system answers.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Gives a file another name, and takes the place of one that has that name.
    ///
    /// # Errors
    /// What the system answers.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system answers.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable: files that were created, renamed or removed.
    ///
    /// # Errors
    /// What the system answers.
    fn sync_directory(&self) -> io::Result<()>;
}

/// An open file. Offsets and lengths are in bytes.
pub trait File: Send + Sync {
    /// Writes all of `bytes` at offset `at`. After an error any part of them may be written.
    ///
    /// # Errors
    /// What the system answers.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `into` with what lies at offset `at`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before, else what the system answers.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;

    /// Its length.
    ///
    /// # Errors
    /// What the system answers.
    fn bytes(&self) -> io::Result<u64>;

    /// Cuts it, or extends it with zeros.
    ///
    /// # Errors
    /// What the system answers.
    fn set_bytes(&self, bytes: u64) -> io::Result<()>;

    /// Makes what was written durable. After an error nothing is known of what was not durable
    /// before: another call may succeed although it is lost.
    ///
    /// # Errors
    /// What the system answers.
    fn sync(&self) -> io::Result<()>;
}
