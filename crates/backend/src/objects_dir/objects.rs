//! The calls, and what they do with files.

use super::names::path_of;
use super::walk::Walk;
use crate::directory::create;
use crate::failure::{error, failure_of, in_doubt};
use crate::object::{check, check_bytes, check_name, is_prefix};
use pages::{Created, Object, Objects};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use tier::{BackendError, Failure};

/// How often a create makes the directories of its object: a delete may remove them meanwhile.
const TRIES_MAX: usize = 100;

/// Keeps each object in a file of a directory.
#[derive(Debug)]
pub struct DirectoryObjects {
    name: String,
    /// The files of objects.
    objects: PathBuf,
    /// The files that have no name yet.
    new: PathBuf,
}

/// How many files this process has begun: no two have one name.
static BEGUN: AtomicU64 = AtomicU64::new(0);

impl DirectoryObjects {
    /// Opens the directory at `path`, or creates it. Other processes may have it open.
    ///
    /// # Errors
    /// When it cannot be created or written.
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        let name = format!("objects in {}", path.display());
        let open = || -> io::Result<Self> {
            let path = std::path::absolute(path)?;
            let (objects, new) = (path.join("objects"), path.join("new"));
            create(&objects)?;
            create(&new)?;
            for entry in fs::read_dir(&new)? {
                remove_abandoned(&entry?.path())?;
            }
            Ok(Self { name: name.clone(), objects, new })
        };
        open().map_err(|cause| {
            let what = format!("cannot open it: {cause}; make it a directory of this user");
            error(&name, Failure::Permanent, what)
        })
    }

    fn failed(&self, doing: &str, name: &str, cause: &io::Error) -> BackendError {
        error(&self.name, failure_of(cause), format!("cannot {doing} {name}: {cause}"))
    }

    /// As [`Self::failed`], of a call that may have been carried out.
    fn doubt(&self, doing: &str, name: &str, cause: &io::Error) -> BackendError {
        let failed = self.failed(doing, name, cause);
        BackendError { failure: in_doubt(failed.failure), ..failed }
    }

    /// A file with these bytes, durable, without a name.
    fn write(&self, bytes: &[u8]) -> io::Result<New> {
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let path = self.new.join(format!("{}-{number}", process::id()));
        // A process of the same number may have left it in another namespace.
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        let mut new = New { path, file };
        retry_on_intr(|| flock(&new.file, FlockOperation::NonBlockingLockExclusive))?;
        new.file.write_all(bytes)?;
        new.file.sync_data()?;
        Ok(new)
    }

    /// Makes the names of a file and of the directories above it durable.
    fn sync_above(&self, file: &Path) -> io::Result<()> {
        for directory in file.ancestors().skip(1) {
            File::open(directory)?.sync_all()?;
            if directory == self.objects {
                break;
            }
        }
        Ok(())
    }

    /// Gives its name to a new file, if no other has it.
    fn link(new: &New, file: &Path) -> io::Result<Created> {
        let link = || -> io::Result<()> {
            if let Some(parent) = file.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            }
            fs::hard_link(&new.path, file)
        };
        for _ in 0..TRIES_MAX {
            match link() {
                Ok(()) => return Ok(Created::Now),
                Err(error) if error.kind() == ErrorKind::AlreadyExists && file.exists() => {
                    return Ok(Created::Before);
                }
                // A delete removed a directory meanwhile, or the object.
                Err(error) if is_race(&error) => {}
                Err(error) => return Err(error),
            }
        }
        link().map(|()| Created::Now)
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let path = self.objects.join(path_of(name));
        let bytes = match fs::metadata(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|cause| self.failed("read", name, &cause))?.len(),
        };
        check_bytes(&self.name, name, bytes)?;
        match fs::read(&path) {
            // It was deleted since.
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|cause| self.failed("read", name, &cause)),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.objects.join(path_of(name));
        match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            removed => removed?,
        }
        // The directories that are empty now go too, up to the first that is not.
        let mut above = path.ancestors().skip(1).take_while(|at| *at != self.objects);
        let stays = above.find(|directory| fs::remove_dir(directory).is_err());
        match File::open(stays.unwrap_or(&self.objects)) {
            // It is gone too since, and who removed it makes that durable.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            directory => directory?.sync_all(),
        }
    }
}

impl Objects for DirectoryObjects {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        check(&self.name, object)?;
        let (name, file) = (&object.name, self.objects.join(path_of(&object.name)));
        let new = self.write(&object.bytes).map_err(|cause| self.failed("write", name, &cause))?;
        let created = Self::link(&new, &file).map_err(|cause| self.failed("name", name, &cause))?;
        // Also where it was there before: who created it may not have come as far.
        let synced = match self.sync_above(&file) {
            // It was deleted since.
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            synced => synced,
        };
        synced.map_err(|cause| self.doubt("sync the directory of", name, &cause))?;
        Ok(created)
    }

    fn create_all(&self, objects: &[Object]) -> Result<Vec<Created>, BackendError> {
        objects.iter().try_for_each(|object| check(&self.name, object))?;
        objects.iter().map(|object| self.create(object)).collect()
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        check_name(&self.name, name)?;
        self.read(name)
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        if max == 0 || !is_prefix(prefix) {
            return Ok(Vec::new());
        }
        let walk = Walk { objects: &self.objects, prefix, after, max };
        walk.names().map_err(|cause| self.failed("list", prefix, &cause))
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        names.iter().try_for_each(|name| check_name(&self.name, name))?;
        names.iter().try_for_each(|name| {
            self.remove(name).map_err(|cause| self.doubt("delete", name, &cause))
        })
    }
}

/// A file without the name of an object. This name of it is removed when it is dropped.
struct New {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Drop for New {
    fn drop(&mut self) {
        // What stays is removed by the next open.
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether an error may come of a delete that was under way at the same time.
fn is_race(error: &io::Error) -> bool {
    [ErrorKind::NotFound, ErrorKind::AlreadyExists].contains(&error.kind())
}

/// Removes a file that no process has locked.
fn remove_abandoned(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        // Its process has ended with it since.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        Err(Errno::WOULDBLOCK) => return Ok(()),
        locked => locked?,
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
