//! The notes of a bucket, where this cell alone writes them; and a note that several cells claim.

use crate::name::{self, Id};
use crate::note;
use crate::objects::{Object, Objects};
use crate::opening::{Notes, notes};
use crate::store::Store;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tier::BackendError;

/// The id of a claimed note: the same for all that claim it, so one of them creates it; and lower
/// than any that a writer of the notes gives.
const CLAIMED: Id = Id { epoch: 0, number: 0 };

/// Notes that this cell alone writes.
pub(crate) struct OwnNotes {
    store: Store,
    kept: Mutex<Notes>,
    /// Held by the call that changes any.
    writing: Mutex<()>,
}

impl OwnNotes {
    /// As they were found.
    pub(crate) fn new(store: Store, kept: Notes) -> Self {
        Self { store, kept: Mutex::new(kept), writing: Mutex::default() }
    }

    /// A note.
    pub(crate) fn get(&self, name: &str) -> Option<Vec<u8>> {
        lock(&self.kept).get(name).map(|(_, note)| note.clone())
    }

    /// Keeps a note. Returns the name of the object that it had before.
    pub(crate) fn set(&self, name: &str, bytes: &[u8]) -> Result<Option<String>, BackendError> {
        let _writing = lock(&self.writing);
        self.store.check_known()?;
        let id = self.store.id();
        self.store.objects.create(&object(name, id, bytes))?;
        self.store.check_epoch()?;
        let before = lock(&self.kept).insert(name.to_owned(), (id, bytes.to_vec()));
        Ok(before.map(|(id, _)| name::note(name, id)))
    }
}

/// Keeps a note if there is none of this name. Returns whether it is `bytes` now.
pub(crate) fn claim(objects: &dyn Objects, of: &str, bytes: &[u8]) -> Result<bool, BackendError> {
    let found = || Ok(notes(objects, &mut Vec::new())?.remove(of));
    if let Some((_, note)) = found()? {
        return Ok(note == bytes);
    }
    objects.create(&object(of, CLAIMED, bytes))?;
    Ok(found()?.is_some_and(|(_, note)| note == bytes))
}

fn object(of: &str, id: Id, bytes: &[u8]) -> Object {
    Object { name: name::note(of, id), bytes: note::encode(bytes) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
