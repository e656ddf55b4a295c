//! Keys in pages of a bucket, as what lies below a tier.

use crate::counted::Counted;
use crate::leading::Leading;
use crate::objects::Objects;
use crate::opening::{check_format, notes};
use crate::own_notes::{OwnNotes, claim};
use crate::rewrite::Lengths;
use crate::runs::{NOTES_RUN, RUN_SLICES, run_of, runs_of, slices_of};
use crate::showing::show;
use crate::store::{error, shown};
use base::{SliceId, SliceRange};
use std::sync::{Arc, OnceLock};
use tier::{Backend, BackendError, Change, Failure, KEY_BYTES_MAX, Requests, See};

/// How long pages are, and what is kept of them in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesConfig {
    /// A page is cut where it would be longer, in bytes.
    pub page_bytes: usize,
    /// A record that is longer is an object of its own, in bytes; 0: each that has any.
    pub apart_from: usize,
    /// Pages that are kept in memory, in bytes.
    pub cache_bytes: usize,
}

/// Keys in pages of a bucket.
pub struct Pages {
    objects: Arc<Counted>,
    leading: Leading,
    /// Once this cell has begun to be the one that writes everything.
    notes: OnceLock<OwnNotes>,
}

impl Pages {
    /// Opens a bucket, and changes nothing there that matters: [`Backend::begin`] takes it over, or
    /// [`Backend::lead`] a part of it, and any other that writes there is refused from then on.
    ///
    /// # Errors
    /// When the bucket cannot be used, or has something else.
    pub fn open(objects: Arc<dyn Objects>, config: PagesConfig) -> Result<Self, BackendError> {
        let objects = Arc::new(Counted::new(objects));
        check_format(&*objects)?;
        let PagesConfig { page_bytes, apart_from, cache_bytes } = config;
        let lengths = Lengths { page_bytes, apart_from };
        let leading = Leading::new(objects.clone(), lengths, cache_bytes);
        Ok(Self { objects, leading, notes: OnceLock::new() })
    }

    fn refused(&self, what: &str) -> BackendError {
        error(&*self.objects, Failure::Permanent, what)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), BackendError> {
        if (1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Ok(());
        }
        let what = format!("a key has {} bytes: it must have 1 to {KEY_BYTES_MAX}", key.len());
        Err(self.refused(&what))
    }
}

impl Backend for Pages {
    fn name(&self) -> &str {
        self.objects.name()
    }

    fn begin(&self) -> Result<(), BackendError> {
        let twice = || self.refused("it has begun already");
        if self.notes.get().is_some() {
            return Err(twice());
        }
        let notes = self.leading.lead(&(0..NOTES_RUN + 1))?;
        let set = |(store, kept)| self.notes.set(OwnNotes::new(store, kept));
        notes.map_or(Ok(()), set).map_err(|_| twice())
    }

    fn lead(&self, slices: SliceRange) -> Result<(), BackendError> {
        let Some(runs) = runs_of(slices) else {
            let what = format!(
                "{} cannot be led: they must be whole runs of {RUN_SLICES} slices",
                shown(slices)
            );
            return Err(self.refused(&what));
        };
        if runs.is_empty() { Ok(()) } else { self.leading.lead(&runs).map(drop) }
    }

    fn leave(&self, slices: SliceRange) {
        // Of a run that is left in part, nothing is led.
        let first = slices.iter().next().map(run_of);
        let last = slices.iter().last().map(run_of);
        if let (Some(first), Some(last)) = (first, last) {
            self.leading.leave(&(first..last + 1));
        }
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        self.check_key(key)?;
        self.leading.get(key, into)
    }

    /// In a ring, those of the runs that are led here.
    fn show(&self, see: &mut See<'_>) -> Result<bool, BackendError> {
        show(&self.leading, see).map(|()| true)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        changes.iter().try_for_each(|change| self.check_key(change.key()))?;
        self.leading.apply(changes)
    }

    fn tidy(&self) {
        self.leading.tidy();
    }

    /// Those of one run are.
    fn is_atomic(&self) -> bool {
        false
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        if let Some(own) = self.notes.get() {
            return own.get(name);
        }
        let mut notes = notes(&*self.objects, &mut Vec::new())?;
        Ok(notes.remove(name).map(|(_, note)| note))
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        let not = || self.refused("a note is changed before it has begun");
        let before = self.notes.get().ok_or_else(not)?.set(name, bytes)?;
        self.leading.leave_over(before.map(|name| (NOTES_RUN, name)).into_iter().collect());
        Ok(())
    }

    fn claim(&self, name: &str, bytes: &[u8]) -> Result<bool, BackendError> {
        match self.notes.get().map(|own| own.get(name)).transpose()? {
            None => claim(&*self.objects, name, bytes),
            Some(None) => self.set_note(name, bytes).map(|()| true),
            Some(Some(before)) => Ok(before == bytes),
        }
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.objects.requests())
    }

    fn group(&self, slice: SliceId) -> SliceRange {
        slices_of(run_of(slice))
    }

    fn is_written_alone(&self, record_bytes: usize) -> bool {
        self.leading.is_apart(record_bytes)
    }
}
