//! Random lives of one cell, one after the other, on one disk and above one backend.
//!
//! All that happens follows from the seed. Each panic shows it.

use crate::below::SimBackend;
use crate::disk::{Fault, SimDisk};
use crate::life::{Config, Given, Life, Unreadable, VALUE_BYTES_MAX};
use crate::model::{Item, KeyModel, KeyState};
use backend::Fault as BackendFault;
use base::{Facts, Now, Refused, Removal, SLICES, SliceId, SliceRange};
use measure::rng::Rng;
use std::collections::VecDeque;
use std::sync::Arc;
use tier::{Ack, Failure, Stored, TierError};

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
    };
}

/// What a run counts, so that a test sees that it has done something.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Up to where each lane of this life is durable for certain.
    durable: Vec<u64>,
    seed: u64,
    name: u64,
    /// What happened, for the message of a failure.
    events: VecDeque<String>,
}

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
        let keys = (0..count).map(|number| KeyModel::new(format!("key-{number}").into_bytes()));
        let backend = SimBackend::new(disk.clone());
        // Half of all runs are above one that writes a quarter of the slices at once.
        backend.group_by(if seed % 2 == 1 { SLICES / 4 } else { 0 });
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
        self.counts
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
        for _ in 0..200 {
            let crashes = self.plan.crashes && self.rng.below(3) == 0;
            if crashes {
                let calls = if self.rng.below(2) == 0 { 8 } else { 40 };
                self.disk.stop_after(self.rng.below(calls));
            }
            let begun =
                Life::begin((&self.disk, &self.backend), &self.config, &self.given, self.now);
            match begun {
                Ok(life) if !self.disk.is_stopped() => {
                    self.note(format!("begins with {} dirty keys", life.tier.dirty()));
                    self.disk.stop_never();
                    self.keys.iter_mut().for_each(KeyModel::begin);
                    self.durable = vec![0; self.config.lanes];
                    self.check_all(&life);
                    return Some(life);
                }
                Err(error) if !self.disk.is_stopped() => self.refused(&error),
                Ok(_) | Err(_) => {}
            }
            self.counts.in_begin += 1;
            let end = if self.rng.below(2) == 0 { End::Kill } else { End::PowerCut };
            self.crash(end, None);
        }
        self.fail("200 crashes")
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
            let (durable, passed) = (&self.durable, life.passed());
            self.note(format!("passed {passed:?}, durable {durable:?}"));
            if self.config.ack >= Ack::Disk {
                self.durable.iter_mut().zip(&passed).for_each(|(to, at)| *to = (*to).max(*at));
            }
            for key in &mut self.keys {
                let lane = life.lanes.lane_of(key.slice).index();
                key.kill(passed[lane].max(self.durable[lane]), self.durable[lane]);
            }
        }
        if end == End::PowerCut {
            self.keys.iter_mut().for_each(KeyModel::cut_power);
        }
        match end {
            End::PowerCut => self.disk.cut_power(&mut self.rng),
            End::Kill | End::Clean => self.disk.kill(),
        }
        self.backend.memory.clear_faults();
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
        self.backend.memory.clear_faults();
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
        let records = self.backend.memory.records();
        for key in &self.keys {
            let record = records.get(&key.key).map(|record| {
                let stored = Stored::decode(&key.key, record.clone());
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
        if self.config.ack != Ack::Backend || self.disk.is_stopped() {
            return;
        }
        let (records, passed) = (self.backend.memory.records(), life.passed());
        for key in &self.keys {
            let (at, state) = key.last();
            let has_passed = *at > 0 && *at <= passed[life.lanes.lane_of(key.slice).index()];
            let Some(item) = state.as_ref().filter(|it| has_passed && it.is_alive(self.now)) else {
                continue;
            };
            let below = records.get(&key.key);
            let below = below.and_then(|record| Stored::decode(&key.key, record.clone()));
            if below.as_ref().map(Item::of).as_ref() != Some(item) {
                self.fail(&format!("{item:?} at {at} was answered, and {below:?} lies below"));
            }
        }
    }

    fn note_durable(&mut self, life: &Life) {
        let passed = life.passed();
        self.durable.iter_mut().zip(passed).for_each(|(to, passed)| *to = passed.max(*to));
    }

    /// One step of a life.
    pub fn step(&mut self, life: &mut Life) {
        let Plan { flush_all, skip, flush, sync, breaks, .. } = self.plan;
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
        if self.rng.below(1000) < skip {
            let slice = self.any_slice();
            life.skip_versions(slice, self.rng.below(40_000));
        }
        let done = if self.rng.below(1000) < flush_all {
            let range = match self.rng.below(3) {
                0 => SliceRange::ALL,
                _ => SliceRange::of(self.any_slice()),
            };
            let done = life.flush_all(&mut self.keys, range);
            self.note(format!("flush_all {range:?}: {done:?}"));
            done
        } else if self.rng.below(100) < sync {
            self.sync(life);
            Ok(())
        } else if self.rng.below(100) < flush {
            let through = self.config.ack == Ack::Backend && self.rng.below(4) > 0;
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
        let before = life.passed();
        life.tier.sync(self.now);
        let report = life.tier.report();
        let (repairs, failure) = (report.repairs, report.failure);
        let after = life.passed();
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
