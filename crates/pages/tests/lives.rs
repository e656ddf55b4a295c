//! Random lives of writers above objects that fail, answer late, and carry out late what failed:
//! nothing that was applied is lost, and a writer that was taken over changes nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use measure::rng::Rng;
use pages::{MemoryObjects, Object, Objects, Pages, PagesConfig};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tier::{Backend, BackendError, Change, Failure};
use world::{Between, change, fail, record, seeds};

/// Short pages, so that they are cut, and a cache of three of them.
const CONFIG: PagesConfig = PagesConfig { page_bytes: 600, apart_from: 150, cache_bytes: 2_000 };
const KEYS: u64 = 60;
const STEPS: u64 = 60;

/// What a key may have: what was applied last, and what calls that failed since wanted.
type Model = BTreeMap<Vec<u8>, Vec<Option<Vec<u8>>>>;

struct Life {
    objects: Arc<MemoryObjects>,
    rng: Rng,
    model: Model,
    /// Of a call that failed: what is applied again, as a flusher does.
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Writers that were taken over.
    deposed: Vec<Pages>,
    number: u64,
    seed: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        Self {
            objects: Arc::new(MemoryObjects::new()),
            rng: Rng::new(seed, 0),
            model: Model::new(),
            pending: BTreeMap::new(),
            deposed: Vec::new(),
            number: 0,
            seed,
        }
    }

    fn fail(&mut self, per_mille: u64) {
        fail(&self.objects, &mut self.rng, per_mille);
    }

    /// A writer, which the bucket may refuse some times.
    fn open(&mut self) -> Pages {
        for _ in 0..20 {
            if let Ok(pages) = begun(self.objects.clone(), CONFIG) {
                return pages;
            }
        }
        self.fail(0);
        begun(self.objects.clone(), CONFIG).unwrap()
    }

    fn change(&mut self, pages: &Pages) {
        for _ in 0..=self.rng.below(12) {
            let key = format!("key/{}", self.rng.below(KEYS)).into_bytes();
            self.number += 1;
            let record = record(&mut self.rng, self.number);
            self.pending.insert(key, (self.rng.below(4) > 0).then_some(record));
        }
        let changes: Vec<Change<'_>> = self.pending.iter().map(change).collect();
        let applied = pages.apply(&changes);
        pages.tidy();
        for (key, record) in &self.pending {
            let states = self.model.entry(key.clone()).or_insert_with(|| vec![None]);
            if applied.is_ok() {
                states.clear();
            }
            states.push(record.clone());
        }
        if applied.is_ok() {
            self.pending.clear();
        }
    }

    /// What all keys have is possible, and stays.
    fn check(&mut self, pages: &Pages) {
        for (key, states) in &mut self.model {
            let mut record = Vec::new();
            let Ok(is_there) = pages.get(key, &mut record) else { continue };
            let found = is_there.then_some(record);
            let seed = self.seed;
            let name = String::from_utf8_lossy(key);
            assert!(states.contains(&found), "seed {seed}, {name}: {found:?}, not {states:?}");
        }
    }

    fn step(&mut self, pages: Pages) -> Pages {
        match self.rng.below(20) {
            0 => {
                self.objects.land(1 + self.rng.below(5) as usize);
                pages
            }
            // A kill and a new start.
            1 => {
                drop(pages);
                self.open()
            }
            // A takeover while the old one runs.
            2 => {
                let next = self.open();
                self.deposed.push(pages);
                next
            }
            3 => {
                let per_mille = [0, 0, 20, 200][self.rng.below(4) as usize];
                self.fail(per_mille);
                pages
            }
            4 if !self.deposed.is_empty() => {
                let number = self.rng.below(self.deposed.len() as u64) as usize;
                let key = format!("key/{}", self.rng.below(KEYS)).into_bytes();
                let change = Change::Put { key: &key, record: b"of a deposed writer" };
                let seed = self.seed;
                assert!(self.deposed[number].apply(&[change]).is_err(), "seed {seed}");
                pages
            }
            5..=8 => {
                self.check(&pages);
                pages
            }
            _ => {
                self.change(&pages);
                pages
            }
        }
    }
}

/// A bucket that is taken over.
fn begun(objects: Arc<dyn Objects>, config: PagesConfig) -> Result<Pages, BackendError> {
    let pages = Pages::open(objects, config)?;
    pages.begin()?;
    Ok(pages)
}

/// A life after its steps: nothing fails any more, and nothing is late.
fn lived(seed: u64) -> (Life, Pages) {
    let mut life = Life::new(seed);
    let mut pages = life.open();
    for _ in 0..STEPS {
        pages = life.step(pages);
    }
    life.fail(0);
    life.objects.land(usize::MAX);
    (life, pages)
}

