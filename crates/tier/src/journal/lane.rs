//! How one lane is written: what its log has becomes batches in the open segment of the lane.
//!
//! One thread at a time writes a lane. It never waits for a segment: without one it stops, and
//! what is not written stays in the log.

use super::format::{
    BATCH_HEAD_BYTES, BatchHead, CUT_BYTES, Cut, Kind, RECORD_BYTES, SLICE_BYTES, SliceState, Spot,
    decode_slices, encode_cut, encode_slice,
};
use super::once_more::{Again, Needed, Touch, needed};
use super::record::{GivingUp, TailBatch, corrupt, gives_up, giving_up, journaled, records};
use super::segments::{Segment, Segments};
use super::states::States;
use super::through::{Through, Waiting};
use crate::index::{Entry as Dirty, Index, Kind as DirtyKind, Place};
use crate::key::{KeyHash, KeyHasher};
use crate::rules::{Ack, Rules};
use base::{Effect, SliceId, SliceRange, Version};
use effects::{Batch, Entry, LaneId, Lanes, Record};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// The kind of the entry that says in which second of the expiry clock all items of its log die: 4
/// bytes, little-endian. A barrier calls it off. (Kinds below 128 are those of a ring.)
pub const FLUSH_AT: u8 = 128;

/// The kind of the entry by which a log of what is copied learns of barriers and versions that its
/// records do not show: the states of slices, as [`encode_copied`] writes each.
pub const COPIED_STATES: u8 = 129;

/// The kind of the entry by which a log of what is copied learns which keys their primary has
/// written back: each as [`encode_written_back`] writes it. Those of other lanes are passed over.
pub const WRITTEN_BACK: u8 = 130;

/// Appends that a key was written back as of `version`. It has 250 bytes at most.
pub fn encode_written_back(key: &[u8], version: Version, to: &mut Vec<u8>) {
    debug_assert!(u8::try_from(key.len()).is_ok(), "no key is longer");
    to.extend_from_slice(&version.raw().to_le_bytes());
    to.push(key.len() as u8);
    to.extend_from_slice(key);
}

