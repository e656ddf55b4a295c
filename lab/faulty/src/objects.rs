//! Objects of a bucket that fail, are not answered for, and are created and deleted late, also by a
//! process that has ended.

use crate::disk::SimDisk;
use crate::tally::Tally;
use measure::rng::Rng;
use pages::{Call, Created, Fault, MemoryObjects, Object, Objects};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::{BackendError, Failure};

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

/// A bucket. A clone is the same one.
#[derive(Clone)]
pub struct SimBucket {
    memory: Arc<MemoryObjects>,
    faults: Arc<Mutex<Faults>>,
}

impl SimBucket {
    /// An empty one, whose faults follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let rng = Rng::new(seed, 78);
        let tally = Tally::default();
        let faults = Faults { rng, per_mille: 0, next: None, is_quiet: false, tally };
        let faults = Arc::new(Mutex::new(faults));
        let (memory, chosen) = (MemoryObjects::new(), faults.clone());
        memory.set_faults(move |call, _| lock(&chosen).choose(call));
        Self { memory: Arc::new(memory), faults }
    }

    /// The same, as the machine of `disk` reaches it.
    #[must_use]
    pub fn of(&self, disk: SimDisk) -> Arc<SimObjects> {
        Arc::new(SimObjects { bucket: self.clone(), disk, is_away: AtomicBool::new(false) })
    }

    /// Of a thousand calls, this number fails from now on.
    pub fn fail(&self, per_mille: u64) {
        self.lock().per_mille = per_mille;
    }

    /// Nothing fails while `looks` lasts.
    pub fn quietly<T>(&self, looks: impl FnOnce() -> T) -> T {
        self.lock().is_quiet = true;
        let found = looks();
        self.lock().is_quiet = false;
        found
    }

    /// Carries out what is late, the first `count` of it. Returns whether that has changed
    /// anything.
    pub fn land(&self, count: usize) -> bool {
        let [created, deleted] = self.memory.land(count);
        let tally = &mut self.lock().tally;
        tally.add_times(LATE_PUT, created);
        tally.add_times(LATE_DELETE, deleted);
        created + deleted > 0
    }

    /// How often each harm was done.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.lock().tally.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Faults> {
        lock(&self.faults)
    }
}

fn lock(faults: &Mutex<Faults>) -> MutexGuard<'_, Faults> {
    faults.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Objects that are not reached once the machine of a disk has stopped.
pub struct SimObjects {
    bucket: SimBucket,
    disk: SimDisk,
    is_away: AtomicBool,
}

impl SimObjects {
    /// Sets whether the machine cannot reach the bucket.
    pub fn set_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    fn change<T>(
        &self,
        call: impl FnOnce(&MemoryObjects) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.reach()?;
        let (is_done, succeeds) = self.disk.enter();
        if succeeds {
            return call(&self.bucket.memory);
        }
        if is_done {
            // It is under way: it may land at any time.
            let mut faults = self.bucket.lock();
            faults.tally.add(OF_THE_DEAD);
            faults.next = (faults.rng.below(2) == 0).then_some(Fault::Late);
            drop(faults);
            let _ = call(&self.bucket.memory);
        }
        Err(stopped())
    }

    fn ask<T>(
        &self,
        call: impl FnOnce(&MemoryObjects) -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        self.reach()?;
        if self.disk.is_stopped() { Err(stopped()) } else { call(&self.bucket.memory) }
    }

    fn reach(&self) -> Result<(), BackendError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(BackendError {
                failure: Failure::Transient,
                what: "simulated objects: out of reach".to_owned(),
            }),
            false => Ok(()),
        }
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
            self.bucket.lock().tally.add(EXISTS);
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

/// The answer to a call of a machine that has stopped.
#[must_use]
pub fn stopped() -> BackendError {
    BackendError { failure: Failure::Unknown, what: "the machine has stopped".to_owned() }
}
