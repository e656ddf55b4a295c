//! Wiring of a cell above a tier: its directory, and the threads that write, look up and write
//! back.
//!
//! ```text
//! directory --recover--> Recovered --cell--> Tiered --+-- journal   writes and syncs
//!                                                     +-- flusher   writes back
//!                                                     +-- check     reads all, when that is asked
//!                                                     +-- below 0-3 look up
//! ```

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use backend::Directory;
use base::{Grant, MemoryBudget, Owner, SliceId, Version};
use drivers::{Clock, Slot};
use nix::sys::statvfs::statvfs;
use service::{Cell, Loader, RingCell, TierReach, Tiered, Woken, WrittenBackEntries};
use tier::{Ack, BackendError, FIRST_MAX, Flushed, Member, Recovered, Tier, TierConfig, TierError};

use super::database;
use super::random::random;
use crate::config::{Loaded, Settings, TierSettings, show_size};

/// Threads that look up below.
pub(super) const LOADERS: usize = 4;

/// How often what is written is made durable, where nothing waits for it.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// How often the journal looks at the logs, where replies wait for nothing.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

/// Syncs at the end of the cell: each makes segments ready, where the one before had too few.
const LAST_SYNCS_MAX: usize = 64;

/// How often the flusher looks for what is old enough.
const FLUSH_INTERVAL: Duration = Duration::from_millis(100);

/// How often it is looked whether a check is wanted: the one that asks wakes its thread.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// How long the flusher waits after an error: at first, and at most.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// The parts of the memory limit that the dirty index and the cache of the database take.
const INDEX_PART: u64 = 8;
const CACHE_PART: u64 = 64;

/// The least cache of the database.
const CACHE_BYTES_MIN: u64 = 1 << 20;

/// The part of its disk that the journal takes, where nobody has set its length.
const DISK_PART: u64 = 10;

/// Most lookups under way, and most keys that are remembered to be missing.
const LOOKUPS_MAX: usize = 4096;
const MISSING_MAX: usize = 16_384;

/// A tier that was recovered.
pub(super) struct Below {
    recovered: Recovered,
    is_journal_set: bool,
    _memory: Grant,
}

/// The threads of a tier, which end when it is dropped. What is written is durable then.
pub(super) struct TierThreads {
    tiered: Arc<Tiered>,
    copies: Arc<Copies>,
    owner: Option<(u64, u32)>,
    clock: Clock,
    threads: Vec<JoinHandle<()>>,
    _memory: Grant,
}

impl Below {
    /// Recovers the tier of a cell; `None` if it has none.
    ///
    /// # Errors
    /// Why its directory, its journal or its database cannot be used.
    pub(super) fn recover(
        loaded: &Loaded,
        budget: &Arc<MemoryBudget>,
        clock: &Clock,
    ) -> Result<Option<Self>, Box<dyn Error>> {
        let Settings { tier: settings, memory, .. } = &loaded.settings;
        let Some(path) = &settings.directory else { return Ok(None) };
        let directory = Directory::open(path, "the tier")?;
        let index_bytes = memory.limit / INDEX_PART;
        let cache_bytes = (memory.limit / CACHE_PART).max(CACHE_BYTES_MIN);
        let flight_bytes = database::flight_bytes(settings, memory.item_bytes_max);
        let wanted = index_bytes + cache_bytes + flight_bytes;
        let grant = budget.take(Owner::Tier, wanted).ok_or_else(|| {
            let has_pages = settings.database.has_pages();
            let lower = match has_pages {
                true => ", or lower tier.page_bytes or memory.item_bytes_max",
                false => "",
            };
            let wanted = show_size(wanted);
            format!("memory.limit leaves less than {wanted} for the tier; raise it{lower}")
        })?;
        let backend = database::open(settings, (&directory, path), cache_bytes)?;
        let config = TierConfig {
            rules: Arc::new(settings.rules()?),
            salvages: settings.salvage,
            adopts: settings.adopt,
            in_ring: loaded.settings.ring.directory.is_some(),
            journal_bytes: journal_bytes(loaded, path)?,
            index_bytes,
            value_bytes_max: memory.value_bytes_max(),
            age_ns: Duration::from_secs(settings.age_s).as_nanos() as u64,
            lookups_max: LOOKUPS_MAX,
            missing_max: MISSING_MAX,
        };
        let names = (random_bytes(), random_bytes());
        let first = |_: SliceId| Version::new(0, random() % FIRST_MAX);
        let recovered =
            Recovered::find(&(Arc::new(directory) as _), backend, config, names, first)?;
        let now = clock.now();
        if recovered.clock_s() > now.expiry_s {
            let behind_s = recovered.clock_s() - now.expiry_s;
            tracing::warn!(
                "the clock of this machine is {behind_s} s behind the time at which the journal \
                 was written; expiry goes on from there"
            );
            clock.expiry().set(recovered.clock_s(), now.mono_ns);
        }
        say(&recovered, path, (settings.salvage, settings.adopt));
        let is_journal_set = loaded.is_set("tier.journal");
        Ok(Some(Self { recovered, is_journal_set, _memory: grant }))
    }

