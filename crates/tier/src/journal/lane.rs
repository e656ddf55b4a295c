//! How one lane is written: what its log has becomes batches in the open segment of the lane.
//!
//! One thread at a time writes a lane. It never waits for a segment: without one it stops, and
//! what is not written stays in the log.

use super::format::{
    BATCH_HEAD_BYTES, BatchHead, Kind, RECORD_BYTES, SLICE_BYTES, Spot, encode_slice,
};
use super::record::{TailBatch, corrupt, journaled, records};
use super::segments::{Segment, Segments};
use super::states::States;
use crate::index::{Entry as Dirty, Index, Kind as DirtyKind, Place};
use crate::key::{KeyHash, KeyHasher};
use base::{Effect, SliceId, SliceRange, Version};
use effects::{Batch, Entry, LaneId, Lanes, Record};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A batch is written before it would become longer than this, unless one entry is.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// What all lanes are written with.
pub(crate) struct Shared {
    pub(crate) segments: Segments,
    pub(crate) states: States,
    pub(crate) index: Arc<Index>,
    pub(crate) hasher: KeyHasher,
}

/// What follows once a record is written: an entry of the index, at an offset of the batch.
struct Pending {
    hash: KeyHash,
    kind: Option<DirtyKind>,
    version: Version,
    expiry_s: u32,
    offset: u32,
    bytes: u32,
}

/// What is written into a lane.
pub(crate) struct Writer {
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
    /// Bytes written since the lane began.
    pub(crate) bytes: u64,
}

/// Why a lane is not written any further.
#[derive(Debug)]
pub(crate) enum Stuck {
    /// No segment is ready, or the journal is full.
    NoSegment,
    /// The disk refuses.
    Disk(io::Error),
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

impl Writer {
    pub(crate) fn new(lane: LaneId, next: u64) -> Self {
        Self {
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
        }
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
    pub(crate) fn take(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        moment: Moment,
    ) -> Result<(), Stuck> {
        let batch = std::mem::take(&mut self.batch);
        let taken = self.take_records(shared, lanes, moment, &batch);
        self.batch = batch;
        taken
    }

    fn take_records(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        moment: Moment,
        batch: &Batch,
    ) -> Result<(), Stuck> {
        for record in batch.records() {
            if record.position < self.next {
                continue;
            }
            let bytes = record_bytes(&record.entry);
            if self.buffer.len() > BATCH_HEAD_BYTES && self.buffer.len() + bytes > BATCH_BYTES_MAX {
                self.commit(shared, lanes, moment)?;
            }
            match record.entry {
                Entry::Barrier(range, _) => self.barrier(shared, lanes, range, moment)?,
                _ => self.push(shared, &record),
            }
            self.next = record.position + 1;
        }
        Ok(())
    }

    /// Ends the items of `range`: the states of its slices are written, which say so.
    fn barrier(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        range: SliceRange,
        moment: Moment,
    ) -> Result<(), Stuck> {
        self.commit(shared, lanes, moment)?;
        let mut states = Vec::new();
        for slice in slices_of(lanes, self.lane, range) {
            shared.states.saw_barrier(slice);
            encode_slice(slice, &shared.states.state(slice), &mut states);
        }
        self.write_other(shared, lanes, (Kind::Checkpoint, &states), moment)
    }

    fn push(&mut self, shared: &Shared, record: &Record<'_>) {
        if let Entry::Change { slice, version, effect, .. } = &record.entry {
            shared.states.saw(*slice, *version);
            self.append(shared, &record.entry, (*slice, *version), effect);
        }
    }

    /// Appends a change to the batch in the making, if it is journaled.
    fn append(
        &mut self,
        shared: &Shared,
        entry: &Entry<'_>,
        (slice, version): (SliceId, Version),
        effect: &Effect<'_>,
    ) {
        let Some((kind, expiry_s)) = journaled(&effect.change) else { return };
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[0; RECORD_BYTES]);
        entry.encode(&mut self.buffer);
        let (offset, bytes) = (start as u32, (self.buffer.len() - start) as u32);
        let hash = shared.hasher.hash(slice, effect.key);
        self.pending.push(Pending { hash, kind, version, expiry_s, offset, bytes });
    }

    /// Writes the records of a batch of an earlier start once more. The index names their new
    /// places then.
    pub(crate) fn rewrite(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        batch: &TailBatch,
        moment: Moment,
    ) -> Result<(), Stuck> {
        let mut moved = Vec::new();
        for record in records(&batch.payload) {
            let (at, bytes, entry) = record.map_err(|what| Stuck::Disk(corrupt(&what)))?;
            let Entry::Change { slice, version, effect, .. } = &entry else { continue };
            self.append(shared, &entry, (*slice, *version), effect);
            let offset = batch.at.offset + BATCH_HEAD_BYTES as u32 + at;
            moved.push(Place { segment: batch.at.segment, offset, bytes });
        }
        let pending: Vec<_> = self.pending.drain(..).collect();
        debug_assert_eq!(pending.len(), moved.len(), "what was journaled is journaled");
        let payload = self.buffer.split_off(BATCH_HEAD_BYTES);
        let segment = self.room_for(shared, lanes, moment, payload.len())?;
        self.buffer.extend_from_slice(&payload);
        self.seal_records(&segment, &pending);
        let at = segment.written.load(Ordering::Relaxed);
        self.write_into(&segment, Kind::Records, moment)?;
        self.buffer.truncate(BATCH_HEAD_BYTES);
        for (Pending { hash, offset, bytes, .. }, from) in pending.into_iter().zip(moved) {
            let to = Place { segment: segment.number(), offset: at + offset, bytes };
            shared.index.relocate(hash, from, to);
        }
        Ok(())
    }

