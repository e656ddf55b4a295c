//! A disk in memory that loses what was not synced, tears writes, and fails where a test wants it.
//!
//! ```text
//! write --> pending --sync--> durable          what is read:   durable + pending
//!              |                               after the power was cut:
//!              +--a sync that fails: each           durable + some sectors of pending
//!                 sector is durable or lost,
//!                 and clean all the same
//! ```
//!
//! A sector of 512 bytes survives as it was after some of its pending writes, or as it was when it
//! was durable: each sector on its own, in no order. So does each name of the directory. A file is
//! as long as its last sector that survives, if nothing longer was durable.
//!
//! Calls that change something are numbered. A test lets the machine stop at one of them: that call
//! and all later ones fail, until [`SimDisk::kill`] or [`SimDisk::cut_power`].

use crate::bytes::{Bytes, digest_of};
use crate::tally::Tally;
use measure::rng::{Rng, mix};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tier::{Disk, File};

/// Bytes that are written as one, or not at all, where the power is cut, and where a whole sector
/// is written.
const SECTOR: usize = 512;

/// How one call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write fails. Nothing is written.
    Write,
    /// A write fails when a part is written.
    ShortWrite,
    /// A write finds no space. Nothing is written.
    NoSpace,
    /// A sync of a file fails. Each sector may be lost, and is clean.
    Sync,
    /// A sync of the directory fails.
    SyncDirectory,
    /// A read fails.
    Read,
}

/// What a power cut, or the end of the machine, does.
const SUBSET: &str = "disk: some sectors of a file survive a power cut, and others do not";
const OUT_OF_ORDER: &str = "disk: a sector survives, and one that was written before it does not";
const TORN_WRITE: &str = "disk: a part of one write survives a power cut";
const OLDER_SECTOR: &str = "disk: a sector survives as it was before its last write";
const STOPPED_IN_WRITE: &str = "disk: the machine stops when a part of a write is done";
const LOST_NAME: &str = "disk: a name that was made, or removed, is as it was before";
/// A bit flips.
const FLIP: &str = "disk: a bit flips";

/// What may happen to a disk.
pub const HARM: [&str; 13] = [
    SUBSET,
    OUT_OF_ORDER,
    TORN_WRITE,
    OLDER_SECTOR,
    STOPPED_IN_WRITE,
    LOST_NAME,
    FLIP,
    Fault::Write.name(),
    Fault::ShortWrite.name(),
    Fault::NoSpace.name(),
    Fault::Sync.name(),
    Fault::SyncDirectory.name(),
    Fault::Read.name(),
];

/// What a call of the disk does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
    SyncDirectory,
    Read,
    Other,
}

impl Fault {
    /// What it is called where it is counted.
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "disk: a write is refused (EIO)",
            Self::ShortWrite => "disk: a write is refused when a part is written",
            Self::NoSpace => "disk: a write finds no space (ENOSPC)",
            Self::Sync => "disk: a sync is refused, and all is clean after it (EIO)",
            Self::SyncDirectory => "disk: a sync of the directory is refused",
            Self::Read => "disk: a read is refused (EIO)",
        }
    }

    fn hits(self, call: Call) -> bool {
        match self {
            Self::Write | Self::ShortWrite | Self::NoSpace => call == Call::Write,
            Self::Sync => call == Call::Sync,
            Self::SyncDirectory => call == Call::SyncDirectory,
            Self::Read => call == Call::Read,
        }
    }
}

/// What stands before a call.
enum Entry {
    Goes,
    Fails(Fault),
    /// The machine stops in it.
    Stops,
}

/// A change of a file that is not durable.
#[derive(Clone)]
enum Pending {
    Write { at: usize, bytes: Arc<[u8]> },
    Length(usize),
}

#[derive(Clone, Default)]
struct Contents {
    durable: Bytes,
    /// What is read.
    current: Bytes,
    pending: Vec<Pending>,
}

/// Pending sectors of a file that survive together, and their writes by their numbers.
struct Unit {
    file: usize,
    sectors: Vec<usize>,
    writes: Vec<usize>,
}

