//! The objects of one writer: their ids, and whether another writer has come.

use crate::name::{self, EPOCHS, Id};
use crate::objects::{Created, Object, Objects};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tier::{BackendError, Failure};

/// Names that are listed at once.
pub(crate) const LIST_AT_ONCE: usize = 1000;
/// Times that an epoch is tried for which others try too.
const TRIES_MAX: usize = 16;

/// The objects of one writer.
pub(crate) struct Store {
    pub(crate) objects: Arc<dyn Objects>,
    pub(crate) epoch: u64,
    next: AtomicU64,
    /// Whether another writer was seen.
    is_deposed: AtomicBool,
}

impl Store {
    /// Takes an epoch higher than all. Returns the names of those before.
    pub(crate) fn begin(objects: Arc<dyn Objects>) -> Result<(Self, Vec<String>), BackendError> {
        for _ in 0..TRIES_MAX {
            let before = list_all(&*objects, EPOCHS)?;
            let highest = before.iter().filter_map(|name| name::epoch_of(name)).max();
            let epoch = highest.map_or(1, |highest| highest + 1);
            let object = Object { name: name::epoch(epoch), bytes: b"taken\n".to_vec() };
            if objects.create(&object)? == Created::Now {
                let (next, is_deposed) = (AtomicU64::new(0), AtomicBool::new(false));
                return Ok((Self { objects, epoch, next, is_deposed }, before));
            }
        }
        let what = "other cells keep taking it over; use it for one";
        Err(error(&*objects, Failure::Transient, what))
    }

    /// An id that no object has.
    pub(crate) fn id(&self) -> Id {
        Id { epoch: self.epoch, number: self.next.fetch_add(1, Ordering::Relaxed) }
    }

    /// An error if another writer has come: what this one has created since may not count.
    pub(crate) fn check_epoch(&self) -> Result<(), BackendError> {
        let later = self.objects.list(EPOCHS, &name::epoch(self.epoch), 1)?;
        self.is_deposed.fetch_or(!later.is_empty(), Ordering::Relaxed);
        self.check_known()
    }

    /// An error if another writer was seen: this one creates nothing more.
    pub(crate) fn check_known(&self) -> Result<(), BackendError> {
        match self.is_deposed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(self.error(
                Failure::Permanent,
                "another cell has taken it over, and this one may not write there any more: end \
                 this cell, or give each a root of its own",
            )),
        }
    }

    /// An error that names the bucket.
    pub(crate) fn error(&self, failure: Failure, what: &str) -> BackendError {
        error(&*self.objects, failure, what)
    }
}

/// An error that names the bucket.
pub(crate) fn error(objects: &dyn Objects, failure: Failure, what: &str) -> BackendError {
    BackendError { failure, what: format!("{}: {what}", objects.name()) }
}

/// All names that begin with `prefix`.
pub(crate) fn list_all(objects: &dyn Objects, prefix: &str) -> Result<Vec<String>, BackendError> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let after = names.last().map_or("", String::as_str);
        let more = objects.list(prefix, after, LIST_AT_ONCE)?;
        let is_last = more.len() < LIST_AT_ONCE;
        names.extend(more);
        if is_last {
            return Ok(names);
        }
    }
}
