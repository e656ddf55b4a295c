//! Two cells with new journals begin above one new bucket.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scratch;

use backend::Directory;
use base::{SliceId, SliceRange, Version};
use pages::{MemoryObjects, Pages, PagesConfig};
use scratch::Scratch;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tier::{Ack, Backend, BackendError, Change, Recovered, Rules, TierConfig, TierError};

/// A backend, before whose beginning something else happens.
struct Between {
    pages: Pages,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Backend for Between {
    fn name(&self) -> &str {
        self.pages.name()
    }

    fn begin(&self) -> Result<(), BackendError> {
        if let Some(act) = self.act.lock().unwrap().take() {
            act();
        }
        self.pages.begin()
    }

    fn get(&self, key: &[u8], into: &mut Vec<u8>) -> Result<bool, BackendError> {
        self.pages.get(key, into)
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<(), BackendError> {
        self.pages.apply(changes)
    }

    fn is_atomic(&self) -> bool {
        false
    }

    fn group(&self, slice: SliceId) -> SliceRange {
        self.pages.group(slice)
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, BackendError> {
        self.pages.note(name)
    }

    fn set_note(&self, name: &str, bytes: &[u8]) -> Result<(), BackendError> {
        self.pages.set_note(name, bytes)
    }
}

fn pages(objects: &Arc<MemoryObjects>) -> Pages {
    let config = PagesConfig { page_bytes: 600, apart_from: 150, cache_bytes: 2_000 };
    Pages::open(objects.clone(), config).unwrap()
}

fn find(path: &Path, backend: Arc<dyn Backend>, name: u8) -> Result<Recovered, TierError> {
    let config = TierConfig {
        rules: Arc::new(Rules::all(Ack::Os)),
        salvages: false,
        adopts: false,
        in_ring: false,
        journal_bytes: 64 << 20,
        index_bytes: 8 << 20,
        value_bytes_max: 1 << 20,
        age_ns: 0,
        lookups_max: 8,
        missing_max: 8,
    };
    let disk: Arc<dyn tier::Disk> = Arc::new(Directory::open(path, "the tier").unwrap());
    let first = |_: SliceId| Version::new(0, 1);
    Recovered::find(&disk, backend, config, ([name; 16], [7; 16]), first)
}

/// The second looks while there is nobody, and begins after the first has: it is refused, and the
/// first keeps its bucket.
#[test]
fn the_one_that_comes_second_is_refused_and_the_first_begins_again() {
    let scratch = Scratch::new("two-journals");
    let objects = Arc::new(MemoryObjects::new());
    let [first, second] = ["first", "second"].map(|name| scratch.path().join(name));
    let (beside, at) = (objects.clone(), first.clone());
    let act = move || {
        let backend: Arc<dyn Backend> = Arc::new(pages(&beside));
        find(&at, backend.clone(), 1).unwrap();
        backend.apply(&[Change::Put { key: b"key", record: b"record" }]).unwrap();
    };
    let between = Between { pages: pages(&objects), act: Mutex::new(Some(Box::new(act))) };
    let refused = find(&second, Arc::new(between), 2).err().expect("it is refused");
    assert!(matches!(refused, TierError::OtherJournal { .. }), "{refused}");
    let again: Arc<dyn Backend> = Arc::new(pages(&objects));
    find(&first, again.clone(), 9).unwrap();
    assert_eq!(again.note("journal").unwrap(), Some(vec![1; 16]), "it is its bucket");
    assert_eq!(again.get(b"key", &mut Vec::new()), Ok(true));
}