#[test]
fn nothing_that_was_applied_is_lost_and_a_deposed_writer_changes_nothing() {
    for seed in 0..seeds() {
        let (mut life, pages) = lived(seed);
        life.check(&pages);
        drop(pages);
        let pages = life.open();
        life.check(&pages);
        life.change(&pages);
        assert!(life.pending.is_empty(), "seed {seed}: nothing fails any more");
        life.check(&pages);
        let read = |key: &Vec<u8>| pages.get(key, &mut Vec::new());
        assert!(life.model.keys().all(|key| read(key).is_ok()), "seed {seed}");
    }
}

/// Two writers find the same epochs, and begin: the later of them takes another one, and the
/// earlier one learns it.
#[test]
fn of_two_that_begin_at_once_one_counts() {
    let objects = Arc::new(MemoryObjects::new());
    drop(begun(objects.clone(), CONFIG).unwrap());
    let first = Arc::new(Mutex::new(None));
    let (beside, kept) = (objects.clone(), first.clone());
    let between = Between::new(&objects, "epoch/");
    between.set(move || *kept.lock().unwrap() = Some(begun(beside, CONFIG).unwrap()));
    let second = begun(between, CONFIG).unwrap();
    let first = first.lock().unwrap().take().expect("it has begun between");
    let put = |pages: &Pages| pages.apply(&[Change::Put { key: b"key", record: b"record" }]);
    let refused = put(&first).unwrap_err();
    assert_eq!(refused.failure, Failure::TakenOver);
    assert!(refused.what.contains("another cell has taken it over"), "{refused}");
    put(&second).unwrap();
    let before = objects.calls();
    assert_eq!(put(&first).unwrap_err(), refused);
    assert_eq!(objects.calls(), before, "it knows, and requests nothing");
}

#[test]
fn what_is_not_of_a_tier_or_can_be_overwritten_is_refused() {
    let said = |objects: Arc<dyn Objects>| match begun(objects, CONFIG) {
        Err(error) => (error.failure, error.what),
        Ok(_) => panic!("it is opened"),
    };
    let of_others = MemoryObjects::new();
    of_others.create(&Object { name: "a/b".to_owned(), bytes: vec![1] }).unwrap();
    let (failure, what) = said(Arc::new(of_others));
    assert!(failure == Failure::Permanent && what.contains("not of a tier"), "{what}");
    let of_later = MemoryObjects::new();
    of_later.create(&Object { name: "format".to_owned(), bytes: vec![1] }).unwrap();
    let (failure, what) = said(Arc::new(of_later));
    assert!(failure == Failure::Permanent && what.contains("another format"), "{what}");
    let forgetful = MemoryObjects::new();
    forgetful.forgets_conditions();
    let (failure, what) = said(Arc::new(forgetful));
    assert!(failure == Failure::Permanent && what.contains("If-None-Match"), "{what}");
}

#[test]
fn a_page_that_is_not_what_was_written_is_no_miss_and_is_named() {
    let objects = Arc::new(MemoryObjects::new());
    let pages = begun(objects.clone(), PagesConfig { cache_bytes: 0, ..CONFIG }).unwrap();
    pages.apply(&[Change::Put { key: b"key", record: b"record" }]).unwrap();
    let page = objects.names("page/").pop().unwrap();
    objects.corrupt(&page, |bytes| bytes[40] ^= 1);
    let refused = [
        pages.get(b"key", &mut Vec::new()).unwrap_err(),
        pages.apply(&[Change::Delete { key: b"key" }]).unwrap_err(),
    ];
    for error in refused {
        assert!(error.failure == Failure::Corrupt && error.what.contains(&page), "{error}");
    }
}

/// After a start without faults, and as many calls as a sweep of all runs takes, the bucket has
/// what counts and nothing else.
#[test]
fn what_does_not_count_is_deleted() {
    for seed in 0..seeds() / 10 {
        let (mut life, _) = lived(seed);
        let pages = life.open();
        (0..3).for_each(|_| life.change(&pages));
        (0..150).for_each(|_| pages.tidy());
        let is_long = |key: &&Vec<u8>| {
            let mut record = Vec::new();
            pages.get(key, &mut record).unwrap() && record.len() > CONFIG.apart_from
        };
        let long = life.model.keys().filter(is_long).count();
        assert_eq!(life.objects.names("value/").len(), long, "seed {seed}");
        let names = |prefix| life.objects.names(prefix);
        assert_eq!((names("map/").len(), names("epoch/").len()), (64, 65), "seed {seed}");
        let names = names("page/");
        assert!(names.len() > 3, "seed {seed}");
        drop(pages);
        // Each of them has a key that cannot be read without it.
        let uncached = PagesConfig { cache_bytes: 0, ..CONFIG };
        let pages = begun(life.objects.clone(), uncached).unwrap();
        let lost = &names[life.rng.below(names.len() as u64) as usize];
        life.objects.lose(lost);
        let mut reads = life.model.keys().map(|key| pages.get(key, &mut Vec::new()));
        let error = reads.find_map(Result::err).unwrap_or_else(|| {
            panic!("seed {seed}: {lost} is named by nothing");
        });
        assert!(error.failure == Failure::Corrupt && error.what.contains(lost), "{error}");
    }
}
