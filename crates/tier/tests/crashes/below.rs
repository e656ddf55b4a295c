//! A backend that stops with the machine of a disk: keys in memory, or pages of a bucket.

use crate::bucket::Bucket;
use backend::MemoryBackend;
use base::{SliceId, SliceRange};
use faulty::bytes::digest_of;
use faulty::disk::SimDisk;
use faulty::objects::stopped;
use faulty::tally::Tally;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tier::{Backend, BackendError, Change, Failure, See, Stored};

/// The calls of [`MemoryBackend`] that fail.
const REFUSED: &str = "keys: a call is refused (5xx)";
const NOT_ANSWERED: &str = "keys: a call is not answered";
const FULL: &str = "keys: there is no space (Full)";
const PERMANENT: &str = "keys: a call is refused for good";

/// What may happen to keys in memory.
pub const HARM: [&str; 4] = [REFUSED, NOT_ANSWERED, FULL, PERMANENT];

/// Keys next to a disk.
pub struct SimBackend {
    /// Where the keys lie, unless they lie in a bucket.
    pub memory: MemoryBackend,
    pub bucket: Option<Bucket>,
    disk: SimDisk,
    tally: Mutex<Tally>,
    /// Whether a part of the journal has changed, so that an older value may be written back.
    is_harmed: AtomicBool,
    /// Slices whose keys are written together; 0: each key is written for itself.
    group: AtomicUsize,
    /// What happens in the next call that changes something.
    during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Copies from after each change, if a test wants that.
    copies: Mutex<Option<Vec<Arc<Self>>>>,
}

/// The notes of a tier.
const NOTES: [&str; 2] = ["journal", "slices"];

impl SimBackend {
    pub fn new(disk: SimDisk) -> Arc<Self> {
        Self::above(disk, None)
    }

    /// One whose keys lie in pages of a bucket.
    pub fn in_pages(seed: u64, disk: SimDisk) -> Arc<Self> {
        let bucket = Bucket::new(seed, disk.clone());
        Self::above(disk, Some(bucket))
    }

