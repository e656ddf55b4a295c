//! A bucket next to a disk, and the pages in it.

use faulty::disk::SimDisk;
use faulty::objects::{SimBucket, SimObjects, stopped};
use faulty::tally::Tally;
use pages::{Pages, PagesConfig};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::{Backend, BackendError};

/// Short pages, so that they are cut, and a cache of some of them.
const CONFIG: PagesConfig =
    PagesConfig { page_bytes: 4_000, apart_from: 6_000, cache_bytes: 9_000 };

/// A bucket, and the pages in it that the process of now has opened.
pub struct Bucket {
    bucket: SimBucket,
    objects: Arc<SimObjects>,
    pages: Mutex<Option<Arc<Pages>>>,
}

impl Bucket {
    /// An empty one.
    pub fn new(seed: u64, disk: SimDisk) -> Self {
        let bucket = SimBucket::new(seed);
        Self { objects: bucket.of(disk), bucket, pages: Mutex::default() }
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
        self.bucket.fail(per_mille);
    }

    /// Carries out what is late, the first `count` of it.
    pub fn land(&self, count: usize) {
        self.bucket.land(count);
    }

    /// The record of a key, by the pages of now.
    pub fn record(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        let look = || self.pages().and_then(|pages| pages.get(key, &mut record));
        let found = self.bucket.quietly(look);
        let found = found.unwrap_or_else(|error| panic!("what is below cannot be read: {error}"));
        found.then_some(record)
    }

    /// How often each harm was done.
    pub fn tally(&self) -> Tally {
        self.bucket.tally()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
