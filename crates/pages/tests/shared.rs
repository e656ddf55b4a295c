//! Random lives of cells that share a bucket, each of which leads some runs of slices, above
//! objects that fail, answer late, and carry out late what failed: the cell that leads a run finds
//! what was applied to it, a key of another run is no miss, and a cell that was taken over changes
//! nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use base::{SliceId, SliceRange};
use measure::rng::Rng;
use pages::{MemoryObjects, Objects, Pages, PagesConfig};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use tier::{Backend, BackendError, Change, Failure};
use world::{Between, change, fail, record, seeds};

/// Short pages, so that they are cut, and a cache of three of them.
const CONFIG: PagesConfig = PagesConfig { page_bytes: 600, apart_from: 150, cache_bytes: 2_000 };
/// Runs that have keys.
const RUNS: Range<usize> = 5..9;
const RUN_SLICES: usize = 256;
const KEYS: usize = 60;
const CELLS: usize = 3;
const STEPS: u64 = 90;

type Record = Option<Vec<u8>>;

fn run_of(key: &[u8]) -> usize {
    SliceId::of(key).index() / RUN_SLICES
}

fn slices(runs: &Range<usize>) -> SliceRange {
    SliceRange::new(runs.start * RUN_SLICES..runs.end * RUN_SLICES)
}

/// Keys of [`RUNS`].
fn keys() -> Vec<Vec<u8>> {
    let keys = (0..).map(|number| format!("key/{number}").into_bytes());
    keys.filter(|key| RUNS.contains(&run_of(key))).take(KEYS).collect()
}

/// What a cell is to a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    /// It does not lead it.
    #[default]
    None,
    /// It leads it, as far as the test knows.
    Leads,
    /// It leads it as far as it knows, and another has begun to since.
    Superseded,
    /// It knows.
    Deposed,
}

struct Life {
    objects: Arc<MemoryObjects>,
    rng: Rng,
    keys: Vec<Vec<u8>>,
    cells: Vec<Pages>,
    /// By cell and run.
    roles: Vec<BTreeMap<usize, Role>>,
    /// What a key may have.
    model: BTreeMap<Vec<u8>, Vec<Record>>,
    /// By run, whether a call has failed since what it has was known.
    in_doubt: BTreeMap<usize, bool>,
    number: u64,
    seed: u64,
}

impl Life {
    fn new(seed: u64) -> Self {
        let objects = Arc::new(MemoryObjects::new());
        let cells = (0..CELLS).map(|_| opened(objects.clone())).collect();
        Self {
            objects,
            rng: Rng::new(seed, 1),
            keys: keys(),
            cells,
            roles: vec![BTreeMap::new(); CELLS],
            model: keys().into_iter().map(|key| (key, vec![None])).collect(),
            in_doubt: BTreeMap::new(),
            number: 0,
            seed,
        }
    }

    fn below(&mut self, count: usize) -> usize {
        self.rng.below(count as u64) as usize
    }

    fn role(&self, cell: usize, run: usize) -> Role {
        self.roles[cell].get(&run).copied().unwrap_or_default()
    }

    fn some_runs(&mut self) -> Range<usize> {
        let first = RUNS.start + self.below(RUNS.len());
        first..first + 1 + self.below(RUNS.end - first)
    }

    fn lead(&mut self, cell: usize, runs: Range<usize>) -> Result<(), BackendError> {
        let led = self.cells[cell].lead(slices(&runs));
        for run in runs {
            let role = if led.is_ok() { Role::Leads } else { Role::None };
            self.roles[cell].insert(run, role);
            if led.is_err() {
                continue;
            }
            self.in_doubt.insert(run, false);
            for other in (0..CELLS).filter(|other| *other != cell) {
                if self.role(other, run) == Role::Leads {
                    self.roles[other].insert(run, Role::Superseded);
                }
            }
        }
        led
    }

    fn leave(&mut self, cell: usize, runs: Range<usize>) {
        self.cells[cell].leave(slices(&runs));
        runs.for_each(|run| _ = self.roles[cell].insert(run, Role::None));
    }

    /// A kill and a new start.
    fn crash(&mut self, cell: usize) {
        let objects = self.objects.clone();
        let again = (0..20).find_map(|_| Pages::open(objects.clone(), CONFIG).ok());
        self.cells[cell] = again.unwrap_or_else(|| {
            fail(&self.objects, &mut self.rng, 0);
            opened(objects)
        });
        self.roles[cell].clear();
    }

