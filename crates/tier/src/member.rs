//! The tier of a cell of a ring, as the ring uses it.
//!
//! ```text
//! copies --lead--> leads --leave--> nothing --void--> empty --> copies again
//!    ^               ^                 | |
//!    |               +------lead-------+ | where the ring recovers it, or it is not handed over
//!    +-----------------------------------+ where it was handed over
//! ```

use crate::backend::{BackendError, Failure};
use crate::in_ring::{InRing, WrittenBack};
use crate::index::{Cursor, Entry};
use crate::journal::{self, SliceState};
use crate::key::KeyHash;
use crate::layers::Layers;
use crate::live_rules::LiveRules;
use crate::lookups::Lookups;
use crate::rules::Ack;
use base::{SliceId, SliceRange, Version};
use effects::{LaneId, Lanes, Level, Mark, ReaderId};
use std::ops::Range;
use std::sync::Arc;

/// The note below that names the ring.
const RING_NOTE: &str = "journal";

/// What it begins with: the name of a journal, which a cell alone has there, has another length.
const RING_NAME: &[u8] = b"ring:";

/// The note below that is its identity: 8 bytes, which the first cell of a ring has drawn there.
const IDENTITY_NOTE: &str = "identity";

/// Shards of the index that one step of voiding looks at.
const SHARDS_AT_ONCE: usize = 32;

/// How far what the journal has of some slices is void.
#[derive(Clone, Debug, Default)]
pub struct Voiding(Step);

#[derive(Clone, Debug, Default)]
enum Step {
    #[default]
    Begins,
    /// All that was appended up to these ends is to be written first.
    Writes(Vec<u64>),
    /// Entries of the index are dropped, from here on.
    Drops(Cursor),
    /// Barriers are forgotten, and the journal is to be cut.
    Cuts,
    /// The floors are to be on the disk.
    Saves(u64),
    Done,
}

impl Voiding {
    /// Whether the next step waits for free segments.
    #[must_use]
    pub fn lacks_segments(&self) -> bool {
        matches!(self.0, Step::Cuts)
    }

    /// Whether the next step waits for the disk, or for segments.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self.0, Step::Writes(_) | Step::Cuts | Step::Saves(_))
    }
}

/// The tier of a cell in a ring, as the ring uses it.
#[derive(Clone, Copy)]
pub struct Member<'t> {
    pub(crate) layers: &'t Layers,
    pub(crate) ring: &'t InRing,
    pub(crate) lookups: &'t Lookups,
    pub(crate) rules: &'t LiveRules,
}

