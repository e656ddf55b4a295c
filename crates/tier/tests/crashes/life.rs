//! One life of a cell without an engine: logs, a sink, and a tier above a disk and a backend.
//!
//! A read is a lookup, as after a miss in memory. Versions count by slice, from where the tier
//! says.

use crate::below::SimBackend;
use crate::model::{Item, KeyModel, KeyState};
use base::{
    Change, Effect, EffectSink, Facts, KeyId, MemoryBudget, Now, Refused, Removal, SLICES, SliceId,
    SliceRange, Space, Value, Version,
};
use effects::{LaneId, Lanes, LanesConfig, WorkerSink};
use faulty::disk::SimDisk;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use tier::{
    ACK_NAMES, Ack, Backend, FLUSH_AT, Loaded, Outcome, Policy, PrefixRule, Recovered, Rules, Tier,
    TierConfig, TierError, Wanted,
};

/// The longest value.
pub const VALUE_BYTES_MAX: usize = 20_000;

/// What the versions of a new journal begin after.
const FIRST: u64 = 1000;

/// Times that a key is looked up, at most, before it counts as unreadable.
const LOADS_MAX: usize = 8;

/// How the lives of one cell begin.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub lanes: usize,
    pub ack: Ack,
    pub journal_bytes: u64,
    /// Bytes of the log of each lane.
    pub log_bytes: u64,
    /// Entries of the index.
    pub entries: u64,
    pub age_ns: u64,
    pub salvages: bool,
    pub adopts: bool,
    /// What a new journal is called.
    pub name: u8,
    /// Whether keys that begin with the letter of a level have that level, and the others `ack`.
    pub has_levels: bool,
}

impl Config {
    /// A journal that is as short as may be.
    pub fn shortest(lanes: usize) -> Self {
        let config = Self {
            lanes,
            ack: Ack::Disk,
            journal_bytes: 1,
            log_bytes: 128 << 10,
            entries: 1000,
            age_ns: 0,
            salvages: false,
            adopts: false,
            name: 7,
            has_levels: false,
        };
        let disk = SimDisk::new(0);
        let backend = SimBackend::new(disk.clone());
        match Life::begin((&disk, &backend), &config, &Given::new(), Now::default()) {
            Err(TierError::JournalTooShort { least, .. }) => {
                Self { journal_bytes: least.next_multiple_of(4096 * 16 * lanes as u64), ..config }
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("a journal of one byte"),
        }
    }

    /// What replies promise.
    pub fn rules(&self) -> Rules {
        let of = |(name, ack): &(&str, Ack)| PrefixRule {
            prefix: format!("{}-", &name[..1]),
            policy: Policy::Kept(*ack),
        };
        let named: &[_] = if self.has_levels { ACK_NAMES } else { &[] };
        Rules::new(self.ack, named.iter().map(of).collect()).expect("letters")
    }

    /// How a tier begins.
    pub fn tier(&self) -> TierConfig {
        TierConfig {
            rules: Arc::new(self.rules()),
            salvages: self.salvages,
            adopts: self.adopts,
            in_ring: false,
            journal_bytes: self.journal_bytes,
            index_bytes: (32 << 10) + self.entries * 56,
            value_bytes_max: VALUE_BYTES_MAX as u64,
            age_ns: self.age_ns,
            lookups_max: 4,
            missing_max: 1000,
        }
    }
}

/// The highest version of each slice that was given out in any life.
pub type Given = HashMap<SliceId, u64>;

/// Why a key could not be read.
#[derive(Debug)]
pub enum Unreadable {
    /// It is never found out: what it needs is not written.
    Again,
    Error(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("what it needs is not written"),
            Self::Error(error) => f.write_str(error),
        }
    }
}

/// A cell that runs.
pub struct Life {
    pub tier: Arc<Tier>,
    pub lanes: Arc<Lanes>,
    pub sink: WorkerSink,
    /// When a flush of all is due; 0: there is none.
    pub due_s: u32,
    /// Writes that were cut off, as the start has found.
    pub torn: u64,
    ack: Ack,
    /// By slice.
    versions: Vec<u64>,
}

