//! The tier of a cell: its journal, its dirty index, and what lies below.
//!
//! ```text
//! memory -miss-> is it missing? -> dirty index -> journal
//!                                       |
//!                                       +-------> backend
//! ```
//!
//! It owns no thread. Workers call what does not block: the observer of their sinks, wanting a key,
//! and writing the journal. Threads of the tier call what does: to load, to sync, to flush.

use crate::backend::{Backend, BackendError, Failure, Requests};
use crate::check::{Checked, Checks};
use crate::claim::{Claimed, claim, keep_given};
use crate::discard::{Discard, Discarded, Discards, GivenUp};
use crate::disk::Disk;
use crate::error::TierError;
use crate::floors::Floors;
use crate::flusher::{self, Flushed, Landed};
use crate::in_ring::InRing;
use crate::index::Index;
use crate::journal::{
    self, Found, Journal, JournalId, Layout, Parts, RecoverError, Through, Waiting, recover,
};
use crate::key::KeyHasher;
use crate::layers::{self, Layers, Loaded};
use crate::live_rules::LiveRules;
use crate::lookups::{Begun, Finished, Lookups, Outcome, Ticket};
use crate::member::Member;
use crate::rules::{Ack, Rules, RulesError};
use crate::salvage::salvage;
use crate::sync::lock;
use base::{Now, SLICES, SliceId, Version};
use effects::{LaneId, Lanes, Observer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The journal is written back without delay from this part of it on, and so is the index: a
/// number of fifths.
const URGENT_FIFTHS: u64 = 2;

/// Shards that each sync rids of keys found missing long ago; a round of all of them takes seconds.
const FORGOTTEN_SHARDS: usize = 64;

/// How a tier is built.
#[derive(Clone, Debug)]
pub struct TierConfig {
    /// How much a reply promises at first, and which keys are kept.
    pub rules: Arc<Rules>,
    /// Whether a journal that is corrupt is passed over, and what is left of it brought below.
    pub salvages: bool,
    /// Whether a new journal takes over what another one has written below.
    pub adopts: bool,
    /// Whether the cell is in a ring, whose cells share what lies below.
    pub in_ring: bool,
    /// Most bytes of the journal.
    pub journal_bytes: u64,
    /// Most bytes of the dirty index.
    pub index_bytes: u64,
    /// The longest value that clients may store.
    pub value_bytes_max: u64,
    /// How long a record is durable before it is written back, in nanoseconds.
    pub age_ns: u64,
    /// Most lookups under way.
    pub lookups_max: usize,
    /// Most keys that are remembered to be missing.
    pub missing_max: usize,
}

/// A tier that was recovered, and whose cell does not run yet.
pub struct Recovered {
    found: Found,
    backend: Arc<dyn Backend>,
    index: Arc<Index>,
    hasher: KeyHasher,
    config: TierConfig,
    /// Keys that were brought below, because the journal was corrupt.
    salvaged: u64,
    is_adopted: bool,
    floors: Floors,
}

/// What was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Whether there was no journal before.
    pub is_new: bool,
    /// Records that were read.
    pub records: u64,
    /// Keys that are to be written back.
    pub dirty: u64,
    /// Lanes whose last write was torn.
    pub torn: u64,
    /// Keys that were brought below, because the journal was corrupt.
    pub salvaged: u64,
    /// Whether the journal has begun with what another one has written below.
    pub is_adopted: bool,
}

