//! The backend: what its calls do with the files of a directory.

use super::names::{self, NAME_BYTES_MAX};
use super::record;
use crate::directory::Directory;
use crate::failure::{check_key, error, failure_of, in_doubt};
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tier::{Backend, BackendError, Change, Disk, Failure, See};

/// Keeps each record in a file of its own.
#[derive(Debug)]
pub struct FilesBackend {
    name: String,
    directory: Directory,
    /// Held while anything is written: the names of records without a name are used by one call.
    writing: Mutex<()>,
}

/// A name that is to lead to another file.
struct Step {
    name: String,
    /// The file that is to have the name. `None` if none is.
    from: Option<String>,
}

impl FilesBackend {
    /// Opens the directory `keys` at `path`, or creates it, and removes what an apply has left that
    /// did not end.
    ///
    /// # Errors
    /// When another process uses it, or it cannot be created or written.
    pub fn open(path: &Path) -> Result<Self, BackendError> {
        let path = path.join("keys");
        let name = format!("files in {}", path.display());
        let directory = Directory::open(&path, "the keys")
            .map_err(|refused| error(&name, Failure::Permanent, refused))?;
        let backend = Self { name, directory, writing: Mutex::new(()) };
        let found = backend.directory.list().map_err(|cause| backend.failed("list it", &cause))?;
        for left in found.iter().filter(|name| name.starts_with(names::TEMPORARY)) {
            let removed = backend.directory.remove(left);
            removed.map_err(|cause| backend.failed(&format!("remove {left}"), &cause))?;
        }
        Ok(backend)
    }

    fn failed(&self, doing: &str, cause: &io::Error) -> BackendError {
        error(&self.name, failure_of(cause), format!("cannot {doing}: {cause}"))
    }

    fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a file. `None` if it is not there.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let read = || -> io::Result<Option<Vec<u8>>> {
            let Some(file) = self.directory.find(name)? else { return Ok(None) };
            let length = usize::try_from(file.bytes()?).map_err(io::Error::other)?;
            let mut bytes = vec![0; length];
            file.read_at(0, &mut bytes)?;
            Ok(Some(bytes))
        };
        read().map_err(|cause| self.failed(&format!("read {name}"), &cause))
    }

    /// The key and the record of a file.
    fn parse<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), BackendError> {
        let broken = || {
            let what = format!("{name} has {} bytes, which are not those of a record", bytes.len());
            error(&self.name, Failure::Corrupt, what)
        };
        record::parse(bytes).ok_or_else(broken)
    }

    /// The record of `key`, or of the note of that name, in the file `name`.
    fn find(&self, name: &str, key: &[u8]) -> Result<Option<Vec<u8>>, BackendError> {
        let Some(mut bytes) = self.read(name)? else { return Ok(None) };
        let (found, kept) = self.parse(name, &bytes)?;
        if found == key {
            let head = bytes.len() - kept.len();
            bytes.drain(..head);
            return Ok(Some(bytes));
        }
        if names::is_shared(name) {
            return Ok(None);
        }
        Err(self.of_another(name))
    }

    /// The key that has the file `name`, and the record of it.
    fn own<'a>(&self, name: &str, bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), BackendError> {
        let (key, record) = self.parse(name, bytes)?;
        if names::of_key(key) == name { Ok((key, record)) } else { Err(self.of_another(name)) }
    }

    fn of_another(&self, name: &str) -> BackendError {
        error(&self.name, Failure::Corrupt, format!("{name} holds the record of another key"))
    }

    /// Writes a record to a file that has no name of a key yet.
    fn write(&self, index: usize, key: &[u8], record: &[u8]) -> Result<String, BackendError> {
        let name = names::of_temporary(index);
        let write = || -> io::Result<()> {
            let bytes = record::compose(key, record).ok_or(io::ErrorKind::InvalidInput)?;
            let file = self.directory.open(&name)?;
            file.set_bytes(0)?;
            file.write_at(0, &bytes)?;
            file.sync()
        };
        write().map_err(|cause| self.failed(&format!("write {name}"), &cause))?;
        Ok(name)
    }

    /// What a change does to names. Its record is durable when this returns.
    fn prepare(&self, index: usize, change: &Change<'_>) -> Result<Option<Step>, BackendError> {
        let name = names::of_key(change.key());
        let other = if names::is_shared(&name) {
            let bytes = self.read(&name)?;
            let found = bytes.as_deref().map(|bytes| self.parse(&name, bytes)).transpose()?;
            found.is_some_and(|(key, _)| key != change.key())
        } else {
            false
        };
        match change {
            Change::Put { .. } if other => Err(self.collision(&name)),
            Change::Put { key, record } => {
                let from = Some(self.write(index, key, record)?);
                Ok(Some(Step { name, from }))
            }
            Change::Delete { .. } if other => Ok(None),
            Change::Delete { .. } => Ok(Some(Step { name, from: None })),
        }
    }

    fn collision(&self, name: &str) -> BackendError {
        let what = format!("{name} is the file of another key with the same hash: delete that key");
        error(&self.name, Failure::Permanent, what)
    }

    /// Writes all records; nothing is carried out yet.
    fn prepare_all(&self, changes: &[Change<'_>]) -> Result<Vec<Step>, BackendError> {
        let mut steps: Vec<Step> = Vec::with_capacity(changes.len());
        for (index, change) in changes.iter().enumerate() {
            check_key(&self.name, change.key())?;
            let Some(step) = self.prepare(index, change)? else { continue };
            let shared = names::is_shared(&step.name);
            if shared && steps.iter().any(|before| before.name == step.name) {
                return Err(self.collision(&step.name));
            }
            steps.push(step);
        }
        Ok(steps)
    }

    /// Gives all names to the files that are to have them, and makes that durable.
    fn carry_out(&self, steps: &[Step]) -> Result<(), BackendError> {
        let doubt = |doing: String, cause: &io::Error| {
            let failed = self.failed(&doing, cause);
            BackendError { failure: in_doubt(failed.failure), ..failed }
        };
        for Step { name, from } in steps {
            let done = match from {
                Some(from) => self.directory.rename(from, name),
                None => absent_is_fine(self.directory.remove(name)),
            };
            done.map_err(|cause| doubt(format!("replace or remove {name}"), &cause))?;
        }
        self.directory.sync_directory().map_err(|cause| doubt("sync it".to_owned(), &cause))
    }

    /// Removes the records that have no name, after a failure. What stays is removed by the next
    /// open, and is never read.
    fn clean(&self, changes: usize) {
        for index in 0..changes {
            let _ = self.directory.remove(&names::of_temporary(index));
        }
    }

    /// The file of a note.
    fn note_name(&self, note: &str) -> Result<String, BackendError> {
        names::of_note(note).ok_or_else(|| {
            let what = format!(
                "a note has a name of {} bytes: as the name of a file it must have {} at most, and \
                 a byte other than A-Z a-z 0-9 _ - . takes 3",
                note.len(),
                NAME_BYTES_MAX - 2
            );
            error(&self.name, Failure::Permanent, what)
        })
    }
}

fn absent_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

impl Backend for FilesBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        check_key(&self.name, key)?;
        let record = self.find(&names::of_key(key), key)?;
        into.extend(record.iter().flatten());
        Ok(record.is_some())
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        let _writing = self.writing();
        let applied = self.prepare_all(changes).and_then(|steps| self.carry_out(&steps));
        applied.inspect_err(|_| self.clean(changes.len()))
    }

    fn show(&self, see: &mut See<'_>) -> Result<bool, BackendError> {
        let refused = |cause| self.failed("list it", &cause);
        for name in self.directory.names().map_err(refused)? {
            let name = name.map_err(refused)?;
            if !names::is_of_key(&name) {
                continue;
            }
            let bytes = self.read(&name);
            let found = match &bytes {
                Ok(None) => continue,
                Ok(Some(bytes)) => self.own(&name, bytes),
                Err(error) => Err(error.clone()),
            };
            let goes_on = match found {
                Ok((key, record)) => see(key, Ok(record)),
                Err(error) => see(name.as_bytes(), Err(error)),
            };
            if !goes_on {
                break;
            }
        }
        Ok(true)
    }

    fn is_atomic(&self) -> bool {
        false
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.find(&self.note_name(name)?, name.as_bytes())
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        let file = self.note_name(name)?;
        let _writing = self.writing();
        let written = self.write(0, name.as_bytes(), bytes);
        let done =
            written.and_then(|from| self.carry_out(&[Step { name: file, from: Some(from) }]));
        done.inspect_err(|_| self.clean(1))
    }
}