    fn apply(&mut self, cell: usize) {
        let mut changes: BTreeMap<Vec<u8>, Record> = BTreeMap::new();
        // Mostly of what it leads.
        let is_of_any = self.rng.below(4) == 0;
        for _ in 0..=self.below(12) {
            let at = self.below(KEYS);
            let key = self.keys[at].clone();
            if is_of_any || self.role(cell, run_of(&key)) != Role::None {
                self.number += 1;
                let record = record(&mut self.rng, self.number);
                changes.insert(key, (self.rng.below(4) > 0).then_some(record));
            }
        }
        let list: Vec<Change<'_>> = changes.iter().map(change).collect();
        let applied = self.cells[cell].apply(&list);
        let seed = self.seed;
        for (key, record) in changes {
            let run = run_of(&key);
            let states = self.model.get_mut(&key).unwrap();
            match self.roles[cell].get(&run).copied().unwrap_or_default() {
                Role::Leads if applied.is_ok() => {
                    *states = vec![record];
                    self.in_doubt.insert(run, false);
                }
                Role::Leads => {
                    states.push(record);
                    self.in_doubt.insert(run, true);
                }
                // Nothing of this run has changed.
                role => assert!(applied.is_err(), "seed {seed}: {role:?} of {run}: {key:?}"),
            }
        }
        self.learn(cell);
    }

    /// What a cell says of runs that it was taken over of.
    fn learn(&mut self, cell: usize) {
        for key in self.keys.clone() {
            let role = self.role(cell, run_of(&key));
            let refused = self.cells[cell].get(&key, &mut Vec::new()).err();
            let is = refused.as_ref().map(|error| error.failure);
            if is == Some(Failure::TakenOver) {
                let seed = self.seed;
                // One that failed to lead may have taken an epoch.
                assert!(role != Role::None, "seed {seed}: {refused:?}");
                self.roles[cell].insert(run_of(&key), Role::Deposed);
            }
        }
    }

    /// What a cell says of all keys is what they have, or no answer.
    fn check(&mut self, cell: usize) {
        let seed = self.seed;
        for key in self.keys.clone() {
            let (run, mut found) = (run_of(&key), Vec::new());
            let (role, got) = (self.role(cell, run), self.cells[cell].get(&key, &mut found));
            let states = self.model.get_mut(&key).unwrap();
            let name =
                format!("seed {seed}, cell {cell}, run {run}: {}", String::from_utf8_lossy(&key));
            match (role, got) {
                (Role::None, got) => {
                    let error = got.expect_err(&name);
                    let is_not_led = error.what.contains("not led by this cell");
                    assert!(error.failure == Failure::NotLed && is_not_led, "{name}: {error}");
                }
                (Role::Deposed, got) => {
                    let error = got.expect_err(&name);
                    assert_eq!(error.failure, Failure::TakenOver, "{name}: {error}");
                }
                (Role::Leads, Ok(is_there)) => {
                    let found = is_there.then_some(found);
                    assert!(states.contains(&found), "{name}: {found:?}, not {states:?}");
                    if !self.in_doubt.get(&run).copied().unwrap_or_default() {
                        *states = vec![found];
                    }
                }
                (_, Err(error)) => {
                    assert_ne!(error.failure, Failure::Corrupt, "{name}: {error}");
                }
                (Role::Superseded, Ok(_)) => {}
            }
        }
    }

    fn step(&mut self) {
        let cell = self.below(CELLS);
        match self.rng.below(24) {
            0 => _ = self.objects.land(1 + self.rng.below(5) as usize),
            1 => self.crash(cell),
            2 => {
                let per_mille = [0, 0, 20, 200][self.below(4)];
                fail(&self.objects, &mut self.rng, per_mille);
            }
            3..=5 => {
                let runs = self.some_runs();
                _ = self.lead(cell, runs);
            }
            6 => {
                let runs = self.some_runs();
                self.leave(cell, runs);
            }
            7..=10 => self.check(cell),
            11..=13 => self.cells[cell].tidy(),
            _ => self.apply(cell),
        }
    }
}

fn opened(objects: Arc<dyn Objects>) -> Pages {
    Pages::open(objects, CONFIG).unwrap()
}