impl Recovered {
    /// Finds out what the journal on `disk` holds. `name`: what a new one is called; `seed`: what
    /// keys are hashed with; `first`: the versions that the slices of a new one begin after.
    ///
    /// # Errors
    /// When the journal, or what lies below, cannot be used.
    pub fn find(
        disk: &Arc<dyn Disk>,
        backend: Arc<dyn Backend>,
        config: TierConfig,
        (name, seed): (JournalId, [u8; 16]),
        first: impl Fn(SliceId) -> Version,
    ) -> Result<Self, TierError> {
        let (index, hasher) = (Arc::new(Index::new(config.index_bytes)), KeyHasher::new(seed));
        let TierConfig { salvages, adopts, in_ring, .. } = config;
        let floors = Floors::load(disk).map_err(RecoverError::of_floors)?;
        let mut found = recover(disk, (&index, &hasher, &floors), (name, salvages), first)?;
        if in_ring {
            // The map of the ring says what is led, and no other cell writes that.
            if !found.lost.is_empty() {
                index.clear();
                found.begin_empty(&found.states.clone());
            }
            if found.is_new || !found.lost.is_empty() {
                floors.disown(found.is_new).map_err(RecoverError::of_floors)?;
            }
            let (salvaged, is_adopted) = (0, false);
            return Ok(Self {
                found,
                backend,
                index,
                hasher,
                config,
                salvaged,
                is_adopted,
                floors,
            });
        }
        let Claimed { given, is_adopted } = claim(&*backend, &mut found, (salvages, adopts))?;
        let salvaged = match found.lost.is_empty() {
            true => 0,
            false => salvage(&mut found, &index, &*backend, &given)?,
        };
        Ok(Self { found, backend, index, hasher, config, salvaged, is_adopted, floors })
    }

    /// What was recovered.
    #[must_use]
    pub fn summary(&self) -> Summary {
        let Found { is_new, records, torn, .. } = self.found;
        let Self { salvaged, is_adopted, .. } = *self;
        Summary { is_new, records, torn, dirty: self.index.len(), salvaged, is_adopted }
    }

    /// Whether it is that of a cell in a ring.
    #[must_use]
    pub fn is_in_ring(&self) -> bool {
        self.config.in_ring
    }

    /// In a ring: the ring and the cell whose journal it is, where that has been whole since.
    #[must_use]
    pub fn owner(&self) -> Option<(u64, u32)> {
        self.floors.owner()
    }

    /// What was corrupt, and passed over: a line each.
    #[must_use]
    pub fn lost(&self) -> &[String] {
        &self.found.lost
    }

    /// By slice, the version that its counter begins at, and its barrier.
    pub fn slices(&self) -> impl Iterator<Item = (SliceId, Version, Version)> {
        debug_assert_eq!(self.found.states.len(), SLICES);
        let states = SliceId::all().zip(&self.found.states);
        states.map(|(slice, state)| (slice, state.last, state.barrier))
    }

    /// Ends the items that a delayed flush of all was to end by now. Returns the second of one that
    /// is still to come; 0: there is none.
    pub fn end_due(&mut self, now: Now) -> u32 {
        let now_s = now.expiry_s.max(self.found.clock_s);
        let states = &mut self.found.states;
        for state in states.iter_mut().filter(|it| (1..=now_s).contains(&it.due_s)) {
            (state.barrier, state.due_s) = (state.last, 0);
        }
        // One that was not written for all of them was not answered: it may count for all.
        let due_s = states.iter().map(|state| state.due_s).max().unwrap_or(0);
        states.iter_mut().for_each(|state| state.due_s = due_s);
        due_s
    }

    /// A second that has begun: the expiry clock must not show an earlier one.
    #[must_use]
    pub fn clock_s(&self) -> u32 {
        self.found.clock_s
    }