impl Life {
    /// Recovers what the disk has, and begins. `given`: no version up to these may be given again.
    pub fn begin(
        (disk, backend): (&SimDisk, &Arc<SimBackend>),
        config: &Config,
        given: &Given,
        now: Now,
    ) -> Result<Self, TierError> {
        let disk: Arc<dyn tier::Disk> = Arc::new(disk.clone());
        backend.open().map_err(TierError::Backend)?;
        let backend: Arc<dyn Backend> = backend.clone();
        let first = |_: SliceId| Version::from_raw(FIRST);
        let names = ([config.name; 16], [9; 16]);
        let mut recovered = Recovered::find(&disk, backend, config.tier(), names, first)?;
        let torn = recovered.summary().torn;
        let due_s = recovered.end_due(now);
        let mut versions = Vec::with_capacity(SLICES);
        for (slice, begin, barrier) in recovered.slices() {
            assert!(barrier <= begin, "a barrier above all versions");
            assert!(begin.raw() >= FIRST, "{slice:?} begins at {begin:?}");
            if let Some(given) = given.get(&slice) {
                assert!(begin.raw() >= *given, "{slice:?} gives {begin:?} again: {given}");
            }
            assert_eq!(slice.index(), versions.len(), "all slices, in their order");
            versions.push(begin.raw());
        }
        let lanes = config.lanes;
        let bytes = lanes as u64 * config.log_bytes + (272 << 10);
        let value_bytes_max = VALUE_BYTES_MAX as u64;
        let logs = LanesConfig { lanes, sinks: 1, bytes, value_bytes_max, follows: false };
        // Of which logs get a part.
        let budget = MemoryBudget::new(64 * bytes);
        let logs = Lanes::new(&logs, &budget).expect("enough memory");
        assert_eq!(logs.logs().count(), lanes);
        let is_long = |log: &effects::Log| log.capacity_bytes() > config.log_bytes / 2;
        assert!(logs.logs().all(|(_, log)| is_long(log)), "the budget cuts the logs short");
        let tier = recovered.begin(logs.clone(), None, now)?;
        let mut sink = WorkerSink::new(logs.clone());
        sink.set_observer(tier.clone());
        Ok(Self { tier, lanes: logs, sink, due_s, torn, ack: config.ack, versions })
    }

    /// Up to where the level of the replies has passed each lane.
    pub fn passed(&self) -> Vec<u64> {
        self.passed_at(self.ack)
    }

    /// Up to where a level has passed each lane.
    pub fn passed_at(&self, ack: Ack) -> Vec<u64> {
        let passed = |(_, log): (LaneId, &Arc<effects::Log>)| {
            let (mut low, mut high) = (0, log.end());
            while low < high {
                let middle = (low + high).div_ceil(2);
                match log.passed(ack.level(), middle) {
                    true => low = middle,
                    false => high = middle - 1,
                }
            }
            low
        };
        self.lanes.logs().map(passed).collect()
    }

    /// Whether everything was written.
    pub fn has_failed(&self) -> bool {
        self.tier.report().failure.is_some()
    }

    /// Lets the versions of a slice rise without a change.
    pub fn skip_versions(&mut self, slice: SliceId, count: u64) {
        let version = &mut self.versions[slice.index()];
        // As a promotion does: the version that is given out next is what is asked for.
        *version += count;
        self.lanes.log(self.lanes.lane_of(slice)).advance(slice, Version::from_raw(*version));
    }

    /// The last version of a slice.
    pub fn version(&self, slice: SliceId) -> u64 {
        self.versions[slice.index()]
    }

    /// Makes a change. Returns its position and its version.
    fn change(
        &mut self,
        given: &mut Given,
        of: &KeyModel,
        change: Change<'_>,
    ) -> Result<(u64, u64), Refused> {
        let space = match change {
            Change::Remove(_) => Space::Removal,
            _ => Space::Change {
                key_bytes: of.key.len(),
                value_bytes: change.value_bytes(),
                value: None,
            },
        };
        self.sink.reserve(of.slice, space)?;
        let next = self.versions[of.slice.index()] + 1;
        let key = KeyId { slice: of.slice, hash: 0 };
        let stamp = || Ok(Version::from_raw(next));
        let version = self.sink.commit(key, &Effect { key: &of.key, change }, stamp)?;
        assert_eq!(version.raw(), next);
        self.versions[of.slice.index()] = next;
        // Of an eviction nobody learns the version, and its process alone goes by it.
        if !matches!(change, Change::Remove(Removal::Evicted | Removal::Expired)) {
            given.insert(of.slice, next);
        }
        Ok((self.sink.last_in(of.slice).map_or(0, |place| place.position), next))
    }

    /// Stores an item.
    pub fn set(
        &mut self,
        given: &mut Given,
        of: &mut KeyModel,
        (value, facts): (Vec<u8>, Facts),
    ) -> Result<(), Refused> {
        let (first, second) = value.split_at(value.len() / 3);
        let parts = Value::Parts([first, second]);
        let (position, version) = self.change(given, of, Change::Put(parts, facts))?;
        let token = facts.token.unwrap_or(Version::from_raw(version).counter());
        let Facts { client_flags: flags, expiry_s, stale: is_stale, .. } = facts;
        of.push(position, Some(Item { value, flags, expiry_s, token, version, is_stale }));
        Ok(())
    }

