//! A directory of the system, locked for one process.
//!
//! ```text
//! <path>/lock     held with flock while the directory is open; no file of the caller
//! <path>/<name>   a file
//! ```
//!
//! Invariants: one [`Directory`] at a time has a path open, in this process or another. Directories
//! that it creates are for its user alone (mode 0700), and survive a power cut once it is open. The
//! kernel releases the lock when the process ends, however it ends.
//!
//! A call that a signal interrupts is repeated: by the standard library where it says so, by this
//! file in taking the lock. No other call here ends with `EINTR` on a file of a disk.

use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::{Errno, retry_on_intr};
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tier::{Disk, File};

/// The file that is locked.
const LOCK: &str = "lock";
/// How long a lock is waited for at most, and how often it is tried.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// A directory, open and locked.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Makes names durable.
    itself: fs::File,
    /// Holds the lock until it is dropped.
    lock: fs::File,
}

/// Why a directory cannot be used.
#[derive(Debug)]
pub enum DirectoryError {
    /// Another process, or another part of this one, has it open.
    InUse {
        /// The directory.
        path: PathBuf,
        /// What it was to be for.
        purpose: String,
    },
    /// The system refused.
    Refused {
        /// The directory.
        path: PathBuf,
        /// What it was to be for.
        purpose: String,
        /// What was done: "create it", "write to it", ...
        doing: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl Directory {
    /// Opens the directory at `path`, or creates it. `purpose` is what it is for, as messages name
    /// it: "the journal".
    ///
    /// # Errors
    /// When it is in use, for two seconds, or cannot be created, written or locked.
    pub fn open(path: &Path, purpose: &str) -> Result<Self, DirectoryError> {
        let refused = |doing| {
            let (path, purpose) = (path.to_owned(), purpose.to_owned());
            move |error| DirectoryError::Refused { path, purpose, doing, error }
        };
        let absolute = std::path::absolute(path).map_err(refused("find it"))?;
        create(&absolute).map_err(refused("create it"))?;
        let itself = fs::File::open(&absolute).map_err(refused("open it"))?;
        let rights = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
        access(&absolute, rights).map_err(|error| refused("write to it")(error.into()))?;
        let lock = open(&absolute.join(LOCK)).map_err(refused("open the file lock in it"))?;
        match locked(&lock) {
            Ok(()) => Ok(Self { path: absolute, itself, lock }),
            Err(Errno::WOULDBLOCK) => {
                let (path, purpose) = (path.to_owned(), purpose.to_owned());
                Err(DirectoryError::InUse { path, purpose })
            }
            Err(error) => Err(refused("lock it")(error.into())),
        }
    }

    /// Where it is: an absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file only if it is there.
    ///
    /// # Errors
    /// What the system answers, but for a file that is absent from the directory that was opened:
    /// where that is gone, or another one is in its place, nothing says what it has.
    pub fn find(&self, name: &str) -> io::Result<Option<Arc<dyn File>>> {
        match OpenOptions::new().read(true).write(true).open(self.file(name)?) {
            Ok(file) => Ok(Some(Arc::new(RealFile(file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check_there().map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Fails where its path is not that of the directory that was opened.
    fn check_there(&self) -> io::Result<()> {
        let of = |of: fs::Metadata| (of.dev(), of.ino());
        let found = fs::metadata(self.path.join(LOCK)).map(of);
        let is_there =
            found.is_ok_and(|found| self.lock.metadata().map(of).is_ok_and(|it| it == found));
        let gone = || {
            let path = self.path.display();
            io::Error::other(format!("{path} is gone, or another directory is in its place"))
        };
        is_there.then_some(()).ok_or_else(gone)
    }

    /// The names of all files, one after the other, in no order.
    ///
    /// Leaves out `lock`, directories, and names that are not UTF-8: no file of a caller has one.
    ///
    /// # Errors
    /// What the system answers.
    pub fn names(&self) -> io::Result<impl Iterator<Item = io::Result<String>>> {
        let name_of = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|name| name != LOCK);
            let Some(name) = name else { return Ok(None) };
            Ok(entry.file_type()?.is_file().then_some(name))
        };
        let entries = fs::read_dir(&self.path)?;
        Ok(entries.filter_map(move |entry| entry.and_then(name_of).transpose()))
    }

    /// The path of a file of the caller.
    fn file(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.contains(['/', '\0']) || [".", "..", LOCK].contains(&name) {
            let what = format!(
                "{name:?} cannot be the name of a file in {}: a name is not empty, has no '/' and \
                 no zero byte, and is not '.', '..' or '{LOCK}'",
                self.path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(self.path.join(name))
    }
}

impl Disk for Directory {
    /// As [`Directory::names`].
    fn list(&self) -> io::Result<Vec<String>> {
        self.names()?.collect()
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(RealFile(open(&self.file(name)?)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.file(from)?, self.file(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = fs::remove_file(self.file(name)?);
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check_there().and(Err(error))
            }
            removed => removed,
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.itself.sync_all()
    }
}

/// A file of the system.
struct RealFile(fs::File);

impl File for RealFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(into, at)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// Locks a file. A process that was killed may still be ending: it is waited for.
fn locked(lock: &fs::File) -> Result<(), Errno> {
    let until = Instant::now() + LOCK_WAIT_MAX;
    loop {
        match retry_on_intr(|| flock(lock, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
            done => return done,
        }
    }
}

/// Opens a file to read and write, or creates it.
fn open(path: &Path) -> io::Result<fs::File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Creates a directory and what is missing above it. Each is durable before the next.
pub fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    create(parent)?;
    match DirBuilder::new().mode(0o700).create(path) {
        // Another process was faster.
        Err(_) if path.is_dir() => {}
        created => created?,
    }
    fs::File::open(parent)?.sync_all()
}

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, purpose } => write!(
                f,
                "{} is to be the directory of {purpose}, and is in use by another process: stop \
                 that process, or choose another directory",
                path.display()
            ),
            Self::Refused { path, purpose, doing, error } => write!(
                f,
                "{} is to be the directory of {purpose}, and the system refuses to {doing}: \
                 {error}; make it a directory that this user can write, or choose another",
                path.display()
            ),
        }
    }
}

impl std::error::Error for DirectoryError {}
