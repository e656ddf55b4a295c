//! A small cell around the lookups: buckets, a log, something below, and threads that read, change,
//! flush and evict. Every installation and every answer is compared with the last change.

#[cfg(shuttle)]
use shuttle as source;
use source::sync::atomic::{AtomicU64, Ordering};
use source::sync::{Mutex, MutexGuard};
use source::thread;
#[cfg(not(shuttle))]
use std as source;

use measure::rng::Rng;
use std::sync::Arc;
use tier::{Begun, Finished, KeyHash, Lookups, MISSING_NS, Outcome, Ticket, Waiters};

/// Keys of the cell, all of them in one shard.
pub const KEYS: u64 = 2;
/// Threads that read.
pub const READERS: u64 = 2;

/// What the lock of a bucket guards.
#[derive(Default)]
struct Bucket {
    /// The item in memory: the number of the change that made it.
    memory: Option<u64>,
    /// What the last change made. `None`: it removed the key.
    latest: Option<u64>,
    changes: u64,
}

/// A key, in all the places where it may be.
#[derive(Default)]
struct Key {
    bucket: Mutex<Bucket>,
    /// The newest change that is not flushed: its number, twice, and one more for a removal.
    log: AtomicU64,
    /// The number of the change that is below; 0: none.
    below: AtomicU64,
}

/// The cell.
pub struct Cell {
    keys: [Key; KEYS as usize],
    lookups: Lookups,
    woken: [AtomicU64; READERS as usize],
    /// Items that were installed, and lookups that were refused.
    pub installed: AtomicU64,
    pub refused: AtomicU64,
    /// Answers "missing" without a lookup.
    pub known: AtomicU64,
}

fn hash(key: u64) -> KeyHash {
    KeyHash::from_raw(u128::from(key) << 40 | 7)
}

impl Cell {
    /// A cell with `loading_max` lookups at a time.
    pub fn new(loading_max: usize) -> Arc<Self> {
        Arc::new(Self {
            keys: Default::default(),
            lookups: Lookups::new(loading_max, 1),
            woken: Default::default(),
            installed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            known: AtomicU64::new(0),
        })
    }

    fn key(&self, key: u64) -> &Key {
        &self.keys[key as usize]
    }