    /// Puts the tier below the memory of a cell, and starts its threads.
    ///
    /// # Errors
    /// When its journal cannot begin, or the system refuses a thread.
    pub(super) fn begin(
        self,
        cell: &Arc<Cell>,
        clock: &Clock,
    ) -> Result<TierThreads, Box<dyn Error>> {
        let owner = self.recovered.owner();
        let is_set = self.is_journal_set;
        let tiered = cell.put_above(self.recovered, clock.now()).map_err(|error| match error {
            TierError::JournalTooShort { .. } if !is_set => {
                format!("{error}; it is not set, and a tenth of the disk of the directory then")
            }
            error => error.to_string(),
        })?;
        let copies = Arc::new(Copies::default());
        let mut threads = TierThreads {
            tiered: tiered.clone(),
            copies: copies.clone(),
            owner,
            clock: clock.clone(),
            threads: Vec::new(),
            _memory: self._memory,
        };
        let (of, at) = (tiered.clone(), clock.clone());
        threads.start("journal", move || sync(&of, &at))?;
        let (of, at) = (tiered.clone(), clock.clone());
        threads.start("flusher", move || flush(&of, &copies, &at))?;
        threads.start("check", move || {
            while !tiered.has_ended() {
                tiered.wait_to_check(CHECK_INTERVAL);
            }
        })?;
        for number in 0..LOADERS {
            let mut loader = Loader::new(cell.clone()).expect("invariant: the cell has a tier");
            let at = clock.clone();
            threads.start(&format!("below-{number}"), move || while loader.run(|| at.now()) {})?;
        }
        Ok(threads)
    }
}

/// Logs what was found in the directory at `path`.
fn say(recovered: &Recovered, path: &Path, (salvages, adopts): (bool, bool)) {
    let found = recovered.summary();
    if found.is_adopted {
        tracing::warn!(
            "tier {}: this journal has adopted what another one had written back; what that \
             one had not written back is gone",
            path.display()
        );
    }
    if adopts && !found.is_adopted {
        tracing::warn!("tier.adopt is set, and there was nothing to adopt: leave it out");
    }
    match found.is_new {
        true => tracing::info!("tier {}: a new journal", path.display()),
        false => tracing::info!(
            "tier {}: {} records read, {} keys to write back",
            path.display(),
            found.records,
            found.dirty
        ),
    }
    for lost in recovered.lost() {
        tracing::warn!("tier, lost: {lost}");
    }
    if !recovered.lost().is_empty() && recovered.is_in_ring() {
        tracing::warn!(
            "salvaged: in a ring nothing of such a journal counts: a new one begins, and what this \
             cell has a part in comes from its copies; a range that no other cell has waits for \
             volvox ctl forgive"
        );
    } else if !recovered.lost().is_empty() {
        tracing::warn!(
            "salvaged: {} keys of the journal were brought into the database, and the journal \
             begins again; older values may be back",
            found.salvaged
        );
    }
    if salvages && recovered.lost().is_empty() && !found.is_new {
        tracing::warn!("tier.salvage is set, and nothing was damaged: leave it out from now on");
    }
    if found.torn > 0 {
        tracing::warn!("tier: {} writes were cut off when the cell ended", found.torn);
    }
}