/// A life after its steps: nothing fails any more, and nothing is late.
fn lived(seed: u64) -> Life {
    let mut life = Life::new(seed);
    (0..STEPS).for_each(|_| life.step());
    fail(&life.objects, &mut life.rng, 0);
    life.objects.land(usize::MAX);
    life
}

#[test]
fn each_run_has_what_was_applied_in_every_cell_that_leads_it() {
    for seed in 0..seeds() {
        let mut life = lived(seed);
        (0..CELLS).for_each(|cell| life.check(cell));
        // Each cell leads a part, and then one of them all.
        for (cell, runs) in [(0, 5..6), (1, 6..8), (2, 8..9), (1, RUNS)] {
            life.lead(cell, runs.clone()).unwrap();
            life.check(cell);
            (0..3).for_each(|_| life.apply(cell));
            (0..40).for_each(|_| life.cells[cell].tidy());
            life.check(cell);
        }
        let is_long = |key: &&Vec<u8>| {
            let mut record = Vec::new();
            life.cells[1].get(key, &mut record).unwrap() && record.len() > CONFIG.apart_from
        };
        let long = life.keys.iter().filter(is_long).count();
        assert_eq!(life.objects.names("value/").len(), long, "seed {seed}");
        // What is left of these runs is what counts.
        for run in RUNS {
            let count = |kind| life.objects.names(&format!("{kind}/{run:02x}/")).len();
            assert_eq!((count("epoch"), count("map")), (1, 1), "seed {seed}, run {run}");
        }
    }
}

/// A key of a run.
fn key_of(run: usize) -> Vec<u8> {
    keys().into_iter().find(|key| run_of(key) == run).unwrap()
}

fn put(pages: &Pages, runs: Range<usize>, record: &[u8]) -> Result<(), BackendError> {
    let keys: Vec<Vec<u8>> = runs.map(key_of).collect();
    let changes: Vec<_> = keys.iter().map(|key| Change::Put { key, record }).collect();
    pages.apply(&changes)
}

fn found(pages: &Pages, run: usize) -> Result<Record, BackendError> {
    let mut record = Vec::new();
    pages.get(&key_of(run), &mut record).map(|is_there| is_there.then_some(record))
}

fn is(failure: Failure, what: &str, error: &BackendError) -> bool {
    error.failure == failure && error.what.contains(what)
}

fn is_not_led(error: &BackendError) -> bool {
    is(Failure::NotLed, "not led by this cell", error)
}

fn is_taken(error: &BackendError) -> bool {
    is(Failure::TakenOver, "another cell has taken it over (slices ", error)
}

#[test]
fn what_is_not_led_is_no_miss_and_the_other_runs_go_on() {
    let objects = Arc::new(MemoryObjects::new());
    let [first, second] = [(); 2].map(|()| opened(objects.clone()));
    assert!(is_not_led(&found(&first, 5).unwrap_err()));
    first.lead(slices(&(5..7))).unwrap();
    second.lead(slices(&(7..9))).unwrap();
    let refused = put(&first, 5..9, b"of the first").unwrap_err();
    assert!(is_not_led(&refused) && refused.what.contains("slices 1792 to 2047"), "{refused}");
    assert_eq!(found(&first, 5), Ok(Some(b"of the first".to_vec())));
    assert_eq!((found(&second, 7), found(&second, 8)), (Ok(None), Ok(None)));
    // One of the two runs is taken over.
    second.lead(slices(&(6..7))).unwrap();
    assert!(is_taken(&put(&first, 5..7, b"of the first again").unwrap_err()));
    assert_eq!(found(&first, 5), Ok(Some(b"of the first again".to_vec())));
    assert_eq!(found(&second, 6), Ok(Some(b"of the first".to_vec())));
    let before = objects.calls();
    assert!(is_taken(&put(&first, 6..7, b"once more").unwrap_err()));
    assert!(is_taken(&found(&first, 6).unwrap_err()));
    assert_eq!(objects.calls(), before, "it knows, and requests nothing");
    // What is left is not deleted below it.
    first.leave(slices(&(5..6)));
    (0..100).for_each(|_| first.tidy());
    assert!(is_not_led(&found(&first, 5).unwrap_err()));
    second.lead(slices(&(5..6))).unwrap();
    assert_eq!(found(&second, 5), Ok(Some(b"of the first again".to_vec())));
    first.lead(slices(&(5..7))).unwrap();
    put(&first, 5..7, b"led again").unwrap();
    assert!(is_taken(&put(&second, 5..6, b"too late").unwrap_err()));
    put(&second, 7..9, b"as before").unwrap();
}