    /// Begins the tier of a cell, whose logs these are, and, in a ring, those of what it copies, as
    /// many. A reply about a key waits for the level of its [`Ack`]; in a ring, for what that says.
    ///
    /// # Errors
    /// When the journal is too short, or the disk refuses.
    pub fn begin(
        self,
        lanes: Arc<Lanes>,
        copied: Option<Arc<Lanes>>,
        now: Now,
    ) -> Result<Arc<Tier>, TierError> {
        let Self { found, backend, index, hasher, config, floors, .. } = self;
        let TierConfig { journal_bytes: bytes, value_bytes_max, in_ring, .. } = config;
        debug_assert_eq!(in_ring, copied.is_some(), "a cell of a ring has logs of what it copies");
        let count = lanes.logs().count() + copied.as_ref().map_or(0, |it| it.logs().count());
        let layout = Layout::of(bytes, count, value_bytes_max);
        let layout = layout.map_err(|least| TierError::JournalTooShort { bytes, least })?;
        let rules = config.rules.clone();
        let ring = copied.clone().map(|copied| InRing::new(lanes.clone(), copied, floors));
        // What comes of them at a copy takes room in its journal.
        copied.iter().flat_map(|copied| [copied, &lanes]).for_each(|it| it.have_all_spend());
        let parts = Parts { lanes, copied, index: index.clone(), hasher, layout, rules };
        let journal = Journal::begin(found, parts, now).map_err(TierError::Disk)?;
        // Before a version is given out.
        match in_ring {
            true => journal.states().are_bounded_by_epochs(),
            false => keep_given(&journal, &*backend)?,
        }
        Ok(Arc::new(Tier {
            layers: Layers::new(journal, index, hasher, backend, ring),
            rules: LiveRules::new(config.rules.clone()),
            lookups: Lookups::new(config.lookups_max, config.missing_max),
            config,
            checks: Checks::default(),
            discards: Discards::default(),
            now_ns: AtomicU64::new(now.mono_ns),
            counters: Counters::default(),
        }))
    }
}

/// What a tier counts.
#[derive(Default)]
struct Counters {
    missing: AtomicU64,
    failed: AtomicU64,
}

/// A lookup to carry out.
#[derive(Debug)]
pub struct Job {
    ticket: Ticket,
    slice: SliceId,
    key: Box<[u8]>,
}

impl Job {
    /// The key that is wanted.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// What follows from wanting a key that is not in memory.
#[derive(Debug)]
#[must_use = "a job is to be carried out"]
pub enum Wanted {
    /// It is nowhere.
    Missing,
    /// It is looked up already. The worker is woken when that is done.
    Waits,
    /// Look it up: the worker is woken when that is done.
    Job(Job),
    /// Too much is being looked up.
    Busy,
}

/// What a tier reports about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierReport {
    /// What lies below.
    pub backend: String,
    /// Keys that are to be written back.
    pub dirty_keys: u64,
    /// Most of them.
    pub dirty_keys_max: u64,
    /// Bytes of the segments that are in use.
    pub journal_bytes: u64,
    /// Most of them.
    pub journal_bytes_max: u64,
    /// Bytes of the dirty index.
    pub index_bytes: u64,
    /// Lookups under way.
    pub lookups: u64,
    /// Values that were loaded from the journal.
    pub loads_journal: u64,
    /// Values that were loaded from below.
    pub loads_below: u64,
    /// Lookups that found nothing.
    pub loads_missing: u64,
    /// Lookups that failed.
    pub loads_failed: u64,
    /// Keys that were written back.
    pub flushed_keys: u64,
    /// Bytes of those.
    pub flushed_bytes: u64,
    /// What was requested of a bucket, if one lies below.
    pub requests: Option<Requests>,
    /// Changes whose replies wait until they are below.
    pub through: u64,
    /// Why no segment of the journal can be made ready.
    pub unprepared: Option<String>,
    /// How often the journal went on in new segments, after the disk had refused.
    pub repairs: u64,
    /// Why it had refused, the last time.
    pub refused: Option<String>,
    /// Why the journal is not written any more.
    pub failure: Option<String>,
}

/// The tier of a cell.
pub struct Tier {
    pub(crate) layers: Layers,
    pub(crate) lookups: Lookups,
    rules: LiveRules,
    config: TierConfig,
    checks: Checks,
    discards: Discards,
    /// The moment of the last call that knew it.
    now_ns: AtomicU64,
    counters: Counters,
}

impl Tier {
    /// How much a reply promises.
    #[must_use]
    pub fn rules(&self) -> &LiveRules {
        &self.rules
    }

