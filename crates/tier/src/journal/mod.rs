//! The journal: the logs of effects on the disk, in segments.
//!
//! ```text
//! log of a lane --write--> open segment --sync--> durable --flushed--> free
//!                 |                        |
//!                 +-> index, mark Written  +-> mark Durable: the log frees its entries
//! ```
//!
//! Each lane has an open segment of its own. A thread that finds nobody at it writes a lane: a
//! worker at the end of its batch, or the thread that syncs. No worker waits for it.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `format` | nothing | what lies in a segment |
//! | `states` | `format` | what is known of each slice |
//! | `ages` | nothing | since when what a segment holds has been durable |
//! | `segments` | `ages`, `format` | files that are used again and again |
//! | `record` | `format` | the changes that are journaled |
//! | `through` | nothing | changes whose replies wait until they are below |
//! | `once_more` | nothing | what is needed of what is written once more |
//! | `lane` | `format`, `once_more`, `record`, `segments`, `states`, `through` | how one lane is written |
//! | `logged` | `lane` | one log, and how far the journal has it |
//! | `grants` | `lane`, `logged`, `pace`, `segments` | how much room is granted to a log |
//! | `pace` | nothing | how fast changes are taken where it is nearly full |
//! | `progress` | `format` | how far what is journaled is written back |
//! | `promises` | `grants`, `logged` | what is promised of the room of logs |
//! | `layout` | `lane` | the length of segments, and how many there are |
//! | `identity` | `format` | the name of the journal, and why it cannot be used |
//! | `scan` | `format`, `identity` | the file of a segment, as a start reads it |
//! | `heads` | `format`, `identity`, `scan` | the heads of the segments that there are |
//! | `rewritten` | `format`, `identity`, `scan` | what was written once more, as a start takes it in |
//! | `found` | `format`, `record`, `segments`, `states` | what an earlier start has left |
//! | `streams` | `format` | how far a start has read each lane |
//! | `recover` | `format`, `found`, `heads`, `identity`, `record`, `rewritten`, `scan`, `segments`, `states`, `streams`, `unused` | how that is found |
//! | `unused` | `segments` | what a start has made ready and not used |
//! | `repair` | `format`, `lane`, `logged` | how it goes on after the disk has refused |
//! | `give_up` | `format`, `lane`, `record` | how it says what is given up |
//! | `rolling` | `format`, `lane`, `logged` | how lanes begin another segment before theirs is full |
//!
//! Invariants: what the index names is written; what has the mark Durable survives a power cut.

mod ages;
mod format;
mod found;
mod give_up;
mod grants;
mod heads;
mod identity;
mod lane;
mod layout;
mod logged;
mod once_more;
mod pace;
mod progress;
mod promises;
mod record;
mod recover;
mod repair;
mod rewritten;
mod rolling;
mod scan;
mod segments;
mod states;
mod streams;
mod through;
mod unused;

use crate::index::{Index, Place};
use crate::key::KeyHasher;
use crate::rules::{Ack, Rules};
use crate::sync::{Mutex, lock, try_lock};
use base::{Now, SliceId, Version};
use effects::{LaneId, Lanes, Mark, ReaderId};
pub use format::JournalId;
pub use format::SliceState;
pub(crate) use format::{BATCH_HEAD_BYTES, BatchHead, Kind as BatchKind, Spot};
use format::{Kind, SEGMENT_HEAD_BYTES};
pub(crate) use format::{decode_slices, encode_slice};
pub(crate) use found::Found;
pub(crate) use give_up::give_up;
use grants::Grants;
pub use identity::RecoverError;
pub use lane::{
    COPIED_STATES, FLUSH_AT, WRITTEN_BACK, encode_copied, encode_written_back, written_back,
};
use lane::{Moment, Shared, Stuck, With, Writer};
pub(crate) use layout::Layout;
use logged::Lane;
use pace::{Pace, UNPACED};
pub(crate) use progress::{Course, Progress};
pub(crate) use promises::{promise, redeem};
pub(crate) use record::{GivingUp, gives_up, journaled, records};
pub(crate) use recover::recover;
pub(crate) use repair::sync;
pub(crate) use rolling::{cut, roll_idle};
pub(crate) use segments::Segment;
use segments::{Segments, SegmentsConfig};
use states::States;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};
pub(crate) use through::{Through, Waiting};