/// A change of nothing that it knows is no change that counts, where another cell knows more.
#[test]
fn a_delete_of_what_another_cell_has_stored_does_not_succeed() {
    let objects = Arc::new(MemoryObjects::new());
    let [first, second] = [(); 2].map(|()| opened(objects.clone()));
    first.lead(slices(&(5..6))).unwrap();
    second.lead(slices(&(5..6))).unwrap();
    put(&second, 5..6, b"stored").unwrap();
    assert!(is_taken(&first.apply(&[Change::Delete { key: &key_of(5) }]).unwrap_err()));
}

#[test]
fn a_run_is_led_whole_or_not_and_few_requests_lead_all() {
    let objects = Arc::new(MemoryObjects::new());
    let pages = opened(objects.clone());
    for numbers in [0..255, 1..256, 10..300] {
        let refused = pages.lead(SliceRange::new(numbers.clone())).unwrap_err();
        let shown = format!("slices {} to {}", numbers.start, numbers.end - 1);
        assert!(is(Failure::Permanent, "whole runs of 256 slices", &refused), "{refused}");
        assert!(refused.what.contains(&shown), "{refused}");
    }
    pages.lead(SliceRange::NONE).unwrap();
    let before = objects.calls();
    pages.lead(SliceRange::ALL).unwrap();
    let calls = objects.calls();
    assert_eq!((calls.listed - before.listed, calls.created - before.created), (3, 64 + 64));
    // A part of a run that is left is not led any more, nor the rest of it.
    pages.leave(SliceRange::new(1536..1537));
    assert!(is_not_led(&found(&pages, 6).unwrap_err()));
    assert_eq!((found(&pages, 5), found(&pages, 7)), (Ok(None), Ok(None)));
}

/// Another cell takes over after the maps were listed: what it does then is not in the maps that
/// are created here.
#[test]
fn of_two_that_lead_at_once_the_one_with_the_lower_epoch_learns_it() {
    let objects = Arc::new(MemoryObjects::new());
    let between = Between::new(&objects, "map/");
    let (first, second) = (opened(between.clone()), Arc::new(opened(objects)));
    let other = second.clone();
    between.set(move || {
        other.lead(slices(&(6..7))).unwrap();
        put(&other, 6..7, b"of the second").unwrap();
    });
    assert!(is_taken(&first.lead(slices(&(5..8))).unwrap_err()));
    assert!((5..8).all(|run| is_not_led(&found(&first, run).unwrap_err())));
    assert_eq!(found(&second, 6), Ok(Some(b"of the second".to_vec())));
    put(&second, 6..7, b"again").unwrap();
}

/// Another cell takes the same epoch of the only run, or of one of several.
#[test]
fn an_epoch_that_another_cell_has_taken_is_not_taken_for_ones_own() {
    for runs in [6..7, 5..8] {
        let objects = Arc::new(MemoryObjects::new());
        let between = Between::new(&objects, "epoch/06/");
        let (first, second) = (opened(between.clone()), Arc::new(opened(objects)));
        let other = second.clone();
        between.set(move || {
            other.lead(slices(&(6..7))).unwrap();
            put(&other, 6..7, b"of the second").unwrap();
        });
        first.lead(slices(&runs)).unwrap();
        assert_eq!(found(&first, 6), Ok(Some(b"of the second".to_vec())));
        assert!(is_taken(&put(&second, 6..7, b"again").unwrap_err()));
        put(&first, runs, b"of the first").unwrap();
    }
}

#[test]
fn what_is_left_while_it_is_changed_or_taken_over_is_not_reported_as_done() {
    for is_taken_over in [false, true] {
        let objects = Arc::new(MemoryObjects::new());
        let between = Between::new(&objects, "map/");
        let (first, second) = (Arc::new(opened(between.clone())), Arc::new(opened(objects)));
        let itself = first.clone();
        // It is left while it is taken over.
        between.set(move || itself.leave(slices(&(6..7))));
        first.lead(slices(&(5..8))).unwrap();
        assert!(is_not_led(&found(&first, 6).unwrap_err()));
        first.lead(slices(&(5..8))).unwrap();
        put(&first, 5..8, b"before").unwrap();
        let (itself, other) = (first.clone(), second.clone());
        // It is left while it is changed.
        between.set(move || {
            itself.leave(slices(&(6..7)));
            if is_taken_over {
                other.lead(slices(&(6..7))).unwrap();
            }
        });
        assert!(put(&first, 5..8, b"after").is_err());
        assert_eq!(found(&first, 5), Ok(Some(b"after".to_vec())), "the other runs go on");
        assert!(is_not_led(&found(&first, 6).unwrap_err()));
        (0..100).for_each(|_| first.tidy());
        if !is_taken_over {
            second.lead(slices(&(6..7))).unwrap();
        }
        let expected: &[u8] = if is_taken_over { b"before" } else { b"after" };
        assert_eq!(found(&second, 6), Ok(Some(expected.to_vec())));
        put(&second, 6..7, b"of the second").unwrap();
    }
}