/// The keys in the bytes of such an entry, up to what is none.
pub fn written_back(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], Version)> {
    std::iter::from_fn(move || {
        let (version, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (key, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        Some((key, Version::from_raw(u64::from_le_bytes(*version))))
    })
}

/// Appends what another cell has shown of a slice: items with `barrier` or an older version are
/// dead, by the delayed flush of this number. Slices come in their order.
pub fn encode_copied(slice: SliceId, barrier: Version, flushed: u32, to: &mut Vec<u8>) {
    let state = SliceState { barrier, flushed, ..SliceState::default() };
    encode_slice(slice, &state, to);
}

/// A batch is written before it would become longer than this, unless one entry is.
pub(super) const BATCH_BYTES_MAX: usize = 256 << 10;

/// Keys that one batch gives up, at most: their records are shorter than a batch may be.
const GIVEN_UP_AT_ONCE: usize = 512;

/// What all lanes are written with.
pub(crate) struct Shared {
    pub(crate) segments: Segments,
    pub(crate) states: States,
    pub(crate) index: Arc<Index>,
    pub(crate) hasher: KeyHasher,
    /// Where replies wait until changes are below, or have waited.
    pub(crate) through: OnceLock<Through>,
}

/// What follows once a record is written: an entry of the index, at an offset of the batch.
struct Pending {
    hash: KeyHash,
    kind: Option<DirtyKind>,
    version: Version,
    expiry_s: u32,
    offset: u32,
    bytes: u32,
    /// Its position, if replies wait until it is below.
    through: Option<u64>,
    /// Whether it gives changes up: the index knows nothing of that.
    gives_up: bool,
    /// Whether the index knows it, as it is written once more, or has known it.
    is_known: bool,
}

/// What is written into a lane.
pub(crate) struct Writer {
    /// Its number in the journal, and among the logs of its kind.
    number: u8,
    lane: LaneId,
    open: Option<Arc<Segment>>,
    /// The next position of the log to read.
    pub(crate) next: u64,
    /// The first position that no batch covers.
    covered: u64,
    pub(crate) batch: Batch,
    /// The batch in the making, with room for its head.
    buffer: Vec<u8>,
    pending: Vec<Pending>,
    /// Segments with something that may not be durable.
    pub(crate) unsynced: Vec<Arc<Segment>>,
    /// The last position that is written.
    pub(crate) written: u64,
    /// The last position that a durable batch covers. Changes that are not journaled may be durable
    /// beyond that: the next batch covers them, and may be lost.
    pub(crate) durable_batches: u64,
    /// Bytes written since the lane began, and those of changes that are not journaled.
    pub(crate) bytes: u64,
    /// Bytes of records written to segments since the lane began.
    pub(crate) journaled: u64,
    /// While what was void is written once more.
    again: Option<Again>,
    /// Whether it takes segments from the reserve, too: for what must be written once more.
    pub(crate) takes_reserve: bool,
    /// The last position of which the states of slices know.
    seen: u64,
    /// Keys of the batch in the making, or of earlier ones, that their primary has written back.
    below: Vec<(KeyHash, Version)>,
    /// The last position of those that wait until they are below.
    through: u64,
    /// Which changes are kept, and which wait.
    pub(crate) rules: Arc<Rules>,
    /// Where the records lay before that are written once more just now.
    pub(crate) origin: Option<Spot>,
}

/// Why a lane is not written any further.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// No segment is ready, or the journal is full.
    NoSegment,
    /// The disk refuses.
    Disk(io::Error),
}

impl Stuck {
    /// The error of a lane that must go on at once, to write something once more.
    pub(crate) fn into_error(self) -> io::Error {
        match self {
            Self::Disk(error) => error,
            Self::NoSegment => io::Error::new(
                io::ErrorKind::StorageFull,
                "the journal has no room left for what it must write once more",
            ),
        }
    }
}

impl From<io::Error> for Stuck {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// What a batch says of the moment in which it is written.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    /// Everything of the lane before this is written back.
    pub(crate) flushed: Spot,
    /// Segments with lower numbers are free.
    pub(crate) oldest: u32,
    pub(crate) clock_s: u32,
}

/// What a lane is written with just now.
#[derive(Clone, Copy)]
pub(crate) struct With<'a> {
    pub(crate) shared: &'a Shared,
    /// Those of its log.
    pub(crate) lanes: &'a Lanes,
    pub(crate) moment: Moment,
}

impl Writer {
    pub(crate) fn new((number, lane): (u8, LaneId), next: u64, rules: Arc<Rules>) -> Self {
        Self {
            number,
            lane,
            open: None,
            next,
            covered: next,
            batch: Batch::new(effects::BATCH_BYTES_MAX),
            buffer: vec![0; BATCH_HEAD_BYTES],
            pending: Vec::new(),
            unsynced: Vec::new(),
            written: next - 1,
            durable_batches: next - 1,
            bytes: 0,
            journaled: 0,
            again: None,
            takes_reserve: false,
            seen: 0,
            below: Vec::new(),
            through: 0,
            rules,
            origin: None,
        }
    }

    /// Begins again in another segment, at position `next` of the log, all of which was durable
    /// before.
    pub(crate) fn begin_again(&mut self, next: u64) {
        self.open = None;
        self.again = Some(Again::new(self.written));
        (self.next, self.covered, self.written) = (next, next, next - 1);
        self.durable_batches = self.durable_batches.min(next - 1);
        self.buffer.truncate(BATCH_HEAD_BYTES);
        self.pending.clear();
        self.unsynced.clear();
        self.takes_reserve = true;
    }

    /// The segment that it writes into.
    pub(crate) fn open(&self) -> Option<&Arc<Segment>> {
        self.open.as_ref()
    }

