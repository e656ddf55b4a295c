//! A new journal adopts what a lost one has written, in everything that keeps keys.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod scratch;

use backend::{Directory, FilesBackend, MemoryBackend, RedbBackend};
use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Now, SliceId, SliceRange, Space, Value,
    Version,
};
use effects::{Lanes, LanesConfig, WorkerSink};
use pages::{MemoryObjects, Pages, PagesConfig};
use scratch::Scratch;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use tier::{
    Ack, Backend, Disk, Loaded, Outcome, Recovered, Rules, Tier, TierConfig, TierError, Wanted,
};

const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };
const VALUE_BYTES_MAX: u64 = 20_000;

/// Opens what keeps keys, again and again.
type Open<'a> = dyn Fn() -> Arc<dyn Backend> + 'a;

/// A cell without an engine.
struct Cell {
    tier: Arc<Tier>,
    sink: WorkerSink,
    versions: HashMap<SliceId, u64>,
}

impl Cell {
    /// Begins with the journal in a directory; a new one is called `name`.
    fn begin(at: &Path, name: u8, adopts: bool, open: &Open<'_>) -> Result<Self, TierError> {
        let config = TierConfig {
            rules: Arc::new(Rules::all(Ack::Disk)),
            salvages: false,
            adopts,
            in_ring: false,
            journal_bytes: 64 << 20,
            index_bytes: 8 << 20,
            value_bytes_max: VALUE_BYTES_MAX,
            age_ns: 0,
            lookups_max: 8,
            missing_max: 8,
        };
        let disk: Arc<dyn Disk> = Arc::new(Directory::open(at, "the tier").unwrap());
        let first = |_: SliceId| Version::new(0, 1000);
        let found = Recovered::find(&disk, open(), config, ([name; 16], [7; 16]), first)?;
        assert_eq!(found.summary().is_adopted, adopts);
        let versions = found.slices().map(|(slice, begin, _)| (slice, begin.raw())).collect();
        let logs = LanesConfig {
            lanes: 1,
            sinks: 1,
            bytes: 400 << 10,
            value_bytes_max: VALUE_BYTES_MAX,
            follows: false,
        };
        let lanes = Lanes::new(&logs, &MemoryBudget::new(64 << 20)).unwrap();
        let tier = found.begin(lanes.clone(), None, NOW)?;
        let mut sink = WorkerSink::new(lanes);
        sink.set_observer(tier.clone());
        Ok(Self { tier, sink, versions })
    }

    /// Stores a key. Returns its version.
    fn set(&mut self, key: &str) -> u64 {
        let slice = SliceId::of(key.as_bytes());
        let space = Space::Change { key_bytes: key.len(), value_bytes: 5, value: None };
        self.sink.reserve(slice, space).unwrap();
        let next = self.versions[&slice] + 1;
        self.versions.insert(slice, next);
        let facts = Facts { client_flags: 7, ..Facts::default() };
        let change = Change::Put(Value::Parts([b"va", b"lue"]), facts);
        let effect = Effect { key: key.as_bytes(), change };
        let stamp = || Ok(Version::from_raw(next));
        self.sink.commit(KeyId { slice, hash: 0 }, &effect, stamp).unwrap();
        next
    }

    /// Writes all back.
    fn drain(&mut self) -> Result<(), tier::BackendError> {
        self.sink.end_batch();
        self.tier.write();
        self.tier.sync(NOW);
        self.tier.flush(NOW, true).map(|_| ())
    }

    /// The version of a key that is not in memory, and its flags.
    fn find(&self, key: &str) -> Option<(u64, u32)> {
        let Wanted::Job(job) = self.tier.want(SliceId::of(key.as_bytes()), key.as_bytes(), 0, NOW)
        else {
            panic!("nobody else looks up");
        };
        let loaded = self.tier.load(&job, NOW).unwrap();
        let _ = self.tier.finish(job, Outcome::Loaded, NOW);
        match loaded {
            Loaded::Item(item) => Some((item.version.raw(), item.facts.client_flags)),
            Loaded::Missing => None,
            Loaded::Again => panic!("all is written"),
        }
    }
}

fn adopts(scratch: &Scratch, open: &Open<'_>) {
    let [lost, new] = ["lost", "new"].map(|name| scratch.path().join(name));
    let mut cell = Cell::begin(&lost, 1, false, open).unwrap();
    cell.set("ended");
    cell.drain().unwrap();
    cell.sink.barrier(SliceRange::ALL, |_| {}, &mut Vec::new()).unwrap();
    let before = cell.set("kept");
    cell.drain().unwrap();
    let versions = cell.versions.clone();
    drop(cell);
    let refused = Cell::begin(&new, 2, false, open).err().unwrap();
    assert!(refused.to_string().contains("--tier-adopt"), "{refused}");
    let mut cell = Cell::begin(&new, 2, true, open).unwrap();
    assert!(cell.versions.iter().all(|(slice, begin)| *begin > versions[slice]));
    assert_eq!((cell.find("kept"), cell.find("ended")), (Some((before, 7)), None));
    assert!(cell.set("kept") > before);
    let again = cell.set("ended");
    cell.drain().unwrap();
    assert_eq!(cell.find("ended"), Some((again, 7)), "the barrier ends nothing that is new");
    drop(cell);
    let refused = Cell::begin(&lost, 9, true, open).err().unwrap();
    assert!(matches!(refused, TierError::OtherJournal { may_adopt: false, .. }), "{refused}");
    let cell = Cell::begin(&new, 9, false, open).unwrap();
    assert_eq!(cell.find("ended"), Some((again, 7)));
}

#[test]
fn memory() {
    let backend = Arc::new(MemoryBackend::new());
    adopts(&Scratch::new("adopts-memory"), &|| backend.clone());
}

#[test]
fn files() {
    let scratch = Scratch::new("adopts-files");
    let at = scratch.path().join("keys");
    adopts(&scratch, &|| Arc::new(FilesBackend::open(&at).unwrap()));
}

#[test]
fn redb() {
    let scratch = Scratch::new("adopts-redb");
    let at = scratch.path().join("keys");
    let open = || -> Arc<dyn Backend> {
        let directory = Directory::open(&at, "the test").unwrap();
        Arc::new(RedbBackend::open(&directory, "keys.redb", 1 << 20).unwrap())
    };
    adopts(&scratch, &open);
}

fn in_pages(objects: &Arc<MemoryObjects>) -> Arc<dyn Backend> {
    let config = PagesConfig { page_bytes: 2_000, apart_from: 1_000, cache_bytes: 10_000 };
    Arc::new(Pages::open(objects.clone(), config).unwrap())
}

#[test]
fn pages() {
    let objects = Arc::new(MemoryObjects::new());
    adopts(&Scratch::new("adopts-pages"), &|| in_pages(&objects));
}

/// A cell whose bucket was adopted writes nothing more there.
#[test]
fn the_cell_that_had_the_bucket_is_taken_over() {
    let scratch = Scratch::new("adopts-beside");
    let objects = Arc::new(MemoryObjects::new());
    let open = || in_pages(&objects);
    let mut old = Cell::begin(&scratch.path().join("old"), 1, false, &open).unwrap();
    old.set("key");
    old.drain().unwrap();
    let mut new = Cell::begin(&scratch.path().join("new"), 2, true, &open).unwrap();
    old.set("key");
    let refused = old.drain().unwrap_err();
    assert!(refused.what.contains("another cell has taken it over"), "{refused}");
    let version = new.set("key");
    new.drain().unwrap();
    assert_eq!(new.find("key"), Some((version, 7)));
}
