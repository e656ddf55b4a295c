//! What starts find after a crash, and after a crash in a start.
//!
//! Of equal disks and backends one start begins. What it shows of the keys, and the versions that
//! it begins at, are kept.

use crate::below::SimBackend;
use crate::life::{Config, Given, Life};
use crate::model::{KeyModel, KeyState};
use base::Now;
use faulty::disk::SimDisk;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

pub const NOW: Now = Now { mono_ns: 1_000_000_000, expiry_s: 1_000_000 };

/// Pending sectors of which all that may survive is tried; of more, all and none.
const SECTORS_MAX: usize = 6;

/// What lies on the disk, durably or not, and below.
pub struct Lies {
    disk: SimDisk,
    backend: Arc<SimBackend>,
    below: u64,
}

impl Lies {
    /// What lies there now.
    pub fn now(disk: &SimDisk, backend: &Arc<SimBackend>) -> Self {
        let disk = disk.copy();
        Self { backend: backend.copy(disk.clone()), disk, below: backend.digest() }
    }

    /// What has lain there before each call since both recorded, and what lies there now.
    pub fn recorded(disk: &SimDisk, backend: &SimBackend) -> impl Iterator<Item = Self> {
        let of_backend = backend.copies().into_iter();
        let of_backend: Vec<_> = of_backend.map(|it| (it.digest(), it)).collect();
        let disks = disk.recorded();
        let first = disks.first().map_or(0, SimDisk::others);
        disks.into_iter().map(move |disk| {
            let (below, backend) = &of_backend[(disk.others() - first) as usize];
            Self { disk, backend: backend.clone(), below: *below }
        })
    }

    /// A number that stands for all of it.
    pub fn digest(&self) -> u64 {
        measure::rng::mix(self.disk.digest()) ^ self.below
    }

    fn copy(&self) -> Self {
        let disk = self.disk.copy();
        Self { disk, backend: self.backend.clone(), below: self.below }
    }

    /// The process ends here.
    pub fn killed(&self) -> Self {
        let copy = self.copy();
        copy.disk.kill();
        copy
    }

    /// Everything that may survive a power cut.
    pub fn power_cuts(&self) -> Vec<Self> {
        let ways = self.disk.ways();
        let all: Vec<_> = ways.iter().map(|ways| ways - 1).collect();
        let mut kept = vec![vec![0; ways.len()]];
        if ways.len() > SECTORS_MAX {
            kept.push(all);
        } else {
            while let Some(next) = next_way(kept.last().expect("the first"), &ways) {
                kept.push(next);
            }
        }
        let names: &[bool] = if self.disk.has_pending_names() { &[true, false] } else { &[true] };
        let cut = |kept: &Vec<usize>, keeps_names: bool| {
            let copy = self.copy();
            copy.disk.cut_power_so(kept, keeps_names);
            copy
        };
        kept.iter().flat_map(|kept| names.iter().map(move |names| cut(kept, *names))).collect()
    }
}

/// The next of all ways in which sectors may survive.
fn next_way(kept: &[usize], ways: &[usize]) -> Option<Vec<usize>> {
    let mut kept = kept.to_vec();
    let next = (0..ways.len()).find(|sector| kept[*sector] + 1 < ways[*sector])?;
    kept[next] += 1;
    kept[..next].fill(0);
    Some(kept)
}

/// What a start shows.
#[derive(PartialEq, Eq)]
struct Shown {
    keys: Vec<Result<KeyState, String>>,
    /// The version that the slice of each key begins at.
    versions: Vec<u64>,
}

impl Shown {
    /// It is what the history allows. Returns what the keys have then.
    fn check(&self, keys: &[KeyModel], given: &Given) -> Result<(), String> {
        for ((key, found), version) in keys.iter().zip(&self.keys).zip(&self.versions) {
            key.clone().check(found.as_ref().map_err(Clone::clone)?, NOW)?;
            let least = given.get(&key.slice).copied().unwrap_or(0);
            if *version < least {
                return Err(format!("{:?} gives {version} again: {least}", key.slice));
            }
        }
        Ok(())
    }
}

