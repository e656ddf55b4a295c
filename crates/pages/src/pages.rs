//! Keys in pages of a bucket, as what lies below a tier.

use crate::counted::Counted;
use crate::objects::Objects;
use crate::opening::{check_format, notes};
use crate::rewrite::Lengths;
use crate::store::error;
use crate::taken::{Taken, group_of};
use base::{SliceId, SliceRange};
use std::sync::{Arc, OnceLock};
use tier::{Backend, BackendError, Change, Failure, KEY_BYTES_MAX, Requests};

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
    config: PagesConfig,
    /// Once it was taken over.
    taken: OnceLock<Taken>,
}

impl Pages {
    /// Opens a bucket, and changes nothing there that matters: [`Backend::begin`] takes it over,
    /// and any other that writes there is refused from then on.
    ///
    /// # Errors
    /// When the bucket cannot be used, or has something else.
    pub fn open(objects: Arc<dyn Objects>, config: PagesConfig) -> Result<Self, BackendError> {
        let objects = Arc::new(Counted::new(objects));
        check_format(&*objects)?;
        Ok(Self { objects, config, taken: OnceLock::new() })
    }

    fn taken(&self) -> Result<&Taken, BackendError> {
        let not = || error(&*self.objects, Failure::Permanent, "it is used before it has begun");
        self.taken.get().ok_or_else(not)
    }

    fn check_key(&self, key: &[u8]) -> Result<(), BackendError> {
        if (1..=KEY_BYTES_MAX).contains(&key.len()) {
            return Ok(());
        }
        let what = format!("a key has {} bytes: it must have 1 to {KEY_BYTES_MAX}", key.len());
        Err(error(&*self.objects, Failure::Permanent, &what))
    }
}

impl Backend for Pages {
    fn name(&self) -> &str {
        self.objects.name()
    }

    fn begin(&self) -> Result<(), BackendError> {
        let PagesConfig { page_bytes, apart_from, cache_bytes } = self.config;
        let lengths = Lengths { page_bytes, apart_from };
        let taken = Taken::begin(self.objects.clone(), lengths, cache_bytes)?;
        let twice = |_| error(&*self.objects, Failure::Permanent, "it has begun already");
        self.taken.set(taken).map_err(twice)
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        self.check_key(key)?;
        self.taken()?.get(key, into)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        changes.iter().try_for_each(|change| self.check_key(change.key()))?;
        self.taken()?.apply(changes)
    }

    fn tidy(&self) {
        if let Some(taken) = self.taken.get() {
            taken.tidy();
        }
    }

    /// Those of one run are.
    fn is_atomic(&self) -> bool {
        false
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        if let Some(taken) = self.taken.get() {
            return Ok(taken.note(name));
        }
        let mut notes = notes(&*self.objects, &mut Vec::new())?;
        Ok(notes.remove(name).map(|(_, note)| note))
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        self.taken()?.set_note(name, bytes)
    }

    fn requests(&self) -> Option<Requests> {
        Some(self.objects.requests())
    }

    fn group(&self, slice: SliceId) -> SliceRange {
        group_of(slice)
    }
}
