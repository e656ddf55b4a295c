//! Objects whose requests are counted, each of which a service charges for.

use crate::objects::{Created, Object, Objects};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tier::{BackendError, Requests};

/// Counts what goes to the objects inside it, also what fails.
pub(crate) struct Counted {
    objects: Arc<dyn Objects>,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
}

impl Counted {
    pub(crate) fn new(objects: Arc<dyn Objects>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            objects,
            writes: zero(),
            written_bytes: zero(),
            reads: zero(),
            read_bytes: zero(),
            lists: zero(),
            deletes: zero(),
        }
    }

    /// What was requested so far.
    pub(crate) fn requests(&self) -> Requests {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Requests {
            writes: count(&self.writes),
            written_bytes: count(&self.written_bytes),
            reads: count(&self.reads),
            read_bytes: count(&self.read_bytes),
            lists: count(&self.lists),
            deletes: count(&self.deletes),
        }
    }

    fn writes(&self, objects: &[Object]) {
        let bytes: usize = objects.iter().map(|object| object.bytes.len()).sum();
        add(&self.writes, objects.len());
        add(&self.written_bytes, bytes);
    }
}

impl Objects for Counted {
    fn name(&self) -> &str {
        self.objects.name()
    }

    fn create(&self, object: &Object) -> Result<Created, BackendError> {
        self.writes(std::slice::from_ref(object));
        self.objects.create(object)
    }

    fn create_all(&self, objects: &[Object]) -> Result<Vec<Created>, BackendError> {
        self.writes(objects);
        self.objects.create_all(objects)
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        add(&self.reads, 1);
        let object = self.objects.get(name)?;
        add(&self.read_bytes, object.as_ref().map_or(0, Vec::len));
        Ok(object)
    }

    fn get_all(&self, names: &[String]) -> Result<Vec<Option<Vec<u8>>>, BackendError> {
        add(&self.reads, names.len());
        let objects = self.objects.get_all(names)?;
        add(&self.read_bytes, objects.iter().flatten().map(Vec::len).sum());
        Ok(objects)
    }

    fn list(&self, prefix: &str, after: &str, max: usize) -> Result<Vec<String>, BackendError> {
        add(&self.lists, 1);
        self.objects.list(prefix, after, max)
    }

    fn delete(&self, names: &[String]) -> Result<(), BackendError> {
        add(&self.deletes, names.len());
        self.objects.delete(names)
    }
}

fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}