/// The sectors of a write that is longer survive together, where a test chooses what survives.
const UNIT_SECTORS: usize = 6;

impl Contents {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.current.put(at, bytes);
        self.pending.push(Pending::Write { at, bytes: bytes.into() });
    }

    fn set_bytes(&mut self, bytes: usize) {
        self.current.resize(bytes);
        self.pending.push(Pending::Length(bytes));
    }

    /// Makes what is pending durable. What an earlier sync has lost stays lost.
    fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Write { at, bytes } => self.durable.put(at, &bytes),
                Pending::Length(bytes) => self.durable.resize(bytes),
            }
        }
    }

    /// The sectors with pending writes, and which writes these are.
    fn sectors(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut sectors: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, pending) in self.pending.iter().enumerate() {
            let Pending::Write { at, bytes } = pending else { continue };
            for sector in at / SECTOR..(at + bytes.len()).div_ceil(SECTOR) {
                sectors.entry(sector).or_default().push(number);
            }
        }
        sectors
    }

    /// Makes the first `count` pending writes of a sector durable.
    fn keep(&mut self, sector: usize, writes: &[usize], count: usize) {
        for write in &writes[..count] {
            let Pending::Write { at, bytes } = &self.pending[*write] else { continue };
            let from = (sector * SECTOR).max(*at);
            let to = ((sector + 1) * SECTOR).min(at + bytes.len());
            self.durable.put(from, &bytes[from - at..to - at]);
        }
    }

    /// The sectors with pending writes, those of a long write together.
    fn units(&self, file: usize) -> Vec<Unit> {
        let is_long = |write: &usize| match &self.pending[*write] {
            Pending::Write { bytes, .. } => bytes.len() > UNIT_SECTORS * SECTOR,
            Pending::Length(_) => false,
        };
        let mut units: Vec<Unit> = Vec::new();
        for (sector, writes) in self.sectors() {
            match units.last_mut() {
                Some(last) if last.writes == writes && writes.iter().any(is_long) => {
                    last.sectors.push(sector);
                }
                _ => units.push(Unit { file, sectors: vec![sector], writes }),
            }
        }
        units
    }

    /// A number that stands for what is durable, and what is pending.
    fn digest(&self) -> u64 {
        let pending = self.pending.iter().map(|pending| match pending {
            Pending::Write { at, bytes } => mix(digest_of(bytes) ^ *at as u64),
            Pending::Length(bytes) => mix(!*bytes as u64),
        });
        let all = [self.durable.digest(), self.current.digest()].into_iter().chain(pending);
        all.fold(0, |sum, of| mix(mix(sum) ^ of))
    }

    /// Makes any part of what is pending durable. Nothing is pending then.
    fn settle(&mut self, rng: &mut Rng, tally: &mut Tally) {
        let mut lengths = self.pending.iter().filter_map(|it| match it {
            Pending::Length(bytes) => Some(*bytes),
            Pending::Write { .. } => None,
        });
        if let Some(bytes) = lengths.next_back().filter(|_| rng.below(2) == 0) {
            self.durable.resize(bytes);
        }
        // How many of 64 sectors survive: often all or none.
        let odds = [0, 0, 2, 32, 62, 64, 64, 64][rng.below(8) as usize];
        let mut kept = Vec::new();
        for (sector, writes) in self.sectors() {
            let mut count = 0;
            if rng.below(64) < odds {
                count = match rng.below(4) {
                    0 if odds < 64 => rng.below(writes.len() as u64 + 1) as usize,
                    _ => writes.len(),
                };
                self.keep(sector, &writes, count);
            }
            kept.push((writes, count));
        }
        self.pending.clear();
        count_kept(&kept, tally);
    }
}