    /// The last position that a batch covers.
    pub(crate) fn covered(&self) -> u64 {
        self.covered - 1
    }

    /// Takes the entries of `batch`, which was read at `next`, into the batch in the making.
    pub(crate) fn take(&mut self, with: With<'_>) -> Result<(), Stuck> {
        let batch = std::mem::take(&mut self.batch);
        let taken = self.take_records(with, &batch);
        self.batch = batch;
        taken
    }

    fn take_records(&mut self, with: With<'_>, batch: &Batch) -> Result<(), Stuck> {
        for record in batch.records() {
            if record.position < self.next {
                continue;
            }
            let bytes = record_bytes(&record.entry);
            if self.buffer.len() > BATCH_HEAD_BYTES && self.buffer.len() + bytes > BATCH_BYTES_MAX {
                self.commit(with)?;
            }
            match record.entry {
                Entry::Barrier(range, number) => {
                    let saw = |slice| with.shared.states.saw_barrier(slice, number);
                    self.flush((range, record.position), saw, with)?;
                }
                Entry::Other { kind: COPIED_STATES, bytes, .. } => {
                    let copied = decode_slices(bytes).unwrap_or_default();
                    let saw = |slice: SliceId| {
                        if let Ok(at) = copied.binary_search_by_key(&slice, |(of, _)| *of) {
                            let (_, state) = copied[at];
                            with.shared.states.ends(slice, state.barrier, state.flushed);
                        }
                    };
                    let (first, last) = (copied.first(), copied.last());
                    let range = first.zip(last).map(|((first, _), (last, _))| {
                        SliceRange::new(first.index()..last.index() + 1)
                    });
                    let of = (range.unwrap_or(SliceRange::NONE), record.position);
                    self.flush(of, saw, with)?;
                }
                Entry::Other { kind: WRITTEN_BACK, bytes, .. } => {
                    let keys = written_back(bytes).map(|(key, version)| {
                        let slice = SliceId::of(key);
                        (slice, with.shared.hasher.hash(slice, key), version)
                    });
                    let own = keys.filter(|(slice, ..)| with.lanes.lane_of(*slice) == self.lane);
                    self.below.extend(own.map(|(_, hash, version)| (hash, version)));
                }
                Entry::Other { kind: FLUSH_AT, bytes, .. } => {
                    let due_s = bytes.try_into().map_or(0, u32::from_le_bytes);
                    let saw = |slice| with.shared.states.saw_due(slice, due_s);
                    let of = (SliceRange::ALL, record.position);
                    self.flush(of, saw, with)?;
                }
                _ => self.push(with.shared, &record),
            }
            self.next = record.position + 1;
            self.seen = self.seen.max(record.position);
        }
        Ok(())
    }

    /// Ends the items of `range`, now or later: each of its slices `saw` that, and their states are
    /// written, which say so. They do so already where the entry at `position` is not new.
    fn flush(
        &mut self,
        (range, position): (SliceRange, u64),
        saw: impl Fn(SliceId),
        with: With<'_>,
    ) -> Result<(), Stuck> {
        self.commit(with)?;
        let is_new = position > self.seen;
        let mut states = Vec::new();
        for slice in slices_of(with.lanes, self.lane, range) {
            if is_new {
                saw(slice);
            }
            encode_slice(slice, &with.shared.states.state(slice), &mut states);
        }
        self.write_other(with, (Kind::Checkpoint, &states))
    }

