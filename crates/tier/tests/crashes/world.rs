//! Random lives of one cell, one after the other, on one disk and above one backend.
//!
//! All that happens follows from the seed. Each panic shows it.

use crate::below::SimBackend;
use crate::life::{Config, Given, Life, Unreadable, VALUE_BYTES_MAX};
use crate::model::{DueModel, Item, KeyModel, KeyState};
use backend::Fault as BackendFault;
use base::{Facts, Now, Refused, Removal, SLICES, SliceId, SliceRange};
use faulty::disk::{Fault, SimDisk};
use faulty::tally::Tally;
use measure::rng::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use tier::{Ack, Failure, RecoverError, Stored, TierError};

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All is durable, and then the process ends.
    Clean,
    /// The process ends.
    Kill,
    /// The power is cut.
    PowerCut,
}

/// What a run does.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub lives: u64,
    /// Steps of one life, at most.
    pub steps: u64,
    /// How many of 100 values are long.
    pub long: u64,
    /// How many of 1000 steps end all items.
    pub flush_all: u64,
    /// How many of 100 steps write back.
    pub flush: u64,
    /// How many of 100 steps sync.
    pub sync: u64,
    /// How many of 1000 steps raise the versions of a slice.
    pub skip: u64,
    /// Whether calls of disk and backend fail.
    pub faults: bool,
    /// Of a hundred steps, those before which the disk begins to refuse once.
    pub breaks: u64,
    /// Whether lives end in any way but cleanly.
    pub crashes: bool,
    /// Whether lives have different numbers of lanes.
    pub changes_lanes: bool,
    /// How many of 1000 steps say that all items end later. Then no step ends those of one slice.
    pub flush_later: u64,
    /// Of a hundred starts, those before which a bit flips of what is durable.
    pub flips: u64,
    /// What lies below; `None`: that follows from the seed.
    pub pages: Option<bool>,
}

impl Plan {
    /// A bit of all.
    pub const MIXED: Self = Self {
        lives: 6,
        steps: 150,
        long: 20,
        flush_all: 5,
        flush: 6,
        sync: 8,
        skip: 2,
        faults: false,
        breaks: 0,
        crashes: true,
        changes_lanes: false,
        flush_later: 0,
        flips: 0,
        pages: None,
    };
}

/// What a run counts, so that a test sees that it has done something.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub changes: u64,
    pub refused: u64,
    pub reads: u64,
    pub items: u64,
    pub crashes: u64,
    /// Of those: while the cell began.
    pub in_begin: u64,
    pub failures: u64,
    /// Journals that went on after the disk had refused.
    pub repairs: u64,
    pub written_back: u64,
    /// Journals that were passed over in part, and brought below.
    pub salvages: u64,
    /// Flushes of all that were carried out later.
    pub flushed_later: u64,
    /// Each harm that was done to disk and backend.
    pub harm: Tally,
}

impl Counts {
    /// Adds what another run has counted.
    pub fn merge(&mut self, other: &Self) {
        self.changes += other.changes;
        self.refused += other.refused;
        self.reads += other.reads;
        self.items += other.items;
        self.crashes += other.crashes;
        self.in_begin += other.in_begin;
        self.failures += other.failures;
        self.repairs += other.repairs;
        self.written_back += other.written_back;
        self.salvages += other.salvages;
        self.flushed_later += other.flushed_later;
        self.harm.merge(&other.harm);
    }
}

pub struct World {
    pub disk: SimDisk,
    pub backend: Arc<SimBackend>,
    pub config: Config,
    pub plan: Plan,
    pub keys: Vec<KeyModel>,
    pub given: Given,
    pub now: Now,
    pub rng: Rng,
    pub counts: Counts,
    due: DueModel,
    /// Whether a bit of the journal has flipped.
    is_harmed: bool,
    /// Up to where each lane of this life is durable for certain.
    durable: Vec<u64>,
    seed: u64,
    name: u64,
    /// What happened, for the message of a failure.
    events: VecDeque<String>,
}

/// Times that a life tries to begin.
const BEGINS_MAX: usize = 300;

/// Events that are shown.
const EVENTS_MAX: usize = 60;