/// Times that a worker reads a log at the end of one batch, at most. The thread that syncs writes
/// what is left.
const READS_MAX: usize = 32;

/// Entries that are much to write: one write of them costs each little, and they are in the caches
/// of the processor still.
const MUCH_ENTRIES: u64 = 256;

/// After the disk has refused a segment, the next try comes so much later.
const REFUSED_NS: u64 = 1_000_000_000;

/// The versions of a new journal begin after a number that is not above this.
pub const FIRST_MAX: u64 = 1 << 30;

/// What one sync of a lane covers.
struct Synced {
    /// The number of the lane.
    lane: usize,
    /// The last position that was written before.
    written: u64,
    /// The last position that a batch covers then.
    covered: u64,
    /// The segments that were written into, each with its end then.
    ends: Vec<(Arc<Segment>, u32)>,
}

/// Where batches begin in a segment.
const SEGMENT_START: u32 = SEGMENT_HEAD_BYTES as u32;

/// What is to know that more of a lane is written, or durable: one of what this cell leads, or of
/// what it copies.
pub(crate) type Notify = Box<dyn Fn(LaneId, bool) + Send + Sync>;

/// The journal of a cell.
pub(crate) struct Journal {
    shared: Shared,
    lanes: Arc<Lanes>,
    /// Whether the cell is in a ring, which says what replies wait for.
    in_ring: bool,
    /// Those of what this cell copies, and then those of what it leads: what was copied of a slice
    /// is written, synced, repaired and read again before what was led of it.
    of_lanes: Box<[Lane]>,
    first_led: usize,
    /// Held while room is promised.
    promises: Mutex<()>,
    /// Up to how many bytes of what this cell leads may be written in all, and why.
    paced: AtomicU64,
    pace: Mutex<Pace>,
    progress: Progress,
    clock_s: AtomicU32,
    /// Whether a lane found no segment.
    wants_segments: AtomicBool,
    /// Where the disk has refused a segment, no file is made before this moment.
    refused_ns: AtomicU64,
    /// Is called with a lane of which more is written, or durable.
    notify: OnceLock<Notify>,
    /// Why the disk has refused a write or a sync, when it did so last.
    refused: Mutex<Option<String>>,
    /// Whether nothing is written before the journal is repaired.
    is_broken: AtomicBool,
    /// How often it was repaired.
    repairs: AtomicU64,
    /// Why nothing is written any more.
    failure: OnceLock<String>,
}

/// What a journal is made with.
pub(crate) struct Parts {
    /// The logs of what this cell leads.
    pub(crate) lanes: Arc<Lanes>,
    /// In a ring: those of what it copies, as many.
    pub(crate) copied: Option<Arc<Lanes>>,
    pub(crate) index: Arc<Index>,
    pub(crate) hasher: KeyHasher,
    pub(crate) layout: Layout,
    pub(crate) rules: Arc<Rules>,
}