/// Counts what happened to the pending writes of the sectors of a file: those of each, and how many
/// of them survive.
fn count_kept(sectors: &[(Vec<usize>, usize)], tally: &mut Tally) {
    let (mut survives, mut is_lost) = (Vec::<usize>::new(), Vec::<usize>::new());
    for (writes, count) in sectors {
        survives.extend(&writes[..*count]);
        is_lost.extend(&writes[*count..]);
        tally.add_times(OLDER_SECTOR, u64::from((1..writes.len()).contains(count)));
    }
    let (first_lost, last_kept) = (is_lost.iter().min(), survives.iter().max());
    let is_some = |name, is_so: bool, tally: &mut Tally| tally.add_times(name, u64::from(is_so));
    is_some(SUBSET, first_lost.is_some() && last_kept.is_some(), tally);
    let is_later = first_lost.zip(last_kept).is_some_and(|(lost, kept)| kept > lost);
    is_some(OUT_OF_ORDER, is_later, tally);
    is_some(TORN_WRITE, survives.iter().any(|write| is_lost.contains(write)), tally);
}

#[derive(Clone)]
struct State {
    files: Vec<Contents>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Calls so far that change something.
    calls: u64,
    /// Of those: what changed something else than the disk.
    others: u64,
    /// Reads of files.
    reads: u64,
    stops_at: Option<u64>,
    is_stopped: bool,
    /// Most bytes of all files.
    bytes_max: Option<usize>,
    /// A fault, how many calls of its kind go well before it, and how many fail.
    fault: Option<(Fault, u64, u64)>,
    rng: Rng,
    tally: Tally,
    /// The disk before each call, if a test wants that.
    record: Option<Vec<State>>,
}

impl State {
    fn enter(&mut self, call: Call) -> Entry {
        if self.is_stopped {
            return Entry::Stops;
        }
        if call != Call::Read {
            if self.record.is_some() {
                let before = Self { record: None, ..self.clone_without_record() };
                self.record.as_mut().expect("it is there").push(before);
            }
            self.calls += 1;
            if self.stops_at.is_some_and(|at| self.calls >= at) {
                self.is_stopped = true;
                return Entry::Stops;
            }
        }
        if let Some((fault, left, times)) = self.fault.filter(|(fault, ..)| fault.hits(call)) {
            self.fault = match left {
                0 => (times > 1).then_some((fault, 0, times - 1)),
                left => Some((fault, left - 1, times)),
            };
            if left == 0 {
                self.tally.add(fault.name());
                return Entry::Fails(fault);
            }
        }
        Entry::Goes
    }

    fn clone_without_record(&mut self) -> Self {
        let record = self.record.take();
        let clone = self.clone();
        self.record = record;
        clone
    }

    /// Whether a file may become as long as `bytes`, or is.
    fn has_space(&self, file: usize, bytes: usize) -> bool {
        let there = |file: usize| self.files[file].current.len();
        let used: usize = self.names.values().map(|file| there(*file)).sum();
        let more = bytes.saturating_sub(there(file));
        more == 0 || self.bytes_max.is_none_or(|most| used + more <= most)
    }

    /// All sectors with pending writes, those of a long write together.
    fn units(&self) -> Vec<Unit> {
        let of = |(file, contents): (usize, &Contents)| contents.units(file);
        self.files.iter().enumerate().flat_map(of).collect()
    }

    fn reboot(&mut self) {
        self.files.iter_mut().for_each(|file| {
            file.pending.clear();
            file.current = file.durable.clone();
        });
        self.names = self.durable_names.clone();
        self.run();
    }

    fn run(&mut self) {
        (self.is_stopped, self.stops_at, self.fault) = (false, None, None);
    }
}

fn stopped() -> io::Error {
    io::Error::other("the machine has stopped")
}