    fn bucket(&self, key: u64) -> MutexGuard<'_, Bucket> {
        self.key(key).bucket.lock().expect("no thread has failed")
    }

    /// Sets or removes a key.
    pub fn change(&self, key: u64, removes: bool) {
        let mut bucket = self.bucket(key);
        bucket.changes += 1;
        let number = bucket.changes;
        self.key(key).log.store(number << 1 | u64::from(removes), Ordering::Release);
        self.lookups.changed(hash(key));
        bucket.memory = (!removes).then_some(number);
        bucket.latest = bucket.memory;
    }

    /// Changes every key under all locks, as a flush of all items does.
    pub fn remove_all(&self) {
        let mut buckets: Vec<_> = (0..KEYS).map(|key| self.bucket(key)).collect();
        for (key, bucket) in buckets.iter_mut().enumerate() {
            bucket.changes += 1;
            self.keys[key].log.store(bucket.changes << 1 | 1, Ordering::Release);
            (bucket.memory, bucket.latest) = (None, None);
        }
        self.lookups.changed_all();
    }

    /// Writes the newest change of a key back. One thread does this.
    pub fn flush(&self, key: u64) {
        let Key { log, below, .. } = self.key(key);
        let change = log.load(Ordering::Acquire);
        if change != 0 {
            below.store(if change & 1 == 1 { 0 } else { change >> 1 }, Ordering::Release);
            _ = log.compare_exchange(change, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Drops a key from memory.
    pub fn evict(&self, key: u64) {
        self.bucket(key).memory = None;
    }

    /// Forgets missing keys, as housekeeping does.
    pub fn forget_old(&self) {
        self.lookups.forget_old(2 * MISSING_NS);
    }

    /// Reads a key as `reader`, until there is an answer.
    pub fn read(&self, reader: u64, key: u64, dice: &mut Rng) {
        // Some clocks are late: a key is missing to one reader and not to another.
        let now_ns = dice.below(2) * MISSING_NS + 1;
        loop {
            let bucket = self.bucket(key);
            if let Some(number) = bucket.memory {
                assert_eq!(bucket.latest, Some(number), "an old value has survived a change");
                return;
            }
            if self.lookups.is_missing(hash(key), now_ns) {
                assert_eq!(bucket.latest, None, "the key is there");
                self.known.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let locked = (dice.below(2) == 0).then_some(bucket);
            let begun = self.lookups.begin(hash(key), reader as u16, now_ns);
            if let Some(bucket) = &locked {
                let is_wrong = matches!(begun, Begun::Missing) && bucket.latest.is_some();
                assert!(!is_wrong, "the key is there");
            }
            drop(locked);
            match begun {
                Begun::Started(ticket) => {
                    if self.look_up(key, ticket, now_ns, dice) {
                        return;
                    }
                }
                Begun::Missing => return,
                Begun::Busy => thread::yield_now(),
                Begun::Joined => {
                    while self.woken[reader as usize].swap(0, Ordering::AcqRel) == 0 {
                        thread::yield_now();
                    }
                }
            }
        }
    }

    /// Carries a lookup out. Returns whether that was the answer.
    fn look_up(&self, key: u64, ticket: Ticket, now_ns: u64, dice: &mut Rng) -> bool {
        if dice.below(8) == 0 {
            drop(ticket);
            self.wake(&self.lookups.take_abandoned());
            return false;
        }
        let Key { log, below, .. } = self.key(key);
        let found = match log.load(Ordering::Acquire) {
            0 => below.load(Ordering::Acquire),
            change if change & 1 == 1 => 0,
            change => change >> 1,
        };
        let (outcome, mut is_done) = match found {
            _ if dice.below(8) == 0 => (Outcome::Failed, false),
            0 => (Outcome::Missing, true),
            _ => (Outcome::Loaded, true),
        };
        if outcome == Outcome::Loaded {
            is_done = self.install(key, found, &ticket);
        }
        let Finished { waiters, is_cancelled } = self.lookups.finish(ticket, outcome, now_ns);
        self.wake(&waiters);
        is_done && (outcome == Outcome::Loaded || !is_cancelled)
    }

    fn install(&self, key: u64, number: u64, ticket: &Ticket) -> bool {
        let mut bucket = self.bucket(key);
        let admitted = self.lookups.admit(ticket);
        if admitted {
            assert_eq!(bucket.latest, Some(number), "an old value is installed");
            bucket.memory = Some(number);
        }
        let counter = if admitted { &self.installed } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        admitted
    }

    fn wake(&self, waiters: &Waiters) {
        waiters.iter().for_each(|reader| {
            self.woken[usize::from(reader)].store(1, Ordering::Release);
        });
    }
}

/// One cell with all its threads. The readers take `steps` steps each; the others go on meanwhile,
/// and take as many under a model checker.
pub fn race(seed: u64, loading_max: usize, steps: u64) -> Arc<Cell> {
    let cell = Cell::new(loading_max);
    let reading = Arc::new(AtomicU64::new(READERS));
    let spawn = |lane: u64, step: fn(&Cell, u64, &mut Rng)| {
        let (cell, reading, mut dice) = (cell.clone(), reading.clone(), Rng::new(seed, lane));
        thread::spawn(move || {
            let is_reader = lane < READERS;
            let mut taken = 0;
            while if is_reader || cfg!(shuttle) {
                taken < steps
            } else {
                reading.load(Ordering::Relaxed) > 0
            } {
                step(&cell, lane, &mut dice);
                taken += 1;
            }
            if is_reader {
                reading.fetch_sub(1, Ordering::Relaxed);
            }
        })
    };
    let reads = |cell: &Cell, lane, dice: &mut Rng| cell.read(lane, dice.below(KEYS), dice);
    let mut threads: Vec<_> = (0..READERS).map(|reader| spawn(reader, reads)).collect();
    threads.push(spawn(READERS, |cell, _, dice| match dice.below(16) {
        0 => cell.remove_all(),
        kind => cell.change(dice.below(KEYS), kind < 4),
    }));
    threads.push(spawn(READERS + 1, |cell, _, dice| {
        for _ in 0..2 {
            let key = dice.below(KEYS);
            match dice.below(8) {
                0 => cell.forget_old(),
                1..=3 => cell.flush(key),
                _ => cell.evict(key),
            }
        }
    }));
    threads.into_iter().for_each(|thread| thread.join().expect("no promise was broken"));
    assert_eq!(cell.lookups.loading(), 0, "all lookups have ended");
    cell
}