    fn above(disk: SimDisk, bucket: Option<Bucket>) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryBackend::new(),
            bucket,
            disk,
            tally: Mutex::default(),
            is_harmed: AtomicBool::new(false),
            group: AtomicUsize::new(0),
            during: Mutex::default(),
            copies: Mutex::default(),
        })
    }

    /// Keeps a copy of now, and one from after each change of keys in memory, from now on.
    pub fn keep_copies(&self) {
        let first = self.copy(self.disk.clone());
        *self.copies.lock().expect("no panic") = Some(vec![first]);
    }

    /// The copies since [`SimBackend::keep_copies`].
    pub fn copies(&self) -> Vec<Arc<Self>> {
        self.copies.lock().expect("no panic").take().unwrap_or_default()
    }

    /// A number that stands for keys in memory, and for the notes.
    pub fn digest(&self) -> u64 {
        let records = self.memory.records().into_iter();
        let records = records.map(|(key, record)| [digest_of(&key), digest_of(&record)]);
        let notes = NOTES.map(|name| self.memory.note(name).expect("it has no fault"));
        let notes = notes.map(|note| [0, note.map_or(0, |note| digest_of(&note))]);
        let all: Vec<_> = records.chain(notes).flatten().flat_map(u64::to_le_bytes).collect();
        digest_of(&all)
    }

    /// Keeps a copy of what is so now.
    fn note_change(&self) {
        if let Some(copies) = &mut *self.copies.lock().expect("no panic") {
            copies.push(self.copy(self.disk.clone()));
        }
    }

    /// A process begins, and opens what it has.
    pub fn open(&self) -> Result<(), BackendError> {
        self.bucket.as_ref().map_or(Ok(()), Bucket::open)
    }

    /// How often each harm was done.
    pub fn tally(&self) -> Tally {
        let mut tally = self.tally.lock().expect("no panic").clone();
        self.bucket.iter().for_each(|bucket| tally.merge(&bucket.tally()));
        tally
    }

    /// Nothing fails any more.
    pub fn clear_faults(&self) {
        self.memory.clear_faults();
        self.bucket.iter().for_each(|bucket| bucket.fail(0));
    }

    /// The record of a key. `None`: there is none.
    pub fn record(&self, key: &[u8]) -> Option<Vec<u8>> {
        match &self.bucket {
            Some(bucket) => bucket.record(key),
            None => self.memory.records().remove(key),
        }
    }

    /// A part of the journal has changed: what is left of it may be older than what lies here.
    pub fn harm(&self) {
        self.is_harmed.store(true, Ordering::Relaxed);
    }

    fn count<T>(&self, done: &Result<T, BackendError>) {
        if let Err(error) = done {
            let name = match error.failure {
                Failure::Transient => REFUSED,
                Failure::Unknown => NOT_ANSWERED,
                Failure::Full => FULL,
                _ => PERMANENT,
            };
            self.tally.lock().expect("no panic").add(name);
        }
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
        for name in NOTES {
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

impl Backend for SimBackend {
    fn group(&self, slice: SliceId) -> SliceRange {
        if let Some(bucket) = &self.bucket {
            return bucket.pages().map_or(SliceRange::NONE, |pages| pages.group(slice));
        }
        let slices = self.group.load(Ordering::Relaxed);
        let first = slice.index() - slice.index().checked_rem(slices).unwrap_or(0);
        SliceRange::new(first..first + slices)
    }

    fn is_written_alone(&self, record_bytes: usize) -> bool {
        let pages = self.bucket.as_ref().and_then(|bucket| bucket.pages().ok());
        pages.is_some_and(|pages| pages.is_written_alone(record_bytes))
    }

    fn name(&self) -> &str {
        "simulated"
    }

    fn begin(&self) -> Result<(), BackendError> {
        self.bucket.as_ref().map_or(Ok(()), |bucket| bucket.pages()?.begin())
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        if self.disk.is_stopped() {
            return Err(stopped());
        }
        match &self.bucket {
            Some(bucket) => bucket.pages()?.get(key, into),
            None => {
                let done = self.memory.get(key, into);
                self.count(&done);
                done
            }
        }
    }

    fn show(&self, see: &mut See<'_>) -> Result<bool, BackendError> {
        match &self.bucket {
            Some(bucket) => bucket.pages()?.show(see),
            None => self.memory.show(see),
        }
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        if let Some(work) = self.during.lock().expect("no panic").take() {
            work();
        }
        let is_sure = !self.disk.is_stopped() && !self.is_harmed.load(Ordering::Relaxed);
        for change in changes.iter().filter(|_| is_sure) {
            if let Change::Put { key, record } = change {
                let (new, old) = (number(key, record), self.record(key));
                let old = old.and_then(|old| number(key, &old));
                assert!(new >= old || new.is_none(), "value {new:?} is put over {old:?} below");
            }
        }
        if let Some(bucket) = &self.bucket {
            return bucket.pages()?.apply(changes);
        }
        let (is_done, succeeds) = self.disk.enter();
        let done = if is_done { self.memory.apply(changes) } else { Ok(()) };
        self.note_change();
        self.count(&done);
        if succeeds { done } else { Err(stopped()) }
    }

    fn tidy(&self) {
        if let Some(Ok(pages)) = self.bucket.as_ref().map(Bucket::pages) {
            pages.tidy();
        }
    }

    fn is_atomic(&self) -> bool {
        self.bucket.is_none()
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        if self.disk.is_stopped() {
            return Err(stopped());
        }
        match &self.bucket {
            Some(bucket) => bucket.pages()?.note(name),
            None => self.memory.note(name),
        }
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        if let Some(bucket) = &self.bucket {
            return bucket.pages()?.set_note(name, bytes);
        }
        let (is_done, succeeds) = self.disk.enter();
        let done = if is_done { self.memory.set_note(name, bytes) } else { Ok(()) };
        self.note_change();
        if succeeds { done } else { Err(stopped()) }
    }
}