/// A directory of files. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            calls: 0,
            others: 0,
            reads: 0,
            stops_at: None,
            is_stopped: false,
            bytes_max: None,
            fault: None,
            rng: Rng::new(seed, 77),
            tally: Tally::default(),
            record: None,
        })))
    }

    /// Another disk that is as this one is now.
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.state().clone_without_record())))
    }

    /// Keeps a copy from before each call that changes something, from now on.
    pub fn record(&self) {
        self.state().record = Some(Vec::new());
    }

    /// The copies since [`SimDisk::record`], and that of now.
    pub fn recorded(&self) -> Vec<Self> {
        let mut state = self.state();
        let mut states = state.record.take().unwrap_or_default();
        states.push(state.clone());
        states.into_iter().map(|state| Self(Arc::new(Mutex::new(state)))).collect()
    }

    /// Lets the machine stop in the call after `calls` others.
    pub fn stop_after(&self, calls: u64) {
        let mut state = self.state();
        state.stops_at = Some(state.calls + calls + 1);
    }

    /// Lets it not stop by itself.
    pub fn stop_never(&self) {
        self.state().stops_at = None;
    }

    /// Whether the machine has stopped.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Something else than the disk is about to be changed: a call like those of the disk. Returns
    /// whether it is carried out, and whether it succeeds.
    pub fn enter(&self) -> (bool, bool) {
        let mut state = self.state();
        let was_stopped = state.is_stopped;
        match state.enter(Call::Other) {
            Entry::Stops if was_stopped => (false, false),
            Entry::Stops => (state.rng.below(2) == 0, false),
            _ => {
                state.others += 1;
                (true, true)
            }
        }
    }

    /// How often [`SimDisk::enter`] has let something be carried out.
    pub fn others(&self) -> u64 {
        self.state().others
    }

    /// How often each harm was done.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }

    /// How often a file was read.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Lets one call fail, after `calls` others of its kind.
    pub fn fail_after(&self, calls: u64, fault: Fault) {
        self.fail_times(calls, fault, 1);
    }

    /// Lets that many calls fail, after `calls` others of their kind.
    pub fn fail_times(&self, calls: u64, fault: Fault, times: u64) {
        self.state().fault = Some((fault, calls, times));
    }

    /// Lets all files have that many bytes together at most; `None`: any number. What would make
    /// them longer finds no space.
    pub fn limit(&self, bytes: Option<usize>) {
        self.state().bytes_max = bytes;
    }

    /// Whether the fault that was set is still to come.
    pub fn is_to_fail(&self) -> bool {
        self.state().fault.is_some()
    }

    /// The process ends: the system keeps what it was given.
    pub fn kill(&self) {
        self.state().run();
    }

    /// The power is cut: any part of what was not synced survives.
    pub fn cut_power(&self, rng: &mut Rng) {
        let state = &mut *self.state();
        let tally = &mut state.tally;
        state.files.iter_mut().for_each(|file| file.settle(rng, tally));
        let (new, old) = (state.names.clone(), state.durable_names.clone());
        let mut names = BTreeMap::new();
        for name in new.keys().chain(old.keys()) {
            let (of_new, of_old) = (new.get(name), old.get(name));
            let kept = if of_new == of_old || rng.below(2) == 0 { of_new } else { of_old };
            tally.add_times(LOST_NAME, u64::from(of_new != of_old && kept == of_old));
            names.extend(kept.map(|file| (name.clone(), *file)));
        }
        state.durable_names = names;
        state.reboot();
    }

    /// For each sector that is pending, in how many ways it may survive: 2, or more if it was
    /// written more than once. The sectors of a long write are one.
    pub fn ways(&self) -> Vec<usize> {
        self.state().units().iter().map(|unit| unit.writes.len() + 1).collect()
    }

    /// Whether names were made, or removed, that are not durable.
    pub fn has_pending_names(&self) -> bool {
        let state = self.state();
        state.names != state.durable_names
    }

    /// The power is cut: this number of writes of each pending sector survives, as [`Self::ways`]
    /// has them, and all names, or none that is not durable.
    pub fn cut_power_so(&self, kept: &[usize], keeps_names: bool) {
        let mut state = self.state();
        for (Unit { file, sectors, writes }, count) in state.units().iter().zip(kept) {
            for sector in sectors {
                state.files[*file].keep(*sector, writes, *count);
            }
        }
        if keeps_names {
            state.durable_names = state.names.clone();
        }
        state.reboot();
    }

    /// A number that stands for all that is on it, durably or not.
    pub fn digest(&self) -> u64 {
        let state = self.state();
        let of = |(name, file): (&String, &usize)| {
            mix(digest_of(name.as_bytes()) ^ state.files[*file].digest())
        };
        let names = state.names.iter().map(of);
        let durable = state.durable_names.iter().map(|it| mix(of(it)));
        names.chain(durable).fold(0, |sum, of| mix(mix(sum) ^ of))
    }

    /// Flips a bit of a file, on the disk and in the page cache. Nothing is pending there.
    pub fn flip(&self, name: &str, bit: u64) {
        let mut state = self.state();
        let file = *state.names.get(name).expect("a file of this name");
        state.tally.add(FLIP);
        let contents = &mut state.files[file];
        let (at, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        for bytes in [&mut contents.durable, &mut contents.current] {
            let mut byte = [0];
            assert!(bytes.read(at, &mut byte), "a byte of the file");
            bytes.put(at, &[byte[0] ^ mask]);
        }
    }

    /// What a file holds.
    pub fn bytes_of(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[*state.names.get(name).expect("a file of this name")].current.to_vec()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let state = self.state();
        if state.is_stopped { Err(stopped()) } else { Ok(state.names.keys().cloned().collect()) }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        let file = match state.names.get(name).copied() {
            Some(file) => file,
            None => {
                if matches!(state.enter(Call::Other), Entry::Stops) {
                    return Err(stopped());
                }
                state.files.push(Contents::default());
                let file = state.files.len() - 1;
                state.names.insert(name.to_owned(), file);
                file
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), file }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        if matches!(state.enter(Call::Other), Entry::Stops) {
            return Err(stopped());
        }
        let file = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        if matches!(state.enter(Call::Other), Entry::Stops) {
            return Err(stopped());
        }
        state.names.remove(name).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.enter(Call::SyncDirectory) {
            Entry::Goes => {
                state.durable_names = state.names.clone();
                Ok(())
            }
            Entry::Fails(_) => Err(io::Error::other("EIO")),
            Entry::Stops => Err(stopped()),
        }
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl File for SimFile {
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let was_stopped = state.is_stopped;
        let entry = match state.enter(Call::Write) {
            Entry::Goes if !state.has_space(self.file, at as usize + bytes.len()) => {
                Entry::Fails(Fault::NoSpace)
            }
            entry => entry,
        };
        // The write of a whole sector is never cut.
        let is_sector = (at as usize).is_multiple_of(SECTOR) && bytes.len() == SECTOR;
        let part = match entry {
            Entry::Goes => bytes.len(),
            Entry::Stops if was_stopped => 0,
            Entry::Stops | Entry::Fails(Fault::ShortWrite) if is_sector => {
                state.rng.below(2) as usize * SECTOR
            }
            Entry::Stops | Entry::Fails(Fault::ShortWrite) => {
                state.rng.below(bytes.len() as u64 + 1) as usize
            }
            Entry::Fails(_) => 0,
        };
        if matches!(entry, Entry::Stops) && (1..bytes.len()).contains(&part) {
            state.tally.add(STOPPED_IN_WRITE);
        }
        if part > 0 {
            state.files[self.file].write(at as usize, &bytes[..part]);
        }
        match entry {
            Entry::Goes => Ok(()),
            Entry::Fails(Fault::NoSpace) => Err(ErrorKind::StorageFull.into()),
            Entry::Fails(_) => Err(io::Error::other("EIO")),
            Entry::Stops => Err(stopped()),
        }
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        state.reads += 1;
        match state.enter(Call::Read) {
            Entry::Goes => {}
            Entry::Fails(_) => return Err(io::Error::other("EIO")),
            Entry::Stops => return Err(stopped()),
        }
        match state.files[self.file].current.read(at as usize, into) {
            true => Ok(()),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].current.len() as u64)
    }

    fn set_bytes(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if matches!(state.enter(Call::Other), Entry::Stops) {
            return Err(stopped());
        }
        state.files[self.file].set_bytes(bytes as usize);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.enter(Call::Sync) {
            Entry::Goes => {
                state.files[self.file].sync();
                Ok(())
            }
            Entry::Fails(_) => {
                let mut rng = state.rng.clone();
                state.rng.next_u64();
                let state = &mut *state;
                state.files[self.file].settle(&mut rng, &mut state.tally);
                Err(io::Error::other("EIO"))
            }
            Entry::Stops => Err(stopped()),
        }
    }
}