#[test]
fn of_cells_that_claim_a_note_at_once_one_has_it() {
    let objects = Arc::new(MemoryObjects::new());
    let between = Between::new(&objects, "note/");
    let (first, second) = (opened(between.clone()), opened(objects.clone()));
    let (other, won) = (opened(objects.clone()), Arc::new(Mutex::new(None)));
    let kept = won.clone();
    between.set(move || *kept.lock().unwrap() = Some(other.claim("ring", b"other")));
    assert_eq!(first.claim("ring", b"first"), Ok(false));
    assert_eq!(won.lock().unwrap().take(), Some(Ok(true)));
    for pages in [&first, &second] {
        assert_eq!(pages.claim("ring", b"other"), Ok(true), "it is that one");
        assert_eq!(pages.note("ring"), Ok(Some(b"other".to_vec())));
    }
    // A cell alone finds it, and owns it then.
    second.begin().unwrap();
    assert_eq!(second.claim("ring", b"first"), Ok(false));
    second.set_note("ring", b"second").unwrap();
    assert_eq!(first.claim("ring", b"other"), Ok(false));
    assert_eq!(first.note("ring"), Ok(Some(b"second".to_vec())));
    assert_eq!(first.set_note("ring", b"first").unwrap_err().failure, Failure::Permanent);
}

/// Runs move between two cells while threads of both change them, and look after them: what was
/// said to be stored is there after each move, and nothing that counts is deleted.
#[test]
fn runs_move_while_they_are_changed() {
    const MOVES: u64 = 400;
    const ROUNDS_MAX: usize = 1_000_000;
    let objects = Arc::new(MemoryObjects::new());
    let cells = [(); 2].map(|()| opened(objects.clone()));
    cells[0].lead(slices(&RUNS)).unwrap();
    // By run, the number that was stored last. One call at a time changes a run.
    let stored: Vec<Mutex<u64>> = RUNS.map(|_| Mutex::new(0)).collect();
    let acknowledged: Vec<AtomicU64> = RUNS.map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let store = |cell: &Pages, run: usize| {
        let at = run - RUNS.start;
        let mut number = stored[at].lock().unwrap();
        *number += 1;
        if put(cell, run..run + 1, &number.to_le_bytes()).is_ok() {
            acknowledged[at].store(*number, Ordering::SeqCst);
        }
        cell.tidy();
    };
    let read = |cell: &Pages, run: usize| {
        let record = found(cell, run).unwrap();
        record.map_or(0, |record| u64::from_le_bytes(record.try_into().unwrap()))
    };
    thread::scope(|scope| {
        for cell in &cells {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let rounds = (0..ROUNDS_MAX).take_while(|_| !is_over.load(Ordering::SeqCst));
                rounds.for_each(|_| RUNS.for_each(|run| store(cell, run)));
            });
        }
        let (mut rng, mut leader) = (Rng::new(1, 2), [0; RUNS.end]);
        for _ in 0..MOVES {
            let run = RUNS.start + rng.below(RUNS.len() as u64) as usize;
            let next = 1 - leader[run];
            let before = acknowledged[run - RUNS.start].load(Ordering::SeqCst);
            // It leaves first, or learns it.
            if rng.below(2) == 0 {
                cells[leader[run]].leave(slices(&(run..run + 1)));
            }
            let led = cells[next].lead(slices(&(run..run + 1)));
            assert_eq!(led, Ok(()), "nobody else leads");
            leader[run] = next;
            let now = read(&cells[next], run);
            assert!(now >= before, "run {run} has {now}, and {before} was stored");
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(acknowledged.iter().all(|it| it.load(Ordering::SeqCst) > 0));
}