impl World {
    pub fn new(seed: u64, config: Config, plan: Plan) -> Self {
        let disk = SimDisk::new(seed);
        let of_ack = [1, 1, 0, 2][config.ack as usize];
        let of_config = config.lanes as u64 * 4 + of_ack;
        let mut rng = Rng::new(seed, of_config);
        // Few slices: they are in all lanes.
        let count = 2 + rng.below(20);
        let letters: &[&str] =
            if config.has_levels { &["m-", "o-", "d-", "b-", ""] } else { &[""] };
        let name =
            |number: u64| format!("{}key-{number}", letters[number as usize % letters.len()]);
        let keys = (0..count).map(|number| KeyModel::new(name(number).into_bytes()));
        // A quarter of all runs is above pages, and another one above something that writes a
        // quarter of the slices at once.
        let backend = match plan.pages.unwrap_or(seed % 4 == 3) {
            true => SimBackend::in_pages(seed, disk.clone()),
            false => SimBackend::new(disk.clone()),
        };
        backend.group_by(if seed % 4 == 1 { SLICES / 4 } else { 0 });
        Self {
            backend,
            keys: keys.collect(),
            disk,
            config,
            plan,
            given: Given::new(),
            now: Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 },
            rng,
            counts: Counts::default(),
            due: DueModel::new(),
            is_harmed: false,
            durable: Vec::new(),
            seed,
            name: 0,
            events: VecDeque::new(),
        }
    }

    /// Lives, and compares what is left with the model.
    pub fn run(&mut self) -> Counts {
        for number in 0..self.plan.lives {
            let Some(life) = self.begin() else { continue };
            self.live(life, number + 1 == self.plan.lives);
        }
        let mut counts = std::mem::take(&mut self.counts);
        counts.harm.merge(&self.disk.tally());
        counts.harm.merge(&self.backend.tally());
        counts
    }

    #[track_caller]
    pub fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}", self.seed)
    }

    fn note(&mut self, event: String) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Begins a life, often after crashes on the way. `None`: a disk without faults refused, and
    /// the machine has stopped.
    pub fn begin(&mut self) -> Option<Life> {
        if self.plan.changes_lanes && self.rng.below(3) == 0 {
            let ack = self.config.ack;
            self.config = Config { ack, ..Config::shortest(1 + self.rng.below(3) as usize) };
        }
        // What has changed may be noticed by a later start.
        self.is_harmed |= self.rng.below(100) < self.plan.flips && self.flip();
        let is_harmed = self.is_harmed;
        for _ in 0..BEGINS_MAX {
            let crashes = self.plan.crashes && self.rng.below(3) == 0;
            if crashes {
                let calls = [8, 40, 200][self.rng.below(3) as usize];
                self.disk.stop_after(self.rng.below(calls));
            }
            self.disturb_bucket(1);
            let is_refused = self.plan.faults && self.rng.below(6) == 0;
            if is_refused {
                let directory = Fault::SyncDirectory;
                let faults = [Fault::Sync, Fault::Write, Fault::NoSpace, directory, directory];
                let fault = faults[self.rng.below(5) as usize];
                self.disk.fail_after(self.rng.below(4), fault);
            }
            let config = Config { salvages: is_harmed, ..self.config };
            let (on, now) = ((&self.disk, &self.backend), self.now);
            let begun = match Life::begin(on, &self.config, &self.given, now) {
                Err(TierError::Journal(why @ RecoverError::Corrupt(_)))
                    if is_harmed && !self.disk.is_stopped() =>
                {
                    self.note(format!("salvages: {why}"));
                    self.counts.salvages += 1;
                    self.keys.iter_mut().for_each(KeyModel::harm);
                    self.keys.iter_mut().for_each(KeyModel::salvaged);
                    let on = (&self.disk, &self.backend);
                    Life::begin(on, &config, &self.given, now)
                }
                begun => begun,
            };
            match begun {
                Ok(life) if !self.disk.is_stopped() => {
                    self.note(format!("begins with {} dirty keys", life.tier.dirty()));
                    self.disk.stop_never();
                    self.backend.clear_faults();
                    self.begun(&life);
                    return Some(life);
                }
                // A service may refuse a start, and so may a disk with a fault.
                Err(TierError::Backend(_)) if self.backend.bucket.is_some() => {}
                Err(TierError::Disk(_) | TierError::Journal(RecoverError::Disk { .. }))
                    if is_refused && !self.disk.is_to_fail() => {}
                Err(error) if !self.disk.is_stopped() => self.refused(&error),
                Ok(_) | Err(_) => {}
            }
            self.counts.in_begin += 1;
            let end = if self.rng.below(2) == 0 { End::Kill } else { End::PowerCut };
            self.crash(end, None);
        }
        self.fail("no start succeeds")
    }

    /// A life has begun.
    fn begun(&mut self, life: &Life) {
        match self.due.begin(life.due_s, self.now.expiry_s) {
            Ok((true, must)) => self.keys.iter_mut().for_each(|key| key.end(must)),
            Ok((false, _)) => {}
            Err(what) => self.fail(&what),
        }
        self.keys.iter_mut().for_each(KeyModel::begin);
        self.durable = vec![0; self.config.lanes];
        self.check_all(life);
    }

    /// Flips a bit of what was written of a segment. Returns whether there is any.
    fn flip(&mut self) -> bool {
        let mut names = tier::Disk::list(&self.disk).unwrap_or_default();
        names.retain(|name| name.starts_with("segment-"));
        if names.is_empty() {
            return false;
        }
        let name = names.swap_remove(self.rng.below(names.len() as u64) as usize);
        let bytes = self.disk.bytes_of(&name);
        let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else { return false };
        // Mostly in records, which stand last.
        let from = if self.rng.below(4) == 0 { 0 } else { last.saturating_sub(60_000) };
        let at = from + self.rng.below((last + 1 - from) as u64) as usize;
        self.disk.flip(&name, at as u64 * 8 + self.rng.below(8));
        self.note(format!("a bit of byte {at} of {name} flips"));
        self.keys.iter_mut().for_each(KeyModel::harm);
        self.backend.harm();
        true
    }

    /// Lets requests of a bucket fail from now on, some of `of_ten` in ten times, and lets some of
    /// those land that are late.
    fn disturb_bucket(&mut self, of_ten: u64) {
        let Some(bucket) = &self.backend.bucket else { return };
        if !self.plan.faults {
            return;
        }
        if self.rng.below(10) < of_ten {
            bucket.fail([2, 20, 200][self.rng.below(3) as usize]);
        }
        if self.rng.below(10) < of_ten {
            bucket.land(1 + self.rng.below(8) as usize);
        }
    }

    fn refused(&self, error: &TierError) -> ! {
        self.fail(&format!("a cell does not begin on a disk without faults: {error}"))
    }

    /// Ends a life in this way.
    pub fn crash(&mut self, end: End, life: Option<Life>) {
        self.counts.crashes += 1;
        let (durable, is_begun) = (&self.durable, life.is_some());
        self.note(format!("ends by {end:?}, begun: {is_begun}, durable to {durable:?}"));
        if let Some(life) = life {
            let report = life.tier.report();
            self.note(format!("{} repairs, failure {:?}", report.repairs, report.failure));
            // What a reply may show that promises so much.
            let written = life.passed_at(Ack::Os);
            let disk = [Ack::Disk, Ack::Backend].map(|ack| life.passed_at(ack)).concat();
            let lanes = written.len();
            let durable = (0..lanes).map(|at| self.durable[at].max(disk[at]).max(disk[at + lanes]));
            self.durable = durable.collect();
            self.note(format!("written {written:?}, durable {:?}", self.durable));
            for key in &mut self.keys {
                let lane = life.lanes.lane_of(key.slice).index();
                key.kill(written[lane].max(self.durable[lane]), self.durable[lane]);
            }
            self.due.kill(&written, &self.durable);
        }
        if end == End::PowerCut {
            self.keys.iter_mut().for_each(KeyModel::cut_power);
            self.due.cut_power();
        }
        match end {
            End::PowerCut => self.disk.cut_power(&mut self.rng),
            End::Kill | End::Clean => self.disk.kill(),
        }
        self.backend.clear_faults();
    }

    fn live(&mut self, mut life: Life, is_last: bool) {
        let steps = 1 + self.rng.below(self.plan.steps);
        let ends = [End::Clean, End::Kill, End::PowerCut, End::PowerCut];
        let end = ends[if self.plan.crashes { self.rng.below(4) as usize } else { 0 }];
        if self.plan.crashes && end != End::Clean && self.rng.below(2) == 0 {
            let calls = [20, 100, 1000][self.rng.below(3) as usize];
            self.disk.stop_after(self.rng.below(calls));
        }
        if self.plan.faults {
            self.set_faults();
        }
        for _ in 0..steps {
            self.step(&mut life);
            if self.disk.is_stopped() {
                break;
            }
        }
        if !self.disk.is_stopped() && (end == End::Clean || is_last) {
            self.disk.stop_never();
            self.drain(&mut life);
        }
        self.counts.failures += u64::from(life.has_failed() && !self.disk.is_stopped());
        self.counts.repairs += life.tier.report().repairs;
        self.counts.written_back += life.tier.report().flushed_keys;
        self.crash(end, Some(life));
    }

    fn set_faults(&mut self) {
        let faults = [
            Fault::Write,
            Fault::ShortWrite,
            Fault::NoSpace,
            Fault::Sync,
            Fault::Sync,
            Fault::SyncDirectory,
            Fault::Read,
        ];
        let fault = faults[self.rng.below(faults.len() as u64) as usize];
        if self.rng.below(2) == 0 {
            let times = if self.rng.below(3) == 0 { 4 } else { 1 };
            self.disk.fail_times(self.rng.below(20), fault, times);
        }
        let refused = [Failure::Transient, Failure::Unknown, Failure::Full, Failure::Permanent];
        for _ in 0..self.rng.below(4) {
            let fault = match self.rng.below(5) {
                4 => BackendFault::CarriedOut,
                at => BackendFault::Refused(refused[at as usize]),
            };
            self.backend.memory.fail_applies(1 + self.rng.below(3) as usize, fault);
            if self.rng.below(3) == 0 {
                self.backend.memory.fail_gets(1 + self.rng.below(3) as usize, fault);
            }
        }
    }

    /// All is written and written back, and below lies what the model has.
    fn drain(&mut self, life: &mut Life) {
        self.backend.clear_faults();
        if let Err(what) = life.drain(self.now) {
            if life.has_failed() || self.disk.is_to_fail() {
                return;
            }
            self.fail(&what);
        }
        self.note_durable(life);
        self.check_all(life);
        self.check_below();
        // What is written back makes room.
        for round in 0..10 {
            let item = self.item();
            match life.set(&mut self.given, &mut self.keys[0], item) {
                Ok(()) => break,
                Err(_) if life.has_failed() => break,
                Err(refused) if round == 9 => {
                    self.fail(&format!("{refused:?} when all is drained"))
                }
                Err(_) => _ = life.drain(self.now),
            }
        }
        life.sink.end_batch();
    }

    /// Below lies what the model has.
    fn check_below(&self) {
        for key in &self.keys {
            let record = self.backend.record(&key.key).map(|record| {
                let stored = Stored::decode(&key.key, record);
                Item::of(&stored.unwrap_or_else(|| self.fail("a broken record below")))
            });
            let Some(state) = key.known() else { continue };
            match state.as_ref().filter(|item| item.is_alive(self.now)) {
                Some(_) if record.as_ref() == state.as_ref() => {}
                Some(item) => self.fail(&format!("below lies {record:?} and not {item:?}")),
                // What is dead by a barrier may lie below.
                None => {}
            }
        }
    }

    /// Below lies, of each key, what may have been answered, or what came later.
    fn check_landed(&self, life: &Life) {
        let rules = self.config.rules();
        if !rules.have(Ack::Backend) || self.disk.is_stopped() {
            return;
        }
        let passed = life.passed_at(Ack::Backend);
        for key in self.keys.iter().filter(|key| rules.ack(&key.key) == Ack::Backend) {
            let (at, state) = key.last();
            let has_passed = *at > 0 && *at <= passed[life.lanes.lane_of(key.slice).index()];
            let Some(item) = state.as_ref().filter(|it| has_passed && it.is_alive(self.now)) else {
                continue;
            };
            let below = self.backend.record(&key.key);
            let below = below.and_then(|record| Stored::decode(&key.key, record));
            if below.as_ref().map(Item::of).as_ref() != Some(item) {
                self.fail(&format!("{item:?} at {at} was answered, and {below:?} lies below"));
            }
        }
    }

    fn note_durable(&mut self, life: &Life) {
        let passed = life.passed_at(Ack::Disk);
        self.durable.iter_mut().zip(passed).for_each(|(to, passed)| *to = passed.max(*to));
    }

    /// One step of a life.
    pub fn step(&mut self, life: &mut Life) {
        let Plan { flush_all, flush_later, skip, flush, sync, breaks, .. } = self.plan;
        if self.rng.below(100) < breaks {
            let faults = [Fault::Write, Fault::ShortWrite, Fault::Sync];
            let fault = faults[self.rng.below(3) as usize];
            self.disk.fail_after(self.rng.below(3), fault);
            self.note(format!("the disk refuses: {fault:?}"));
        }
        if self.rng.below(4) == 0 {
            let ns = [1_000, 300_000_000, 3_000_000_000][self.rng.below(3) as usize];
            self.now.mono_ns += self.rng.below(ns);
            self.now.expiry_s = 1_000_000 + (self.now.mono_ns / 1_000_000_000) as u32;
        }
        self.disturb_bucket(1);
        let is_due = (1..=self.now.expiry_s).contains(&self.due.now());
        if self.rng.below(1000) < skip {
            let slice = self.any_slice();
            life.skip_versions(slice, self.rng.below(40_000));
        }
        let done = if is_due || self.rng.below(1000) < flush_all {
            let range = match self.rng.below(3) {
                _ if is_due || flush_later > 0 => SliceRange::ALL,
                0 => SliceRange::ALL,
                _ => SliceRange::of(self.any_slice()),
            };
            let done = life.flush_all(&mut self.keys, range);
            self.note(format!("flush_all {range:?}: {done:?}"));
            if done.is_ok() && flush_later > 0 {
                self.counts.flushed_later += u64::from(is_due);
                self.due.push(life.ends(), 0);
            }
            done
        } else if self.rng.below(1000) < flush_later {
            let due_s = self.now.expiry_s + 1 + self.rng.below(8) as u32;
            let done = life.flush_later(due_s);
            self.note(format!("flush_all in {due_s}: {done:?}"));
            if done.is_ok() {
                self.due.push(life.ends(), due_s);
            }
            done
        } else if self.rng.below(100) < sync {
            self.sync(life);
            Ok(())
        } else if self.rng.below(100) < flush {
            let through = self.config.rules().have(Ack::Backend) && self.rng.below(4) > 0;
            let all = self.rng.below(2) == 0;
            let flushed = match through {
                true => life.tier.flush_through(self.now),
                false => life.tier.flush(self.now, all),
            };
            self.note(format!("flush, through {through}: {flushed:?}"));
            self.check_landed(life);
            Ok(())
        } else {
            self.change(life)
        };
        match done {
            Ok(()) => self.counts.changes += 1,
            Err(Refused::Full) => {
                self.counts.refused += 1;
                self.end_batch(life);
                self.sync(life);
                let flushed = life.tier.flush(self.now, true);
                self.note(format!("full; flush: {flushed:?}"));
            }
            Err(refused) => self.fail(&format!("a change is refused: {refused:?}")),
        }
        if self.rng.below(2) == 0 {
            self.end_batch(life);
        }
    }

    fn end_batch(&mut self, life: &mut Life) {
        life.sink.end_batch();
        life.tier.write();
        self.check_landed(life);
    }

    fn sync(&mut self, life: &mut Life) {
        if self.rng.below(4) > 0 {
            self.end_batch(life);
        }
        let before = life.passed_at(Ack::Os);
        life.tier.sync(self.now);
        let report = life.tier.report();
        let (repairs, failure) = (report.repairs, report.failure);
        let after = life.passed_at(Ack::Os);
        self.note(format!("sync: {before:?} before, {after:?} after; {repairs} {failure:?}"));
        if !self.disk.is_stopped() && !life.has_failed() {
            self.durable.iter_mut().zip(before).for_each(|(to, passed)| *to = passed.max(*to));
        }
    }

    fn any_key(&mut self) -> usize {
        // Some keys are changed often.
        let count = self.keys.len() as u64;
        let bound = if self.rng.below(3) == 0 { count.min(2) } else { count };
        self.rng.below(bound) as usize
    }

    fn any_slice(&mut self) -> SliceId {
        let at = self.any_key();
        self.keys[at].slice
    }

    /// A change of one key, or a read.
    fn change(&mut self, life: &mut Life) -> Result<(), Refused> {
        let at = self.any_key();
        let done = self.change_key(life, at);
        let state = self.keys[at].last();
        self.note(format!("key {at}: {done:?} {state:?}"));
        done
    }

    fn change_key(&mut self, life: &mut Life, at: usize) -> Result<(), Refused> {
        match self.rng.below(20) {
            0..10 => {
                let item = self.item();
                life.set(&mut self.given, &mut self.keys[at], item)
            }
            10..12 => life.delete(&mut self.given, &mut self.keys[at]),
            12..15 => {
                let Some(Some(item)) = self.check(life, at) else { return Ok(()) };
                let how = (self.expiry(), self.rng.below(3) == 0);
                life.touch(&mut self.given, &mut self.keys[at], &item, how)
            }
            15 => life.forget(&mut self.given, &self.keys[at], Removal::Evicted),
            16 => match self.check(life, at) {
                Some(None) if self.rng.below(2) == 0 => {
                    life.vivify(&mut self.given, &self.keys[at])
                }
                Some(None) => life.forget(&mut self.given, &self.keys[at], Removal::Expired),
                _ => Ok(()),
            },
            _ => {
                self.check(life, at);
                Ok(())
            }
        }
    }

    fn item(&mut self) -> (Vec<u8>, Facts) {
        self.name += 1;
        let bytes = match self.rng.below(100) < self.plan.long {
            true => self.rng.below(VALUE_BYTES_MAX as u64 + 1),
            false => self.rng.below(200),
        };
        let mut value = format!("{}:{}:", self.name, self.seed).into_bytes();
        value.resize((bytes as usize).max(value.len()), b'a' + (self.name % 26) as u8);
        let token = (self.rng.below(8) == 0).then(|| self.rng.below(1 << 30));
        let (client_flags, stale) = (self.rng.below(1 << 16) as u32, self.rng.below(8) == 0);
        let facts =
            Facts { client_flags, expiry_s: self.expiry(), token, stale, ..Facts::default() };
        (value, facts)
    }

    fn expiry(&mut self) -> u32 {
        match self.rng.below(3) {
            0 => self.now.expiry_s + 1 + self.rng.below(30) as u32,
            _ => 0,
        }
    }

    /// Reads a key. `None`: that was not possible, for a reason.
    pub fn check(&mut self, life: &Life, at: usize) -> Option<KeyState> {
        let found = match life.load(&self.keys[at], self.now) {
            Ok(found) => found,
            Err(why) => {
                let may_fail = self.plan.faults || self.disk.is_stopped();
                let is_stuck = matches!(why, Unreadable::Again)
                    && (life.tier.is_behind() || life.has_failed());
                if may_fail || is_stuck {
                    return None;
                }
                self.fail(&format!("key {at} cannot be read: {why}"));
            }
        };
        self.counts.reads += 1;
        self.counts.items += u64::from(found.is_some());
        if let Err(what) = self.keys[at].check(&found, self.now) {
            self.fail(&what);
        }
        Some(found)
    }

    /// Reads all keys, or some.
    fn check_all(&mut self, life: &Life) {
        let odds = self.rng.below(4);
        for at in 0..self.keys.len() {
            if self.rng.below(3) < odds {
                self.check(life, at);
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.events.iter().for_each(|event| println!("{event}"));
            println!("seed {}, {:?}, {:?}", self.seed, self.config, self.plan);
        }
    }
}