    /// Changes the expiry of `item`, which the key has.
    pub fn touch(
        &mut self,
        given: &mut Given,
        of: &mut KeyModel,
        item: &Item,
        (expiry_s, with_item): (u32, bool),
    ) -> Result<(), Refused> {
        let facts = Facts {
            client_flags: item.flags,
            expiry_s: item.expiry_s,
            token: Some(item.token),
            stale: item.is_stale,
            ..Facts::default()
        };
        let whole = with_item.then_some((Value::Parts([&item.value, &[]]), facts));
        let (position, version) = self.change(given, of, Change::Touch(expiry_s, whole))?;
        of.push(position, Some(Item { expiry_s, version, ..item.clone() }));
        Ok(())
    }

    /// Removes the item of a key.
    pub fn delete(&mut self, given: &mut Given, of: &mut KeyModel) -> Result<(), Refused> {
        let (position, _) = self.change(given, of, Change::Remove(Removal::Deleted))?;
        of.push(position, None);
        Ok(())
    }

    /// Removes the item of a key from memory alone.
    pub fn forget(
        &mut self,
        given: &mut Given,
        of: &KeyModel,
        removal: Removal,
    ) -> Result<(), Refused> {
        self.change(given, of, Change::Remove(removal)).map(|_| ())
    }

    /// A read has made a place for the item of a key.
    pub fn vivify(&mut self, given: &mut Given, of: &KeyModel) -> Result<(), Refused> {
        let facts = Facts { vivified: true, ..Facts::default() };
        self.change(given, of, Change::Put(Value::EMPTY, facts)).map(|_| ())
    }

    /// Ends the items of `range`.
    pub fn flush_all(&mut self, keys: &mut [KeyModel], range: SliceRange) -> Result<(), Refused> {
        let mut places = Vec::new();
        let done = self.sink.barrier(range, |_| {}, &mut places);
        for place in places {
            let of_place = |key: &&mut KeyModel| {
                range.contains(key.slice) && self.lanes.lane_of(key.slice) == place.lane
            };
            keys.iter_mut().filter(of_place).for_each(|key| key.push(place.position, None));
        }
        done
    }

    /// Ends all items in second `due_s`.
    pub fn flush_later(&mut self, due_s: u32) -> Result<(), Refused> {
        self.sink.other_in_all(FLUSH_AT, &due_s.to_le_bytes(), &mut Vec::new())
    }

    /// The last position of each lane.
    pub fn ends(&self) -> Vec<u64> {
        self.lanes.logs().map(|(_, log)| log.end()).collect()
    }

    /// What a key has that is not in memory.
    pub fn load(&self, of: &KeyModel, now: Now) -> Result<KeyState, Unreadable> {
        let job = match self.tier.want(of.slice, &of.key, 0, now) {
            Wanted::Missing => return Ok(None),
            Wanted::Job(job) => job,
            wanted => panic!("nobody else looks up: {wanted:?}"),
        };
        let mut result = Err(Unreadable::Again);
        for _ in 0..LOADS_MAX {
            match self.tier.load(&job, now) {
                Ok(Loaded::Again) => self.tier.write(),
                Ok(Loaded::Missing) => {
                    result = Ok(None);
                    break;
                }
                Ok(Loaded::Item(stored)) => {
                    assert!(self.tier.admits(&job), "nobody has changed it");
                    result = Ok(Some(Item::of(&stored)));
                    break;
                }
                Err(error) => {
                    result = Err(Unreadable::Error(error.to_string()));
                    break;
                }
            }
        }
        let outcome = match &result {
            Ok(Some(_)) => Outcome::Loaded,
            Ok(None) => Outcome::Missing,
            Err(_) => Outcome::Failed,
        };
        let finished = self.tier.finish(job, outcome, now);
        assert!(!finished.is_cancelled && finished.waiters.len() == 1);
        result
    }

    /// Writes all, and writes all back, and frees what that frees. Returns whether that was
    /// possible in some rounds, each of which is a second later.
    pub fn drain(&mut self, mut now: Now) -> Result<(), String> {
        self.sink.end_batch();
        let mut last = String::new();
        let mut quiet = 0;
        for _ in 0..60 {
            now.mono_ns += 1_000_000_000;
            self.tier.write();
            self.tier.sync(now);
            let through = self.tier.flush_through(now);
            if let Err(error) = through.and_then(|_| self.tier.flush(now, true)) {
                last = error.to_string();
            }
            let is_done = self.tier.dirty() == 0 && !self.tier.is_behind();
            quiet = if is_done { quiet + 1 } else { 0 };
            // An idle lane begins another segment, which is durable, and then counts.
            if quiet > 2 {
                return Ok(());
            }
        }
        let report = self.tier.report();
        Err(format!("not written back after 60 rounds: {last} {report:?}"))
    }
}