impl TierThreads {
    /// Has the threads reach the workers of a server, one of which `slot` is for.
    pub(super) fn reach(tiered: &Tiered, slot: &Slot<Woken>) {
        let (post, remote) = (slot.post.clone(), slot.remote.clone());
        tiered.set_reach(TierReach {
            wake: Box::new(move |worker| {
                post.send(worker, Woken);
            }),
            release: Box::new(move |log| remote.release(log)),
        });
    }

    /// Makes what lies below that of a ring.
    ///
    /// # Errors
    /// When it is that of another one, or cannot be used.
    pub(super) fn claim(&self, ring: u64) -> Result<(), BackendError> {
        let claim = |member: Member<'_>| member.claim(&ring.to_le_bytes());
        self.tiered.member().map_or(Ok(()), claim)
    }

    /// In a ring: what lies below, as the other cells compare it with theirs.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(super) fn below(&self, settings: &TierSettings) -> Result<ring::Below, Box<dyn Error>> {
        let identity = |member: Member<'_>| member.identity(random());
        let id = self.tiered.member().map_or(Ok(0), identity)?;
        let ack = match settings.ack {
            Ack::Memory => ring::Ack::Memory,
            Ack::Os => ring::Ack::Os,
            Ack::Disk => ring::Ack::Disk,
            Ack::Backend => ring::Ack::Backend,
        };
        let prefixes = settings.rules()?.checksum_of_prefixes();
        tracing::info!("tier.database {} is the bucket {id:016x}", settings.database);
        let changes_levels = settings.change_levels;
        Ok(ring::Below { bucket: Some(id), ack, prefixes, changes_levels })
    }

    /// In a ring: the ring and the cell whose journal it was, where that has been whole since.
    pub(super) fn owner(&self) -> Option<(u64, u32)> {
        self.owner
    }

    /// Writes back what this cell of a ring leads, from now on, under its leases.
    pub(super) fn write_back_in(&self, ring: &Arc<RingCell>, clock: &Clock) {
        let (of, at) = (Arc::downgrade(ring), clock.clone());
        if let Some(member) = self.tiered.member() {
            member.set_lease(move |level| {
                of.upgrade().is_some_and(|ring| ring.has_lease(level, at.now()))
            });
        }
        let _ = self.copies.0.set(Mutex::new(WrittenBackEntries::new(ring.clone())));
    }

    /// What the workers share with the threads.
    pub(super) fn tiered(&self) -> &Arc<Tiered> {
        &self.tiered
    }

    fn start(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }
}

impl TierThreads {
    /// Ends them, and syncs the journal a last time.
    ///
    /// # Errors
    /// Where the disk has refused: what was answered may not be there after the next start.
    pub(super) fn end(self) -> Result<(), String> {
        let tiered = self.tiered.clone();
        drop(self);
        let why = tiered.tier().report().failure;
        let why = why.or_else(|| tiered.tier().is_behind().then(|| "it was not synced".to_owned()));
        let lost = |why| format!("the journal does not have all that was answered: {why}");
        why.map_or(Ok(()), |why| Err(lost(why)))
    }
}

impl Drop for TierThreads {
    fn drop(&mut self) {
        self.tiered.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for _ in 0..LAST_SYNCS_MAX {
            self.tiered.sync(self.clock.now());
            if !self.tiered.tier().is_behind() {
                break;
            }
        }
    }
}

