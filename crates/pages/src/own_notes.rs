//! The notes of a bucket, where this cell alone writes them; and a note that several cells claim.

use crate::name::{self, Id};
use crate::note;
use crate::objects::{Object, Objects};
use crate::opening::{Notes, notes};
use crate::rewrite::gone;
use crate::store::Store;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tier::{BackendError, Failure};

/// The id of a claimed note: the same for all that claim it, so one of them creates it; and lower
/// than any that a writer of the notes gives.
const CLAIMED: Id = Id { epoch: 0, number: 0 };

/// Notes that this cell alone writes.
pub(crate) struct OwnNotes {
    store: Store,
    /// The ids of those that count.
    kept: Mutex<BTreeMap<String, Id>>,
    /// Held by the call that changes any.
    writing: Mutex<()>,
}

impl OwnNotes {
    /// As they were found.
    pub(crate) fn new(store: Store, kept: Notes) -> Self {
        let kept = kept.into_iter().map(|(name, (id, _))| (name, id)).collect();
        Self { store, kept: Mutex::new(kept), writing: Mutex::default() }
    }

    /// A note.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        let kept = lock(&self.kept);
        let Some(id) = kept.get(name) else { return Ok(None) };
        let name = name::note(name, *id);
        let object = self.store.objects.get(&name)?.ok_or_else(|| gone(&self.store, &name))?;
        let wrong = || self.store.error(Failure::Corrupt, &format!("{name} is no note"));
        note::decode(&object).map(Some).ok_or_else(wrong)
    }

    /// Keeps a note. Returns the name of the object that it had before.
    pub(crate) fn set(&self, name: &str, bytes: &[u8]) -> Result<Option<String>, BackendError> {
        let _writing = lock(&self.writing);
        self.store.check_known()?;
        let id = self.store.id();
        self.store.objects.create(&object(name, id, bytes))?;
        self.store.check_epoch()?;
        let before = lock(&self.kept).insert(name.to_owned(), id);
        Ok(before.map(|id| name::note(name, id)))
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
