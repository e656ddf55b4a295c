//! A backend that stops with the machine of a disk.

use crate::disk::SimDisk;
use backend::MemoryBackend;
use base::{SliceId, SliceRange};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tier::{Backend, BackendError, Change, Failure, Stored};

/// Keys in memory, next to a disk.
pub struct SimBackend {
    pub memory: MemoryBackend,
    disk: SimDisk,
    /// Slices whose keys are written together; 0: each key is written for itself.
    group: AtomicUsize,
    /// What happens in the next call that changes something.
    during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl SimBackend {
    pub fn new(disk: SimDisk) -> Arc<Self> {
        let (memory, group) = (MemoryBackend::new(), AtomicUsize::new(0));
        Arc::new(Self { memory, disk, group, during: Mutex::default() })
    }

    /// Has the keys of this number of slices written together.
    pub fn group_by(&self, slices: usize) {
        self.group.store(slices, Ordering::Relaxed);
    }

    /// Lets `work` happen while the next changes are carried out.
    pub fn meanwhile(&self, work: impl FnOnce() + Send + 'static) {
        *self.during.lock().expect("no panic") = Some(Box::new(work));
    }

    /// Another one next to `disk`, with the same records.
    pub fn copy(&self, disk: SimDisk) -> Arc<Self> {
        let copy = Self::new(disk);
        copy.group_by(self.group.load(Ordering::Relaxed));
        for (key, record) in self.memory.records() {
            let put = Change::Put { key: &key, record: &record };
            copy.memory.apply(&[put]).expect("it has no fault");
        }
        for name in ["journal", "slices"] {
            if let Some(note) = self.memory.note(name).expect("it has no fault") {
                copy.memory.set_note(name, &note).expect("it has no fault");
            }
        }
        copy
    }
}

/// The number that the value of a record begins with, before a colon: values that are stored later
/// have higher ones. `None` for other values.
fn number(key: &[u8], record: &[u8]) -> Option<u64> {
    let value = Stored::decode(key, record.to_vec()).expect("a record").value;
    let colon = value.iter().position(|byte| *byte == b':')?;
    std::str::from_utf8(&value[..colon]).ok()?.parse().ok()
}

fn stopped() -> BackendError {
    BackendError { failure: Failure::Unknown, what: "the machine has stopped".to_owned() }
}

impl Backend for SimBackend {
    fn group(&self, slice: SliceId) -> SliceRange {
        let slices = self.group.load(Ordering::Relaxed);
        let first = slice.index() - slice.index().checked_rem(slices).unwrap_or(0);
        SliceRange::new(first..first + slices)
    }

    fn name(&self) -> &str {
        "simulated"
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        if self.disk.is_stopped() { Err(stopped()) } else { self.memory.get(key, into) }
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        if let Some(work) = self.during.lock().expect("no panic").take() {
            work();
        }
        let records = self.memory.records();
        for change in changes {
            if let Change::Put { key, record } = change {
                let (new, old) = (number(key, record), records.get(*key));
                let old = old.and_then(|old| number(key, old));
                assert!(new >= old || new.is_none(), "value {new:?} is put over {old:?} below");
            }
        }
        let (is_done, succeeds) = self.disk.enter();
        let done = if is_done { self.memory.apply(changes) } else { Ok(()) };
        if succeeds { done } else { Err(stopped()) }
    }

    fn is_atomic(&self) -> bool {
        true
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        if self.disk.is_stopped() { Err(stopped()) } else { self.memory.note(name) }
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        let (is_done, succeeds) = self.disk.enter();
        let done = if is_done { self.memory.set_note(name, bytes) } else { Ok(()) };
        if succeeds { done } else { Err(stopped()) }
    }
}