impl Member<'_> {
    /// Makes what lies below that of the ring with these bytes as its name, or finds that it is.
    ///
    /// # Errors
    /// When it is that of another ring, or of a cell alone, or cannot be used.
    pub fn claim(&self, ring: &[u8]) -> Result<(), BackendError> {
        let backend = &self.layers.backend;
        if backend.claim(RING_NOTE, &[RING_NAME, ring].concat())? {
            return Ok(());
        }
        let what = format!(
            "{} belongs to another ring, or to a cell alone: give this ring a root of its own",
            backend.name()
        );
        Err(BackendError { failure: Failure::Permanent, what })
    }

    /// The identity of what lies below, by which cells find that they share it, however each spells
    /// its place. It is `drawn` where there was none.
    ///
    /// # Errors
    /// When it cannot be read, or kept.
    pub fn identity(&self, drawn: u64) -> Result<u64, BackendError> {
        let backend = &self.layers.backend;
        let read = || {
            let Some(note) = backend.note(IDENTITY_NOTE)? else { return Ok(None) };
            let wrong = || {
                let what = format!("{}: its note {IDENTITY_NOTE} has no 8 bytes", backend.name());
                BackendError { failure: Failure::Corrupt, what }
            };
            <[u8; 8]>::try_from(note).map(u64::from_le_bytes).map(Some).map_err(|_| wrong())
        };
        if let Some(identity) = read()? {
            return Ok(identity);
        }
        // Another cell may be the first.
        backend.claim(IDENTITY_NOTE, &drawn.to_le_bytes())?;
        Ok(read()?.unwrap_or(drawn))
    }

    /// The journal is that of this cell of this ring, as the map knows it now.
    pub fn set_owner(&self, ring: u64, cell: u32) {
        self.ring.floors.set_owner(ring, cell);
    }

    /// Whether the disk says that. Before, a start would not let what the journal has count, so
    /// nothing may be led or copied.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        self.ring.floors.is_owned()
    }

    /// The logs of what this cell copies.
    #[must_use]
    pub fn copied(&self) -> &Arc<Lanes> {
        &self.ring.copied
    }

    /// The reader of a log of what this cell leads, and what it must have said before a reply
    /// leaves, which may be about a key with any prefix; `None`: nothing.
    #[must_use]
    pub fn waits_for(&self, lane: LaneId) -> Option<(ReaderId, Mark)> {
        let mark = self.rules.most().mark()?;
        Some((self.layers.journal.reader(lane), mark))
    }

    /// Whether all that this cell has copied up to these ends of the logs may be acknowledged: it
    /// is written, or durable, as keys at the highest level must be.
    #[must_use]
    pub fn may_acknowledge(&self, ends: &[u64]) -> bool {
        // What is written back is found in the index: so a copy never says less than that.
        let ack = self.rules.most().max(Ack::Os);
        let mut logs = self.ring.copied.logs().zip(ends);
        logs.all(|((_, log), end)| log.passed(ack.level(), *end))
    }

    /// Promises room for what the primary of some slices emits: at most `wanted` bytes, as the logs
    /// of what this cell copies charge them, and a `part`-th of what those that have such `slices`
    /// have room for, where `held` are promised already. Nobody else gets that. Returns how much
    /// more is promised.
    #[must_use]
    pub fn promise(&self, slices: SliceRange, held: u64, wanted: u64, part: u64) -> u64 {
        journal::promise(&self.layers.journal, self.lanes_of(slices), (held, wanted), part)
    }

    /// How many logs of what this cell copies there are.
    #[must_use]
    pub fn copied_lanes(&self) -> usize {
        self.ring.copied.logs().count()
    }

    /// So much of what was promised has come, or is not promised any more.
    pub fn redeem(&self, slices: SliceRange, bytes: u64) {
        journal::redeem(&self.layers.journal, self.lanes_of(slices), bytes);
    }

    /// The logs of what this cell copies that have some of `slices`.
    fn lanes_of(&self, slices: SliceRange) -> Range<usize> {
        let lane = |slice| Some(self.ring.copied.lane_of(SliceId::new(slice)?).index());
        let Range { start, end } = slices.numbers();
        let of_last = end.checked_sub(1).and_then(lane);
        lane(start).zip(of_last).map_or(0..0, |(first, last)| first..last + 1)
    }

    /// Writes what the logs have, as far as no other thread does.
    pub fn write(&self) {
        self.layers.journal.write();
    }

    /// What the journal knows of a slice.
    #[must_use]
    pub fn state(&self, slice: SliceId) -> SliceState {
        self.layers.journal.states().state(slice)
    }

    /// Another cell has shown this version of a slice which this cell copies, or will lead.
    pub fn learn(&self, slice: SliceId, version: Version) {
        self.layers.journal.states().learn(slice, version);
    }

    /// The ends of all logs.
    #[must_use]
    pub fn ends(&self) -> Vec<u64> {
        self.layers.journal.ends()
    }

    /// Whether everything up to these ends of the logs is written. Writes it, as far as no other
    /// thread does.
    #[must_use]
    pub fn has_written(&self, ends: &[u64]) -> bool {
        self.layers.journal.write();
        self.layers.journal.has_written(ends)
    }

    /// Whether everything up to these ends of the logs is durable.
    #[must_use]
    pub fn is_durable(&self, ends: &[u64]) -> bool {
        let journal = &self.layers.journal;
        (0..).zip(ends).all(|(lane, end)| *end <= journal.durable(lane))
    }

    /// Whether nothing is journaled any more, as the disk has refused for good.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.layers.journal.failure().is_some()
    }

    /// The ends of the logs of what this cell copies.
    #[must_use]
    pub fn copied_ends(&self) -> Vec<u64> {
        self.ring.copied.logs().map(|(_, log)| log.end()).collect()
    }

    /// Has all later records lie behind those of now. Returns up to which segment those of now lie;
    /// `None`: it is to be tried again.
    #[must_use]
    pub fn cut(&self) -> Option<u32> {
        journal::cut(&self.layers.journal)
    }

    /// How often the journal has written records once more, which lie behind all cuts then. `None`
    /// while it may be about to.
    #[must_use]
    pub fn repairs(&self) -> Option<u64> {
        let journal = &self.layers.journal;
        (!journal.is_broken()).then(|| journal.repairs())
    }

    /// Sets what says whether the leases of a level last. The first call counts.
    pub fn set_lease(&self, lease: impl Fn(Level) -> bool + Send + Sync + 'static) {
        self.ring.set_lease(Box::new(lease));
    }

    /// Another cell may have taken over below what this one leads: it leads that again.
    pub fn lead_again(&self) {
        self.ring.lead_again();
    }

    /// Leads `slices` from now on, or again, of which `last` is the last version of each: what has
    /// passed `level` is written back. All that was copied of them is written, and lies before a
    /// cut.
    pub fn lead(&self, slices: SliceRange, level: Level, last: impl Fn(SliceId) -> Version) {
        for slice in slices.iter() {
            self.layers.journal.states().learn(slice, last(slice));
            self.layers.journal.states().goes_on_at(slice, last(slice));
        }
        self.lookups.changed_all();
        self.ring.lead(slices, level);
        self.layers.leads_others();
    }

    /// This cell does not lead `slices` from now on: what the journal has of them stays, and
    /// nothing is written back or looked up.
    pub fn leave(&self, slices: SliceRange) {
        self.ring.leave(slices);
        self.layers.backend.leave(slices);
        self.lookups.changed_all();
    }

    /// Takes a step to void what the journal has of `slices`, which this cell has left. Returns
    /// whether that is done: then nothing of it is left, also after a crash.
    pub fn void(&self, slices: SliceRange, voiding: &mut Voiding) -> bool {
        let (journal, floors) = (&self.layers.journal, &self.ring.floors);
        let Voiding(step) = voiding;
        match step {
            Step::Begins => *step = Step::Writes(journal.ends()),
            Step::Writes(ends) => {
                journal.write();
                // What is written later has entries in the index later.
                if journal.has_written(ends) {
                    *step = Step::Drops(Cursor::default());
                }
            }
            Step::Drops(cursor) => {
                let mut next = Some(*cursor);
                for _ in 0..SHARDS_AT_ONCE {
                    let Some(at) = next else { break };
                    let stays = |slice: SliceId| !slices.contains(slice);
                    next = self.layers.index.walk(at, |hash, _| stays(hash.slice()));
                }
                *step = match next {
                    Some(next) => Step::Drops(next),
                    None => {
                        slices.iter().for_each(|slice| journal.states().forget_barrier(slice));
                        self.after_barriers(slices)
                    }
                };
            }
            Step::Cuts => *step = self.after_barriers(slices),
            Step::Saves(number) if floors.is_saved(*number) => *step = Step::Done,
            Step::Saves(_) | Step::Done => {}
        }
        matches!(step, Step::Done)
    }

    /// The step after the barriers of `slices` are forgotten: a start is to pass over them, so they
    /// are to lie before a cut. Where no segments are ready for it, it is tried again.
    fn after_barriers(&self, slices: SliceRange) -> Step {
        let (journal, floors) = (&self.layers.journal, &self.ring.floors);
        let states = journal.states();
        // Also of slices whose voiding has begun again.
        let forgotten = states.forgotten();
        if !forgotten.is_empty() {
            let Some(cut) = journal::cut(journal) else { return Step::Cuts };
            floors.raise_segments(&forgotten, cut);
            states.are_void(&forgotten);
        }
        Step::Saves(floors.raise(slices.iter().map(|slice| (slice, states.recorded(slice)))))
    }

    /// The primary of `slices` says that everything of epochs before `epoch` is below, or was
    /// changed since: what came before leaves the index soon, once it is written.
    pub fn are_below(&self, slices: SliceRange, epoch: u32) {
        self.ring.are_below(slices, epoch);
    }

    /// Takes out of the index what primaries have said to be below.
    pub(crate) fn drop_below(&self) {
        let journal = &self.layers.journal;
        for (slices, epoch) in self.ring.take_below(|ends| journal.has_written(ends)) {
            let stays = |hash: KeyHash, entry: &Entry| {
                !slices.contains(hash.slice()) || entry.version.epoch() >= epoch
            };
            let mut at = Some(Cursor::default());
            while let Some(cursor) = at {
                at = self.layers.index.walk(cursor, stays);
            }
        }
    }

    /// Whether floors are to be written to the disk soon: the journal should be synced at once.
    #[must_use]
    pub fn has_floors_to_save(&self) -> bool {
        self.ring.floors.are_behind()
    }

    /// Called by the thread that syncs. Where the disk refuses, it is tried again: until then
    /// nothing is copied that they are for.
    pub(crate) fn save_floors(&self) {
        let _ = self.ring.floors.save();
    }

    /// Begins to lead below what this cell leads since. What cannot be led holds up nothing else:
    /// the first error is returned at the end.
    pub(crate) fn lead_below(&self) -> Result<(), BackendError> {
        let mut done = Ok(());
        for (slices, number) in self.ring.to_lead() {
            match self.layers.backend.lead(slices) {
                Ok(()) if self.ring.leads_below(slices, number) => {}
                Ok(()) => self.layers.backend.leave(slices),
                Err(error) => done = done.and(Err(error)),
            }
        }
        done
    }

    /// What was written back since this was asked last, for the copies of it. To be asked after
    /// each round of the flusher.
    #[must_use]
    pub fn take_written_back(&self) -> Vec<WrittenBack> {
        self.ring.take_written_back()
    }

    /// Whether nothing of `slices` is dirty whose record lies before a cut.
    #[must_use]
    pub fn is_written_back(&self, slices: SliceRange, cut: u32) -> bool {
        let is_old = |hash: KeyHash, entry: &Entry| {
            entry.place.segment <= cut && slices.contains(hash.slice())
        };
        !self.layers.index.has_any(is_old)
    }
}