    fn push(&mut self, shared: &Shared, record: &Record<'_>) {
        if let Entry::Change { slice, version, effect, .. } = &record.entry {
            shared.states.saw(*slice, *version);
            let before = self.buffer.len();
            let waits = self.rules.ack(effect.key) == Ack::Backend;
            let through = waits.then_some(record.position);
            if self.rules.keeps(effect.key) && journaled(&effect.change).is_some() {
                let of = (*slice, *version);
                match self.needed(shared, (record.position, effect.key), of) {
                    Needed::Nothing => {}
                    Needed::End => self.append_given_up(shared, (effect.key, *version)),
                    Needed::Record | Needed::Touched(_) => {
                        self.append(shared, &record.entry, of, (effect, through));
                        let again = self.again.as_ref();
                        let is_known = again.is_some_and(|again| record.position <= again.known);
                        self.pending.last_mut().into_iter().for_each(|it| it.is_known = is_known);
                    }
                }
            }
            if self.buffer.len() == before {
                // It has used up what was granted to the log, all the same.
                self.bytes += record_bytes(&record.entry) as u64;
            }
        }
    }

    /// What is needed of a change. One that had been written may have been replaced since in
    /// another lane, or be below.
    fn needed(
        &mut self,
        shared: &Shared,
        (position, key): (u64, &[u8]),
        (slice, version): (SliceId, Version),
    ) -> Needed {
        let Some(again) = self.again.as_mut().filter(|again| position <= again.known) else {
            return Needed::Record;
        };
        let hash = shared.hasher.hash(slice, key);
        let is_there = |place| shared.segments.is_void(self.number, place);
        let needed = needed(shared.index.get(hash), version, is_there);
        if matches!(needed, Needed::Touched(_)) {
            again.may_be_touched(hash, (slice, key));
        }
        needed
    }

    /// All that was void is written once more: the index names that from now on. Returns touches
    /// that are to be written after it.
    pub(crate) fn end_again(&mut self, shared: &Shared) -> Vec<Touch> {
        let Some(again) = self.again.take() else { return Vec::new() };
        for (hash, to) in again.moved() {
            let is_void = |named: &Dirty| shared.segments.is_void(self.number, named.place);
            if let Some(named) = shared.index.get(hash).filter(is_void) {
                shared.index.relocate(hash, named.place, to);
            }
        }
        again.touches(|hash| shared.index.get(hash))
    }

    /// Appends touches to the batch in the making.
    pub(crate) fn append_touches(&mut self, shared: &Shared, touches: &[Touch]) {
        for touch in touches {
            let (entry, of) = (touch.entry(), (touch.slice, touch.version));
            self.append_any(shared, &entry, of, (&touch.key, None), (None, touch.expiry_s, false));
        }
    }