    /// What its ring uses it by, if its cell is in one.
    #[must_use]
    pub fn member(&self) -> Option<Member<'_>> {
        let Self { layers, lookups, rules, .. } = self;
        layers.ring.as_ref().map(|ring| Member { layers, ring, lookups, rules })
    }

    /// Asks for other rules, which hold from the next [`Tier::adopt_rules`] on.
    ///
    /// # Errors
    /// When a key is not kept by the rules of before or after, and in a ring.
    pub fn want_rules(&self, rules: Rules) -> Result<(), RulesError> {
        if self.layers.ring.is_some() {
            return Err(RulesError::InRing);
        }
        if self.config.rules.has_unkept() || rules.has_unkept() {
            return Err(RulesError::Kept);
        }
        self.rules.want(Arc::new(rules));
        Ok(())
    }

    /// Has replies promise what was asked for last, if anything was. Those to requests that are
    /// under way promise the one or the other. Returns the rules of before and after. Called by one
    /// thread; it waits for the writers of the lanes.
    pub fn adopt_rules(&self) -> Option<[Arc<Rules>; 2]> {
        let rules = self.rules.take_wanted()?;
        let before = self.rules.now();
        // A worker that promises more by them finds the journal ready for it.
        self.layers.journal.set_rules(&rules);
        self.rules.set(rules.clone());
        Some([before, rules])
    }

    /// Wants a key that is not in memory, for a request of `worker`, which looks in memory again
    /// after that.
    pub fn want(&self, slice: SliceId, key: &[u8], worker: u16, now: Now) -> Wanted {
        self.now_ns.fetch_max(now.mono_ns, Ordering::Relaxed);
        if !self.config.rules.keeps(key) {
            return Wanted::Missing;
        }
        let hash = self.layers.hasher.hash(slice, key);
        match self.lookups.begin(hash, worker, now.mono_ns) {
            Begun::Started(ticket) => Wanted::Job(Job { ticket, slice, key: key.into() }),
            Begun::Joined => Wanted::Waits,
            Begun::Missing => Wanted::Missing,
            Begun::Busy => Wanted::Busy,
        }
    }

    /// Whether a key is known to be nowhere, or is in memory alone.
    #[must_use]
    pub fn is_missing(&self, slice: SliceId, key: &[u8]) -> bool {
        if !self.config.rules.keeps(key) {
            return true;
        }
        let now_ns = self.now_ns.load(Ordering::Relaxed);
        self.lookups.is_missing(self.layers.hasher.hash(slice, key), now_ns)
    }

    /// Carries out a lookup. It reads files, and may wait long for what lies below.
    ///
    /// # Errors
    /// When it cannot be found out.
    pub fn load(&self, job: &Job, now: Now) -> Result<Loaded, BackendError> {
        self.layers.look(job.slice, &job.key, job.ticket.hash(), now)
    }

    /// Whether what was loaded may be installed: the key was not changed since. Asked under the
    /// lock of its bucket.
    #[must_use]
    pub fn admits(&self, job: &Job) -> bool {
        self.lookups.admit(&job.ticket)
    }

    /// Ends a lookup. Returns the workers to wake.
    pub fn finish(&self, job: Job, outcome: Outcome, now: Now) -> Finished {
        if outcome == Outcome::Missing {
            self.counters.missing.fetch_add(1, Ordering::Relaxed);
        } else if outcome == Outcome::Failed {
            self.counters.failed.fetch_add(1, Ordering::Relaxed);
        }
        self.lookups.finish(job.ticket, outcome, now.mono_ns)
    }

    /// Who is to know of a lane of which more is written, or durable: replies that wait for it may
    /// leave, or acknowledgements, where it is one of what this cell copies. The first call counts.
    pub fn set_notify(&self, notify: impl Fn(LaneId, bool) + Send + Sync + 'static) {
        self.layers.journal.set_notify(Box::new(notify));
    }

    /// Who is to know of each key that was written back, and of its version there. The first call
    /// counts. It must not wait.
    pub fn set_written_back(&self, tell: impl Fn(&[u8], Version) + Send + Sync + 'static) {
        let _ = self.layers.written_back.set(Box::new(tell));
    }

    /// Writes what the logs have. It does not wait for other threads, nor for the disk.
    pub fn write(&self) {
        self.layers.journal.write();
    }

    /// Writes what the logs have if that is much: where no reply waits for it, one write serves the
    /// changes of many batches.
    pub fn write_much(&self) {
        self.layers.journal.write_much();
    }

    /// Makes what the logs have durable, and segments ready. Called by one thread; it waits for the
    /// disk.
    pub fn sync(&self, now: Now) {
        self.now_ns.fetch_max(now.mono_ns, Ordering::Relaxed);
        for _ in 0..FORGOTTEN_SHARDS {
            self.lookups.forget_old(now.mono_ns);
        }
        journal::sync(&self.layers.journal, now);
        self.pace(now);
        if let Some(member) = self.member() {
            member.save_floors();
        }
    }

    /// Has changes taken no faster than the journal is written back, where it is nearly full.
    /// Called several times a second, by the thread that syncs.
    pub fn pace(&self, now: Now) {
        self.layers.journal.pace(now);
    }

    /// Whether the journal should be synced at once: replies wait for it, or a log that is half
    /// full.
    #[must_use]
    pub fn presses(&self) -> bool {
        let journal = &self.layers.journal;
        // In a ring nothing is known of a single reply, or of a copy that waits.
        let of_all = if self.layers.ring.is_some() { self.rules.most() } else { self.rules.base() };
        journal.presses() || (of_all >= Ack::Disk || self.writes_through()) && journal.is_behind()
    }

    /// Whether changes wait until they are below, so that their replies may leave.
    #[must_use]
    pub fn writes_through(&self) -> bool {
        self.layers.journal.through().is_some_and(|through| through.count() > 0)
    }

    /// Whether anything is not durable.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.layers.journal.is_behind()
    }

    /// Writes back a part of what is dirty. Called by one thread; it waits for the disk, and for
    /// what lies below. `all`: also what is young.
    ///
    /// # Errors
    /// When what lies below refuses. What is dirty stays dirty.
    pub fn flush(&self, now: Now, all: bool) -> Result<Flushed, BackendError> {
        let before_ns = match all || self.is_urgent() {
            true => u64::MAX,
            false => now.mono_ns.saturating_sub(self.config.age_ns),
        };
        let led = self.member().map_or(Ok(()), |member| {
            member.drop_below();
            member.lead_below()
        });
        let flushed = flusher::flush(&self.layers, (now, before_ns), || self.keep_given());
        self.layers.backend.tidy();
        let is_taken_over = match &flushed {
            Ok((_, rests)) => *rests == Some(Failure::TakenOver),
            Err(error) => error.failure == Failure::TakenOver,
        };
        if let Some(member) = self.member().filter(|_| is_taken_over) {
            member.lead_again();
        }
        let flushed = flushed.map(|(flushed, _)| flushed);
        journal::roll_idle(&self.layers.journal).map_err(|error| layers::unreadable(0, &error))?;
        let flushed = flushed?;
        // What this cell does not lead below stops nothing that it does.
        if flushed.keys > 0 { Ok(flushed) } else { led.and(Ok(flushed)) }
    }

    /// Why a part of what is dirty is not written back for a while, though other parts are.
    #[must_use]
    pub fn resting(&self) -> Option<String> {
        lock(&self.layers.held).why()
    }

    /// Writes through what replies wait for, as far as it is durable. Called by the thread that
    /// flushes; it waits for what lies below.
    ///
    /// # Errors
    /// When what lies below refuses. What is dirty stays dirty, and replies wait.
    pub fn flush_through(&self, now: Now) -> Result<Flushed, BackendError> {
        let (flushed, landed) = flusher::flush_through(&self.layers, now, || self.keep_given())?;
        for Landed { lane, up_to, keys } in &landed {
            let has_landed = |it: &Waiting| it.position <= *up_to && keys.contains(&it.hash);
            self.layers.journal.landed(*lane, has_landed);
        }
        Ok(flushed)
    }

    /// Asks for changes to be given up: see [`Tier::carry_out_discards`]. Returns false where
    /// others are just being given up.
    #[must_use]
    pub fn discard(&self, which: Discard) -> bool {
        self.discards.want(which)
    }

    /// Gives up what is wanted, as far as that is possible now: it is written to the journal, and
    /// counts once that is durable. What memory has of the keys that `forget` is called with is to
    /// leave it. Called by the thread that flushes. Returns whether it waits for a sync.
    pub fn carry_out_discards(&self, now: Now, forget: impl Fn(&GivenUp)) -> bool {
        self.discards.carry_out(&self.layers, now.mono_ns, |hash, given_up| {
            // A lookup that has read it installs it no more.
            self.lookups.changed(hash);
            forget(given_up);
        })
    }

    /// How often something came of giving changes up, and what, the last time.
    #[must_use]
    pub fn discarded(&self) -> (u64, Discarded) {
        self.discards.last()
    }

    /// Asks for a check of all that lies below the memory: see [`Tier::check`]. Returns false where
    /// one is under way.
    #[must_use]
    pub fn want_check(&self) -> bool {
        self.checks.want()
    }

    /// Checks whether all can be read that lies below the memory, if that was asked for. It changes
    /// nothing. Called by a thread of its own; it waits for the disk, and for what lies below.
    /// `rest` waits for so long, and returns whether to go on.
    pub fn check(&self, rest: impl FnMut(Duration) -> bool) {
        self.checks.carry_out(&self.layers, rest);
    }

    /// How many checks have ended, and what the last one has found, or the one under way.
    #[must_use]
    pub fn checked(&self) -> (u64, Checked) {
        self.checks.last()
    }

    /// Before anything is written back: barriers are below before the changes above them.
    fn keep_given(&self) -> Result<(), BackendError> {
        if self.layers.ring.is_some() {
            return Ok(());
        }
        keep_given(&self.layers.journal, &*self.layers.backend)
    }

    /// Keys that are to be written back.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        self.layers.index.len()
    }

    /// What it says of itself.
    #[must_use]
    pub fn report(&self) -> TierReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        TierReport {
            backend: self.layers.backend.name().to_owned(),
            dirty_keys: self.layers.index.len(),
            dirty_keys_max: self.layers.index.capacity(),
            journal_bytes: self.layers.journal.live_bytes(),
            journal_bytes_max: self.layers.journal.bytes_max(),
            index_bytes: self.layers.index.bytes(),
            lookups: self.lookups.loading(),
            loads_journal: count(&self.layers.from_journal),
            loads_below: count(&self.layers.from_below),
            loads_missing: count(&counters.missing),
            loads_failed: count(&counters.failed),
            flushed_keys: count(&self.layers.flushed_keys),
            flushed_bytes: count(&self.layers.flushed_bytes),
            requests: self.layers.backend.requests(),
            through: self.layers.journal.through().map_or(0, |it| it.count() as u64),
            unprepared: self.layers.journal.unprepared(),
            repairs: self.layers.journal.repairs(),
            refused: self.layers.journal.refused(),
            failure: self.layers.journal.failure().map(str::to_owned),
        }
    }

    /// Whether the reply to another change of `key` may wait until that is below, if it must.
    fn may_wait(&self, key: &[u8]) -> bool {
        let is_full = self.layers.journal.through().is_some_and(Through::is_full);
        !is_full || self.rules.now().ack(key) < Ack::Backend
    }

    /// Whether so much is dirty that it is written back without delay.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        let fifths = |part: u64, whole: u64| part * 5 >= whole * URGENT_FIFTHS;
        let journal = &self.layers.journal;
        fifths(journal.live_bytes(), journal.bytes_possible())
            || fifths(self.layers.index.len(), self.layers.index.capacity())
    }
}

impl Observer for Tier {
    #[inline]
    fn allows(&self, slice: SliceId, key: Option<&[u8]>, version: Version) -> bool {
        self.layers.journal.allows(slice, version)
            && key.is_none_or(|key| {
                !self.config.rules.keeps(key)
                    || self.layers.has_place_for(slice, key) && self.may_wait(key)
            })
    }

    /// The journal needs none of them; the copies of a ring do.
    fn keeps_evictions(&self) -> bool {
        self.layers.ring.is_some()
    }

    fn changed(&self, slice: SliceId, key: &[u8]) {
        self.lookups.changed(self.layers.hasher.hash(slice, key));
    }

    fn changed_all(&self) {
        self.lookups.changed_all();
    }

    fn is_absent(&self, slice: SliceId, key: &[u8]) -> bool {
        self.is_missing(slice, key)
    }
}