    /// Gives each record of the batch in the making its CRC, which depends on the segment.
    fn seal_records(&mut self, segment: &Segment, pending: &[Pending]) {
        for Pending { offset, bytes, .. } in pending {
            let record = &mut self.buffer[*offset as usize..][..*bytes as usize];
            let crc = segment.seed.crc(&record[RECORD_BYTES..]);
            record[..RECORD_BYTES].copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// Writes the batch in the making, and enters its records into the index. Everything before
    /// `next` is written then.
    pub(crate) fn commit(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        moment: Moment,
    ) -> Result<(), Stuck> {
        if self.buffer.len() > BATCH_HEAD_BYTES {
            let payload = self.buffer.len() - BATCH_HEAD_BYTES;
            let segment = self.room_for(shared, lanes, moment, payload)?;
            let pending = std::mem::take(&mut self.pending);
            self.seal_records(&segment, &pending);
            let span = (self.next - self.covered) as u32;
            let head = self.head(Kind::Records, payload, (self.covered, span), moment);
            head.seal(segment.seed, &mut self.buffer);
            let at = self.write(&segment)?;
            self.covered = self.next;
            for pending in pending {
                let offset = at + pending.offset;
                let place = Place { segment: segment.number(), offset, bytes: pending.bytes };
                let Pending { hash, version, expiry_s, .. } = pending;
                match pending.kind {
                    Some(kind) => shared.index.set(hash, Dirty { place, version, expiry_s, kind }),
                    None => shared.index.touch(hash, version, expiry_s, place),
                };
            }
            self.buffer.truncate(BATCH_HEAD_BYTES);
        }
        self.written = self.next - 1;
        Ok(())
    }

    /// Writes a batch that holds no records.
    pub(crate) fn write_other(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        (kind, payload): (Kind, &[u8]),
        moment: Moment,
    ) -> Result<(), Stuck> {
        self.commit(shared, lanes, moment)?;
        let segment = self.room_for(shared, lanes, moment, payload.len())?;
        self.buffer.extend_from_slice(payload);
        let wrote = self.write_into(&segment, kind, moment);
        self.buffer.truncate(BATCH_HEAD_BYTES);
        Ok(wrote?)
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
        let (lane, payload) = (self.lane.index() as u8, payload as u32);
        let durable = self.durable_batches;
        BatchHead { kind, lane, payload, first, span, durable, flushed, oldest, clock_s }
    }

    /// Writes the buffer to the end of the segment. Returns where that was.
    fn write(&mut self, segment: &Arc<Segment>) -> io::Result<u32> {
        let at = segment.written.load(Ordering::Relaxed);
        segment.file.write_at(at.into(), &self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        segment.written.store(at + self.buffer.len() as u32, Ordering::Release);
        if self.unsynced.last().is_none_or(|last| last.number() != segment.number()) {
            self.unsynced.push(segment.clone());
        }
        Ok(at)
    }

    /// The open segment, if a batch with such a payload has room in it; else the next one.
    fn room_for(
        &mut self,
        shared: &Shared,
        lanes: &Lanes,
        moment: Moment,
        payload: usize,
    ) -> Result<Arc<Segment>, Stuck> {
        let bytes = shared.segments.config().bytes as usize;
        let has_room = |segment: &&Arc<Segment>| {
            segment.written.load(Ordering::Relaxed) as usize + BATCH_HEAD_BYTES + payload <= bytes
        };
        if let Some(segment) = self.open.as_ref().filter(has_room) {
            return Ok(segment.clone());
        }
        let segment = self.roll(shared, lanes, moment, false)?;
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
        shared: &Shared,
        lanes: &Lanes,
        moment: Moment,
        from_reserve: bool,
    ) -> Result<Arc<Segment>, Stuck> {
        let segment =
            shared.segments.take(self.lane.index() as u8, from_reserve).ok_or(Stuck::NoSegment)?;
        if let Some(closed) = self.open.replace(segment.clone()) {
            closed.is_closed.store(true, Ordering::Release);
        }
        // The batch in the making, if there is one, is put aside.
        let buffer = std::mem::replace(&mut self.buffer, vec![0; BATCH_HEAD_BYTES]);
        for slice in slices_of(lanes, self.lane, SliceRange::ALL) {
            encode_slice(slice, &shared.states.state(slice), &mut self.buffer);
        }
        let wrote = self.write_into(&segment, Kind::Checkpoint, moment);
        self.buffer = buffer;
        wrote?;
        Ok(segment)
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