    /// Appends a change to the batch in the making, if it is journaled.
    fn append(
        &mut self,
        shared: &Shared,
        entry: &Entry<'_>,
        (slice, version): (SliceId, Version),
        (effect, through): (&Effect<'_>, Option<u64>),
    ) {
        let Some((kind, expiry_s)) = journaled(&effect.change) else { return };
        let of = (kind, expiry_s, false);
        self.append_any(shared, entry, (slice, version), (effect.key, through), of);
    }

    /// Appends a record to the batch in the making.
    fn append_any(
        &mut self,
        shared: &Shared,
        entry: &Entry<'_>,
        (slice, version): (SliceId, Version),
        (key, through): (&[u8], Option<u64>),
        (kind, expiry_s, gives_up): (Option<DirtyKind>, u32, bool),
    ) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; RECORD_BYTES]);
        entry.encode(&mut self.buffer);
        let (offset, bytes) = (start as u32, (self.buffer.len() - start) as u32);
        let hash = shared.hasher.hash(slice, key);
        self.pending.push(Pending {
            hash,
            kind,
            version,
            expiry_s,
            offset,
            bytes,
            through,
            gives_up,
            is_known: false,
        });
    }

    /// Appends that the changes of a key up to a version are given up.
    fn append_given_up(&mut self, shared: &Shared, (key, version): (&[u8], Version)) {
        let (entry, of) = (giving_up(key, version), (SliceId::of(key), version));
        self.append_any(shared, &entry, of, (key, None), (None, 0, true));
    }

    /// Writes that the changes of keys are given up, also where only the reserve has room, and
    /// notes up to which versions. Returns where that ends.
    pub(crate) fn give_up(
        &mut self,
        with: With<'_>,
        keys: &mut [&mut GivingUp<'_>],
    ) -> Result<Spot, Stuck> {
        let takes_reserve = std::mem::replace(&mut self.takes_reserve, true);
        let mut wrote = self.commit(with);
        for keys in keys.chunks_mut(GIVEN_UP_AT_ONCE) {
            if wrote.is_ok() {
                for it in keys {
                    // It may have been touched since: then that stands before this.
                    let hash = with.shared.hasher.hash(SliceId::of(it.key), it.key);
                    let named = with.shared.index.get(hash).filter(|named| named.place == it.place);
                    *it.version = named.map_or(*it.version, |named| named.version);
                    self.append_given_up(with.shared, (it.key, *it.version));
                }
                wrote = self.commit(with);
            }
        }
        self.takes_reserve = takes_reserve;
        wrote?;
        let open = self.open.as_ref().expect("invariant: something was written");
        Ok(Spot { segment: open.number(), offset: open.written.load(Ordering::Acquire) })
    }

    /// Writes the records of a batch of an earlier start once more. The index names their new
    /// places then.
    pub(crate) fn rewrite(&mut self, with: With<'_>, batch: &TailBatch) -> Result<(), Stuck> {
        let mut moved = Vec::new();
        for record in records(&batch.payload) {
            let (at, bytes, entry) = record.map_err(|what| Stuck::Disk(corrupt(&what)))?;
            let Entry::Change { slice, version, effect, .. } = &entry else { continue };
            let offset = batch.at.offset + BATCH_HEAD_BYTES as u32 + at;
            let from = Place { segment: batch.at.segment, offset, bytes };
            if gives_up(&effect.change) {
                self.append_given_up(with.shared, (effect.key, *version));
                moved.push(None);
                continue;
            }
            let named = with.shared.index.get(with.shared.hasher.hash(*slice, effect.key));
            match needed(named, *version, |place| place == from) {
                Needed::Nothing => {}
                Needed::End => {
                    self.append_given_up(with.shared, (effect.key, *version));
                    moved.push(None);
                }
                Needed::Record => {
                    self.append(with.shared, &entry, (*slice, *version), (effect, None));
                    moved.push(Some(from));
                }
                Needed::Touched(named) => {
                    self.append(with.shared, &entry, (*slice, *version), (effect, None));
                    let touch = Touch::of((*slice, effect.key), &named);
                    self.append_touches(with.shared, &[touch]);
                    moved.extend([Some(from), None]);
                }
            }
        }
        if moved.is_empty() {
            return Ok(());
        }
        let pending: Vec<_> = self.pending.drain(..).collect();
        debug_assert_eq!(pending.len(), moved.len(), "what was journaled is journaled");
        let payload = self.buffer.split_off(BATCH_HEAD_BYTES);
        let segment = self.room_for(with, payload.len())?;
        self.buffer.extend_from_slice(&payload);
        seal_records(&mut self.buffer, &segment, &pending);
        let at = segment.written.load(Ordering::Relaxed);
        self.origin = Some(batch.origin);
        let wrote = self.write_into(&segment, Kind::Records, with.moment);
        self.origin = None;
        wrote?;
        self.buffer.truncate(BATCH_HEAD_BYTES);
        for (Pending { hash, offset, bytes, .. }, from) in pending.into_iter().zip(moved) {
            let to = Place { segment: segment.number(), offset: at + offset, bytes };
            if let Some(from) = from {
                with.shared.index.relocate(hash, from, to);
            }
        }
        Ok(())
    }

    /// Writes the batch in the making, and enters its records into the index. Everything before
    /// `next` is written then.
    pub(crate) fn commit(&mut self, with: With<'_>) -> Result<(), Stuck> {
        if self.buffer.len() > BATCH_HEAD_BYTES {
            let payload = self.buffer.len() - BATCH_HEAD_BYTES;
            let segment = self.room_for(with, payload)?;
            seal_records(&mut self.buffer, &segment, &self.pending);
            let span = (self.next - self.covered) as u32;
            let head = self.head(Kind::Records, payload, (self.covered, span), with.moment);
            head.seal(segment.seed, &mut self.buffer);
            // Until it is written, nothing of it is given up.
            let at = self.write(&segment)?;
            self.journaled += self.buffer.len() as u64;
            let pending = std::mem::take(&mut self.pending);
            self.covered = self.next;
            for pending in pending.iter().filter(|it| !it.gives_up) {
                let offset = at + pending.offset;
                let place = Place { segment: segment.number(), offset, bytes: pending.bytes };
                let Pending { hash, version, expiry_s, .. } = *pending;
                if let Some(again) = &mut self.again {
                    again.wrote(hash, (place, version), pending.kind.is_none());
                }
                match pending.kind {
                    // What it had of that may be over meanwhile.
                    _ if pending.is_known => false,
                    Some(kind) => {
                        with.shared.index.set(hash, Dirty { place, version, expiry_s, kind })
                    }
                    None => with.shared.index.touch(hash, version, expiry_s, place),
                };
            }
            if let Some(through) = with.shared.through.get() {
                // Those of what is written once more wait already.
                let before = self.through;
                let waiting = pending.iter().filter_map(|it| {
                    let position = it.through.filter(|position| *position > before)?;
                    let (hash, bytes) = (it.hash, it.bytes);
                    let place = Place { segment: segment.number(), offset: at + it.offset, bytes };
                    Some(Waiting { position, hash, place })
                });
                through.add(self.number.into(), waiting);
                self.through = before.max(self.next - 1);
            }
            self.buffer.truncate(BATCH_HEAD_BYTES);
        }
        // After what came before it has its entries.
        for (hash, version) in self.below.drain(..) {
            with.shared.index.superseded(hash, version);
        }
        self.written = self.next - 1;
        Ok(())
    }

    /// Writes a batch that holds no records.
    pub(crate) fn write_other(
        &mut self,
        with: With<'_>,
        (kind, payload): (Kind, &[u8]),
    ) -> Result<(), Stuck> {
        self.commit(with)?;
        let segment = self.room_for(with, payload.len())?;
        self.buffer.extend_from_slice(payload);
        let wrote = self.write_into(&segment, kind, with.moment);
        self.buffer.truncate(BATCH_HEAD_BYTES);
        Ok(wrote?)
    }

    /// Writes up to where the lanes of earlier starts count.
    pub(crate) fn write_end(&mut self, with: With<'_>, cuts: &[Cut]) -> Result<(), Stuck> {
        let mut end = Vec::with_capacity(cuts.len() * CUT_BYTES);
        cuts.iter().for_each(|cut| encode_cut(cut, &mut end));
        self.write_other(with, (Kind::End, &end))
    }

    fn write_into(&mut self, segment: &Arc<Segment>, kind: Kind, moment: Moment) -> io::Result<()> {
        let payload = self.buffer.len() - BATCH_HEAD_BYTES;
        let head = self.head(kind, payload, (self.covered, 0), moment);
        head.seal(segment.seed, &mut self.buffer);
        self.write(segment).map(|_| ())
    }

    fn head(
        &self,
        kind: Kind,
        payload: usize,
        (first, span): (u64, u32),
        moment: Moment,
    ) -> BatchHead {
        let Moment { flushed, oldest, clock_s } = moment;
        let (lane, payload) = (self.number, payload as u32);
        let durable = self.durable_batches;
        let origin = self.origin.filter(|_| kind == Kind::Records);
        BatchHead { kind, lane, payload, first, span, durable, flushed, oldest, clock_s, origin }
    }

    /// Writes the buffer to the end of the segment. Returns where that was.
    fn write(&mut self, segment: &Arc<Segment>) -> io::Result<u32> {
        let at = segment.written.load(Ordering::Relaxed);
        match at == segment.begin().offset {
            true => {
                let head = segment.head.used().encode();
                segment.file.write_at(0, &[&head, &self.buffer[..]].concat())?;
            }
            false => segment.file.write_at(at.into(), &self.buffer)?,
        }
        self.bytes += self.buffer.len() as u64;
        segment.written.store(at + self.buffer.len() as u32, Ordering::Release);
        if self.unsynced.last().is_none_or(|last| last.number() != segment.number()) {
            self.unsynced.push(segment.clone());
        }
        Ok(at)
    }

    /// The open segment, if a batch with such a payload has room in it; else the next one.
    fn room_for(&mut self, with: With<'_>, payload: usize) -> Result<Arc<Segment>, Stuck> {
        let bytes = with.shared.segments.config().bytes as usize;
        let has_room = |segment: &&Arc<Segment>| {
            segment.written.load(Ordering::Relaxed) as usize + BATCH_HEAD_BYTES + payload <= bytes
        };
        if let Some(segment) = self.open.as_ref().filter(has_room) {
            return Ok(segment.clone());
        }
        let segment = self.roll(with, self.takes_reserve)?;
        if has_room(&&segment) {
            return Ok(segment);
        }
        let what = format!(
            "a batch of {payload} bytes is too long for a segment of {bytes}: give the journal \
             more bytes"
        );
        Err(Stuck::Disk(io::Error::new(io::ErrorKind::InvalidInput, what)))
    }

    /// Closes the open segment and begins the next one, with a checkpoint of the lane's slices.
    pub(crate) fn roll(
        &mut self,
        with: With<'_>,
        from_reserve: bool,
    ) -> Result<Arc<Segment>, Stuck> {
        let segment =
            with.shared.segments.take(self.number, from_reserve).ok_or(Stuck::NoSegment)?;
        if let Some(closed) = self.open.replace(segment.clone()) {
            closed.is_closed.store(true, Ordering::Release);
        }
        // The batch in the making, if there is one, is put aside.
        let buffer = std::mem::replace(&mut self.buffer, vec![0; BATCH_HEAD_BYTES]);
        for slice in slices_of(with.lanes, self.lane, SliceRange::ALL) {
            encode_slice(slice, &with.shared.states.state(slice), &mut self.buffer);
        }
        let wrote = self.write_into(&segment, Kind::Checkpoint, with.moment);
        self.buffer = buffer;
        wrote?;
        Ok(segment)
    }
}

/// Gives each record of a batch in the making its CRC, which depends on the segment.
fn seal_records(batch: &mut [u8], segment: &Segment, pending: &[Pending]) {
    for Pending { offset, bytes, .. } in pending {
        let record = &mut batch[*offset as usize..][..*bytes as usize];
        let crc = segment.seed.crc(&record[RECORD_BYTES..]);
        record[..RECORD_BYTES].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The slices of `range` that belong to a lane.
pub(crate) fn slices_of(
    lanes: &Lanes,
    lane: LaneId,
    range: SliceRange,
) -> impl Iterator<Item = SliceId> {
    range.iter().filter(move |slice| lanes.lane_of(*slice) == lane)
}

/// Bytes of the longest checkpoint, with its head.
pub(crate) const CHECKPOINT_BYTES_MAX: usize = BATCH_HEAD_BYTES + base::SLICES * SLICE_BYTES;

/// Bytes that an entry takes as a record, or more.
fn record_bytes(entry: &Entry<'_>) -> usize {
    /// Above the head of any entry and the longest key.
    const BESIDES: usize = 512;
    BESIDES
        + match entry {
            Entry::Change { effect, .. } => effect.change.value_bytes(),
            _ => 0,
        }
}