impl Journal {
    /// Begins a journal after what was `found`: writes once more what may not have been durable,
    /// and waits until all that counts is. Nothing was appended to the logs yet.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn begin(found: Found, parts: Parts, now: Now) -> io::Result<Self> {
        let Parts { lanes, copied, index, hasher, layout, rules } = parts;
        let Found { disk, journal, start, left, states, recorded, tail, cuts, clock_s, .. } = found;
        let led = lanes.logs().count();
        let count = led + copied.as_ref().map_or(0, |copied| copied.logs().count());
        let kept = if copied.is_some() { grants::KEPT_PER_LANE * count } else { 0 };
        let least = left.live.len() + left.retired.len() + 2 * count + 2 + kept;
        let config = SegmentsConfig {
            journal,
            start,
            bytes: layout.segment,
            batch: layout.batch,
            count_max: layout.count.max(least),
            ready: 2 * (count + 1),
            reserve: count + 1,
            kept,
        };
        let segments = Segments::new(disk, config, left);
        let first_led = count - led;
        let of_lane = |number: usize| match &copied {
            Some(copied) if number < first_led => {
                Lane::new((number as u8, number), (copied, true), &rules)
            }
            _ => Lane::new((number as u8, number - first_led), (&lanes, false), &rules),
        };
        let of_lanes = (0..count).map(of_lane).collect();
        let this = Self {
            shared: Shared {
                segments,
                states: States::new(&states),
                index,
                hasher,
                through: OnceLock::new(),
            },
            lanes,
            in_ring: copied.is_some(),
            first_led,
            of_lanes,
            promises: Mutex::default(),
            paced: AtomicU64::new(UNPACED),
            pace: Mutex::default(),
            progress: Progress::new(count),
            clock_s: AtomicU32::new(clock_s.max(now.expiry_s)),
            // Each lane has one, and the reserve is made. The first sync makes the others.
            wants_segments: AtomicBool::new(true),
            refused_ns: AtomicU64::new(0),
            notify: OnceLock::new(),
            refused: Mutex::default(),
            is_broken: AtomicBool::new(false),
            repairs: AtomicU64::new(0),
            failure: OnceLock::new(),
        };
        this.shared.states.set_recorded(&recorded);
        this.set_levels(&rules);
        // What was read is durable before anything rests on it.
        this.shared.segments.sync_live()?;
        this.write_begin(&tail, &cuts, now)?;
        this.shared.segments.prepare(config.reserve + count)?;
        this.grants().grant_all();
        Ok(this)
    }

    /// Has replies wait for what `rules` say from now on, and notes what waits by them. Replies
    /// that are under way may wait for less, or more.
    pub(crate) fn set_rules(&self, rules: &Arc<Rules>) {
        self.set_levels(rules);
        for lane in &self.of_lanes {
            self.with_writer(lane, |writer| writer.rules = rules.clone());
        }
    }

    /// Has the logs say what replies wait for.
    fn set_levels(&self, rules: &Rules) {
        if rules.have(Ack::Backend) {
            self.shared.through.get_or_init(|| Through::new(self.of_lanes.len()));
            for lane in &self.of_lanes {
                let _ = lane.below.get_or_init(|| lane.join_below());
                self.pass_below(lane);
            }
        }
        // The others have those of the ring.
        let own = self.of_lanes.iter().filter(|lane| lane.is_copied || !self.in_ring);
        own.for_each(Lane::set_levels);
    }

    /// Writes into the first segment of this start the states of all slices, what may not have
    /// been durable, and the end of the earlier starts. They are durable when this returns.
    fn write_begin(
        &self,
        tail: &[record::TailBatch],
        cuts: &[format::Cut],
        now: Now,
    ) -> io::Result<()> {
        let first = &self.of_lanes[0];
        let mut writer = lock(&first.writer);
        let with = self.with(first);
        writer.takes_reserve = true;
        self.shared.segments.prepare_beyond(1)?;
        let mut states = Vec::new();
        for slice in SliceId::all() {
            encode_slice(slice, &self.shared.states.state(slice), &mut states);
        }
        let checkpoint = (Kind::Checkpoint, &states[..]);
        let refused = Stuck::into_error;
        writer.write_other(with, checkpoint).map_err(refused)?;
        for batch in tail {
            self.shared.segments.prepare_beyond(1)?;
            let rewritten = writer.rewrite(with, batch);
            rewritten.map_err(refused)?;
        }
        // The end must not survive without what it stands for, which may begin in another segment.
        drop(writer);
        self.sync_lane(first, now)?;
        let mut writer = lock(&first.writer);
        self.shared.segments.prepare_beyond(1)?;
        self.shared.segments.retire();
        let with = self.with(first);
        writer.write_end(with, cuts).map_err(refused)?;
        writer.takes_reserve = false;
        drop(writer);
        self.sync_lane(first, now)?;
        self.shared.segments.has_ended()?;
        for slice in SliceId::all() {
            let ceiling = self.shared.states.state(slice).ceiling;
            self.shared.states.set_durable(slice, ceiling);
        }
        Ok(())
    }

    /// The changes whose replies wait until they are below. `None` where none do.
    pub(crate) fn through(&self) -> Option<&Through> {
        self.shared.through.get()
    }

    /// Up to where a lane is durable.
    pub(crate) fn durable(&self, lane: u8) -> u64 {
        self.of_lanes[usize::from(lane)].durable.load(Ordering::Acquire)
    }

    /// Everything of these keys in a lane, up to a position, lies below.
    pub(crate) fn landed(&self, lane: u8, has_landed: impl Fn(&Waiting) -> bool) {
        let lane = &self.of_lanes[usize::from(lane)];
        if let Some(through) = self.through() {
            through.landed(lane.number.into(), has_landed);
            self.pass_below(lane);
            self.notify(lane);
        }
    }

    /// Says up to where all of a lane lies below that must.
    fn pass_below(&self, lane: &Lane) {
        if let (Some(through), Some(below)) = (self.through(), lane.below.get()) {
            // In this order: what is written is among those that wait.
            let written = lane.written.load(Ordering::Acquire);
            lane.log.pass(
                *below,
                Mark::Acknowledged,
                through.landed_to(lane.number.into(), written),
            );
        }
    }

    /// Whether the record at `place` survives a power cut.
    pub(crate) fn is_durable(&self, place: Place) -> bool {
        let segment = self.shared.segments.get(place.segment);
        segment.is_some_and(|it| it.durable.load(Ordering::Acquire) > place.offset)
    }

    /// What it is called.
    pub(crate) fn name(&self) -> JournalId {
        self.shared.segments.config().journal
    }

    /// Whether `version` of `slice` may be given out.
    #[inline]
    pub(crate) fn allows(&self, slice: SliceId, version: Version) -> bool {
        self.shared.states.allows(slice, version)
    }

    /// Items of `slice` with this version or an older one are dead.
    pub(crate) fn barrier(&self, slice: SliceId) -> Version {
        self.shared.states.barrier(slice)
    }

    /// The reader of a log of what this cell leads.
    pub(crate) fn reader(&self, lane: LaneId) -> ReaderId {
        self.of_lanes[self.first_led + lane.index()].reader
    }

    /// Whether nothing is written: the disk has refused.
    fn is_stopped(&self) -> bool {
        self.failure.get().is_some() || self.is_broken.load(Ordering::Acquire)
    }

    /// The ends of all logs.
    pub(crate) fn ends(&self) -> Vec<u64> {
        self.of_lanes.iter().map(|lane| lane.log.end()).collect()
    }

    /// Whether all up to these ends of the logs is written: of all, or of those that this cell
    /// copies, which come first.
    pub(crate) fn has_written(&self, ends: &[u64]) -> bool {
        let mut lanes = self.of_lanes.iter().zip(ends);
        lanes.all(|(lane, end)| *end <= lane.written.load(Ordering::Acquire))
    }

    /// What is known of slices.
    pub(crate) fn states(&self) -> &States {
        &self.shared.states
    }

    /// Whether the index has an entry for every change of `slice` that has been appended so far, if
    /// the change is journaled.
    pub(crate) fn has_indexed(&self, slice: SliceId) -> bool {
        let (place, _) = self.lanes.last(slice);
        let lane = &self.of_lanes[self.first_led + place.lane.index()];
        place.position <= lane.written.load(Ordering::Acquire)
    }

    /// Who is to know that replies may leave. The first call counts.
    pub(crate) fn set_notify(&self, notify: Notify) {
        let _ = self.notify.set(notify);
    }

    fn notify(&self, lane: &Lane) {
        if let Some(notify) = self.notify.get() {
            notify(lane.id, lane.is_copied);
        }
    }

    /// Writes what the logs have, but for lanes that another thread writes just now.
    pub(crate) fn write(&self) {
        self.of_lanes.iter().for_each(|lane| self.write_lane(lane));
    }

    /// The same for lanes whose logs have much to write.
    pub(crate) fn write_much(&self) {
        let has_much =
            |lane: &&Lane| lane.log.end() >= lane.written.load(Ordering::Relaxed) + MUCH_ENTRIES;
        self.of_lanes.iter().filter(has_much).for_each(|lane| self.write_lane(lane));
    }

    /// Writes one lane, unless another thread has its writer. That one writes what is appended
    /// meanwhile: every thread that has had the writer comes here after that.
    fn write_lane(&self, lane: &Lane) {
        // Either the thread that releases it sees what was appended, or this one finds nobody.
        fence(Ordering::SeqCst);
        while lane.log.end() > lane.written.load(Ordering::Relaxed) {
            let Some(mut writer) = try_lock(&lane.writer) else { break };
            let has_written = self.write_locked(lane, &mut writer);
            drop(writer);
            if !has_written {
                break;
            }
            self.notify(lane);
            fence(Ordering::SeqCst);
        }
    }

    /// Has `with` use the writer of a lane, and then writes what was appended meanwhile.
    fn with_writer<T>(&self, lane: &Lane, with: impl FnOnce(&mut Writer) -> T) -> T {
        let mut writer = lock(&lane.writer);
        let done = with(&mut writer);
        lane.note(&writer);
        drop(writer);
        self.write_lane(lane);
        done
    }

    /// Writes one lane. Returns whether anything more is written now.
    fn write_locked(&self, lane: &Lane, writer: &mut Writer) -> bool {
        if self.is_stopped() {
            return false;
        }
        let segment = writer.open().map(|segment| segment.number());
        match self.try_write_lane(lane, writer) {
            Ok(()) => {}
            Err(Stuck::NoSegment) => self.wants_segments.store(true, Ordering::Release),
            Err(Stuck::Disk(error)) => self.breaks(&error),
        }
        // Before what is written: a grant from there on never counts what was left before.
        lane.note(writer);
        // More than this call has written, where a batch that is no record came first.
        let written = writer.written;
        let has_written = written > lane.written.load(Ordering::Relaxed);
        if has_written {
            lane.written.store(written, Ordering::Release);
            lane.log.pass(lane.reader, Mark::Written, written);
            self.pass_below(lane);
        }
        match writer.open().map(|segment| segment.number()) == segment {
            true => self.grants().grant_if_due(lane, writer.bytes),
            // The others have less to take than was granted to them, until more is made.
            false => {
                self.wants_segments.store(true, Ordering::Release);
                self.grants().grant_all();
            }
        }
        has_written
    }

    fn try_write_lane(&self, lane: &Lane, writer: &mut Writer) -> Result<(), Stuck> {
        for _ in 0..READS_MAX {
            if lane.log.end() < writer.next {
                break;
            }
            let from = writer.next;
            let read = lane.log.read(lane.reader, from, &mut writer.batch);
            read.expect("invariant: the journal holds entries back until it has read them");
            writer.take(self.with(lane))?;
        }
        writer.commit(self.with(lane))
    }

    /// Notes that the disk has refused: nothing is written before the journal is repaired.
    fn breaks(&self, error: &io::Error) {
        *lock(&self.refused) = Some(error.to_string());
        self.is_broken.store(true, Ordering::Release);
    }

    /// Makes what is written durable, and segments ready. Called by one thread alone.
    fn sync(&self, now: Now) {
        self.clock_s.fetch_max(now.expiry_s, Ordering::Relaxed);
        self.prepare(now);
        self.write();
        if let Err(error) = self.try_sync(now) {
            self.breaks(&error);
        }
    }

    /// Makes segments ready. Where that is refused, lanes wait for a segment, as where the journal
    /// is full.
    fn prepare(&self, now: Now) {
        let (segments, refused_ns) = (&self.shared.segments, &self.refused_ns);
        let (ready, available) = (self.grants().ready(), segments.available());
        self.wants_segments.store(false, Ordering::Release);
        let waits =
            segments.refusal().is_some() && now.mono_ns < refused_ns.load(Ordering::Relaxed);
        let prepared = match waits {
            true => segments.prepare_made(ready),
            false => {
                refused_ns.store(now.mono_ns + REFUSED_NS, Ordering::Relaxed);
                segments.prepare(ready)
            }
        };
        if let Err(error) = prepared {
            self.breaks(&error);
        }
        if segments.available() > available {
            self.grants().grant_all();
        }
    }

    fn try_sync(&self, now: Now) -> io::Result<()> {
        let ceilings = match self.shared.states.needs_ceilings() {
            true => self.write_ceilings()?,
            false => Vec::new(),
        };
        for lane in &self.of_lanes {
            self.sync_lane(lane, now)?;
        }
        for (slice, state) in ceilings {
            self.shared.states.set_durable(slice, state.ceiling);
        }
        self.settle();
        Ok(())
    }

    /// Writes higher ceilings, into the lanes of their slices. Returns those that are written.
    fn write_ceilings(&self) -> io::Result<Vec<(SliceId, SliceState)>> {
        let near = self.shared.states.take_near();
        let mut written = Vec::with_capacity(near.len());
        for lane in &self.of_lanes {
            // One that copies has them in its checkpoints.
            let is_of = |slice| !lane.is_copied && self.lanes.lane_of(slice) == lane.id;
            let of_lane = near.iter().filter(|(slice, _)| is_of(*slice));
            let of_lane: Vec<_> = of_lane.copied().collect();
            if of_lane.is_empty() {
                continue;
            }
            let mut payload = Vec::new();
            of_lane.iter().for_each(|(slice, state)| encode_slice(*slice, state, &mut payload));
            let ceilings = (Kind::Ceilings, &payload[..]);
            let wrote = self.with_writer(lane, |writer| {
                if self.is_broken.load(Ordering::Acquire) {
                    return Err(Stuck::NoSegment);
                }
                writer.write_other(self.with(lane), ceilings)
            });
            match wrote {
                Ok(()) => written.extend(of_lane),
                // Writers ask again when they meet the ceiling.
                Err(Stuck::NoSegment) => {}
                Err(Stuck::Disk(error)) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Makes durable what is written of a lane.
    fn sync_lane(&self, lane: &Lane, now: Now) -> io::Result<()> {
        self.note_durable(self.sync_files(lane)?, now);
        Ok(())
    }

    /// Syncs what is written of a lane.
    fn sync_files(&self, lane: &Lane) -> io::Result<Synced> {
        let (written, covered, ends) = self.with_writer(lane, |writer| {
            // A thread that had the writer just before may not have read what replies wait for.
            self.write_locked(lane, writer);
            let ends = std::mem::take(&mut writer.unsynced).into_iter().map(|segment| {
                let end = segment.written.load(Ordering::Acquire);
                (segment, end)
            });
            (writer.written, writer.covered(), ends.collect::<Vec<_>>())
        });
        for (segment, _) in &ends {
            segment.file.sync()?;
        }
        Ok(Synced { lane: lane.number.into(), written, covered, ends })
    }

    /// What was synced counts.
    fn note_durable(&self, synced: Synced, now: Now) {
        let Synced { lane, written, covered, ends } = synced;
        let lane = &self.of_lanes[lane];
        ends.iter().for_each(|(segment, end)| segment.set_durable(*end, now.mono_ns));
        if written > lane.durable.fetch_max(written, Ordering::AcqRel) {
            self.with_writer(lane, |writer| writer.durable_batches = covered);
            lane.log.pass(lane.reader, Mark::Written, written);
            lane.log.pass(lane.reader, Mark::Durable, written);
            self.notify(lane);
        }
    }

    /// Whether a sync is wanted at once: a lane has no segment, a slice nearly no numbers, or a log
    /// is half full, which frees nothing before it is durable.
    pub(crate) fn presses(&self) -> bool {
        let mut logs = self.of_lanes.iter().map(|lane| &lane.log);
        self.wants_segments.load(Ordering::Acquire)
            || self.is_broken.load(Ordering::Acquire)
            || self.shared.states.needs_ceilings()
            || logs.any(|log| log.used_bytes() > log.capacity_bytes() / 2)
    }

    /// Whether something is not durable, or not even written.
    pub(crate) fn is_behind(&self) -> bool {
        let behind = |lane: &Lane| lane.durable.load(Ordering::Acquire) < lane.log.end();
        self.of_lanes.iter().any(behind)
    }

    /// Has changes of what this cell leads taken no faster than segments are freed, where few are
    /// left. Called again and again, by one thread.
    pub(crate) fn pace(&self, now: Now) {
        let limit = lock(&self.pace).look(now.mono_ns, &self.grants().seen());
        if self.paced.swap(limit, Ordering::AcqRel) != limit {
            self.grants().grant_all();
        }
    }

    fn grants(&self) -> Grants<'_> {
        let has_failed = self.failure.get().is_some();
        let Self { shared, of_lanes: lanes, paced, .. } = self;
        Grants { shared, lanes, paced, has_failed }
    }

    /// Whether everything of a segment up to `spot` is durable.
    pub(crate) fn is_durable_to(&self, spot: Spot) -> bool {
        let segment = self.shared.segments.get(spot.segment);
        segment.is_some_and(|it| it.durable.load(Ordering::Acquire) >= spot.offset)
    }

    /// Whether the record at `place` has been durable since `before_ns`.
    pub(crate) fn is_durable_since(&self, place: Place, before_ns: u64) -> bool {
        let segment = self.shared.segments.get(place.segment);
        segment.is_some_and(|it| it.durable_since(before_ns) > place.offset)
    }

    /// How far what is journaled is written back.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Everything of each course before its place is written back, durably, or superseded by what
    /// the logs have now.
    pub(crate) fn set_reached(&self, reached: &[(Course, Spot)]) {
        reached.iter().for_each(|(course, spot)| self.progress.set_reached(*course, *spot));
        self.settle();
    }

    /// Frees segments, if anything more counts as written back.
    fn settle(&self) {
        let ends = || self.ends();
        let are_durable = |positions: &[u64]| {
            let mut lanes = self.of_lanes.iter().zip(positions);
            lanes.all(|(lane, position)| lane.durable.load(Ordering::Acquire) >= *position)
        };
        if self.progress.settle(ends, are_durable) {
            self.free();
        }
    }

    /// Whether all of a segment that `lane` writes, or an earlier start has, is written back.
    fn is_done(&self, segment: &Segment, lane: Option<u8>) -> bool {
        let course = lane.map_or(Course::Earlier, Course::Lane);
        segment.ends_before(self.progress.counts(course))
    }

    /// Frees the segments that are of no use any more.
    fn free(&self) {
        let done = |segment: &Segment, lane| self.is_done(segment, lane);
        let oldest = self.shared.segments.first_undone(self.first_kept(), done);
        self.shared.segments.free_before(oldest);
        self.grants().grant_all();
    }

    /// The first segment that the next start needs for what it says of slices: each lane has its
    /// last checkpoint in its open segment, or in the first one of this start.
    fn first_kept(&self) -> u32 {
        let open = |lane: &Lane| {
            let open = self.with_writer(lane, |writer| writer.open().cloned());
            let open = open.filter(|it| it.durable.load(Ordering::Acquire) > SEGMENT_START);
            open.map_or(0, |segment| segment.number())
        };
        self.of_lanes.iter().map(open).min().unwrap_or(0)
    }

    /// The entry of the record at `place`. `None` if it is not there any more: its segment was used
    /// again.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn read(&self, place: Place) -> io::Result<Option<Vec<u8>>> {
        let segment = self.shared.segments.get(place.segment);
        segment.map_or(Ok(None), |segment| segment.record(place))
    }

    /// The end of what is durable of a course now.
    pub(crate) fn end_of(&self, course: Course) -> Spot {
        self.shared.segments.end_of(course.lane())
    }

    /// The first segment of a course from number `segment` on.
    pub(crate) fn segment_from(&self, course: Course, segment: u32) -> Option<Arc<Segment>> {
        self.shared.segments.first_of(course.lane(), segment)
    }

    /// Bytes of all segments that are in use.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.shared.segments.live_bytes()
    }

    /// Bytes of segments that there are or may be. What the disk has no space for is none.
    pub(crate) fn bytes_possible(&self) -> u64 {
        let segments = &self.shared.segments;
        let bytes = u64::from(segments.config().bytes) * segments.left() as u64;
        self.bytes_max().min(segments.live_bytes() + bytes)
    }

    /// Most segments.
    pub(crate) fn segments_max(&self) -> usize {
        self.shared.segments.config().count_max
    }

    /// Most bytes of segments.
    pub(crate) fn bytes_max(&self) -> u64 {
        let config = self.shared.segments.config();
        config.count_max as u64 * u64::from(config.bytes)
    }

    /// Why no segment can be made ready.
    pub(crate) fn unprepared(&self) -> Option<String> {
        self.shared.segments.refusal()
    }

    /// Whether nothing is written before it is repaired.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// How often the journal went on in new segments, after the disk had refused.
    pub(crate) fn repairs(&self) -> u64 {
        self.repairs.load(Ordering::Acquire)
    }

    /// Why the disk has refused a write or a sync, when it did so last.
    pub(crate) fn refused(&self) -> Option<String> {
        lock(&self.refused).clone()
    }

    /// Why nothing is written any more.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    fn fail(&self, error: &io::Error) {
        let _ = self.failure.set(format!("the journal cannot be written: {error}"));
        self.grants().grant_all();
    }

    /// Everything of a lane before this is written back.
    fn flushed(&self, lane: &Lane) -> Spot {
        self.progress.counts(Course::Lane(lane.number))
    }

    /// What a lane is written with now.
    fn with<'a>(&'a self, lane: &'a Lane) -> With<'a> {
        let moment = Moment {
            flushed: self.flushed(lane),
            oldest: self.shared.segments.oldest(),
            clock_s: self.clock_s.load(Ordering::Relaxed),
        };
        With { shared: &self.shared, lanes: &lane.lanes, moment }
    }
}