/// The thread of the journal.
fn sync(tiered: &Tiered, clock: &Clock) {
    let (mut failed, mut repairs) = (false, 0);
    let mut synced = clock.now();
    while !tiered.has_ended() {
        let presses = tiered.wait_to_sync(WRITE_INTERVAL);
        if let Some([before, now]) = tiered.tier().adopt_rules() {
            tracing::warn!("stats tier policy: answers promise \"{now}\" now, not \"{before}\"");
        }
        let now = clock.now();
        let is_due = now.mono_ns - synced.mono_ns >= SYNC_INTERVAL.as_nanos() as u64;
        match is_due || presses || tiered.tier().presses() {
            true => {
                tiered.sync(now);
                synced = now;
            }
            false => {
                tiered.write();
                tiered.tier().pace(now);
            }
        }
        let report = tiered.tier().report();
        if report.repairs > repairs {
            repairs = report.repairs;
            let why = report.refused.unwrap_or_default();
            tracing::warn!(
                "the disk has refused a write or a sync of the journal: {why}; what may not have \
                 been durable was written once more, to other segments"
            );
        }
        if let (false, Some(failure)) = (failed, report.failure) {
            tracing::error!("{failure}; nothing is stored any more until the cell starts again");
            failed = true;
        }
    }
}

/// In a ring: how the copies of what this cell leads know what was written back.
#[derive(Default)]
struct Copies(OnceLock<Mutex<WrittenBackEntries>>);

impl Copies {
    /// Whether more may be written back: they know of all before.
    fn know(&self, tiered: &Tiered) -> bool {
        if tiered.member().is_none() {
            return true;
        }
        let append = |entries: &Mutex<WrittenBackEntries>| {
            entries.lock().unwrap_or_else(PoisonError::into_inner).append()
        };
        self.0.get().is_some_and(append)
    }
}

/// The thread that writes back.
fn flush(tiered: &Tiered, copies: &Copies, clock: &Clock) {
    let mut pause = FLUSH_INTERVAL;
    let (mut retry, mut all) = (RETRY_MIN, false);
    let mut rests = None;
    while !tiered.has_ended() {
        tiered.wait_to_flush(pause);
        tiered.carry_out_discards(clock.now());
        all = tiered.takes_all() || all && pause.is_zero();
        if !copies.know(tiered) {
            pause = FLUSH_INTERVAL;
            continue;
        }
        let wrote = write_back(tiered.tier(), clock, all);
        let rested = std::mem::replace(&mut rests, tiered.tier().resting());
        if let Some(why) =
            rests.as_ref().filter(|why| wrote.is_ok() && rested.as_ref() != Some(why))
        {
            tracing::warn!("a part of the tier is not written back: {why}; trying again");
        }
        let failed = wrote.as_ref().err().map(ToString::to_string);
        tiered.set_unflushed(failed.or_else(|| rests.clone()));
        if all {
            tiered.note_full_round();
        }
        pause = match wrote {
            Ok(Flushed { has_freed, has_more, .. }) => {
                if has_freed {
                    tiered.has_flushed();
                }
                if retry > RETRY_MIN {
                    tracing::info!("the tier is written back again");
                }
                retry = RETRY_MIN;
                if has_more { Duration::ZERO } else { FLUSH_INTERVAL }
            }
            Err(error) => {
                tracing::warn!("the tier is not written back: {error}; trying again");
                let is_wanted = tiered.wait_to_retry(retry);
                retry = if is_wanted { RETRY_MIN } else { (retry * 2).min(RETRY_MAX) };
                Duration::ZERO
            }
        };
    }
}

/// Writes back what replies wait for, and then what is old enough, or `all`. Returns the latter,
/// and whether there may be more of either.
fn write_back(tier: &Tier, clock: &Clock, all: bool) -> Result<Flushed, BackendError> {
    let through = tier.flush_through(clock.now());
    let flushed = tier.flush(clock.now(), all);
    let (through, flushed) = (through?, flushed?);
    Ok(Flushed { has_more: through.has_more || flushed.has_more, ..flushed })
}

/// The length of the journal: as set, or no more than a part of its disk.
fn journal_bytes(loaded: &Loaded, path: &Path) -> io::Result<u64> {
    let bytes = loaded.settings.tier.journal;
    if loaded.is_set("tier.journal") {
        return Ok(bytes);
    }
    let disk = statvfs(path)?;
    let whole = disk.blocks() as u64 * disk.fragment_size() as u64;
    Ok(bytes.min(whole / DISK_PART))
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&random().to_le_bytes());
    bytes[8..].copy_from_slice(&random().to_le_bytes());
    bytes
}
