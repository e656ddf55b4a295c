//! A bucket next to a disk: objects that fail, are not answered for, and are created and deleted
//! late, also by a process that has ended; and the pages in it.

use crate::below::stopped;
use crate::disk::SimDisk;
use crate::tally::Tally;
use measure::rng::Rng;
use pages::{Call, Created, Fault, MemoryObjects, Object, Objects, Pages, PagesConfig};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::{Backend, BackendError, Failure};

/// Short pages, so that they are cut, and a cache of some of them.
const CONFIG: PagesConfig =
    PagesConfig { page_bytes: 4_000, apart_from: 6_000, cache_bytes: 9_000 };

const LATE_PUT: &str = "bucket: an object is created late";
const LATE_DELETE: &str = "bucket: an object is deleted late";
const EXISTS: &str = "bucket: there is such an object already (412)";
const REFUSED: &str = "bucket: a request is refused (5xx)";
const FULL: &str = "bucket: there is no space (Full)";
const NOT_ANSWERED: &str = "bucket: a request is carried out and not answered";
const OF_THE_DEAD: &str = "bucket: a request is under way when the machine stops";

/// What may happen to a bucket.
pub const HARM: [&str; 7] =
    [LATE_PUT, LATE_DELETE, EXISTS, REFUSED, FULL, NOT_ANSWERED, OF_THE_DEAD];

/// How the calls of objects fail.
struct Faults {
    rng: Rng,
    /// Of a thousand calls.
    per_mille: u64,
    /// The next call fails so.
    next: Option<Fault>,
    /// Whether a test looks, and nothing fails.
    is_quiet: bool,
    tally: Tally,
}

impl Faults {
    fn choose(&mut self, call: Call) -> Option<Fault> {
        if self.is_quiet {
            return None;
        }
        let is_change = matches!(call, Call::Create | Call::Delete);
        let next = self.next.take();
        if next.is_some() || self.rng.below(1_000) >= self.per_mille {
            return next;
        }
        let (name, fault) = match self.rng.below(5) {
            0 | 1 if is_change => return Some(Fault::Late),
            2 if is_change => (NOT_ANSWERED, Fault::Unanswered),
            3 if is_change => (FULL, Fault::Refused(Failure::Full)),
            _ => (REFUSED, Fault::Refused(Failure::Transient)),
        };
        self.tally.add(name);
        Some(fault)
    }
}

/// A bucket, and the pages in it that the process of now has opened.
pub struct Bucket {
    objects: Arc<SimObjects>,
    pages: Mutex<Option<Arc<Pages>>>,
}

impl Bucket {
    /// An empty one.
    pub fn new(seed: u64, disk: SimDisk) -> Self {
        let rng = Rng::new(seed, 78);
        let tally = Tally::default();
        let faults = Faults { rng, per_mille: 0, next: None, is_quiet: false, tally };
        let faults = Arc::new(Mutex::new(faults));
        let (memory, chosen) = (MemoryObjects::new(), faults.clone());
        memory.set_faults(move |call, _| lock(&chosen).choose(call));
        let objects = Arc::new(SimObjects { memory, disk, faults });
        Self { objects, pages: Mutex::default() }
    }

    /// A process begins: it opens the pages.
    pub fn open(&self) -> Result<(), BackendError> {
        let opened = Pages::open(self.objects.clone(), CONFIG).map(Arc::new);
        *lock(&self.pages) = opened.as_ref().ok().cloned();
        opened.map(|_| ())
    }

    /// The pages, if they are opened.
    pub fn pages(&self) -> Result<Arc<Pages>, BackendError> {
        lock(&self.pages).clone().ok_or_else(stopped)
    }

    /// Of a thousand calls, this number fails from now on.
    pub fn fail(&self, per_mille: u64) {
        lock(&self.objects.faults).per_mille = per_mille;
    }

    /// Carries out what is late, the first `count` of it.
    pub fn land(&self, count: usize) {
        let [created, deleted] = self.objects.memory.land(count);
        let tally = &mut lock(&self.objects.faults).tally;
        tally.add_times(LATE_PUT, created);
        tally.add_times(LATE_DELETE, deleted);
    }

    /// The record of a key, by the pages of now.
    pub fn record(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        lock(&self.objects.faults).is_quiet = true;
        let found = self.pages().and_then(|pages| pages.get(key, &mut record));
        lock(&self.objects.faults).is_quiet = false;
        let found = found.unwrap_or_else(|error| panic!("what is below cannot be read: {error}"));
        found.then_some(record)
    }

    /// How often each harm was done.
    pub fn tally(&self) -> Tally {
        lock(&self.objects.faults).tally.clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Objects that are not reached once the machine has stopped.
struct SimObjects {
    memory: MemoryObjects,
    disk: SimDisk,
    faults: Arc<Mutex<Faults>>,
}

impl SimObjects {
    fn change<T>(
        &self,
        call: impl FnOnce(&MemoryObjects) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        let (is_done, succeeds) = self.disk.enter();
        if succeeds {
            return call(&self.memory);
        }
        if is_done {
            // It is under way: it may land at any time.
            let mut faults = lock(&self.faults);
            faults.tally.add(OF_THE_DEAD);
            faults.next = (faults.rng.below(2) == 0).then_some(Fault::Late);
            drop(faults);
            let _ = call(&self.memory);
        }
        Err(stopped())
    }

    fn ask<T>(
        &self,
        call: impl FnOnce(&MemoryObjects) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        if self.disk.is_stopped() { Err(stopped()) } else { call(&self.memory) }
    }
}

impl Objects for SimObjects {
    fn name(&self) -> &str {
        "simulated objects"
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        let created = self.change(|memory| memory.create(object));
        // Each start asks for the first one again.
        if matches!(created, Ok(Created::Before)) && object.name != "format" {
            lock(&self.faults).tally.add(EXISTS);
        }
        created
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.ask(|memory| memory.get(name))
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        self.ask(|memory| memory.list(prefix, after, max))
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        self.change(|memory| memory.delete(names))
    }
}