/// What a start shows, and others that begin after a crash in it, or after it.
pub struct Found {
    first: Rc<Shown>,
    during: Vec<Rc<Shown>>,
    after: Vec<Rc<Shown>>,
}

impl Found {
    /// All of it is what the history allows.
    pub fn check(&self, keys: &[KeyModel], given: &Given) -> Result<(), String> {
        self.first.check(keys, given)?;
        // The power is cut while no cell has begun.
        let mut keys = keys.to_vec();
        keys.iter_mut().for_each(KeyModel::cut_power);
        for shown in &self.during {
            let crash = |what| format!("after a crash in a start: {what}");
            shown.check(&keys, given).map_err(crash)?;
        }
        for shown in &self.after {
            let rises = shown.versions.iter().zip(&self.first.versions).all(|(b, a)| b >= a);
            if shown.keys != self.first.keys || !rises {
                let (first, then) = (&self.first.keys, &shown.keys);
                return Err(format!("a start shows {first:?}, and the next one {then:?}"));
            }
        }
        Ok(())
    }
}

/// What starts have found.
#[derive(Default)]
pub struct Starts {
    /// Whether crashes in a start are tried, too.
    in_starts: bool,
    /// By what lay there, what one start shows.
    shown: HashMap<u64, Rc<Shown>>,
    /// By what lay there, what a start and those after a crash in it show.
    found: HashMap<u64, Rc<Found>>,
    /// Starts, and those that were not made because one had begun on the same.
    pub begun: u64,
    pub again: u64,
}

impl Starts {
    /// None yet. `in_starts`: whether crashes in a start are tried, too.
    pub fn new(in_starts: bool) -> Self {
        Self { in_starts, ..Self::default() }
    }

    /// What starts find where this lies.
    pub fn of(&mut self, config: &Config, keys: &[KeyModel], lies: &Lies) -> Rc<Found> {
        let digest = lies.digest();
        if let Some(found) = self.found.get(&digest) {
            self.again += 1;
            return found.clone();
        }
        let disk = lies.disk.copy();
        let backend = lies.backend.copy(disk.clone());
        if self.in_starts {
            disk.record();
            backend.keep_copies();
        }
        let first = Rc::new(self.begin((&disk, &backend), config, keys));
        let mut crashes = Vec::new();
        if self.in_starts {
            crashes.extend(Lies::recorded(&disk, &backend));
        }
        let last = crashes.pop().unwrap_or_else(|| Lies::now(&disk, &backend));
        // Most calls change nothing that survives.
        let cuts = crashes.iter().flat_map(Lies::power_cuts);
        let cuts: BTreeMap<_, _> = cuts.map(|lies| (lies.digest(), lies)).collect();
        let during = cuts.values().map(|lies| self.one(config, keys, lies)).collect();
        let after = last.power_cuts().iter().map(|it| self.one(config, keys, it)).collect();
        let found = Rc::new(Found { first, during, after });
        self.found.insert(digest, found.clone());
        found
    }

    /// What one start shows where this lies.
    fn one(&mut self, config: &Config, keys: &[KeyModel], lies: &Lies) -> Rc<Shown> {
        let digest = lies.digest();
        if let Some(shown) = self.shown.get(&digest) {
            self.again += 1;
            return shown.clone();
        }
        let disk = lies.disk.copy();
        let backend = lies.backend.copy(disk.clone());
        let shown = Rc::new(self.begin((&disk, &backend), config, keys));
        self.shown.insert(digest, shown.clone());
        shown
    }

    fn begin(
        &mut self,
        on: (&SimDisk, &Arc<SimBackend>),
        config: &Config,
        keys: &[KeyModel],
    ) -> Shown {
        self.begun += 1;
        let life = match Life::begin(on, config, &Given::new(), NOW) {
            Ok(life) => life,
            Err(error) => {
                let error = Err(format!("a cell does not begin: {error}"));
                return Shown { keys: vec![error; keys.len()], versions: vec![0; keys.len()] };
            }
        };
        let found = keys.iter().map(|key| life.load(key, NOW).map_err(|why| why.to_string()));
        let versions = keys.iter().map(|key| life.version(key.slice)).collect();
        Shown { keys: found.collect(), versions }
    }
}
